"""Logged traffic: traces of models' answers, read from the formats in which people have them. The code is in
`data/traces`."""

from leakmeter.data.traces import (
    FORMATS,
    AbsentDocument,
    DocumentPlace,
    LoggedAnswer,
    LoggedDocument,
    LoggedMessage,
    Reason,
    Refused,
    Sampling,
    TraceReader,
    as_case,
)

__all__ = [
    "FORMATS",
    "AbsentDocument",
    "DocumentPlace",
    "LoggedAnswer",
    "LoggedDocument",
    "LoggedMessage",
    "Reason",
    "Refused",
    "Sampling",
    "TraceReader",
    "as_case",
]
