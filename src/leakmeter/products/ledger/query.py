"""SQL over a ledger: its tables as they lie on the disk, and totals as they are shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa

from leakmeter.core.record import JsonObject
from leakmeter.products.ledger.keys import channel_of
from leakmeter.products.ledger.report import record
from leakmeter.products.ledger.store import Ledger
from leakmeter.products.ledger.tables import TABLES
from leakmeter.products.ledger.totals import DOCUMENT, SUBJECT, Book
from leakmeter.results.limits import DEFAULT_LIMITS, QueryLimits
from leakmeter.results.query import SqlAnswer, ask_tables

_NATS: Final = pa.float64()
TOTALS: Final[Mapping[str, tuple[pa.DataType, str]]] = {
    "kind": (pa.string(), "'document' or 'subject'"),
    "id": (pa.string(), "the document's id, or the subject's keyed pseudonym"),
    "type": (pa.string(), "of a subject: 'person', 'phone' …"),
    "recipient": (pa.string(), "as in events"),
    "signed_nats": (_NATS, "sum over answers, with signs; null where it is not defined"),
    "largest_running_nats": (_NATS, "largest size of that sum so far: what budgets are held against"),
    "low": (_NATS, "lower end of its interval by the noise floor"),
    "high": (_NATS, "upper end"),
    "largest_answer_nats": (_NATS, "largest size of one answer's"),
    "n_answers": (pa.int64(), "draws whose prompt had it"),
    "n_repeats": (pa.int64(), "answers that showed a draw again, and count no more"),
    "placebo_running_nats": (_NATS, "the same of an irrelevant piece in those prompts"),
    "posterior": (_NATS, "of an observer from even odds; null where a condition is not met"),
    "posterior_note": (pa.string(), "why there is none"),
    "first_day": (pa.string(), "of the answers"),
    "last_day": (pa.string(), "of the answers"),
}
DISCLOSURES: Final = "disclosures"
_OF_EVENTS: Final = TABLES["events"].append(
    pa.field(
        "channel",
        pa.string(),
        metadata={"about": "where the answer went: 'answer' to a person, or 'tool', 'agent' or 'memory' as arguments"},
    )
)
_OF_DISCLOSURES: Final = pa.schema(
    [
        *(TABLES["events"].field(name) for name in ("event", "recipient", "day")),
        pa.field("document", pa.string(), metadata={"about": "id of the document that it came from"}),
        *TABLES[DISCLOSURES],
        pa.field(
            "allowed",
            pa.string(),
            metadata={"about": "whether the recipient may know it: 'yes', 'no', 'unknown'; null without a policy"},
        ),
    ]
)


def ask(sql: str, ledger: Ledger, limits: QueryLimits = DEFAULT_LIMITS) -> SqlAnswer:
    """What a query, one SELECT over `totals` and the tables of the ledger, says of it."""
    _, rows = ledger.read()
    schemas, lowered = dict(TABLES) | {"events": _OF_EVENTS, DISCLOSURES: _OF_DISCLOSURES}, sql.lower()
    rows["events"] = [{**row, "channel": channel_of(row["recipient"])} for row in rows["events"]]
    rows[DISCLOSURES] = list(_disclosures(Book(ledger))) if DISCLOSURES in lowered else []
    tables = {
        name: _in_utc(pa.Table.from_pylist(table_rows, schema=schemas[name])) for name, table_rows in rows.items()
    }
    types = pa.schema([(name, kind) for name, (kind, _) in TOTALS.items()])
    totals = pa.Table.from_pylist(list(_totals(Book(ledger))) if "totals" in lowered else [], schema=types)
    return ask_tables(sql, {"totals": totals, **tables}, limits)


def columns() -> list[tuple[str, str, str, str]]:
    """View, column, type and meaning, of all views."""
    rows = [("totals", name, str(kind), about) for name, (kind, about) in TOTALS.items()]
    for table, schema in {**TABLES, "events": _OF_EVENTS, DISCLOSURES: _OF_DISCLOSURES}.items():
        rows += [(table, field.name, str(field.type), (field.metadata or {})[b"about"].decode()) for field in schema]
    return rows


def _in_utc(table: pa.Table) -> pa.Table:
    """Times without their zone, which is UTC: DuckDB needs a further package for times with one."""
    plain = [
        field.with_type(pa.timestamp("us")) if pa.types.is_timestamp(field.type) else field for field in table.schema
    ]
    return table.cast(pa.schema(plain))


def _disclosures(book: Book) -> Iterator[JsonObject]:
    for disclosed in book.disclosed(book.events):
        of_event = {name: disclosed.event[name] for name in ("event", "recipient", "day")}
        yield {**disclosed.row, **of_event, "document": disclosed.document, "allowed": disclosed.allowed}


def _totals(book: Book) -> Iterator[JsonObject]:
    for kind in (DOCUMENT, SUBJECT):
        for pair in book.pairs(kind, by_recipient=True):
            low, high = pair.total.interval_nats
            row = {**record(pair, book), "kind": kind, "id": pair.item.id, "low": low, "high": high}
            yield {name: row.get(name) for name in TOTALS}
