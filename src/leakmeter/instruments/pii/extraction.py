"""Files of documents to a file of people.

The same name with the same e-mail address, relative or university is one person, in however many documents, and is
written once.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

import regex

from leakmeter.core.files import check_place, clear_left_over, replacing, store_errors
from leakmeter.core.record import Record
from leakmeter.data.documents import Bad, DocumentText, check_documents, documents_of
from leakmeter.data.records import load_names
from leakmeter.errors import DataError, LeakmeterError, UsageError
from leakmeter.instruments.pii.settings import Finds, MentionScope
from leakmeter.instruments.pii.subject import RelatedPerson, Subject, is_email
from leakmeter.models.question_answering import Ask
from leakmeter.text.entities.mention import Mention, Place
from leakmeter.text.entities.names import NAME, any_name, names_beside_emails, whole_name, without_opening
from leakmeter.text.units import BLANK_LINE, sentence_around

if TYPE_CHECKING:
    from leakmeter.text.entities.mention import Recogniser


FoundPlace = Place | Mention
Find = Callable[[str], Iterable[FoundPlace]]
"""A text to the places of one kind: telephone numbers, e-mail addresses, postal addresses, names of people."""
Extractor = Callable[[str], Iterable[Subject]]
"""A text to people without ids."""
_START: Final = attrgetter("start")


def one_line(text: str) -> str:
    """Line breaks become commas."""
    lines = [" ".join(line.split()).rstrip(",") for line in text.splitlines()]
    return ", ".join(line for line in lines if line)


def widest(places: Iterable[FoundPlace], n_characters: int) -> list[FoundPlace]:
    """In order, without duplicates and places within longer ones."""
    out: list[FoundPlace] = []
    for place in sorted(places, key=lambda place: (place.start, -place.end)):
        if 0 <= place.start < place.end <= n_characters and (not out or place.end > out[-1].end):
            out.append(place)
    return out


def apart_from(places: Iterable[FoundPlace], others: Iterable[FoundPlace]) -> list[FoundPlace]:
    """Places that share no character with any of the others."""
    is_taken = bytearray()
    for other in others:
        is_taken.extend(bytes(max(0, other.end - len(is_taken))))
        is_taken[other.start : other.end] = b"\1" * (other.end - other.start)
    return [place for place in places if not any(is_taken[place.start : place.end])]


def _kept(places: Iterable[FoundPlace], text: str, is_good: Callable[[str], object]) -> list[FoundPlace]:
    return [place for place in widest(places, len(text)) if is_good(text[place.start : place.end])]


# No telephone number has fewer digits; between two stand few other characters.
_DIGITS = re.compile(r"\d(?:[^\w\n]{0,4}\d){5}")
# A street alone is no postal address: a town follows it, or a code.
_WHOLE = re.compile(r"[,\n].*\w|\d{4}\s*\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Structured:
    """The person of a document that has all four values.

    A finder runs only if those before it, in this order, found something, and the text has an '@' and enough digits.
    """

    emails: Find
    phones: Find
    addresses: Find
    names: Find = names_beside_emails
    """A recogniser of names; without one, only names that stand beside an e-mail address or behind 'Name:'."""

    def __call__(self, text: str) -> Iterator[Subject]:
        if "@" not in text or not _DIGITS.search(text):
            return
        emails = _kept(self.emails(text), text, is_email)
        phones = apart_from(widest(self.phones(text), len(text)), emails) if emails else []
        addresses = list(_addresses(text, self.addresses)) if phones else []
        phones = apart_from(phones, addresses)
        names = _kept(self.names(text), text, whole_name) if phones and addresses else []
        if names := apart_from(names, [*emails, *addresses]):
            name, others = nearest(names, (phones, emails, addresses))
            name_text, phone, email, address = (text[place.start : place.end] for place in (name, *others))
            yield Subject("", whole_name(name_text) or "", " ".join(phone.split()), email, one_line(address))


def nearest(names: Sequence[FoundPlace], others: Sequence[Sequence[FoundPlace]]) -> tuple[FoundPlace, list[FoundPlace]]:
    """A name and one of each of the others, all in order and none empty: with the fewest before the name, then the
    nearest to it, then the first."""

    def chosen(name: FoundPlace) -> list[FoundPlace]:
        return [kind[min(bisect_left(kind, name.end, key=_START), len(kind) - 1)] for kind in others]

    def cost(pair: tuple[FoundPlace, list[FoundPlace]]) -> tuple[int, int]:
        name, places = pair
        gaps = (max(place.start - name.end, name.start - place.end, 0) for place in places)
        return sum(place.start < name.end for place in places), sum(gaps)

    return min(((name, chosen(name)) for name in names), key=cost)


def _addresses(text: str, find: Find) -> Iterator[FoundPlace]:
    for place in widest(find(text), len(text)):
        # After a blank line something else begins.
        blank = BLANK_LINE.search(text, place.start, place.end)
        end = blank.start() if blank else place.end
        line = one_line(text[place.start : end])
        if len(line) <= 200 and line.isprintable() and _WHOLE.search(text[place.start : end]):
            yield Place(place.start, end)


KINDS: Final = (
    *("father", "mother", "grandmother", "grandfather", "aunt", "uncle", "wife", "husband"),
    *("brother", "sister"),
)
"""The eight that the paper lists of its nine, then two of ours."""
QUESTION: Final = "Who is the {relationship} of {name}?"
"""Appendix A.2 of the paper."""
CONFIDENCE: Final = 0.9
"""An answer has to exceed it (Appendix A.2)."""

_KIND = re.compile(rf"['’]s[ \t\n](?P<kind>{'|'.join(KINDS)})(?![\w-])")
_BEFORE = regex.compile(rf"(?<![\p{{L}}\p{{M}}]){NAME}\Z")
_BEHIND = regex.compile(
    r"(?:[ \t\n]{0,2},)?[ \t\n]{1,2}(?:(?:is|was|were)[ ])?(?:(?:called|named)[ ])?"
    # Somebody else's friend is no relative: the name is taken whole or not at all.
    rf"(?P<name>(?>{NAME}))(?![\p{{L}}\p{{M}}]|['’]s\b)"
)
_IS = regex.compile(rf"(?<![\p{{L}}\p{{M}}])(?P<name>{NAME})[ \t\n](?:is|was)[ \t\n]\Z")
_REACH = 120


@dataclass(frozen=True, slots=True)
class Relationships:
    """People with a relative each, for every sentence that names a relative."""

    ask: Ask | None = None
    """A question-answering model that checks a sentence; without one, its form is believed."""
    names: Find | None = None
    """A recogniser of names; without one, a person's name is the run of capitalised words before the "'s"."""

    def __call__(self, text: str) -> Iterator[Subject]:
        for match in _KIND.finditer(text):
            low, high = sentence_around(text, match.start(), match.end())
            start = self._start_of_name(text, low, match.start(), high)
            name = None if start is None else whole_name(text[start : match.start()])
            if start is None or name is None:
                continue
            kind, other = match["kind"], _relative_of(text, low, start, match.end(), high)
            if self.ask is not None:
                other = _confirmed(self.ask, name, kind, other, " ".join(text[low:high].split()))
            if other is not None and other.casefold() != name.casefold():
                yield Subject("", name, relationships=(RelatedPerson(kind, other),))

    def _start_of_name(self, text: str, low: int, end: int, high: int) -> int | None:
        """Where the name begins that ends at `end` in the sentence [low, high)."""
        if self.names is not None:
            # A recogniser may count the "'s" as part of the name.
            names = self.names(text[low:high])
            return min((low + name.start for name in names if low + name.end in (end, end + 2)), default=None)
        match = _BEFORE.search(text, max(low, end - _REACH), end)
        return None if match is None else end - len(without_opening(match.group()))


