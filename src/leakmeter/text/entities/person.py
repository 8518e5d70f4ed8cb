"""Names of people, by a heuristic that needs no model: after a title, after the label of a field, and said again.

'Dr. Ellen Brandt' and 'Patient: Tobias Quillmere' tell that a name follows; a name that stands alone everywhere is not
found, which is what a recogniser is for (`--ner`). The title is not part of the mention.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import regex

from leakmeter.text.entities.mention import PERSON, Mention

_HE = ("Mr", "Mister", "Sir", "Lord", "Herr", "Monsieur", "Señor", "Sr", "Signor", "Senhor", "Meneer")
_SHE = (
    *("Mrs", "Ms", "Miss", "Madam", "Dame", "Lady", "Frau", "Madame", "Mme", "Mlle", "Señora", "Señorita", "Sra"),
    *("Srta", "Signora", "Senhora", "Mevrouw", "Sister"),
)
_EITHER = ("Mx", "Dr", "Dra", "Doctor", "Doktor", "Docteur", "Prof", "Professor", "Professeur", "Nurse", "Rev")
_TITLE = rf"(?:{'|'.join((*_HE, *_SHE, *_EITHER))})"
_LABEL = (
    r"(?:patient|client|customer|employee|applicant|tenant|student|witness|claimant|contact|full|first|last|given|family|"
    r"mother|father|guardian|physician|doctor|nurse|author|signed|attn|from|to|cc|re|name|nom|nombre|nome|naam|vorname|"
    r"nachname|paziente|paciente|имя|фио|пациент|姓名|氏名|名前|患者|이름|성명|الاسم|المريض|שם)"
    r"(?:['’]s)?(?:[ ](?:name|by))?[ ]?[:：=][ \t]*"
)
_SPACE = r"[ \t\u00a0]"
_CASED = r"\p{Lu}[\p{L}\p{M}]*(?:['’-]\p{L}[\p{L}\p{M}]*)*"
_WORD = rf"(?:\p{{Lu}}\.|{_CASED})"
PARTICLE = r"(?:van|von|zu|zum|de|der|den|del|della|di|da|dos|du|la|le|ter|ten|bin|ibn|al|el|y)"
_NAME = rf"(?:{PARTICLE}{_SPACE}+){{0,2}}{_WORD}(?:{_SPACE}+(?:{PARTICLE}{_SPACE}+){{0,2}}{_WORD}){{0,3}}"
# Scripts without capitals: a name is at most four runs of letters.
UNCASED = r"\p{Lo}[\p{Lo}\p{M}]*+(?:[ ・·]\p{Lo}[\p{Lo}\p{M}]*+){0,3}"

_TITLED = regex.compile(rf"(?<!\w)(?P<title>(?:{_TITLE}\.?{_SPACE}+)+)(?P<name>{_NAME})")
_LABELLED = regex.compile(
    rf"(?<!\w)(?i:{_LABEL})(?:{_TITLE}\.?{_SPACE}+)*"
    rf"(?:(?P<last>{_CASED}),[ ](?P<given>{_CASED}(?:[ ]{_WORD})?)(?=[ \t]*(?:[\r\n;(]|\Z))"
    rf"|(?P<name>{_NAME}|{UNCASED}))"
)
_LETTERS = regex.compile(r"[\p{L}\p{M}]+(?:['’-][\p{L}\p{M}]+)*")
_POSSESSIVE = regex.compile(r"['’]s\Z")
_NO_NAME = frozenset(
    {
        *("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "january", "february"),
        *("march", "april", "may", "june", "july", "august", "september", "october", "november", "december", "the"),
        *("and", "or", "not", "no", "phone", "tel", "email", "date", "address", "age", "dob", "born", "unknown"),
        *("none", "n", "he", "she", "they", "re", "subject", "all", "is", "was", "has", "it", "this", "these", "we"),
        *("you", "i", "in", "on"),
    }
)
_TITLES = frozenset(title.casefold() for title in (*_HE, *_SHE, *_EITHER))
_PARTICLES = frozenset(PARTICLE.strip("(?:)").split("|"))


def find(text: str) -> Iterator[Mention]:
    """Names after titles and labels; the normal form is the words in lower case, given names first."""
    for match in _TITLED.finditer(text):
        titles = set(match["title"].replace(".", " ").split())
        gender = "m" if titles & set(_HE) else "f" if titles & set(_SHE) else ""
        yield from _trimmed(text, match.start("name"), match.end("name"), gender)
    for match in _LABELLED.finditer(text):
        if match["last"]:
            value = normal(f"{match['given']} {match['last']}")
            yield Mention(PERSON, match.start("last"), match.end("given"), value)
        else:
            yield from _trimmed(text, match.start("name"), match.end("name"), "")


def normal(name: str) -> str:
    """A name's words in lower case, without titles and possessive."""
    name_words = words(name)
    while len(name_words) > 1 and name_words[0] in _TITLES:
        name_words = name_words[1:]
    return " ".join(name_words)


