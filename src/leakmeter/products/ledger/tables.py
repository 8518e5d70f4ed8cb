"""The tables of a ledger: their columns, what each means, and their rows in SQLite."""

from __future__ import annotations

import json
import math
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from types import UnionType
from typing import Annotated, Any, Final, TypedDict, get_args, get_type_hints

import pyarrow as pa

from leakmeter.core.record import JsonObject

_TEXT, _NATS, _COUNT, _FLAG = pa.string(), pa.float64(), pa.int32(), pa.bool_()
_TIME, _DAY, _TEXTS = pa.timestamp("us", tz="UTC"), pa.date32(), pa.list_(pa.string())


class EventRow(TypedDict):
    """An answer that was shown."""

    event: Annotated[str, "keyed hash of trace and span"]
    trace: Annotated[str, "id of the trace, as it was logged"]
    span: Annotated[str, "id of the span, as it was logged"]
    draw: Annotated[str, "keyed hash of the response's id; equal, with an equal answer, for one draw shown again"]
    time: Annotated[datetime | None, "when the answer was finished; null where that was not logged"]
    day: Annotated[date | None, "of the time, UTC"]
    recipient: Annotated[
        str | None, "keyed pseudonym, or a tool as in 'tool:search', an agent or a memory; null where none was logged"
    ]
    answer: Annotated[str, "keyed hash of the answer's text"]
    by_document: Annotated[str, "names the scores of documents"]
    by_entity: Annotated[str, "names the scores of personal data"]
    n_tokens: Annotated[int, "tokens of the answer"]
    temperature: Annotated[float, "at which it was scored"]
    decoding: Annotated[str | None, "how it was drawn, as it was logged; null where that is not known"]
    flags: Annotated[list[str], "why no posterior is shown for sums that this answer is part of"]


class LookRow(TypedDict):
    """A document that was retrieved for an answer."""

    event: Annotated[str, "the answer"]
    document: Annotated[str, "id of a document that was retrieved for it"]
    content: Annotated[str, "keyed hash of its text"]
    present: Annotated[bool, "whether the prompt had its text; otherwise it adds 0"]


class PromptRow(TypedDict):
    """What an answer was given to: with its text and its recipient, what tells it from others of its ids."""

    event: Annotated[str, "the answer"]
    prompt: Annotated[str, "keyed hash of the prompt, and of what was retrieved for it"]


class TurnRow(TypedDict):
    """A message of an answer's prompt: where a document stands in it, or that it is of an earlier turn and has none."""

    event: Annotated[str, "the answer"]
    message: Annotated[str, "keyed hash of the message's text"]
    document: Annotated[str | None, "id of the document; null where the message has none"]
    content: Annotated[str | None, "keyed hash of the document's text"]
    first_character: Annotated[int | None, "of the document in the message, from 0"]
    last_character: Annotated[int | None, "of the document in the message"]


class PermissionRow(TypedDict):
    """Whether a recipient may know a document that an answer may tell of, by policy or log."""

    event: Annotated[str, "the answer; of one of which neither a policy nor the log says it there is no row"]
    document: Annotated[str, "id of a document that was retrieved for it"]
    content: Annotated[str, "keyed hash of its text"]
    allowed: Annotated[str, "whether its recipient may know all of it: 'yes', 'no' or 'unknown'"]
    kinds: Annotated[list[str], "kinds of what the answer discloses of it that its recipient may know"]


class ScoreRow(TypedDict):
    """What one piece of a prompt did to an answer."""

    score: Annotated[str, "keyed hash of prompt, answer, model and settings"]
    unit: Annotated[str, "'document' or 'entity'"]
    target: Annotated[str, "content of the document, or keyed pseudonym of the value or person"]
    signed_nats: Annotated[
        float | None, "log p(answer) − log p(answer without it); null where a search did not score it, NaN if undefined"
    ]
    size_nats: Annotated[float | None, "the same over the tokens without signs"]
    noise_nats: Annotated[float, "the noise floor"]
    placebo_nats: Annotated[float | None, "what an irrelevant piece does, with its sign; null where none fitted"]
    placebo_size_nats: Annotated[float | None, "the same over the tokens without signs"]
    screened_nats: Annotated[float | None, "how a search ranked it, no measurement of it; null without a search"]
    n_mentions: Annotated[int, "places in the prompt that say it"]


