"""The log that `leakmeter.integrations` writes: an answer a line."""

from __future__ import annotations

from collections.abc import Iterator

from leakmeter.data.foreign import record
from leakmeter.data.traces.answer import Reason, Unusable
from leakmeter.data.traces.formats.base import FoundSpan, LogRecord, TraceFormat, span_of
from leakmeter.data.traces.plainly import named, seconds
from leakmeter.data.traces.span import documents_of

_SCHEMA = "leakmeter-answer/1"


def _fits(row: LogRecord) -> bool:
    return str(row.get("schema")).startswith(_SCHEMA.partition("/")[0] + "/")


def _read(row: LogRecord, where: str, documents: str | None) -> Iterator[FoundSpan]:
    if row["schema"] != _SCHEMA:
        raise Unusable(Reason.OTHER_VERSION)
    span = span_of(row.get("trace_id"), row.get("span_id"), where, "llm")
    span.read_call(row.get("messages", row.get("prompt")), [{"role": "assistant", "content": row.get("answer")}])
    span.answers = [[text, named(row.get("finish_reason"))] for text, _ in span.answers]
    if row.get("incomplete"):
        span.problem = Reason.INCOMPLETE.value
    span.end = seconds(row.get("time"))
    span.user = named(row.get("recipient"))
    span.model = named(row.get("model"))
    span.parameters = dict(record(row.get("sampling")))
    span.response_id = named(row.get("response_id"))
    span.is_interrupted = row.get("interrupted") is True
    for name, field in (("n_tools", "n_tools"), ("n_hidden", "hidden_calls")):
        if isinstance(count := row.get(field), int):
            setattr(span, name, max(int(count), 0))
    span.documents = documents_of(row.get("documents"))
    yield span, row


FORMAT = TraceFormat("leakmeter", "the log of leakmeter.integrations", _fits, _read, lambda row: True)
