"""Logged traffic: traces of models' answers, read from the formats in which people have them."""

from leakmeter.traces.answer import (
    AbsentDocument,
    DocumentPlace,
    LoggedAnswer,
    LoggedDocument,
    LoggedMessage,
    Reason,
    Refused,
    Sampling,
)
from leakmeter.traces.formats import FORMATS
from leakmeter.traces.reader import TraceReader, as_case

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