class DisclosureRow(TypedDict):
    """A span of an answer that came from a document."""

    score: Annotated[str, "as in scores, of documents"]
    content: Annotated[str, "keyed hash of the text of a document that it came from"]
    kind: Annotated[str, "'phone', 'person', 'code' …, a type of the user's, or 'other': neither personal nor secret"]
    relation: Annotated[str, "'copied', 'reworded' or 'inferred'"]
    evidence: Annotated[str, "'scores' or 'words', as of disclosures in `leakmeter influence`"]
    nats: Annotated[float, "log p(span) − log p(span without the context)"]
    posterior: Annotated[float | None, "null: a logged answer was given; earlier versions wrote a number"]
    first_character: Annotated[int, "of the span in the answer, from 0"]
    last_character: Annotated[int, "of the span in the answer"]
    entities: Annotated[list[str], "keyed pseudonyms of values and persons that the document says there"]


class MeasuredRow(TypedDict):
    score: Annotated[str, "as in scores; here also where nothing of the unit was found"]
    unit: Annotated[str, "'document' or 'entity'"]
    n_tokens: Annotated[int, "tokens of the answer"]
    kept: Annotated[bool, "whether the texts are kept"]


class MentionRow(TypedDict):
    content: Annotated[str, "keyed hash of a document's text"]
    entity: Annotated[str, "keyed pseudonym of a value or person that it says"]
    kind: Annotated[str, "'person', 'phone', 'email', 'address', 'date', or a type of the user's"]
    n_mentions: Annotated[int, "places that say it"]
    words: Annotated[list[str], "keyed hashes of the words of a person's name"]
    initials: Annotated[list[str], "keyed hashes of their first letters"]


class NameRow(TypedDict):
    pseudonym: Annotated[str, "keyed pseudonym, or a document's id"]
    kind: Annotated[str, "'recipient', 'subject' or 'document'"]
    name: Annotated[str, "in clear; of people kept with --keep-texts alone"]


class AllRows(TypedDict):
    events: list[EventRow]
    looks: list[LookRow]
    prompts: list[PromptRow]
    turns: list[TurnRow]
    permissions: list[PermissionRow]
    scores: list[ScoreRow]
    disclosures: list[DisclosureRow]
    measured: list[MeasuredRow]
    mentions: list[MentionRow]
    names: list[NameRow]


def _schema(row: type) -> pa.Schema:
    types: dict[Any, pa.DataType] = {
        str: _TEXT, float: _NATS, int: _COUNT, bool: _FLAG, datetime: _TIME, date: _DAY, list[str]: _TEXTS,
    }  # fmt: skip
    columns = []
    for name, hint in get_type_hints(row, include_extras=True).items():
        kind, about = get_args(hint)
        kind = get_args(kind)[0] if isinstance(kind, UnionType) else kind
        columns.append(pa.field(name, types[kind], metadata={"about": about}))
    return pa.schema(columns)


TABLES: Final[Mapping[str, pa.Schema]] = {
    name: _schema(get_args(rows)[0]) for name, rows in get_type_hints(AllRows).items()
}
"""All tables; rows of `names` that are people's are there with --keep-texts alone."""

TEXTS: Final = "texts"
"""A table with --keep-texts alone, and no view of `ledger query`: what heat maps are made of, as JSON, by score."""
KEYS: Final[Mapping[str, str]] = {
    "events": "event",
    "looks": "event, document, content",
    "prompts": "event",
    "turns": "event, message, content, first_character",
    "permissions": "event, document, content",
    "scores": "score, target",
    "disclosures": "score, content, first_character, last_character, kind",
    "measured": "score",
    "mentions": "content, entity",
    "names": "pseudonym, kind, name",
    TEXTS: "score",
}
"""All tables in the file, and columns that no two rows of one share."""
_ALSO_FOUND_BY: Final[Mapping[str, Sequence[str]]] = {
    "events": ("recipient", "draw, answer", "by_entity"),
    "looks": ("content",),
    "turns": ("message",),
    "scores": ("target",),
    "mentions": ("entity",),
}
"""Other columns by which rows are found without reading the whole table."""
LISTED: Final = "(SELECT value FROM json_each(?))"
"""In a condition, what a list has that is given for it."""
_HOLDERS: Final = {
    **dict.fromkeys(("looks", "prompts", "turns", "permissions"), ("events", "event")),
    **dict.fromkeys(("scores", "disclosures", TEXTS), ("measured", "score")),
}
"""Tables whose rows are added with a row of another one, and never again: which table, and the column of both."""
Rows = Mapping[str, Sequence[JsonObject]]


