"""People to probe for, from records: CSV, JSON lines, JSON, Parquet or TOML, or a table in memory.

Names are data, whatever is in them: braces, quotes, what looks like markup or a special token. White space, line breaks
too, becomes a single space, since a prompt would otherwise say a name on two lines; in addresses a line break becomes a
comma. Nothing else is changed. Errors name a person by the record and never repeat what it says, nor the name of a
column where none is known, which is somebody's data where a file has no heading.
"""

from __future__ import annotations

import json
import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from leakmeter.data.foreign import Unread, object_of
from leakmeter.data.mapping import Fields, checked_text, mapping_of, suggested, whole_id
from leakmeter.data.opened import STDIN, named, open_data
from leakmeter.data.rows import DataRow, read_rows
from leakmeter.errors import DataError, UnknownNameError
from leakmeter.instruments.pii.subject import (
    FIELDS,
    KNOWN,
    PREFIX,
    RELATIONS,
    RecordError,
    RelatedPerson,
    Subject,
    SubjectColumns,
    as_text,
    field_of,
    is_email,
    is_empty,
)

_FILE: Final = "file of people"
_TOML: Final = re.compile(r"\.toml(\.(gz|gzip|zst|zstd))?$", re.IGNORECASE)
_EXPECTED: Final = f"does the file begin with a heading? Known: {KNOWN}; --map FIELD=COLUMN names another"
_WORD = re.compile(r"[^\W\d_]+")
_PHONE_DIGITS: Final = 7
"""So many of a telephone number identify a person."""
_BREAK = re.compile(r"\s*,?\s*[\n\r\v\f\x85\u2028\u2029]\s*")


@dataclass(frozen=True, slots=True)
class ReadSubjects:
    subjects: tuple[Subject, ...]
    problems: tuple[str, ...] = ()
    """Records left out, such as 'line 3 has …', without what they say."""
    n_renamed: int = 0
    """Subjects whose ids said something personal; their numbers stand for them."""
    ignored: Mapping[str, str | None] = field(default_factory=dict)
    """Columns that are no field, each with the field that has the nearest name."""


def load_subjects(
    source: Any,
    *,
    map: str | Sequence[str] | Mapping[str, str] | None = None,
    region: str = "US",
    skip_bad: bool = False,
) -> ReadSubjects:
    """People of a file or of a table in memory, in order.

    A record has a `name` and at least one of `phone`, `email`, `address`, `university` (or `affiliation`) and
    relationships; and may have an `id` (else its number, from 1). Relationships are an object `relationships` of kinds
    and names (in CSV it is JSON), or columns such as `father`, or `relationship:neighbour`; a list holds the names of
    several of a kind. In TOML each record is a table [[subject]]. Names of columns may be those of other programs, such
    as 'First Name', 'E-mail' and 'Zip' (see `columns`); empty cells say nothing, and columns that are no field are
    named in `ignored`. Keys of a JSON object of records are dropped, and an id that says part of the name, or a value,
    is not used: the number stands for it, since ids are shown and kept.
    """
    import phonenumbers

    if region not in phonenumbers.SUPPORTED_REGIONS:
        raise UnknownNameError("region", region, phonenumbers.SUPPORTED_REGIONS)
    mapping = {field_of(name) or name: path for name, path in mapping_of(map).items()}
    mapping_of({name: path for name, path in mapping.items() if not name.startswith(PREFIX)}, FIELDS)
    columns = SubjectColumns(region, mapping)
    where = "subjects"
    if isinstance(source, str | Path):
        where = f"'{source}'" if str(source) != STDIN else named(source, _FILE)
    subjects: list[Subject] = []
    problems: list[str] = []
    n_renamed = 0
    seen: dict[str, str] = {}
    is_toml = isinstance(source, str | Path) and _TOML.search(str(source))
    # A key of an object of records may be somebody's name.
    rows = read_rows(_of_toml(source) if is_toml else source, mapping=mapping, keys_are_ids=False, noun=_FILE)
    for number, row in enumerate(rows, 1):
        place = row.place or "record 1"
        try:
            original = (
                row.content
                if isinstance(row.content, Subject)
                else _subject(_fields(row), number, columns, is_table=row.is_table)
            )
            subject = original if original is row.content else _impersonal(original, number)
            if subject.id in seen:
                raise RecordError(f"has the id of {seen[subject.id]}; make ids unique (without one, it is the number)")
        except RecordError as error:
            if not skip_bad:
                raise DataError(f"{where}, {place} {error}") from None
            problems.append(f"{place} {error}")
            continue
        seen[subject.id] = place
        subjects.append(subject)
        n_renamed += subject is not original
    if not subjects:
        raise DataError(f"there are no {'good ' if problems else ''}records in {where}; expected one for each person")
    return ReadSubjects(tuple(subjects), tuple(problems), n_renamed, columns.ignored)


