"""The columns of readings in Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from leakmeter.types.reading import Reading

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


def to_table(readings: Sequence[Reading]) -> pa.Table:
    """Readings to rows, one a response token."""
    lengths = [len(reading.values) for reading in readings]

    def names(of: Sequence[str]) -> Any:
        known = {name: i for i, name in enumerate(dict.fromkeys(of))}
        codes = np.repeat(np.asarray([known[name] for name in of], dtype=np.int32), lengths)
        return pa.DictionaryArray.from_arrays(codes, pa.array(list(known), type=pa.string()))

    columns = [
        names([r.item for r in readings]),
        pa.array(np.repeat(np.asarray([r.sample for r in readings], dtype=np.int32), lengths)),
        names([r.piece for r in readings]),
        names([r.statistic for r in readings]),
        pa.array(np.concatenate([np.arange(n, dtype=np.int32) for n in lengths])),
        pa.array(np.concatenate([r.values for r in readings])),
        names([r.unit for r in readings]),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def from_table(table: pa.Table) -> list[Reading]:
    """Rows to readings, in the order they were written."""
    # A series begins where the position goes back to 0.
    starts = np.flatnonzero(table["position"].to_numpy() == 0).tolist()
    values = table["value"].to_numpy()
    heads = table.take(pa.array(starts, type=pa.int64())).to_pylist()
    return [
        Reading(h["item"], h["sample"], h["piece"], h["statistic"], h["unit"], np.array(values[a:b], dtype=np.float64))
        for h, a, b in zip(heads, starts, [*starts[1:], len(values)], strict=True)
    ]
