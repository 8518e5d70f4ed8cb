"""Spans of OpenTelemetry in OTLP's JSON, by its conventions for generative models or by OpenInference's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from leakmeter.core.record import JsonObject
from leakmeter.data.foreign import first, has_reasoned, n_listed, parsed, record
from leakmeter.data.traces.formats import openinference
from leakmeter.data.traces.formats.base import FoundSpan, LogRecord, TraceFormat
from leakmeter.data.traces.plainly import at_path, is_record, named, seconds
from leakmeter.data.traces.span import SpanKind, TraceSpan, documents_of

_OPERATIONS: Mapping[str, SpanKind] = {
    "chat": "llm",
    "generate_content": "llm",
    "text_completion": "llm",
    "retrieval": "retriever",
    "execute_tool": "tool",
}
_REQUEST = "gen_ai.request."
_WHOLE = re.compile(r"-?\d{1,19}")


def attributes_of(held: object) -> JsonObject:
    """A list of `key` and `value` as a record; a record as it is."""
    if is_record(held):
        return dict(held)
    entries = held if isinstance(held, list) else []
    return {
        str(entry["key"]): _value(entry.get("value"), 0) for entry in entries if is_record(entry) and "key" in entry
    }


def _value(held: Any, depth: int) -> Any:
    if not is_record(held) or depth > 64:
        return None
    for name in ("stringValue", "boolValue", "doubleValue", "bytesValue"):
        if name in held:
            return held[name]
    if "intValue" in held:
        # Whole numbers of 64 bits are texts in JSON.
        value = held["intValue"]
        return int(value) if isinstance(value, str) and _WHOLE.fullmatch(value) else value
    if is_record(held.get("arrayValue")):
        values = held["arrayValue"].get("values")
        return [_value(entry, depth + 1) for entry in values] if isinstance(values, list) else []
    if is_record(held.get("kvlistValue")):
        pairs = held["kvlistValue"].get("values")
        return {
            str(entry.get("key")): _value(entry.get("value"), depth + 1)
            for entry in (pairs if isinstance(pairs, list) else ())
            if is_record(entry)
        }
    return None


def _document(logged: Any) -> tuple[Any, Any]:
    held = record(logged)
    return first(held, "id", "document.id", "source_id"), first(held, "content", "text", "document.content")


def _indexed(attributes: LogRecord, start: str) -> list[Any] | None:
    """Messages in attributes with numbers in their names, as older instrumentations write them."""
    held = {name: value for name, value in attributes.items() if name.startswith(start + ".")}
    messages: Any = at_path(openinference.nested(held), start) if held else None
    return messages if isinstance(messages, list) else None


def fill(span: TraceSpan, attributes: LogRecord) -> None:
    span.kind = _OPERATIONS.get(str(attributes.get("gen_ai.operation.name")), "other")
    span.user = named(first(attributes, "user.id", "enduser.id", "gen_ai.user.id"))
    span.session = named(first(attributes, "session.id", "gen_ai.conversation.id"))
    input_messages = parsed(attributes.get("gen_ai.input.messages")) or _indexed(attributes, "gen_ai.prompt")
    output_messages = parsed(attributes.get("gen_ai.output.messages")) or _indexed(attributes, "gen_ai.completion")
    if span.kind == "other" and input_messages is not None and output_messages is not None:
        span.kind = "llm"
    if span.kind == "llm":
        instructions = parsed(attributes.get("gen_ai.system_instructions"))
        if instructions and isinstance(input_messages, list):
            input_messages = [{"role": "system", "content": instructions}, *input_messages]
        span.read_call(input_messages, output_messages)
        span.n_hidden = int(has_reasoned(output_messages) or has_reasoned(_counts(attributes)))
        span.parameters = {n[len(_REQUEST) :]: v for n, v in attributes.items() if n.startswith(_REQUEST)}
        if attributes.get("gen_ai.output.type") not in (None, "text"):
            span.parameters["constrained"] = True
        span.model = named(first(attributes, "gen_ai.response.model", "gen_ai.request.model"))
        span.response_id = named(attributes.get("gen_ai.response.id"))
        span.n_tools = n_listed(attributes.get("gen_ai.tool.definitions"))
    elif span.kind == "retriever":
        span.documents = documents_of(attributes.get("gen_ai.retrieval.documents"), _document)


def _counts(attributes: LogRecord) -> LogRecord:
    """Numbers of tokens, in names without dots."""
    usage = {name: n for name, n in attributes.items() if name.startswith("gen_ai.usage.")}
    return {name.replace(".", "_"): n for name, n in usage.items() if "reasoning" in name}


def _spans(logged: LogRecord) -> Iterator[tuple[LogRecord, LogRecord]]:
    """Spans of an export, with the attributes of what was watched."""
    if "spanId" in logged:
        yield logged, {}
        return
    for group in _entries(logged, "resourceSpans"):
        about = attributes_of(record(group.get("resource")).get("attributes"))
        for scope in (*_entries(group, "scopeSpans"), *_entries(group, "instrumentationLibrarySpans")):
            for span in _entries(scope, "spans"):
                yield span, about


def _entries(held: LogRecord, name: str) -> Sequence[LogRecord]:
    entries = held.get(name)
    return [entry for entry in entries if is_record(entry)] if isinstance(entries, list) else ()


def _fits(logged: LogRecord) -> bool:
    return "resourceSpans" in logged or ("traceId" in logged and "spanId" in logged and "startTimeUnixNano" in logged)


def _read(logged: LogRecord, where: str, documents: str | None) -> Iterator[FoundSpan]:
    for number, (held, about) in enumerate(_spans(logged), 1):
        trace_id, span_id = named(held.get("traceId")), named(held.get("spanId"))
        if trace_id is None or span_id is None:
            continue
        span = TraceSpan(trace_id, span_id, where if "spanId" in logged else f"{where}, span {number}")
        attributes = attributes_of(held.get("attributes"))
        for event in _entries(held, "events"):
            # Contents may be written as an event of the span instead.
            own = attributes_of(event.get("attributes"))
            attributes = {**{name: own[name] for name in own if name.startswith("gen_ai.")}, **attributes}
        is_openinference = any(name.startswith("openinference.") for name in attributes)
        (openinference.fill if is_openinference else fill)(span, attributes)
        span.parent_id = named(held.get("parentSpanId"))
        span.start, span.end = seconds(held.get("startTimeUnixNano")), seconds(held.get("endTimeUnixNano"))
        span.failed = record(held.get("status")).get("code") in (2, "STATUS_CODE_ERROR")
        yield span, attributes, about


FORMAT = TraceFormat("otel", "spans of OpenTelemetry in OTLP's JSON", _fits, _read, lambda logged: False)
