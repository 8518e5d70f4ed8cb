"""The tables that `leakmeter query` asks: their columns, types and units, and what fills those that are not Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from leakmeter.runs.catalogue import Taken, spec_of
from leakmeter.runs.rundir import RunDirectory
from leakmeter.runs.schema import SCHEMA


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a view."""

    name: str
    type: str
    """As DuckDB calls it."""
    about: str
    """What it holds, and in which unit."""


_TYPES: Final = {
    "VARCHAR": pa.string(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
}
_RUN: Final = Column("run", "VARCHAR", "id of the run, which is its directory's name")


def _column(field: Any) -> Column:
    stored = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    name = next(name for name, type_ in _TYPES.items() if type_ == stored)
    return Column(field.name, name, field.metadata[b"about"].decode())


VIEWS: Final[Mapping[str, tuple[Column, ...]]] = {
    "measurements": (_RUN, *(_column(field) for field in SCHEMA)),
    "cases": (
        _RUN,
        Column("number", "INTEGER", "place of the case in its run, from 0"),
        Column("id", "VARCHAR", "what the case is called, as in measurements.item"),
        Column("query", "VARCHAR", "what was asked; null where there is no query"),
        Column("context", "VARCHAR", "the context as it was measured; null where there is none"),
        Column("response", "VARCHAR", "text of the first response; null where there is none"),
        Column("n_responses", "INTEGER", "number of responses"),
        Column("tree_tokens", "BIGINT", "tokens that were run for the case"),
        Column("naive_tokens", "BIGINT", "tokens that full passes would have run"),
        Column("seconds", "DOUBLE", "time the case took, seconds"),
        Column("halvings", "INTEGER", "how often memory ran out and the work was cut in halves"),
        Column("texts", "VARCHAR", "all that is kept of the case beside its measurements, as JSON"),
    ),
    "runs": (
        Column("id", "VARCHAR", "the hash of all that determines the numbers, behind the measure's name"),
        Column("measure", "VARCHAR", "name of the measure"),
        Column("model", "VARCHAR", "name or path of the model"),
        Column("weights_sha256", "VARCHAR", "hash of its weights; null of a model without files"),
        Column("dtype", "VARCHAR", "precision"),
        Column("device", "VARCHAR", "kind of device"),
        Column("version", "VARCHAR", "of leakmeter"),
        Column("parameters", "VARCHAR", "the measure's, as JSON"),
        Column("prompts", "VARCHAR", "how prompts were made, as JSON"),
        Column("environment", "VARCHAR", "versions of what computes, as JSON"),
        Column("command", "VARCHAR", "the command line; null of a run made in Python"),
        Column("n_cases", "BIGINT", "number of cases"),
        Column("n_left_out", "BIGINT", "lines of the data that could not be used"),
        Column("seconds", "DOUBLE", "sum over the cases, seconds"),
    ),
}
"""Every view's columns, in order."""


def filled(paths: Iterable[Path]) -> dict[str, pa.Table]:
    """The views `cases` and `runs` of complete runs.

    Raises:
        StoreError: a run is damaged.
    """
    cases: list[dict[str, Any]] = []
    runs: list[dict[str, Any]] = []
    for path in paths:
        from_run = list(_cases(RunDirectory(path)))
        cases += from_run
        runs.append(_run(RunDirectory(path), sum(row["seconds"] for row in from_run)))
    return {name: _table(name, rows) for name, rows in (("cases", cases), ("runs", runs))}


def _cases(run: RunDirectory) -> Iterator[dict[str, Any]]:
    number = 0
    for part in run.parts:
        for case in run.read_texts(part):
            responses = case.get("responses")
            texts = responses if isinstance(responses, list) else []
            first = texts[0].get("text") if texts and isinstance(texts[0], dict) else None
            yield {
                "run": run.path.resolve().name,
                "number": number,
                "id": case.get("id"),
                "query": case.get("query"),
                "context": case.get("context"),
                "response": first,
                "n_responses": len(texts),
                **asdict(Taken.of([case])),
                "texts": _json(case),
            }
            number += 1


def _run(run: RunDirectory, seconds: float) -> dict[str, Any]:
    spec = spec_of(run)
    return {
        "id": run.path.resolve().name,
        "measure": spec.measure,
        "model": spec.model.get("name"),
        **{name: spec.model.get(name) for name in ("weights_sha256", "dtype", "device")},
        "version": spec.version,
        "parameters": _json(spec.params),
        "prompts": _json(spec.prompts),
        "environment": _json(spec.environment),
        "command": spec.command,
        "n_cases": len(spec.cases),
        "n_left_out": len(spec.problems),
        "seconds": seconds,
    }


def _table(view: str, rows: list[dict[str, Any]]) -> pa.Table:
    columns = VIEWS[view]
    arrays = [pa.array([_fitting(row[c.name], c) for row in rows], type=_TYPES[c.type]) for c in columns]
    return pa.Table.from_arrays(arrays, names=[c.name for c in columns])


def _fitting(value: Any, column: Column) -> Any:
    """Text where a column holds texts: a measure of another package may keep something else under the name."""
    return value if column.type != "VARCHAR" or isinstance(value, str | None) else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
