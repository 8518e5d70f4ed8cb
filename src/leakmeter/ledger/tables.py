"""The tables of a ledger: their columns, what each means, and rows to Parquet and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from leakmeter.core.json_object import JsonObject

_TEXT, _NATS, _COUNT = pa.string(), pa.float64(), pa.int32()


def _schema(**columns: tuple[pa.DataType, str]) -> pa.Schema:
    return pa.schema([pa.field(name, kind, metadata={"about": about}) for name, (kind, about) in columns.items()])


TABLES: Final[Mapping[str, pa.Schema]] = {
    "events": _schema(
        event=(_TEXT, "keyed hash of trace and span"),
        trace=(_TEXT, "id of the trace, as it was logged"),
        span=(_TEXT, "id of the span, as it was logged"),
        draw=(_TEXT, "keyed hash of the draw: equal where one draw was shown more than once"),
        time=(pa.timestamp("us", tz="UTC"), "when the answer was finished; null where that was not logged"),
        day=(pa.date32(), "of the time, UTC"),
        recipient=(_TEXT, "keyed pseudonym; null where none was logged"),
        answer=(_TEXT, "keyed hash of the answer's text"),
        by_document=(_TEXT, "names the scores of documents"),
        by_entity=(_TEXT, "names the scores of personal data"),
        n_tokens=(_COUNT, "tokens of the answer"),
        temperature=(_NATS, "at which it was scored"),
        decoding=(_TEXT, "how it was drawn, as it was logged; null where that is not known"),
        flags=(pa.list_(_TEXT), "why no posterior is shown for sums that this answer is part of"),
    ),
    "looks": _schema(
        event=(_TEXT, "the answer"),
        document=(_TEXT, "id of a document that was retrieved for it"),
        content=(_TEXT, "keyed hash of its text"),
        present=(pa.bool_(), "whether the prompt had its text; otherwise it adds 0"),
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
        kept=(pa.bool_(), "whether the texts are kept"),
    ),
    "mentions": _schema(
        content=(_TEXT, "keyed hash of a document's text"),
        entity=(_TEXT, "keyed pseudonym of a value or person that it says"),
        kind=(_TEXT, "'person', 'phone', 'email', 'address', 'date', or a type of the user's"),
        n_mentions=(_COUNT, "places that say it"),
        words=(pa.list_(_TEXT), "keyed hashes of the words of a person's name"),
        initials=(pa.list_(_TEXT), "keyed hashes of their first letters"),
    ),
    "names": _schema(
        pseudonym=(_TEXT, "keyed pseudonym"),
        kind=(_TEXT, "'recipient' or 'subject'"),
        name=(_TEXT, "in clear; kept with --keep-texts alone"),
    ),
}
"""All tables; rows of `names` are there with --keep-texts alone."""

KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "events": ("event",),
    "looks": ("event", "document", "content"),
    "scores": ("score", "target"),
    "measured": ("score",),
    "mentions": ("content", "entity"),
    "names": ("pseudonym", "kind", "name"),
}
"""Columns that no two rows of a table share."""
HOLDERS: Final[Mapping[str, tuple[str, str]]] = {"looks": ("events", "event"), "scores": ("measured", "score")}
"""Tables whose rows are added with a row of another one, and never again: which table, and the column of both."""

Rows = Mapping[str, Sequence[JsonObject]]
"""Rows by table."""


def unknown(rows: Rows, table: str, there: Callable[[str], Iterable[JsonObject]], *, is_cut: bool) -> list[JsonObject]:
    """Rows of a table that are not there yet, each once.

    Args:
        rows: by table.
        table: its name.
        there: names of tables to the rows that they have.
        is_cut: whether something was forgotten: then scores may be there whose measurement is not.
    """
    holder, column = HOLDERS.get(table, (table, ""))
    fresh = {_key(row, KEYS[table]): row for row in rows.get(table, ())}
    if column:
        held = {row[column] for row in there(holder)}
        fresh = {key: row for key, row in fresh.items() if row[column] not in held}
    if fresh and (not column or (is_cut and table == "scores")):
        for row in there(table):
            fresh.pop(_key(row, KEYS[table]), None)
    return list(fresh.values())


def _key(row: JsonObject, columns: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in columns)


def to_parquet(name: str, rows: Sequence[JsonObject]) -> bytes:
    """Rows of a table as the content of a Parquet file; the same rows give the same bytes."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(list(rows), schema=TABLES[name]), sink, compression="zstd")
    content: bytes = sink.getvalue().to_pybytes()
    return content


def from_parquet(name: str, content: bytes) -> list[dict[str, Any]]:
    """Rows of a table.

    Raises:
        ValueError: the file holds another table.
    """
    table = pq.read_table(pa.BufferReader(content))
    if not table.schema.equals(TABLES[name]):
        raise ValueError(f"it holds no table of {name}")
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows
