"""Formats of logs, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from leakmeter.data import formats as data_formats
from leakmeter.data.traces.formats import langfuse, langsmith, mlflow, openai, openinference, otel, own, ragas
from leakmeter.data.traces.formats.base import CaseFormat, LogRecord, TraceFormat

__all__ = ["FORMATS", "CaseFormat", "LogFormat", "LogRecord", "TraceFormat", "found_in"]

LogFormat = TraceFormat | CaseFormat
_TRACES = (own, otel, mlflow, langsmith, langfuse, openinference)
_OF_CASES = ("agentleak", "inspect", "promptfoo", "deepeval", "claude-code", "transcript")
_ALL: Final[tuple[LogFormat, ...]] = (
    *(module.FORMAT for module in _TRACES),
    *(CaseFormat(data_formats.FORMATS[name]) for name in _OF_CASES),
    ragas.FORMAT,
    openai.FORMAT,
    *ragas.RETRIEVED,
)
_OTHER_REQUESTS: Final = CaseFormat(data_formats.FORMATS["openai"])
"""Requests that are no chat completions, such as those of Responses and Converse, under the same name."""
FORMATS: Mapping[str, LogFormat] = MappingProxyType({format_.name: format_ for format_ in _ALL})
"""By name; those that `--data` reads have the same names."""


def found_in(records: Iterable[LogRecord], name: str | None = None) -> LogFormat | None:
    """The format of the first record that is of any, or of any of this name."""
    wanted = [known_format for known_format in (*_ALL, _OTHER_REQUESTS) if name in (None, known_format.name)]
    return next((known_format for record in records for known_format in wanted if known_format.fits(record)), None)
