"""Traces of MLflow: a trace a record, with its spans, as `Trace.to_json` and the command `mlflow traces` write them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from leakmeter.data.foreign import first, has_reasoned, parsed, record
from leakmeter.data.mapping import parsed_cell
from leakmeter.data.traces.answer import Reason, Unusable
from leakmeter.data.traces.formats.base import FoundSpan, LogRecord, TraceFormat
from leakmeter.data.traces.plainly import is_record, named, seconds
from leakmeter.data.traces.span import SpanKind, TraceSpan

_KINDS: Mapping[str, SpanKind] = {
    "LLM": "llm",
    "CHAT_MODEL": "llm",
    "RETRIEVER": "retriever",
    "RERANKER": "reranker",
    "TOOL": "tool",
}
_START = ("start_time_unix_nano", "start_time_ns", "start_time")
_END = ("end_time_unix_nano", "end_time_ns", "end_time")


def _spans(logged: LogRecord) -> Any:
    held = record(logged.get("data")).get("spans", logged.get("spans"))
    # A table has them as Python writes them.
    return parsed_cell(held)


def _fits(logged: LogRecord) -> bool:
    spans = _spans(logged)
    is_trace = is_record(parsed(logged.get("info"))) or any(name in logged for name in ("trace_id", "request_id"))
    return is_trace and isinstance(spans, list) and all(is_record(span) for span in spans)


def _read(logged: LogRecord, where: str, documents: str | None) -> Iterator[FoundSpan]:
    info = record(logged.get("info")) or logged
    trace_id = named(first(info, "trace_id", "request_id"))
    if trace_id is None:
        raise Unusable(Reason.NOT_OF_FORMAT)
    metadata = parsed_cell(first(info, "trace_metadata", "request_metadata"))
    about = {**record(parsed_cell(info.get("tags"))), **record(metadata)}
    for number, held in enumerate(_spans(logged), 1):
        context = record(held.get("context"))
        span_id = named(held.get("span_id")) or named(context.get("span_id")) or str(number)
        span = _span(held, TraceSpan(trace_id, span_id, f"{where}, span {number}"))
        span.user, span.session = named(about.get("mlflow.trace.user")), named(about.get("mlflow.trace.session"))
        yield span, about, logged


def _span(held: LogRecord, span: TraceSpan) -> TraceSpan:
    # Each attribute is JSON of its own.
    attributes = {name: parsed(value) for name, value in record(held.get("attributes")).items()}
    kind = str(first(attributes, "mlflow.spanType") or first(held, "span_type", "type") or "")
    span.kind = _KINDS.get(kind.strip('"').upper(), "other")
    span.parent_id = named(first(held, "parent_span_id", "parent_id"))
    span.start, span.end = seconds(first(held, *_START)), seconds(first(held, *_END))
    status = held.get("status")
    code = (
        first(record(status), "code", "status_code") if is_record(parsed(status)) else held.get("status_code", status)
    )
    span.failed = str(code) in ("ERROR", "STATUS_CODE_ERROR", "2")
    inputs = first(attributes, "mlflow.spanInputs")
    inputs = parsed(held.get("inputs")) if inputs is None else inputs
    outputs = attributes.get("mlflow.spanOutputs")
    outputs = held.get("outputs") if outputs is None else outputs
    if span.kind == "llm":
        span.read_call(inputs, outputs)
        span.n_hidden = int(has_reasoned(outputs))
        request = inputs if is_record(inputs) else {}
        invoked = record(first(attributes, "invocation_params", "mlflow.invocationParams"))
        span.parameters = {name: value for name, value in {**request, **invoked}.items() if name != "messages"}
        model = record(outputs).get("model")
        span.model = named(first({"model": model, **attributes}, "model", "mlflow.llm.model")) or named(
            first(span.parameters, "model", "model_name")
        )
        span.response_id = named(record(outputs).get("id")) if "choices" in record(outputs) else None
        tools = first(attributes, "mlflow.chat.tools") or request.get("tools")
        span.n_tools = len(tools) if isinstance(tools, list) else 0
    elif span.kind in ("retriever", "reranker"):
        span.read_documents(outputs)
    elif span.kind == "tool":
        span.read_tool(record(outputs).get("tool_call_id"), held.get("name"))
    return span


FORMAT = TraceFormat("mlflow", "traces of MLflow", _fits, _read, lambda logged: True)
