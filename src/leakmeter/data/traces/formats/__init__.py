"""Formats of logs, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from leakmeter.data.traces.formats import langfuse, langsmith, mlflow, openai, openinference, otel, own, ragas
from leakmeter.data.traces.formats.base import LogRecord, TraceFormat

__all__ = ["FORMATS", "LogRecord", "TraceFormat", "found_in"]

_ALL = (own, otel, mlflow, langsmith, langfuse, openinference, ragas, openai)
FORMATS: Mapping[str, TraceFormat] = MappingProxyType(
    {format_.name: format_ for format_ in (*(module.FORMAT for module in _ALL), *ragas.RETRIEVED)}
)
"""By name; those that `--data` reads have the same names."""


def found_in(records: Iterable[LogRecord]) -> TraceFormat | None:
    """The format of the first record that is of any."""
    return next(
        (known_format for record in records for known_format in FORMATS.values() if known_format.fits(record)), None
    )