def _relative_of(text: str, low: int, start: int, end: int, high: int) -> str | None:
    """The name of the relative that [start, end) mentions, if the sentence [low, high) has it in one of the forms "'s
    father, NAME", "'s father is NAME", "NAME is …'s father"."""
    behind = _BEHIND.match(text, end, high)
    if behind is not None and without_opening(behind["name"]) == behind["name"]:
        return any_name(behind["name"])
    before = _IS.search(text, max(low, start - _REACH), start)
    return None if before is None else any_name(without_opening(before["name"]))


def _confirmed(ask: Ask, name: str, kind: str, other: str | None, sentence: str) -> str | None:
    """The relative's name, by the model alone if the form of the sentence has none; None if the model is not sure."""
    # Names are data: braces in them are no fields.
    question = QUESTION.replace("{relationship}", kind).replace("{name}", name)
    answer, confidence = ask(question, sentence)
    if not confidence > CONFIDENCE:
        return None
    if other is None:
        return any_name(answer.strip(" ,.;:"))
    answer_words, words = (set(regex.findall(r"[\p{L}\p{M}]+", part.casefold())) for part in (answer, other))
    return other if answer_words and (answer_words <= words or words <= answer_words) else None


_TEXT_WORD = re.compile(r"\w+")


class Universities:
    """People with a university each, for every pair of a person and a listed university that stand together.

    Universities are found as they are written, whole words only, the longest first. `names` finds people.
    """

    def __init__(self, listed: Iterable[str], names: Find, scope: MentionScope = "sentence") -> None:
        if scope not in get_args(MentionScope):
            raise UsageError(f"scope is '{scope}'; expected one of {', '.join(get_args(MentionScope))}")
        self._names, self._scope = names, scope
        # By their first word.
        self._listed: dict[str, list[str]] = {}
        for name in sorted({" ".join(name.split()) for name in listed}, key=len, reverse=True):
            if first := _TEXT_WORD.match(name):
                self._listed.setdefault(first.group(), []).append(name)
        if not self._listed:
            raise UsageError("there are no names of universities; give at least one that begins with a letter or digit")

    def __call__(self, text: str) -> Iterator[Subject]:
        places = self.places(text)
        people = self._people(text, 0, len(text), places) if places and self._scope == "document" else []
        seen: set[tuple[str, str]] = set()
        low = high = 0
        for place in places:
            if place.end > high:
                low, high = sentence_around(text, place.start, place.end)
                people = self._people(text, low, high, places) if self._scope == "sentence" else people
            if people:
                person = min(people, key=partial(_distance, place, low, high))
                name = whole_name(text[person.start : person.end]) or ""
                university = " ".join(text[place.start : place.end].split())
                if (name, university) not in seen:
                    seen.add((name, university))
                    yield Subject("", name, university=university)

    def places(self, text: str) -> list[FoundPlace]:
        # A name may be wrapped at a line's end.
        text = text.replace("\n", " ")
        out: list[FoundPlace] = []
        for word in _TEXT_WORD.finditer(text):
            start = word.start()
            if not out or start >= out[-1].end:
                ends = (
                    start + len(name) for name in self._listed.get(word.group(), ()) if text.startswith(name, start)
                )
                if end := next((end for end in ends if not _TEXT_WORD.match(text, end)), None):
                    out.append(Place(start, end))
        return out

    def _people(self, text: str, low: int, high: int, places: Sequence[FoundPlace]) -> list[FoundPlace]:
        """Full names within [low, high) that are no part of a university's name."""
        shifted = [Place(low + name.start, low + name.end) for name in self._names(text[low:high])]
        first, behind = (bisect_left(places, at, key=_START) for at in (low, high))
        return apart_from(_kept(shifted, text[:high], whole_name), places[first:behind])


