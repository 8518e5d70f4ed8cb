"""What a format is: which records are of it, and which spans a record holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from leakmeter.traces.span import Span

Record = Mapping[Any, Any]


@dataclass(frozen=True, slots=True)
class Choices:
    """What the user says of the fields of a log."""

    recipient: str | None = None
    """The path of the field that says who was answered; by default user, else session, as the format has them."""
    documents: str | None = None
    """The path of the field that has what was retrieved, in records that are a call each."""


@dataclass(frozen=True, slots=True)
class Format:
    """A format of logs."""

    name: str
    about: str
    fits: Callable[[Record], bool]
    """Whether a record is of the format."""
    read: Callable[[Record, str, Choices], Iterator[Span]]
    """The spans of a record of the format, given where it stands; may raise `Unusable`."""
    is_whole: Callable[[Record], bool]
    """Whether a record has all spans of its traces."""
