"""What is sensitive by its meaning where it is said of a person: an illness, a debt, a dismissal.

Lists of words and phrases (`packs/meaning_*.toml`) say what a text is about, in four languages. They are asked only
of what scores show to come from the documents, and count only where a person is spoken of near by: "diabetes is a
chronic disease" is of nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import regex

from leakmeter.text.entities.packs import pack, search
from leakmeter.text.matching import Folded
from leakmeter.text.structured import TextRange

MEANING: Final = "meaning"
"""How it is known that a span is sensitive."""
_END = regex.compile(r"(?<!\b(?:Mr|Mrs|Ms|Dr|Sr|Fr|Hr))[.!?。！？](?=\s|\Z)|\n")
_MOST_NEAR: Final = 600
"""Characters of the two sentences in which a person may be named."""
_PERSONS: Final = (
    "he she him her hers his himself herself they my mr mrs ms mx wife husband son daughter mother father",
    "brother sister",
    "er ihm ihn ihr ihre ihrer ihren ihrem sie sein seine seiner seinen seinem ich mir mich mein meine meiner meinen",
    "meinem herr herrn frau sohn tochter mutter vater bruder schwester ehefrau ehemann",
    "il elle lui sa ses madame monsieur mme mari femme fils fille mère père frère sœur",
    "él ella su sus yo señor señora sr sra esposa marido hijo hija madre padre hermano hermana",
)
_WORDS: Final = [word for words in _PERSONS for word in words.split()]
_FIRST_PERSON: Final = (
    r"(?<!\w)(?<![\p{L}\d][ -])I(?=['’ ]\p{Ll})",
    r"(?<=(?<!\w)(?:that|when|because|and|but|since|as|if|while|after|before|what|where)[ ])I(?=['’ ]\p{Ll})",
    r"(?<!\w)[Jj](?:['’](?:ai|avais|étais)|e[ ](?:suis|souffre|prends|dois|vais|fais))(?!\w)",
)
"""'Type I diabetes' and 'je nach Diagnose' are nobody's words."""
_ROLES: Final = (
    (
        r"the|this|that|our",
        "patient client employee customer tenant student applicant resident pupil colleague claimant candidate",
        "borrower defendant policyholder",
    ),
    (
        r"de[rsmn]|diese[rsmn]?|unser(?:e[rsmn]?)?",
        "Patient Patienten Klient Klienten Mandant Mandanten Kunde Kunden Mitarbeiter Mitarbeiters Arbeitnehmer",
        "Arbeitnehmers Angestellte Angestellten Beschäftigte Mieter Mieters Schüler Schülers Student Studenten",
        "Bewerber Bewerbers Bewohner Bewohners Kollege Kollegen Versicherte",
    ),
    (
        r"die|der|dieser?|unserer?",
        "Patientin Klientin Mandantin Kundin Mitarbeiterin Arbeitnehmerin Angestellte Beschäftigte Mieterin",
        "Schülerin Studentin Bewerberin Bewohnerin Kollegin Versicherte",
    ),
    (
        r"l[ea]|l['’]|du|au|cet?|cette|notre",
        "patient patiente client cliente employé employée salarié salariée locataire étudiant étudiante élève",
        "candidat candidate résident résidente collègue assuré assurée",
    ),
    (
        r"el|la|al|del|est[ea]|nuestr[oa]",
        "paciente cliente empleado empleada trabajador trabajadora inquilino inquilina estudiante alumno alumna",
        "solicitante candidato candidata residente colega asegurado asegurada",
    ),
)
"""Who somebody is to those who write, behind words that say that one is meant: 'patients', and 'a patient', may be
anybody."""
_ADJECTIVE: Final = r"(?:\p{Ll}{2,15}[ ])?"
_NO_ROLE: Final = (
    r"(?![ -](?:accounts?|base|bod(?:y|ies)|care|data|experience|groups?|handbook|lists?|loans?|management|outcomes?"
    r"|populations?|portal|records?|relations?|safety|satisfaction|services?|support)(?!\w))"
)
"""'The patient population' is nobody."""
_BEGINS_NOTE: Final = (
    r"(?<=(?:\A|[.!?:;\n][ ]{0,2}))(?:Patient|Client|Employee|Customer|Tenant|Student|Applicant|Resident)(?=[ ]"
    r"(?:is|was|has|had|does|did|will|suffers|reports|reported|presents|presented|takes|admits|says|states)(?!\w))"
)
"""As notes are written: 'Patient has epilepsy'."""


@cache
def _person() -> regex.Pattern[str]:
    # 'ER' and 'IL-6' are nobody.
    words = rf"(?<!\w)(?:{'|'.join([*_WORDS, *map(str.capitalize, _WORDS)])})(?!\w|-\d)"
    roles = [
        rf"(?<!\w)(?i:{one})(?:[ ]|(?<=['’])){_ADJECTIVE}(?:{'|'.join(' '.join(nouns).split())})(?!\w){_NO_ROLE}"
        for one, *nouns in _ROLES
    ]
    return regex.compile("|".join([words, *_FIRST_PERSON, *roles, _BEGINS_NOTE]))


@dataclass(frozen=True, slots=True)
class SpokenOf:
    """An answer and what it was written from, of which is asked what spans mean."""

    answer: str
    query: str
    context: str
    people: Sequence[TextRange]
    """Characters of the answer that name people."""
    names: Sequence[str]
    """Of people whom the context names."""

    def kind_of(self, start: int, end: int, sources: Sequence[TextRange]) -> str | None:
        """What characters [start, end) of the answer say of a person that is sensitive; None where nothing is, and of
        what the query says. `sources` are characters of the context that they came from."""
        first, last = _sentences(self.answer, start, end)
        phrases = [mention.shifted(first) for mention in search.find(self.answer[first:last], pack.meanings())]
        phrases = [phrase for phrase in phrases if phrase.start < end and start < phrase.end]
        if not phrases:
            return None
        asked = Folded(self.query)
        phrases = [phrase for phrase in phrases if asked.where(self.answer[phrase.start : phrase.end]) is None]
        is_of_person = _person().search(self.answer, first, last) or any(first <= at < last for at, _ in self.people)
        if not phrases or not (is_of_person or any(map(self._is_of_person, sources))):
            return None
        return min(phrases, key=lambda phrase: (phrase.start - phrase.end, phrase.start, phrase.type)).type

    def _is_of_person(self, source: TextRange) -> bool:
        first, last = _sentences(self.context, *source)
        said = self.context[first:last]
        return _person().search(said) is not None or any(name in said for name in self.names)


def _sentences(text: str, start: int, end: int) -> TextRange:
    """The sentences that characters stand in, and the one before them."""
    least = max(0, start - _MOST_NEAR)
    ends = [match.end() for match in _END.finditer(text, least, start)]
    behind = _END.search(text, end, min(len(text), end + _MOST_NEAR))
    return (ends[-2] if len(ends) > 1 else least), (behind.start() if behind else min(len(text), end + _MOST_NEAR))
