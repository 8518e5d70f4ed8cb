"""The columns of measurements in Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from leakmeter.core.measurement import Measurement

_NAME = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        pa.field("item", _NAME, metadata={"about": "id of the case"}),
        pa.field("sample", pa.int32(), metadata={"about": "number of the response, from 0"}),
        pa.field("piece", _NAME, metadata={"about": "name of the span; empty where the whole response is meant"}),
        pa.field("statistic", _NAME, metadata={"about": "what was measured; see the measure's documentation"}),
        pa.field("position", pa.int32(), metadata={"about": "response token, from 0"}),
        pa.field("value", pa.float64(), metadata={"about": "in the unit beside it"}),
        pa.field("unit", _NAME, metadata={"about": "'nats' unless said otherwise"}),
    ],
    metadata={"leakmeter_schema": "1"},
)
REPEATED: Final[Any] = [name for name in SCHEMA.names if name != "value"]
"""Columns to write as codes; numbers hardly ever repeat, and looking whether they do takes longer than writing them."""


def to_table(measurements: Sequence[Measurement]) -> pa.Table:
    """Measurements to rows, one a response token."""
    lengths = np.fromiter(
        (len(measurement.values) for measurement in measurements), dtype=np.int64, count=len(measurements)
    )
    starts = np.cumsum(lengths) - lengths

    def names(of: Iterable[str]) -> Any:
        known: dict[str, int] = {}
        codes = np.fromiter(
            (known.setdefault(name, len(known)) for name in of), dtype=np.int32, count=len(measurements)
        )
        return pa.DictionaryArray.from_arrays(np.repeat(codes, lengths), pa.array(list(known), type=pa.string()))

    samples = np.fromiter((r.sample for r in measurements), dtype=np.int32, count=len(measurements))
    columns = [
        names(r.item for r in measurements),
        pa.array(np.repeat(samples, lengths)),
        names(r.piece for r in measurements),
        names(r.statistic for r in measurements),
        pa.array((np.arange(lengths.sum()) - np.repeat(starts, lengths)).astype(np.int32)),
        pa.array(np.concatenate([r.values for r in measurements])),
        names(r.unit for r in measurements),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def from_table(table: pa.Table) -> list[Measurement]:
    """Rows to measurements, in the order they were written."""
    table = table.select(SCHEMA.names).cast(SCHEMA)
    # A series begins where the position goes back to 0.
    starts = np.flatnonzero(table["position"].to_numpy() == 0)
    values = table["value"].to_numpy()
    heads = table.take(starts).unify_dictionaries().combine_chunks()

    def names(column: str) -> list[str]:
        coded: Any = heads[column].chunk(0)
        known = coded.dictionary.to_pylist()
        return [known[code] for code in coded.indices.to_pylist()]

    ends = [*starts[1:].tolist(), len(values)]
    columns = (names("item"), heads["sample"].to_pylist(), names("piece"), names("statistic"), names("unit"))
    return [
        Measurement(item, sample, piece, statistic, unit, np.array(values[a:b], dtype=np.float64))
        for item, sample, piece, statistic, unit, a, b in zip(*columns, starts.tolist(), ends, strict=True)
    ]
