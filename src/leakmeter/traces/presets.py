"""Formats of traces as presets of `data`: what measures cases reads the logs that the ledger reads.

A case is a call that answered; a call that is refused is a bad row, and calls that answered nobody are none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from leakmeter.core.case import Case
from leakmeter.data import formats as data_formats
from leakmeter.data.mapping import Fields
from leakmeter.data.rows import Row
from leakmeter.errors import DataError
from leakmeter.traces.case import as_case
from leakmeter.traces.formats import FORMATS
from leakmeter.traces.formats.base import Format
from leakmeter.traces.reader import TraceReader, unwrapped
from leakmeter.traces.refused import Refused

_Read = Callable[[Iterable[tuple[Row, Fields]]], Iterator[tuple[Row, Case | DataError]]]


def _read(name: str, rows: Iterable[tuple[Row, Fields]]) -> Iterator[tuple[Row, Case | DataError]]:
    reader = TraceReader((), format=name)
    for outcome in reader.answers_of(("", Row(0, "", row.where, fields)) for row, fields in rows):
        row = Row(0, "", outcome.where)
        yield (
            row,
            DataError(f"{outcome.where}: {outcome.reason.sentence}")
            if isinstance(outcome, Refused)
            else as_case(outcome, by_id=True),
        )


def _fits(format_: Format, fields: Fields) -> bool:
    return any(map(format_.fits, unwrapped(fields)))


def _preset(format_: Format) -> data_formats.Format:
    return data_formats.Format(
        format_.name,
        f"{format_.about}, as `leakmeter ledger` reads them",
        partial(_fits, format_),
        partial(_read, format_.name),
    )


PRESETS: Final[tuple[data_formats.Format, ...]] = tuple(
    _preset(format_) for name, format_ in FORMATS.items() if name not in data_formats.FORMATS
)
"""Formats that `data` does not have of its own, in the order in which they are tried."""