def _distance(place: FoundPlace, low: int, high: int, person: FoundPlace) -> tuple[bool, int]:
    # Whether outside the sentence [low, high), then characters.
    return not low <= person.start < person.end <= high, max(person.start - place.end, place.start - person.end)


N_PROBLEMS: Final = 100
"""So many bad lines are named; all are counted."""


@dataclass(frozen=True, slots=True)
class Extracted(Record):
    """What an extraction wrote."""

    out: str
    """The file of people: one JSON object a line, as subjects are loaded from."""
    n_documents: int
    n_subjects: int
    """Written."""
    n_duplicates: int
    """Left out, being there already."""
    n_bad: int
    """Lines that hold no document."""
    problems: tuple[str, ...]
    """The first hundred of these by file and line, with the reason and without a word of the line."""


def extractor_of(
    find: Finds, region: str, ner: str | None, qa: str | None, universities: Path | None, scope: MentionScope
) -> Extractor:
    from leakmeter.text.entities import address, email, phone

    phone.check_region(region)
    names: Find | None = None
    if ner is not None:
        from leakmeter.models.recogniser import load_recogniser

        names = partial(_people_named, recogniser=load_recogniser(ner))
    if qa is not None and find != "relationships":
        raise UsageError("--qa checks relatives' names; give --find relationships with it")
    if (universities is None) == (find == "universities"):
        raise UsageError("--universities and --find universities go together; give both or neither")
    if find == "structured":
        phones, addresses = partial(phone.find, region=region), partial(address.find, region=region)
        return Structured(email.find, phones, addresses, names or names_beside_emails)
    if find == "relationships":
        ask = None
        if qa is not None:
            from leakmeter.models.question_answering import load_answerer

            ask = load_answerer(qa)
        return Relationships(ask, names)
    assert universities is not None
    return Universities(load_names(universities), names or names_beside_emails, scope)


