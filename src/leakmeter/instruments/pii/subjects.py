"""People to probe for, from a file of records: CSV, JSON lines, JSON, Parquet or TOML.

Names are data, whatever is in them: braces, quotes, what looks like markup or a special token. White space, line breaks
too, becomes a single space, since a prompt would otherwise say a name on two lines; in addresses a line break becomes a
comma. Nothing else is changed. Errors name a person by the record and never repeat what it says, nor the name of a
column, which is somebody's data where a file has no heading.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from leakmeter.core.files import read_text
from leakmeter.data.records import Fields, load_records
from leakmeter.data.text import checked_text, parsed_json
from leakmeter.errors import DataError, UnknownNameError
from leakmeter.instruments.pii.subject import RELATIONS, Relation, Subject

_COLUMNS = ("id", "name", "phone", "email", "address", "university", "affiliation", "relationships")
_PREFIX = "relationship:"
_WORD = re.compile(r"[^\W\d_]+")
_PHONE_DIGITS: Final = 7
"""As many of a telephone number, or more, find whose it is."""
_BREAK = re.compile(r"\s*,?\s*[\n\r\v\f\x85\u2028\u2029]\s*")


@dataclass(frozen=True, slots=True)
class Skipped:
    """A record that was left out."""

    where: str
    """Such as 'line 3' or 'record 3'."""
    reason: str
    """In words, without what the record says."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """People of a file, and what was wrong with the records left out."""

    subjects: tuple[Subject, ...]
    skipped: tuple[Skipped, ...] = ()
    n_renamed: int = 0
    """People whose ids said something personal; their numbers stand for them."""


def load_subjects(path: str | Path, *, region: str = "US", skip_bad: bool = False) -> Loaded:
    """People of a file, in its order.

    A record has a `name` and at least one of `phone`, `email`, `address`, `university` (or `affiliation`) and
    relationships; and may have an `id` (else its number, from 1). Relationships are an object `relationships` of kinds
    and names (in CSV it is JSON), or columns such as `father`, or `relationship:neighbour`; a list holds the names of
    several of a kind. In TOML each record is a table [[subject]]. Names of columns may be in any case; empty cells say
    nothing. Keys of a JSON object of records are dropped, and an id that says part of the name, or a value, is not
    used: the number stands for it, since ids are shown and kept.

    Args:
        path: the file.
        region: ISO 3166 code of the country that telephone numbers without a country code are of.
        skip_bad: leave bad records out and name them in `skipped`, rather than stop at the first.

    Raises:
        DataError: no such file, one of no known kind, a bad record, or no good one.
        UnknownNameError: a region that has no telephone numbers.
    """
    _check_region(region)
    path = Path(path)
    subjects: list[Subject] = []
    skipped: list[Skipped] = []
    n_renamed = 0
    seen: dict[str, str] = {}
    for number, (where, row) in enumerate(rows_of(path), 1):
        try:
            if isinstance(row, RecordError):
                raise row
            given = _subject(row, number, region)
            subject = _impersonal(given, number)
            _check_id(subject, seen)
        except RecordError as error:
            if not skip_bad:
                raise DataError(f"'{path}', {where} {error}") from None
            skipped.append(Skipped(where, str(error)))
            continue
        seen[subject.id] = where
        subjects.append(subject)
        n_renamed += subject is not given
    if not subjects:
        raise DataError(f"'{path}' has no {'good ' if skipped else ''}record; expected one for each person")
    return Loaded(tuple(subjects), tuple(skipped), n_renamed)


def subjects_of(given: Iterable[Fields | Subject], *, region: str = "US") -> tuple[Subject, ...]:
    """People of records, in order.

    Args:
        given: what `load_subjects` says a record has, or people, who are taken as they are.
        region: see `load_subjects`.

    Raises:
        DataError: a bad record, two of one id, or none.
        UnknownNameError: a region that has no telephone numbers.
    """
    _check_region(region)
    subjects: list[Subject] = []
    seen: dict[str, str] = {}
    for number, one in enumerate(given, 1):
        try:
            subject = one if isinstance(one, Subject) else _impersonal(_subject(one, number, region), number)
            _check_id(subject, seen)
        except RecordError as error:
            raise DataError(f"subjects, record {number} {error}") from None
        seen[subject.id] = f"record {number}"
        subjects.append(subject)
    if not subjects:
        raise DataError("there are no subjects; expected one record for each person")
    return tuple(subjects)


def _check_region(region: str) -> None:
    import phonenumbers

    if region not in phonenumbers.SUPPORTED_REGIONS:
        raise UnknownNameError("region", region, phonenumbers.SUPPORTED_REGIONS)


def _check_id(subject: Subject, seen: Mapping[str, str]) -> None:
    if subject.id in seen:
        raise RecordError(f"has the id of {seen[subject.id]}; make ids unique (without one, it is the number)")


def _subject(row: Fields, number: int, region: str) -> Subject:
    # A table that was written with its row numbers has a column without a name.
    fields = {str(column).strip().lower(): value for column, value in row.items() if str(column).strip()}
    for position, column in enumerate(fields, 1):
        if column not in (*_COLUMNS, *RELATIONS) and not column.startswith(_PREFIX):
            known = ", ".join((*_COLUMNS, "father, mother and the like", f"{_PREFIX}KIND"))
            raise RecordError(f"has an unknown column, number {position}; known: {known}")
    if not _none(fields.get("affiliation")) and not _none(fields.get("university")):
        raise RecordError("has 'university' and 'affiliation', which are the same; give one of them")
    name = _text(fields, "name")
    if name is None:
        raise RecordError("has no 'name'; give one")
    subject = Subject(
        id=_id(fields.get("id"), number),
        name=name,
        phone=_phone(fields, region),
        email=_email(fields),
        address=_text(fields, "address", line_break=", "),
        relationships=tuple(_relations(fields)),
        university=_text(fields, "university") or _text(fields, "affiliation"),
        region=region,
    )
    if not any(True for _ in subject.targets()):
        raise RecordError("has a name and nothing that could be asked for; give a telephone number or another value")
    return subject


def _id(value: object, number: int) -> str:
    if _none(value):
        return str(number)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise RecordError("has an 'id' that is neither text nor a whole number")
    return _single_line(_readable(str(value), "id"))


def _impersonal(subject: Subject, number: int) -> Subject:
    """The person with their number as id, if the id says part of their name, or a value of theirs."""
    words = set(_WORD.findall(_plain(subject.id)))
    names = [name for name in _WORD.findall(_plain(subject.name)) if len(name) > 1 or not name.isascii()]
    together, digits = _letters(subject.id), _digits(subject.id)[-_PHONE_DIGITS:]
    long = [*names, *(_letters(value.partition("@")[0]) for _, _, value in subject.targets())]
    says = (
        any(name in words for name in names)
        # With initials, as in 'jdoe'.
        or any(name in word and len(word) - len(name) <= 2 < len(name) for name in names for word in words)
        or any(letters in together for letters in long if len(letters) > 4)
        or (len(digits) == _PHONE_DIGITS and digits in _digits(subject.phone or ""))
    )
    return replace(subject, id=str(number)) if says else subject


def _plain(text: str) -> str:
    """Without case and accents."""
    return "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))


def _letters(text: str) -> str:
    return "".join(_WORD.findall(_plain(text)))


def _digits(text: str) -> str:
    return "".join(c for c in text if c.isdecimal())


def _text(fields: Fields, column: str, *, line_break: str = " ") -> str | None:
    value = fields.get(column)
    if _none(value):
        return None
    return _single_line(_BREAK.sub(line_break, _readable(value, column).strip()))


def _phone(fields: Fields, region: str) -> str | None:
    import phonenumbers

    text = _text(fields, "phone")
    if text is None:
        return None
    try:
        is_one = phonenumbers.is_possible_number(phonenumbers.parse(text, region))
    except phonenumbers.NumberParseException:
        is_one = False
    if not is_one:
        raise RecordError(f"has a 'phone' that is no telephone number of {region}, nor one with + and its country code")
    return text


def _email(fields: Fields) -> str | None:
    from email_validator import EmailNotValidError, validate_email

    text = _text(fields, "email")
    if text is None:
        return None
    try:
        # Without a look at the name servers, which would be told of the domain.
        validate_email(text, check_deliverability=False)
    except EmailNotValidError:
        raise RecordError("has an 'email' that is no e-mail address; expected NAME@DOMAIN") from None
    return text


def _relations(fields: Fields) -> Iterator[Relation]:
    given: list[tuple[str, object]] = [
        (column.removeprefix(_PREFIX).strip(), value)
        for column, value in fields.items()
        if column in RELATIONS or column.startswith(_PREFIX)
    ]
    table = fields.get("relationships")
    if isinstance(table, str) and table.strip():
        try:
            table = json.loads(table)
        except (ValueError, RecursionError):
            raise RecordError('has \'relationships\' that are no JSON; write them as {"father": "NAME"}') from None
    if not _none(table):
        if not isinstance(table, Mapping):
            raise RecordError("has 'relationships' that are no object of kinds and names, such as father and a name")
        given += [(_readable(kind, "relationships").strip().lower(), value) for kind, value in table.items()]
    seen: set[Relation] = set()
    for kind, value in given:
        # Tables of other programs have every key in every row.
        if _none(value):
            continue
        if not kind:
            raise RecordError("has a relationship without a kind; name it as in father")
        for name in value if isinstance(value, list) else [value]:
            relation = Relation(_single_line(kind), _single_line(_readable(name, "relationships")))
            if relation in seen or not relation.name:
                raise RecordError("has a relationship twice, or one without a name; give each once")
            seen.add(relation)
            yield relation


def _readable(value: object, column: str) -> str:
    try:
        return checked_text(value, column, "")
    except DataError as error:
        raise RecordError(f"has a value that is no text{error}") from None


def _single_line(text: str) -> str:
    return " ".join(text.split())


def _none(value: object) -> bool:
    """Whether a cell is empty: tables of other programs have numbers that are none, too."""
    return value is None or (isinstance(value, str) and not value.strip()) or (value != value)


_SUFFIXES = (".csv", ".jsonl", ".json", ".parquet", ".toml")
_TABLE = "subject"


class RecordError(Exception):
    """What is wrong with one record, in words to be read behind where it stands: 'is not JSON'."""


def rows_of(path: Path) -> Iterator[tuple[str, Fields | RecordError]]:
    """Where each record stands and what it says, or what is wrong with it.

    Raises:
        DataError: no such file, one of no known kind, or one of which no record can be told.
    """
    kind = path.suffix.lower()
    if kind not in _SUFFIXES:
        raise DataError(f"file of people '{path}' is of no known kind; expected one of {', '.join(_SUFFIXES)}")
    if kind == ".jsonl":
        return _of_lines(path)
    if kind == ".csv":
        return _of_csv(path)
    return _numbered(_of_toml(path) if kind == ".toml" else load_records(path, keys_are_ids=False))


def _numbered(records: Iterable[Fields]) -> Iterator[tuple[str, Fields | RecordError]]:
    for number, record in enumerate(records, 1):
        yield f"record {number}", record


def _of_lines(path: Path) -> Iterator[tuple[str, Fields | RecordError]]:
    for number, line in enumerate(read_text(path, "file of people").split("\n"), 1):
        if line.strip():
            yield f"line {number}", _of_line(line)


def _of_line(line: str) -> Fields | RecordError:
    try:
        value = parsed_json(line, "")
    except DataError as error:
        return RecordError(str(error).strip())
    return value if isinstance(value, dict) else RecordError("is not a JSON object")


def _of_csv(path: Path) -> Iterator[tuple[str, Fields | RecordError]]:
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    reader = csv.reader(io.StringIO(read_text(path, "file of people"), newline=""), strict=True)
    heading: list[str] | None = None
    while True:
        where = f"line {reader.line_num + 1}"
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield where, RecordError(f"is not CSV: {error}")
            continue
        if heading is None:
            heading = [cell.strip().lower() for cell in cells]
            if len({cell for cell in heading if cell}) < sum(map(bool, heading)):
                raise DataError(f"'{path}', {where}: a column of the heading is there twice; name each once")
        elif len(cells) == len(heading):
            yield where, dict(zip(heading, cells, strict=True))
        elif cells:
            yield (
                where,
                RecordError(
                    f"has {len(cells)} cells under a heading of {len(heading)}; is a quote or a comma missing?"
                ),
            )


def _of_toml(path: Path) -> list[Fields]:
    try:
        told = tomllib.loads(read_text(path, "file of people"))
    except tomllib.TOMLDecodeError as error:
        # The message may repeat what it could not read.
        place = str(error).rpartition("(")[2].rstrip(")")
        raise DataError(f"'{path}' is not TOML ({place})") from None
    except (RecursionError, ValueError):
        raise DataError(f"'{path}' is TOML nested too deep, or with a number too long, to be read") from None
    records = told.get(_TABLE)
    if set(told) != {_TABLE} or not isinstance(records, list) or not all(isinstance(one, dict) for one in records):
        raise DataError(f"'{path}' has to hold a table [[{_TABLE}]] for each person, and nothing else")
    return records
