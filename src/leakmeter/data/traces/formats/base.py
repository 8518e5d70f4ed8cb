"""What a format is: which records are of it, and which spans a record holds, or which preset of `data` reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from leakmeter.data.formats import DataFormat
from leakmeter.data.traces.answer import Reason, Unusable
from leakmeter.data.traces.plainly import at_path, named
from leakmeter.data.traces.span import SpanKind, TraceSpan

LogRecord = Mapping[Any, Any]
FoundSpan = tuple[TraceSpan, *tuple[LogRecord, ...]]


@dataclass(frozen=True, slots=True)
class TraceFormat:
    name: str
    about: str
    fits: Callable[[LogRecord], bool]
    read: Callable[[LogRecord, str, str | None], Iterator[FoundSpan]]
    """The spans of a record of the format, given where it stands and the path of what was retrieved, and the records in
    which the one who was answered may be named; may raise `Unusable`."""
    is_whole: Callable[[LogRecord], bool]
    """Whether a record has all spans of its traces."""

    def spans(self, logged: LogRecord, where: str, recipient: str | None, documents: str | None) -> Iterator[TraceSpan]:
        """The spans of a record; may raise `Unusable`. The user may give paths: of the field that says who was answered
        (by default user, else session, as the format has them), and of what was retrieved, in records that are a call
        each."""
        for span, *places in self.read(logged, where, documents):
            span.conversation = span.conversation or span.session
            if recipient is not None:
                values = (at_path(place, recipient) for place in places)
                span.user, span.session = named(next((value for value in values if value is not None), None)), None
                span.told = {}
            yield span


@dataclass(frozen=True, slots=True)
class CaseFormat:
    """A format whose records are no traces: messages, samples or conversations, of which `data` makes cases."""

    preset: DataFormat

    @property
    def name(self) -> str:
        return self.preset.name

    @property
    def about(self) -> str:
        return self.preset.about

    def fits(self, logged: LogRecord) -> bool:
        return self.preset.fits(logged)


_DROPPED: Final = ("droppedAttributesCount", "dropped_attributes_count", "dropped_attributes")


def has_dropped(logged: LogRecord) -> bool:
    """Whether a span, an event or a log record says that it had more attributes than were kept."""
    return any(logged.get(name) not in (None, "", 0, "0") for name in _DROPPED)


def span_of(trace_id: object, span_id: object, where: str, kind: SpanKind = "other") -> TraceSpan:
    """A span by its ids; `Unusable` where one is missing."""
    ids = named(trace_id), named(span_id)
    if ids[0] is None or ids[1] is None:
        raise Unusable(Reason.NOT_OF_FORMAT)
    return TraceSpan(ids[0], ids[1], where, kind)