def _fields(row: DataRow) -> Fields:
    try:
        return row.fields
    except DataError as error:
        held = row.content if isinstance(row.content, Mapping) else {}
        if row.problem is None and held and not any(field_of(str(column)) for column in held):
            # Where there is no heading, names of columns are somebody's data.
            raise RecordError(f"has neither what --map names nor a known column; {_EXPECTED}") from None
        raise RecordError(f"cannot be used: {str(error).removeprefix(row.where).lstrip(': ,')}") from None


def _subject(row: Fields, number: int, columns: SubjectColumns, *, is_table: bool) -> Subject:
    fields, region = columns.fields_of(row), columns.region
    name = _text(fields, "name")
    if name is None and not fields and row and not any(map(field_of, row)):
        raise RecordError(f"has no known column; {_EXPECTED}")
    if name is None:
        raise RecordError(f"has no 'name'; give one{_near(row, ('name',))}")
    subject = Subject(
        id=_id(whole_id(fields.get("id"), is_table=is_table), number),
        name=name,
        phone=_phone(fields, region),
        email=_email(fields),
        address=_text(fields, "address", line_break=", "),
        relationships=tuple(_relations(fields)),
        university=_text(fields, "university"),
        region=region,
    )
    if not any(True for _ in subject.targets()):
        hint = _near(row, ("phone", "email", "address", "university"))
        raise RecordError(f"has a name and no value; give a telephone number or another value{hint}")
    return subject


def _near(row: Fields, wanted: Sequence[str]) -> str:
    """A hint at --map for missing fields, if a column is spelled like one."""
    names = [str(column) for column in row if field_of(str(column)) is None]
    suggestion = suggested(names, wanted, dict.fromkeys(wanted, ()))
    return "" if suggestion is None else f", as with {suggestion}"


def _id(value: object, number: int) -> str:
    if is_empty(value):
        return str(number)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise RecordError("has an 'id' that is neither text nor a whole number")
    return _single_line(_readable(str(value), "id"))


def _impersonal(subject: Subject, number: int) -> Subject:
    """The subject with the number as id, if the id contains a part of the name, or a value."""
    words = set(_WORD.findall(_plain(subject.id)))
    names = [name for name in _WORD.findall(_plain(subject.name)) if len(name) > 1 or not name.isascii()]
    together = _letters(subject.id)
    digits, phone_digits = ("".join(filter(str.isdecimal, text)) for text in (subject.id, subject.phone or ""))
    digits = digits[-_PHONE_DIGITS:]
    long = [*names, *(_letters(value.partition("@")[0]) for _, _, value in subject.targets())]
    says = (
        any(name in words for name in names)
        # With initials, as in 'jdoe'.
        or any(name in word and len(word) - len(name) <= 2 < len(name) for name in names for word in words)
        or any(letters in together for letters in long if len(letters) > 4)
        or (len(digits) == _PHONE_DIGITS and digits in phone_digits)
    )
    return replace(subject, id=str(number)) if says else subject


