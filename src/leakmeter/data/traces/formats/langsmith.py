"""Runs of LangSmith: a run a record, as its exports to JSON lines and Parquet have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from leakmeter.data.foreign import first, has_reasoned, n_listed, parsed, record
from leakmeter.data.traces.formats.base import FoundSpan, LogRecord, TraceFormat, span_of
from leakmeter.data.traces.plainly import is_record, named, seconds
from leakmeter.data.traces.span import SpanKind, documents_of

_KINDS: Mapping[str, SpanKind] = {"llm": "llm", "retriever": "retriever", "tool": "tool"}


def _fits(logged: LogRecord) -> bool:
    return "run_type" in logged and ("id" in logged or "run_id" in logged)


def _read(logged: LogRecord, where: str, documents: str | None) -> Iterator[FoundSpan]:
    span_id = first(logged, "id", "run_id")
    kind = _KINDS.get(str(logged["run_type"]), "other")
    span = span_of(named(logged.get("trace_id")) or span_id, span_id, where, kind)
    parents = parsed(logged.get("parent_run_ids"))
    span.parent_id = named(logged.get("parent_run_id")) or (
        named(parents[-1]) if isinstance(parents, list) and parents else None
    )
    span.start, span.end = seconds(logged.get("start_time")), seconds(logged.get("end_time"))
    span.failed = bool(logged.get("error")) or logged.get("status") == "error"
    extra = record(logged.get("extra"))
    about = {**record(logged.get("metadata")), **record(extra.get("metadata"))}
    span.user = named(first(about, "user_id", "user", "langgraph_auth_user_id"))
    span.session = named(first(about, "session_id", "thread_id", "conversation_id"))
    inputs, outputs = parsed(logged.get("inputs")), parsed(logged.get("outputs"))
    if span.kind == "llm":
        span.read_call(inputs, outputs if outputs not in (None, {}, "") else None)
        span.n_hidden = int(has_reasoned(outputs) or has_reasoned(about.get("usage_metadata")))
        request = inputs if is_record(inputs) else {}
        described = {name[3:]: value for name, value in about.items() if str(name).startswith("ls_")}
        invoked = record(extra.get("invocation_params"))
        held: dict[Any, Any] = {**described, **request, **invoked}
        span.parameters = {name: value for name, value in held.items() if name != "messages"}
        answered = record(record(outputs).get("llm_output"))
        span.model = (
            named(first(record(outputs), "model") or first(answered, "model_name"))
            or named(first(invoked, "model", "model_name"))
            or named(first(request, "model"))
            or named(about.get("ls_model_name"))
        )
        span.n_tools = n_listed(first(invoked, "tools") or first(request, "tools"))
        span.response_id = named(record(outputs).get("id")) if "choices" in record(outputs) else None
    elif span.kind == "retriever":
        span.read_documents(outputs)
    elif span.kind == "tool":
        returned = record(record(outputs).get("output")) or record(outputs)
        span.read_tool(returned.get("tool_call_id"), logged.get("name"))
    elif (
        "rerank" in str(logged.get("name", "")).lower()
        and is_record(outputs)
        and isinstance(outputs.get("documents"), list)
    ):
        span.kind = "reranker"
        span.documents = documents_of(outputs["documents"])
    yield span, about, logged


FORMAT = TraceFormat("langsmith", "runs of LangSmith", _fits, _read, lambda logged: False)