def words(text: str) -> list[str]:
    """All words of a text in lower case, as they are compared with names."""
    return [_POSSESSIVE.sub("", word.casefold()) for word in _LETTERS.findall(text)]


def is_telling(word: str) -> bool:
    """Whether a word of a normal form points to a person: no initial, and no particle."""
    return len(word) > 1 and word not in _PARTICLES | _NO_NAME


def is_part(some: str, more: str) -> bool:
    """Whether all words of one name stand in the other in the same order, an initial standing for a word."""
    left = more.split()
    whole = 0
    for word in some.split():
        at = next((i for i, other in enumerate(left) if other == word or (len(word) == 1 and other[0] == word)), None)
        if at is None:
            return False
        whole += left[at] == word and len(word) > 1
        left = left[at + 1 :]
    return whole > 0


def said_again(text: str, names: Sequence[str], lowered: frozenset[str]) -> Iterator[Mention]:
    """Where a text says parts of names that are known: runs of capitalised words that belong to one name. A word of
    several names is a mention of its own: who is meant cannot be told. `names` are normal forms, one a person;
    `lowered` words stand in lower case too, and are no evidence of a name."""
    owners: dict[str, set[str]] = {}
    for name in names:
        for word in name.split():
            if is_telling(word):
                owners.setdefault(word, set()).add(name)
        if name and not name[0].isascii() and not regex.match(r"[\p{Lu}\p{Ll}]", name[0]):
            for match in regex.finditer(regex.escape(name), text):
                yield Mention(PERSON, match.start(), match.end(), name)
    run: list[tuple[int, int, str]] = []
    for match in _LETTERS.finditer(text):
        word = _POSSESSIVE.sub("", match.group())
        start, end, key = match.start(), match.start() + len(word), word.casefold()
        if not (word[0].isupper() and key in owners) or key in lowered:
            continue
        if run and text[run[-1][1] : start] == " " and is_part(f"{_joined(run)} {key}", min(owners[key])):
            run.append((start, end, key))
            continue
        if run:
            yield Mention(PERSON, run[0][0], run[-1][1], _joined(run))
        run = [(start, end, key)]
    if run:
        yield Mention(PERSON, run[0][0], run[-1][1], _joined(run))


def lowered_words(text: str) -> frozenset[str]:
    return frozenset(word for word in _LETTERS.findall(text) if word.islower())


def _joined(run: Sequence[tuple[int, int, str]]) -> str:
    return " ".join(key for _, _, key in run)


def _trimmed(text: str, start: int, end: int, gender: str) -> Iterator[Mention]:
    """The mention without words that open what follows, and without a possessive; nothing if no name is left."""
    word_ranges = [(start + match.start(), start + match.end()) for match in _LETTERS.finditer(text[start:end])]
    for number, (first, last) in enumerate(word_ranges):
        if text[first:last].casefold() in _NO_NAME:
            word_ranges = word_ranges[:number]
            break
    while word_ranges and text[word_ranges[-1][0] : word_ranges[-1][1]].casefold() in _PARTICLES:
        word_ranges.pop()
    if not word_ranges:
        return
    first, last = word_ranges[0][0], word_ranges[-1][1]
    possessive = _POSSESSIVE.search(text[first:last])
    last -= len(possessive.group()) if possessive else 0
    value = normal(text[first:last])
    if any(len(word) > 1 or not word.isascii() for word in value.split()):
        yield Mention(PERSON, first, last, value, gender)
