"""The tables of a ledger: their columns, what each means, and rows to what SQLite holds and back."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, Final

import pyarrow as pa

from leakmeter.core.json_object import JsonObject

_TEXT, _NATS, _COUNT, _FLAG = pa.string(), pa.float64(), pa.int32(), pa.bool_()
_TIME, _DAY, _TEXTS = pa.timestamp("us", tz="UTC"), pa.date32(), pa.list_(pa.string())


def _schema(**columns: tuple[pa.DataType, str]) -> pa.Schema:
    return pa.schema([pa.field(name, kind, metadata={"about": about}) for name, (kind, about) in columns.items()])


TABLES: Final[Mapping[str, pa.Schema]] = {
    "events": _schema(
        event=(_TEXT, "keyed hash of trace and span"),
        trace=(_TEXT, "id of the trace, as it was logged"),
        span=(_TEXT, "id of the span, as it was logged"),
        draw=(_TEXT, "keyed hash of the draw: equal where one draw was shown more than once"),
        time=(_TIME, "when the answer was finished; null where that was not logged"),
        day=(_DAY, "of the time, UTC"),
        recipient=(_TEXT, "keyed pseudonym; null where none was logged"),
        answer=(_TEXT, "keyed hash of the answer's text"),
        by_document=(_TEXT, "names the scores of documents"),
        by_entity=(_TEXT, "names the scores of personal data"),
        n_tokens=(_COUNT, "tokens of the answer"),
        temperature=(_NATS, "at which it was scored"),
        decoding=(_TEXT, "how it was drawn, as it was logged; null where that is not known"),
        flags=(_TEXTS, "why no posterior is shown for sums that this answer is part of"),
    ),
    "looks": _schema(
        event=(_TEXT, "the answer"),
        document=(_TEXT, "id of a document that was retrieved for it"),
        content=(_TEXT, "keyed hash of its text"),
        present=(_FLAG, "whether the prompt had its text; otherwise it adds 0"),
    ),
    "scores": _schema(
        score=(_TEXT, "keyed hash of prompt, answer, model and settings"),
        unit=(_TEXT, "'document' or 'entity'"),
        target=(_TEXT, "content of the document, or keyed pseudonym of the value or person"),
        signed_nats=(
            _NATS,
            "log p(answer) − log p(answer without it); null where a search did not score it, NaN if undefined",
        ),
        size_nats=(_NATS, "the same over the tokens without signs"),
        noise_nats=(_NATS, "the noise floor"),
        placebo_nats=(_NATS, "what an irrelevant piece does, with its sign; null where none fitted"),
        placebo_size_nats=(_NATS, "the same over the tokens without signs"),
        screened_nats=(_NATS, "how a search ranked it, no measurement of it; null without a search"),
        n_mentions=(_COUNT, "places in the prompt that say it"),
    ),
    "measured": _schema(
        score=(_TEXT, "as in scores; here also where nothing of the unit was found"),
        unit=(_TEXT, "'document' or 'entity'"),
        n_tokens=(_COUNT, "tokens of the answer"),
        kept=(_FLAG, "whether the texts are kept"),
    ),
    "mentions": _schema(
        content=(_TEXT, "keyed hash of a document's text"),
        entity=(_TEXT, "keyed pseudonym of a value or person that it says"),
        kind=(_TEXT, "'person', 'phone', 'email', 'address', 'date', or a type of the user's"),
        n_mentions=(_COUNT, "places that say it"),
        words=(_TEXTS, "keyed hashes of the words of a person's name"),
        initials=(_TEXTS, "keyed hashes of their first letters"),
    ),
    "names": _schema(
        pseudonym=(_TEXT, "keyed pseudonym"),
        kind=(_TEXT, "'recipient' or 'subject'"),
        name=(_TEXT, "in clear; kept with --keep-texts alone"),
    ),
}
"""All tables; rows of `names` are there with --keep-texts alone."""

TEXTS: Final = "texts"
"""A further table, with --keep-texts alone: what heat maps are made of. No view of `ledger query` has it."""
COLUMNS: Final[Mapping[str, Sequence[str]]] = {
    **{table: (*schema.names, "checksum") for table, schema in TABLES.items()},
    TEXTS: ("score", "texts", "params", "measurements"),
}
"""Of each table in the file. A checksum tells whether a row is the one that was written."""
_KEYS: Final[Mapping[str, str]] = {
    "events": "event",
    "looks": "event, document, content",
    "scores": "score, target",
    "measured": "score",
    "mentions": "content, entity",
    "names": "pseudonym, kind, name",
    TEXTS: "score",
}
"""Columns that no two rows of a table share."""
_HOLDERS: Final[Mapping[str, tuple[str, str]]] = {
    "looks": ("events", "event"),
    "scores": ("measured", "score"),
    TEXTS: ("measured", "score"),
}
"""Tables whose rows are added with a row of another one, and never again: which table, and the column of both."""
INSERTED: Final = (*_HOLDERS, *(table for table in COLUMNS if table not in _HOLDERS))
"""All tables, those first that have rows only with new rows of others."""

Rows = Mapping[str, Sequence[JsonObject]]
"""Rows by table."""


def made_tables() -> Iterator[str]:
    """Statements that make the tables."""
    for table, columns in COLUMNS.items():
        # VACUUM keeps numbers of rows, and so their order, only where a column has them.
        yield f"CREATE TABLE {table} (number INTEGER PRIMARY KEY, {', '.join(columns)}, UNIQUE ({_KEYS[table]}))"


def insertion(table: str) -> str:
    """The statement that adds a row which is not there yet, with its columns as named parameters."""
    columns = COLUMNS[table]
    row = f"INSERT OR IGNORE INTO {table} ({', '.join(columns)}) SELECT {', '.join(f':{name}' for name in columns)}"
    if table not in _HOLDERS:
        return row
    holder, column = _HOLDERS[table]
    return f"{row} WHERE NOT EXISTS (SELECT 1 FROM {holder} WHERE {column} = :{column})"


def _texts(value: str) -> list[str]:
    texts = json.loads(value)
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError("it is no list of texts")
    return texts


_STORED: Final[Mapping[pa.DataType, tuple[tuple[type, ...], Callable[[Any], Any], Callable[[Any], Any]]]] = {
    _TEXT: ((str,), str, str),
    _COUNT: ((int,), int, int),
    _FLAG: ((int,), int, bool),
    # SQLite has no NaN.
    _NATS: ((float, str), lambda nats: "NaN" if math.isnan(nats) else float(nats), float),
    _TIME: ((str,), lambda time: time.astimezone(UTC).isoformat(), datetime.fromisoformat),
    _DAY: ((str,), date.isoformat, date.fromisoformat),
    _TEXTS: ((str,), json.dumps, _texts),
}
"""Of each type of column, the types of SQLite's values, and both ways between them."""


def to_stored(table: str, row: JsonObject) -> JsonObject:
    """A row of one of `TABLES` as SQLite holds it."""
    return {
        field.name: None if (value := row[field.name]) is None else _STORED[field.type][1](value)
        for field in TABLES[table]
    }


def from_stored(table: str, values: Sequence[Any]) -> JsonObject:
    """A row of one of `TABLES` from what SQLite holds, in the order of its columns.

    Raises:
        ValueError: it is no such row.
    """
    row: JsonObject = {}
    for field, value in zip(TABLES[table], values, strict=True):
        types, _, read = _STORED[field.type]
        if not isinstance(value, (*types, type(None))):
            raise ValueError(f"'{field.name}' of a row of {table} is of another kind")
        row[field.name] = None if value is None else read(value)
    return row
