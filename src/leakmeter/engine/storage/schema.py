"""A run's files: their names, and the columns of measurements in Parquet.

Parts lie in files of their own, or in groups: parts that follow each other in one file of
texts and one of numbers.

    cases-00007.json            measurements-00007.parquet            part 7
    cases-00000-00511.json      measurements-00000-00511.parquet      parts 0 to 511
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from leakmeter.core.measure import Measurement
from leakmeter.engine.storage.kept import FieldError

TEXTS: Final = "cases-"
NUMBERS: Final = "measurements-"
GROUP_BYTES: Final = 8 * 2**20
"""Numbers, in bytes of the files of single parts, from which on a group is full."""
GROUP_PARTS: Final = 2_048
"""Parts with which a group is full, however small they are."""
_FILE: Final = re.compile(rf"(?:{TEXTS}|{NUMBERS})(\d{{5,18}})(?:-(\d{{5,18}}))?\.(json|parquet)")


def texts_name(parts: range) -> str:
    return f"{TEXTS}{_numbered(parts)}.json"


def numbers_name(parts: range) -> str:
    return f"{NUMBERS}{_numbered(parts)}.parquet"


def names_of(parts: range) -> tuple[str, str]:
    """Names of the file of texts and of the file of numbers, in the order in which they are written."""
    return texts_name(parts), numbers_name(parts)


def parts_in(name: str) -> range | None:
    """The parts in a file of this name; None for other files."""
    match = _FILE.fullmatch(name)
    if match is None:
        return None
    parts = range(int(match[1]), int(match[2] or match[1]) + 1)
    return parts if name in names_of(parts) and len(parts) <= GROUP_PARTS else None


def groups_in(names: Iterable[str]) -> list[range]:
    """Groups whose numbers are among files, in order."""
    held = (parts_in(name) for name in names if name.startswith(NUMBERS))
    return sorted((parts for parts in held if parts is not None and len(parts) > 1), key=lambda parts: parts.start)


def held_with(number: int, groups: Sequence[range]) -> range:
    """The parts in the file of a part: its group, or the part alone."""
    place = bisect_right(groups, number, key=lambda parts: parts.start) - 1
    return groups[place] if place >= 0 and number in groups[place] else range(number, number + 1)


def _numbered(parts: range) -> str:
    return f"{parts.start:05}" + (f"-{parts.stop - 1:05}" if len(parts) > 1 else "")


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

_PART_ROWS: Final = b"part_rows"


def to_table(measurements: Sequence[Measurement]) -> pa.Table:
    """Measurements to rows, one a response token."""
    lengths = np.fromiter(
        (len(measurement.values) for measurement in measurements), dtype=np.int64, count=len(measurements)
    )
    starts = np.cumsum(lengths) - lengths

    def names(labels: Iterable[str]) -> Any:
        code_of: dict[str, int] = {}
        codes = np.fromiter(
            (code_of.setdefault(name, len(code_of)) for name in labels), dtype=np.int32, count=len(measurements)
        )
        return pa.DictionaryArray.from_arrays(_numbers(np.repeat(codes, lengths)), _texts(code_of))

    samples = np.fromiter((r.sample for r in measurements), dtype=np.int32, count=len(measurements))
    columns = [
        names(r.item for r in measurements),
        _numbers(np.repeat(samples, lengths)),
        names(r.piece for r in measurements),
        names(r.statistic for r in measurements),
        _numbers(_counted(starts, lengths).astype(np.int32)),
        _numbers(np.concatenate([r.values for r in measurements])),
        names(r.unit for r in measurements),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


# `pyarrow.array` and `to_numpy` import pandas, which takes as long as all else that a small run imports.
def _numbers(values: Any) -> Any:
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def _texts(texts: Iterable[str]) -> Any:
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def from_table(table: pa.Table) -> list[Measurement]:
    """Rows to measurements, in the order they were written. `FieldError` of rows that `to_table` does not make,
    `ArrowInvalid` of a damaged file."""
    check_columns(table.schema)
    # Codes of names may be beyond those that there are.
    table.validate(full=True)
    table = table.select(SCHEMA.names).cast(SCHEMA).unify_dictionaries()
    for name in SCHEMA.names:
        if table[name].null_count:
            raise FieldError(name, "is missing in a row")
    if not table.num_rows:
        return []
    positions = np.from_dlpack(table["position"].combine_chunks())
    # A series begins where the position goes back to 0.
    starts = np.flatnonzero(positions == 0)
    lengths = np.diff([*starts, table.num_rows])
    if not (len(starts) and starts[0] == 0 and (positions == _counted(starts, lengths)).all()):
        raise FieldError("position", "has to count up from 0 in each series")
    values = np.from_dlpack(table["value"].combine_chunks())
    heads: dict[str, list[Any]] = {}
    for name in (name for name in SCHEMA.names if name not in ("position", "value")):
        column: Any = table[name].combine_chunks()  # with one dictionary
        is_text = pa.types.is_dictionary(column.type)
        codes = np.from_dlpack(column.indices if is_text else column)
        if not (codes == np.repeat(codes[starts], lengths)).all():
            raise FieldError(name, "has to be one in each series")
        dictionary = column.dictionary.to_pylist() if is_text else None
        heads[name] = (
            [dictionary[code] for code in codes[starts].tolist()] if dictionary is not None else codes[starts].tolist()
        )
        if None in heads[name] or (name == "sample" and min(heads[name]) < 0):
            raise FieldError(name, "is missing in a row")
    ends = [*starts[1:].tolist(), len(values)]
    columns = (heads[name] for name in ("item", "sample", "piece", "statistic", "unit"))
    return [
        Measurement(item, sample, piece, statistic, unit, np.array(values[a:b], dtype=np.float64))
        for item, sample, piece, statistic, unit, a, b in zip(*columns, starts.tolist(), ends, strict=True)
    ]


def group_table(parts: Sequence[Sequence[Measurement]]) -> pa.Table:
    """Measurements of several parts in one table, which says how many rows each part has."""
    table = to_table([measurement for measurements in parts for measurement in measurements])
    n_rows = [sum(len(measurement.values) for measurement in measurements) for measurements in parts]
    return table.replace_schema_metadata({**(SCHEMA.metadata or {}), _PART_ROWS: json.dumps(n_rows).encode()})


def from_group_table(table: pa.Table, n_parts: int) -> list[list[Measurement]]:
    """Measurements of each part in `group_table`, with the errors of `from_table`."""
    try:
        n_rows = json.loads((table.schema.metadata or {})[_PART_ROWS])
    except (KeyError, ValueError, RecursionError):
        raise FieldError("part_rows", "is missing") from None
    if not (isinstance(n_rows, list) and len(n_rows) == n_parts and all(type(n) is int and n >= 0 for n in n_rows)):
        raise FieldError("part_rows", "has to be a number of rows for each part")
    measurements = from_table(table)
    ends = np.cumsum([0, *(len(measurement.values) for measurement in measurements)])
    bounds = np.cumsum([0, *n_rows])
    if bounds[-1] != ends[-1] or not np.isin(bounds, ends).all():
        raise FieldError("part_rows", "has to cut the rows between two series")
    places = np.searchsorted(ends, bounds).tolist()
    return [measurements[first:last] for first, last in pairwise(places)]


def check_columns(schema: pa.Schema) -> None:
    for field in SCHEMA:
        if schema.names.count(field.name) != 1:
            raise FieldError(field.name, "is missing")
        if stored_type(schema.field(field.name).type) != stored_type(field.type):
            raise FieldError(field.name, f"has to be {stored_type(field.type)}")


def stored_type(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def _counted(starts: Any, lengths: Any) -> Any:
    """0, 1, 2 … of each series."""
    return np.arange(lengths.sum()) - np.repeat(starts, lengths)
