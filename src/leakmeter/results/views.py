"""Views of what reports are made of, for `leakmeter runs query`: a row a case, a piece, or a quantity of a run.

Rows are made of the typed results of a run (`Result.from_run`), by the same code as its report: their numbers are the
report's own. Columns are the scalar fields of these records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import pyarrow as pa

from leakmeter.core import registry
from leakmeter.core.quantity import Quantity
from leakmeter.core.record import Record, docstrings, part_fields, scalar_fields
from leakmeter.errors import UnknownNameError
from leakmeter.results.run import Run

TYPES: Final = {
    "VARCHAR": pa.string(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
}
_STORED: Final = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "VARCHAR"}


@dataclass(frozen=True, slots=True)
class SqlColumn:
    name: str
    type: str
    """As DuckDB calls it."""
    about: str
    """What it holds, and in which unit."""


RUN: Final = SqlColumn("run", "VARCHAR", "id of the run, which is its directory's name")
_MEASURE: Final = SqlColumn("measure", "VARCHAR", "name of the measure")
_ITEM: Final = SqlColumn("item", "VARCHAR", "id of the case")
_NUMBER: Final = SqlColumn("number", "BIGINT", "place of the case in its run, from 0")
_PLACE: Final = SqlColumn("place", "BIGINT", "place in the case, from 0")
RESULTS: Final = "results"
PIECES: Final = "pieces"
DISCLOSURES: Final = "disclosures"
"""Also the field of a result that holds them."""
QUANTITIES: Final = "quantities"
_OF_PIECES: Final = (
    RUN,
    _MEASURE,
    _ITEM,
    _PLACE,
    SqlColumn("piece", "VARCHAR", "its name in the report: a piece of a context, an exemplar, a context, a value of Σ"),
    SqlColumn(
        "kind", "VARCHAR", "'unit', 'value' or 'document' of a context; else a field of the result, as 'exemplars'"
    ),
    SqlColumn("document", "VARCHAR", "document it lies in; null where it spans several, or there are none"),
    SqlColumn("text", "VARCHAR", "its text; null where it has none"),
    SqlColumn("n_tokens", "BIGINT", "number of its tokens"),
    SqlColumn(
        "rank", "BIGINT", "among pieces of its kind, from 1, most nats first; null where it goes by another number"
    ),
    SqlColumn("nats", "DOUBLE", "its main number in the report, nats: influence, loss, Rényi divergence, persuasion …"),
    SqlColumn("signed_nats", "DOUBLE", "the sum without absolute values: above 0 where it made the response likelier"),
    SqlColumn("alone_nats", "DOUBLE", "what it does when it is all the context, nats"),
    SqlColumn("posterior", "DOUBLE", "probability, from even odds, that it was there; null where there is none"),
    SqlColumn(
        "posterior_note",
        "VARCHAR",
        "why there is none: below the noise floor or the placebo's, or the answer was not drawn",
    ),
    SqlColumn("below_noise_floor", "BOOLEAN", "whether other ways to compute the same move the number as much"),
    SqlColumn("entity_type", "VARCHAR", "of personal data: 'phone', 'email', 'address' …"),
    SqlColumn("entity_value", "VARCHAR", "of personal data: its normal form"),
)
_OF_NUMBER: Final = ("rank", "signed_nats", "alone_nats", "posterior", "posterior_note", "below_noise_floor")
"""Of these what is of the main number, and of no other that a piece may have."""
_DOCUMENTS: Final = SqlColumn("documents", "VARCHAR", "names of the documents of all sources, as JSON, most nats first")
_OF_QUANTITIES: Final = (
    RUN,
    _MEASURE,
    SqlColumn(
        "quantity", "VARCHAR", "as `leakmeter gate` takes it: QUANTITY.AGGREGATE, or QUANTITY of the run as a whole"
    ),
    SqlColumn("unit", "VARCHAR", "of the next three columns"),
    SqlColumn("value", "DOUBLE", "the aggregate over the cases"),
    SqlColumn("low", "DOUBLE", "lower end of its 95 % interval over the cases; null where it has none"),
    SqlColumn("high", "DOUBLE", "upper end"),
    SqlColumn("n_cases", "BIGINT", "cases that have the quantity"),
    SqlColumn("about", "VARCHAR", "what the quantity means"),
)


def may_name_a_view(sql: str) -> bool:
    """Whether a query may name one of `views`, which take a moment to make."""
    query = sql.lower()
    begin = (RESULTS, PIECES, DISCLOSURES, QUANTITIES, *(_view_name(measure, "") for measure in registry.instruments()))
    return any(name in query for name in begin)


def views() -> dict[str, tuple[SqlColumn, ...]]:
    """Every view's columns, in order; those of a measure's own results come last."""
    columns = {RESULTS: (RUN, _MEASURE, _NUMBER, *_quantity_columns()), PIECES: _OF_PIECES, QUANTITIES: _OF_QUANTITIES}
    for measure in registry.instruments():
        kind = registry.instrument(measure).result
        if issubclass(kind, Record):
            columns[_view_name(measure, RESULTS)] = (RUN, _NUMBER, *_columns(kind))
            for field, part in part_fields(kind).items():
                if field == DISCLOSURES:
                    columns[DISCLOSURES] = (RUN, _MEASURE, _ITEM, _PLACE, *_columns(part), _DOCUMENTS)  # type: ignore[arg-type]
                columns[_view_name(measure, field)] = (RUN, _ITEM, _PLACE, *_columns(part))  # type: ignore[arg-type]  # a class is hashable, whatever its instances are
    return columns


def filled(runs: Sequence[Run], columns: Mapping[str, Sequence[SqlColumn]]) -> tuple[dict[str, pa.Table], list[str]]:
    """Views by name with their rows, and why runs were left out; `columns` are columns of views, by the view's name."""
    rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in columns}
    problems: list[str] = []
    for run in runs:
        try:
            kind = run.kind
        except UnknownNameError as error:
            problems.append(f"run '{run.path}': {error}")
            continue
        for number, result in enumerate(run):
            for name, row in _rows(columns, run, kind, number, result):
                rows[name].append(row)
        if QUANTITIES in rows:
            rows[QUANTITIES] += _quantities(run)
    return {name: table_of(columns[name], view_rows) for name, view_rows in rows.items()}, problems