def _plain(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))


def _letters(text: str) -> str:
    return "".join(_WORD.findall(_plain(text)))


def _text(fields: Fields, column: str, *, line_break: str = " ") -> str | None:
    value = fields.get(column)
    if column in ("phone", "address"):
        value = as_text(value)
    if is_empty(value):
        return None
    return _single_line(_BREAK.sub(line_break, _readable(value, column).strip()))


def _phone(fields: Fields, region: str) -> str | None:
    import phonenumbers

    text = _text(fields, "phone")
    if text is None:
        return None
    try:
        is_possible = phonenumbers.is_possible_number(phonenumbers.parse(text, region))
    except phonenumbers.NumberParseException:
        is_possible = False
    if not is_possible:
        raise RecordError(
            f"has a 'phone' that is neither a telephone number of {region} nor one with + and its country code"
        )
    return text


def _email(fields: Fields) -> str | None:
    text = _text(fields, "email")
    if text is not None and not is_email(text):
        raise RecordError("has an 'email' that is not an e-mail address; expected NAME@DOMAIN")
    return text


def _relations(fields: Fields) -> Iterator[RelatedPerson]:
    pairs: list[tuple[str, object]] = [
        (column.removeprefix(PREFIX).strip(), value)
        for column, value in fields.items()
        if column in RELATIONS or column.startswith(PREFIX)
    ]
    table = fields.get("relationships")
    if isinstance(table, str) and table.strip():
        try:
            table = json.loads(table, object_pairs_hook=object_of)
        except (ValueError, RecursionError):
            raise RecordError('has \'relationships\' that are not JSON; write them as {"father": "NAME"}') from None
    if isinstance(table, Unread):
        raise RecordError('has \'relationships\' that name a kind twice; write several as {"father": ["NAME", "NAME"]}')
    if not is_empty(table):
        if not isinstance(table, Mapping):
            raise RecordError(
                "has 'relationships' that are not an object of kinds and names, such as father and a name"
            )
        pairs += [(_readable(kind, "relationships").strip().lower(), value) for kind, value in table.items()]
    seen: set[RelatedPerson] = set()
    for kind, value in pairs:
        # Tables of other programs have every key in every row.
        if is_empty(value):
            continue
        if not kind:
            raise RecordError("has a relationship without a kind; name it as in father")
        for name in value if isinstance(value, list) else [value]:
            relation = RelatedPerson(_single_line(kind), _single_line(_readable(name, "relationships")))
            if relation in seen or not relation.name:
                raise RecordError("has a relationship twice, or one without a name; give each once")
            seen.add(relation)
            yield relation


def _readable(value: object, column: str) -> str:
    try:
        return checked_text(value, column, "")
    except DataError as error:
        raise RecordError(f"has a value that is not text{error}") from None


def _single_line(text: str) -> str:
    return " ".join(text.split())


_TABLE: Final = "subject"


def _of_toml(path: str | Path) -> list[DataRow]:
    try:
        with open_data(path, _FILE) as opened:
            document = tomllib.loads(opened.read().decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise DataError(f"'{path}' is not UTF-8; save it as UTF-8 and try again") from None
    except tomllib.TOMLDecodeError as error:
        # The message may repeat what it could not read.
        place = str(error).rpartition("(")[2].rstrip(")")
        raise DataError(f"'{path}' is not TOML ({place})") from None
    except (RecursionError, ValueError):
        raise DataError(f"'{path}' is TOML nested too deep, or with a number too long, to be read") from None
    records = document.get(_TABLE)
    if (
        set(document) != {_TABLE}
        or not isinstance(records, list)
        or not all(isinstance(entry, dict) for entry in records)
    ):
        raise DataError(f"'{path}' has to hold a table [[{_TABLE}]] for each person, and nothing else")
    return [DataRow(number, f"record {number}", str(path), record) for number, record in enumerate(records, 1)]