def _people_named(text: str, recogniser: Recogniser) -> Iterator[Mention]:
    from leakmeter.text.entities.find import find_recognised
    from leakmeter.text.entities.mention import PERSON

    return (mention for mention in find_recognised(text, "US", recogniser) if mention.type == PERSON)


def extract(
    paths: Sequence[str | Path],
    out: str | Path,
    extractor: Extractor,
    *,
    field: str = "text",
    skip_bad: bool = False,
    progress: Callable[[int, int], None] = lambda n_bytes, n_total: None,
) -> Extracted:
    """Find people in documents and write them to a file, one a line, which is there when it is complete.

    Paths are JSON lines (.jsonl, .ndjson), plain text (.txt, .text, .md), JSON, CSV, TSV or Parquet, packed or not; of
    plain text, parts of 50,000 characters at most are documents. `out` is a new name that ends in '.jsonl'. `skip_bad`
    counts and names lines that hold no document, rather than stop at the first. `progress` gets how many bytes of
    the files were read, and of how many.
    """
    if not paths:
        raise UsageError("there are no files; give at least one")
    out = Path(out)
    if out.suffix != ".jsonl":
        raise UsageError(f"'{out}' has to end in '.jsonl', since it is written as JSON lines")
    files = [Path(path) for path in paths]
    check_documents(files)
    check_place(out, "output", files)
    if out.exists():
        raise UsageError(f"'{out}' exists already; remove it, or name another file")
    n_documents = n_found = n_bad = 0
    problems: list[str] = []
    identities: set[str] = set()
    with store_errors(f"'{out}' cannot be written"):
        # What a killed command left holds personal data.
        clear_left_over(out.parent, out.name)
        with replacing(out) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
            for number, document in documents_of(files, field, progress):
                if isinstance(document, Bad):
                    problem = f"'{files[number - 1]}', line {document.line:,}: {document.reason}"
                    if not skip_bad:
                        raise DataError(f"{problem}; skip bad lines to count them and go on")
                    n_bad += 1
                    problems += [problem] if len(problems) < N_PROBLEMS else []
                    continue
                n_documents += document.part == 1
                for subject in subjects_of(document, number, extractor):
                    n_found += 1
                    if (identity := _identity(subject)) not in identities:
                        identities.add(identity)
                        file.write(json.dumps(subject.to_dict(), ensure_ascii=False) + "\n")
    return Extracted(str(out), n_documents, len(identities), n_found - len(identities), n_bad, tuple(problems))


def subjects_of(document: DocumentText, file: int, extractor: Extractor) -> Iterator[Subject]:
    """The people of a document, with ids that say where they come from.

    '2:1042' is line 1,042 of the second file, '2:1042.3' the third part of a document that is too long to be read in
    one, '2:1042/2' the second person there. Files count from 1. A `DataError` names a document that the extractor
    refused.
    """
    part = f".{document.part}" if document.part > 1 else ""
    id_ = f"{file}:{document.line}{part}"
    try:
        for n, subject in enumerate(extractor(document.text), 1):
            yield replace(subject, id=f"{id_}/{n}" if n > 1 else id_)
    except LeakmeterError as error:
        raise DataError(f"file {file}, line {document.line}: {error}") from None


def _identity(subject: Subject) -> str:
    fields = subject.to_dict()
    identity = [fields["name"], fields.get("email"), fields.get("relationships"), fields.get("university")]
    return json.dumps(identity, ensure_ascii=False).casefold()
