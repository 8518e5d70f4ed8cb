"""Observations of Langfuse: a row each, of its exports or its API, or a trace with all of its observations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from leakmeter.data.foreign import first, has_reasoned, parsed, record
from leakmeter.data.traces.formats.base import FoundSpan, LogRecord, TraceFormat, span_of
from leakmeter.data.traces.plainly import at_path, is_record, named, seconds
from leakmeter.data.traces.span import SpanKind, TraceSpan, documents_of, found_in

_KINDS: Mapping[str, SpanKind] = {"GENERATION": "llm", "RETRIEVER": "retriever", "RERANKER": "reranker", "TOOL": "tool"}
_TYPES = (*_KINDS, "SPAN", "EVENT", "AGENT", "CHAIN", "EMBEDDING", "EVALUATOR", "GUARDRAIL")
_TRACE = ("trace_id", "traceId")
_RETRIEVAL = re.compile("retriev", re.IGNORECASE)


def _fits(logged: LogRecord) -> bool:
    if "id" not in logged or "run_type" in logged:
        return False
    is_row = logged.get("type") in _TYPES and any(name in logged for name in _TRACE)
    return is_row or isinstance(logged.get("observations"), list)


def _read(logged: LogRecord, where: str, documents: str | None) -> Iterator[FoundSpan]:
    rows = logged.get("observations")
    if not isinstance(rows, list):
        yield _span(logged, logged, where), logged
        return
    for number, row in enumerate(rows, 1):
        if is_record(row) and "id" in row:
            row = {**row, "trace_id": logged["id"]}
            yield _span(row, logged, f"{where}, observation {number}"), row, logged


def _span(row: LogRecord, about: LogRecord, where: str) -> TraceSpan:
    span = span_of(first(row, *_TRACE), row.get("id"), where, _KINDS.get(str(row.get("type")), "other"))
    span.parent_id = named(first(row, "parent_observation_id", "parentObservationId"))
    span.start, span.end = seconds(first(row, "start_time", "startTime")), seconds(first(row, "end_time", "endTime"))
    span.failed = row.get("level") == "ERROR"
    span.user = named(first(row, "user_id", "userId") or first(about, "user_id", "userId"))
    span.session = named(first(row, "session_id", "sessionId") or first(about, "session_id", "sessionId"))
    if span.kind == "llm":
        inputs = parsed(row.get("input"))
        span.read_call(inputs, row.get("output"))
        used = [row.get(name) for name in ("usage_details", "usageDetails", "usage")]
        span.n_hidden = int(any(has_reasoned(parsed(part)) for part in (row.get("output"), *used)))
        span.model = named(first(row, "provided_model_name", "providedModelName", "model"))
        parameters: Any = record(first(row, "model_parameters", "modelParameters"))
        span.parameters = dict(parameters)
        tools = parsed(inputs.get("tools")) if is_record(inputs) else None
        tools = first(row, "tool_definitions", "toolDefinitions") if tools is None else tools
        span.n_tools = len(tools) if isinstance(tools := parsed(tools), list | dict) else 0
        span.response_id = named(at_path(row.get("metadata"), "response_id"))
    elif span.kind in ("retriever", "reranker"):
        span.read_documents(row.get("output"))
    elif span.kind == "tool":
        span.read_tool(record(row.get("output")).get("tool_call_id"), row.get("name"))
    elif row.get("type") == "SPAN" and _RETRIEVAL.search(str(row.get("name"))):
        # Older clients have no type of retrievals.
        documents = documents_of(found_in(row.get("output")))
        if documents and all(text is not None for _, text, *_ in documents):
            span.kind, span.documents = "retriever", documents
    return span


FORMAT = TraceFormat(
    "langfuse",
    "observations of Langfuse",
    _fits,
    _read,
    lambda logged: isinstance(logged.get("observations"), list),
)