def _columns(table: str) -> list[str]:
    return ["score", "kept"] if table == TEXTS else [*TABLES[table].names, "checksum"]


def make(database: sqlite3.Connection, tables: Iterable[str] = KEYS, *, temporary: bool = False) -> None:
    for table in tables:
        # VACUUM keeps numbers of rows, and so their order, only where a column has them.
        columns = f"number INTEGER PRIMARY KEY, {', '.join(_columns(table))}, UNIQUE ({KEYS[table]})"
        database.execute(f"CREATE {'TEMP' if temporary else ''} TABLE {table} ({columns})")


def make_missing(database: sqlite3.Connection, *, temporary: bool = False) -> None:
    """Make the tables, and, in the file, the indexes, that a file of an earlier version does not have."""
    found = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    make(database, [table for table in KEYS if table not in found], temporary=temporary)
    if not temporary:
        _make_indexes(database)


def _make_indexes(database: sqlite3.Connection) -> None:
    for table, several in _ALSO_FOUND_BY.items():
        for columns in several:
            name = f"{table}_by_{columns.replace(', ', '_')}"
            database.execute(f"CREATE INDEX IF NOT EXISTS {name} ON {table} ({columns})")


def insert(database: sqlite3.Connection, rows: Rows) -> None:
    # Rows of a holder come last: until then it shows what was there before.
    for table in sorted(KEYS, key=lambda name: name not in _HOLDERS):
        columns = _columns(table)
        statement = f"INSERT OR IGNORE INTO {table} ({', '.join(columns)}) SELECT :{', :'.join(columns)}"
        if table in _HOLDERS:
            holder, column = _HOLDERS[table]
            statement += f" WHERE NOT EXISTS (SELECT 1 FROM {holder} WHERE {column} = :{column})"
        database.executemany(statement, [_written(table, row) for row in rows.get(table, ())])


def select(
    database: sqlite3.Connection, table: str, first: int = 0, where: str = "TRUE", given: Sequence[Any] = ()
) -> Iterator[JsonObject]:
    """Rows of a table of which a condition holds, in the order they were added, from number `first` on. `ValueError` if
    one was changed."""
    columns = _columns(table)
    names = columns[:-1]
    reads = [(field.name, _STORED[field.type][1]) for field in TABLES[table] if field.type in _STORED]
    query = f"SELECT {', '.join(columns)} FROM {table} WHERE {where} ORDER BY number LIMIT -1 OFFSET ?"
    for *values, written in database.execute(query, (*given, first)):
        if written != checksum(values):
            raise ValueError(f"a row of {table} was changed after it was written")
        row = dict(zip(names, values, strict=True))
        for name, read in reads:
            if row[name] is not None:
                row[name] = read(row[name])
        yield row


_STORED: Final[Mapping[pa.DataType, tuple[Callable[[Any], Any], Callable[[Any], Any]]]] = {
    _FLAG: (int, bool),
    # SQLite has no NaN.
    _NATS: (lambda nats: "NaN" if math.isnan(nats) else float(nats), float),
    _TIME: (lambda time: time.astimezone(UTC).isoformat(), datetime.fromisoformat),
    _DAY: (date.isoformat, date.fromisoformat),
    _TEXTS: (json.dumps, json.loads),
}
"""From values of a column to what SQLite holds, and back, where that is not the same."""


def _written(table: str, row: JsonObject) -> JsonObject:
    if table == TEXTS:
        return row
    values = {name: row[name] for name in TABLES[table].names}
    for field in TABLES[table]:
        if field.type in _STORED and values[field.name] is not None:
            values[field.name] = _STORED[field.type][0](values[field.name])
    return {**values, "checksum": checksum(list(values.values()))}


def checksum(values: list[Any]) -> int:
    """Of the values of a row in SQLite; it finds accidents, and is no seal."""
    return zlib.crc32(ascii(values).encode())
