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
    reply = {"role": "assistant", "content": row.get("answer"), "tool_calls": row.get("tool_calls")}
    reply["reasoning"] = row.get("reasoning")
    span.read_call(row.get("messages", row.get("prompt")), [reply])
    span.answers = [[text, named(row.get("finish_reason")), *rest] for text, _, *rest in span.answers]
    if row.get("incomplete"):
        span.problem = Reason.INCOMPLETE.value
    span.end = seconds(row.get("time"))
    span.user = named(row.get("recipient"))
    span.read_recipient(row)
    span.model = named(row.get("model"))
    span.parameters = dict(record(row.get("sampling")))
    span.response_id = named(row.get("response_id"))
    span.is_interrupted = row.get("interrupted") is True
    span.n_tools, span.n_hidden, span.turn = (_count(row.get(name)) for name in ("n_tools", "hidden_calls", "turn"))
    span.n_measured = max(span.n_hidden - _count(row.get("unmeasured_calls", span.n_hidden)), 0)
    span.documents = documents_of(row.get("documents"))
    yield span, row


def _count(value: object) -> int:
    return max(int(value), 0) if isinstance(value, int) else 0


FORMAT = TraceFormat("leakmeter", "the log of leakmeter.integrations", _fits, _read, lambda row: True)
