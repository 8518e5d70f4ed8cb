"""Logged traffic: traces of models' answers, read from the formats in which people have them."""

from leakmeter.data.traces.answer import (
    AbsentDocument,
    DocumentPlace,
    LoggedAnswer,
    LoggedDocument,
    LoggedMessage,
    ReadText,
    Reason,
    Refused,
    Sampling,
)
from leakmeter.data.traces.formats import FORMATS
from leakmeter.data.traces.reader import TraceReader, as_case

__all__ = [
    "FORMATS",
    "AbsentDocument",
    "DocumentPlace",
    "LoggedAnswer",
    "LoggedDocument",
    "LoggedMessage",
    "ReadText",
    "Reason",
    "Refused",
    "Sampling",
    "TraceReader",
    "as_case",
]