def parts_of(result: Any, field: str) -> Sequence[Any]:
    """The records in a field of a result, as `part_fields` names it; none where the record around them is missing."""
    value: Any = result
    for name in field.split("."):
        value = () if value is None else getattr(value, name)
    return tuple(value)


def _view_name(measure: str, field: str) -> str:
    return re.sub(r"[^a-z0-9]", "_", f"{measure}_{field}".lower())


@cache
def _columns(kind: Any) -> tuple[SqlColumn, ...]:
    descriptions = docstrings(kind)
    return tuple(
        SqlColumn(name, _STORED[scalar], descriptions.get(name, "")) for name, scalar in scalar_fields(kind).items()
    )


def _quantity_columns() -> list[SqlColumn]:
    columns = {"id": SqlColumn("id", "VARCHAR", "id of the case")}
    for measure in registry.instruments():
        for quantity in registry.instrument(measure).result.quantities:
            if isinstance(quantity, Quantity):
                name = quantity.name.replace(".", "_")
                columns.setdefault(name, SqlColumn(name, "DOUBLE", f"{quantity.unit}: {quantity.about}"))
    return list(columns.values())


def _rows(
    columns: Mapping[str, Sequence[SqlColumn]], run: Run, kind: Any, number: int, result: Any
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    id_, measure = run.path.resolve().name, run.measure
    if RESULTS in columns:
        values = {
            quantity.name.replace(".", "_"): quantity.compute(result)
            for quantity in kind.quantities
            if isinstance(quantity, Quantity)
            and not (quantity.lower_bound is not None and quantity.lower_bound.holds(result))
        }
        of_case = {"run": id_, "measure": measure, "number": number, "id": result.id, **values}
        yield RESULTS, tuple(of_case.get(column.name) for column in columns[RESULTS])
    if PIECES in columns:
        for row in _pieces(id_, measure, kind, result):
            yield PIECES, row
    if DISCLOSURES in columns:
        names = [column.name for column in columns[DISCLOSURES][4:]]
        # A redaction's are before and after, and not in this view.
        disclosed = getattr(result, "disclosed", None)
        for place, part in enumerate(disclosed if isinstance(disclosed, Sequence) else ()):
            yield DISCLOSURES, (id_, measure, result.id, place, *(getattr(part, name) for name in names))
    own = _view_name(measure, RESULTS)
    if own in columns:
        yield own, (id_, number, *(getattr(result, column.name) for column in columns[own][2:]))
    for field in part_fields(kind) if issubclass(kind, Record) else ():
        name = _view_name(measure, field)
        if name in columns:
            for place, part in enumerate(parts_of(result, field)):
                yield name, (id_, result.id, place, *(getattr(part, column.name) for column in columns[name][3:]))


def _pieces(run: str, measure: str, kind: Any, result: Any) -> Iterator[tuple[Any, ...]]:
    pieces_at = kind.pieces_at
    if pieces_at is None:
        return
    for place, part in enumerate(getattr(result, pieces_at.field)):
        row = {
            **{
                column.name: getattr(
                    part, pieces_at.prefix + column.name if column.name in _OF_NUMBER else column.name, None
                )
                for column in _OF_PIECES
            },
            "run": run,
            "measure": measure,
            "item": result.id,
            "place": place,
            "piece": getattr(part, pieces_at.name),
            "kind": getattr(part, "kind", pieces_at.field),
            "nats": getattr(part, pieces_at.nats),
        }
        yield tuple(row[column.name] for column in _OF_PIECES)


def _quantities(run: Run) -> Iterator[tuple[Any, ...]]:
    for name, (quantity, number) in run.summed_up().items():
        if number.is_lower_bound:
            continue
        low, high = number.interval or (None, None)
        of_run = (run.path.resolve().name, run.measure, name, number.unit, number.value, low, high)
        yield *of_run, number.n, quantity.about


def table_of(columns: Sequence[SqlColumn], rows: Sequence[Sequence[Any]]) -> pa.Table:
    across = list(zip(*rows, strict=True)) or [()] * len(columns)

    def fitting(value: Any, column: SqlColumn) -> Any:
        # Where a column holds texts, a measure of another package may keep something else under the name.
        return value if column.type != "VARCHAR" or isinstance(value, str | None) else to_text(value)

    arrays = [
        pa.array([fitting(value, column) for value in values], type=TYPES[column.type])
        for column, values in zip(columns, across, strict=True)
    ]
    return pa.Table.from_arrays(arrays, names=[column.name for column in columns])


def to_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
