"""Spans of OpenTelemetry in OTLP's JSON or as Python's SDK prints them, by its conventions for generative models or by
OpenInference's.

What was sent and answered stands in attributes of a span, in its events, or in log records of the same trace and span:
whole, in the event of the operation's details, or a message an event, as until version 1.36 of the conventions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from leakmeter.core.record import JsonObject
from leakmeter.data.foreign import first, has_reasoned, n_listed, parsed, record
from leakmeter.data.traces.answer import Reason, Unusable
from leakmeter.data.traces.formats import openinference
from leakmeter.data.traces.formats.base import FoundSpan, LogRecord, TraceFormat, has_dropped
from leakmeter.data.traces.plainly import at_path, is_record, named, seconds
from leakmeter.data.traces.span import FoundDocument, SpanKind, TraceSpan, contents_of, document_of
from leakmeter.data.unfolded import has_gap, nested

_OPERATIONS: Mapping[str, SpanKind] = {
    "chat": "llm",
    "generate_content": "llm",
    "text_completion": "llm",
    "retrieval": "retriever",
    "execute_tool": "tool",
}
_DETAILS = "gen_ai.client.inference.operation.details"
_CHOICE = "gen_ai.choice"
_MESSAGE = re.compile(r"gen_ai\.(system|user|assistant|tool)\.message")
_REQUEST = "gen_ai.request."
_INDEXED = ("gen_ai.prompt", "gen_ai.completion")
_OF_CALL = re.compile(r"gen_ai\.(?:input|output)\.messages|gen_ai\.completion(?:\.\d+\..*)?")
_CONTENT = re.compile(rf"{_OF_CALL.pattern}|gen_ai\.prompt(?:\.\d+\..*)?|gen_ai\.system_instructions")
_UNREAD = re.compile(
    r"ai\.prompt(?:\.messages)?|ai\.response\.(?:text|object|toolCalls)|llm\.(?:\w+_messages|completions)\b.*"
)
"""What a model was sent or answered, by conventions that are not read."""
_OF_MODELS = ("gen_ai.", "llm.", "ai.")
_CUT_PART = {"type": "text", "content": "", "truncated": True}
_BEGINS_MESSAGES = re.compile(r"\s*\[\s*\{")
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


def _document(logged: Any) -> FoundDocument:
    held = record(logged)
    id_, text, name, whose = document_of(held)
    return first(held, "id", "document.id", "source_id") or id_, first(held, "document.content") or text, name, whose


def _indexed(attributes: LogRecord, start: str) -> list[Any] | None:
    """Messages in attributes with numbers in their names, as older instrumentations write them."""
    held = {name: value for name, value in attributes.items() if name.startswith(start + ".")}
    messages: Any = at_path(nested(held), start) if held else None
    return messages if isinstance(messages, list) else None


def fill(span: TraceSpan, attributes: LogRecord) -> None:
    span.kind = _OPERATIONS.get(str(attributes.get("gen_ai.operation.name")), "other")
    span.user = named(first(attributes, "user.id", "enduser.id", "gen_ai.user.id"))
    span.session = named(first(attributes, "session.id", "gen_ai.conversation.id"))
    span.conversation = named(attributes.get("gen_ai.conversation.id"))
    input_messages, output_messages = _said(attributes)
    is_unread = span.kind == "other" and not (input_messages or output_messages) and _has(attributes, _UNREAD)
    if span.kind == "other" and (is_unread or _has(attributes, _OF_CALL)):
        span.kind = "llm"
    if span.kind == "llm":
        span.read_call(input_messages, output_messages)
        span.n_hidden = int(has_reasoned(output_messages) or has_reasoned(_counts(attributes)))
        span.parameters = {n[len(_REQUEST) :]: v for n, v in attributes.items() if n.startswith(_REQUEST)}
        if attributes.get("gen_ai.output.type") not in (None, "text"):
            span.parameters["constrained"] = True
        span.model = named(first(attributes, "gen_ai.response.model", "gen_ai.request.model"))
        span.response_id = named(attributes.get("gen_ai.response.id"))
        span.n_tools = n_listed(attributes.get("gen_ai.tool.definitions"))
        if any(has_gap(attributes, name) for name in _INDEXED):
            span.problem = Reason.INCOMPLETE.value
        elif is_unread:
            span.problem = Reason.NOT_OF_FORMAT.value
    elif span.kind == "retriever":
        span.read_documents(attributes.get("gen_ai.retrieval.documents"), _document)
    elif span.kind == "tool":
        span.read_tool(attributes.get("gen_ai.tool.call.id"), attributes.get("gen_ai.tool.name"))


def _has(attributes: LogRecord, names: re.Pattern[str]) -> bool:
    return any(names.fullmatch(name) and value not in (None, "") for name, value in attributes.items())


def _said(attributes: LogRecord) -> tuple[Any, Any]:
    """What a model was sent, and what it answered; None where attributes do not have it."""
    prompt, reply = (
        _messages(attributes.get(name)) or _indexed(attributes, old) or _list(attributes.get(old))
        for name, old in (("gen_ai.input.messages", "gen_ai.prompt"), ("gen_ai.output.messages", "gen_ai.completion"))
    )
    instructions = attributes.get("gen_ai.system_instructions")
    instructions = [_CUT_PART] if _is_cut(instructions) else parsed(instructions)
    if instructions and isinstance(prompt, list):
        prompt = [{"role": "system", "content": instructions}, *prompt]
    return prompt, reply


def _messages(value: object) -> Any:
    return [{"role": "assistant", "parts": [_CUT_PART]}] if _is_cut(value) else parsed(value)


def _is_cut(value: object) -> bool:
    """Whether a list in JSON was cut, as a limit of attributes' lengths does it."""
    held = parsed(value)
    return isinstance(held, str) and _BEGINS_MESSAGES.match(held) is not None


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value) and parsed(value) is value


def _list(value: object) -> list[Any] | None:
    held = _messages(value)
    return held if isinstance(held, list) and held else None


def _given(name: object, attributes: LogRecord, body: object) -> list[list[Any]] | None:
    """Messages of a prompt, and replies, that an event of this name has; None of one that has neither."""
    prompt, reply = _said({**attributes, **record(body)})
    if name == _DETAILS or (prompt, reply) != (None, None):
        answer = [{"role": "assistant", "content": reply}] if _is_text(reply) else _list(reply)
        return [_list(prompt) or [], answer or []]
    content = parsed(attributes.get("gen_ai.event.content"))
    is_cut = isinstance(content, str) and content.lstrip().startswith("{")
    held = record(body) or record(content) or ({"parts": [_CUT_PART]} if is_cut else attributes)
    if name == _CHOICE:
        message = record(held.get("message")) or held
        return [[], [{"message": {"role": "assistant", **message}, "finish_reason": held.get("finish_reason")}]]
    if isinstance(name, str) and (match := _MESSAGE.fullmatch(name)):
        return [[{"role": match[1], **held}], []]
    return None


def _counts(attributes: LogRecord) -> LogRecord:
    """Numbers of tokens, in names without dots."""
    usage = {name: n for name, n in attributes.items() if name.startswith("gen_ai.usage.")}
    return {name.replace(".", "_"): n for name, n in usage.items() if "reasoning" in name}


def _spans(logged: LogRecord) -> Iterator[tuple[LogRecord, LogRecord]]:
    """Spans of an export, with the attributes of what was watched."""
    if "spanId" in logged:
        yield logged, {}
        return
    if _is_of_sdk(logged):
        yield _as_otlp(logged), attributes_of(record(logged.get("resource")).get("attributes"))
        return
    for group in _entries(logged, "resourceSpans"):
        about = attributes_of(record(group.get("resource")).get("attributes"))
        for scope in (*_entries(group, "scopeSpans"), *_entries(group, "instrumentationLibrarySpans")):
            for span in _entries(scope, "spans"):
                yield span, about


def _is_of_sdk(logged: LogRecord) -> bool:
    """Whether a record is a span as `ReadableSpan.to_json` of Python's SDK writes it, or a table's row of one. Those of
    Phoenix, with a kind of OpenInference's, are read as such."""
    is_printed = str(logged.get("kind")).startswith("SpanKind.") and None not in openinference.ids_of(logged)
    return is_printed and not openinference.is_of_convention(openinference.attributes_of(logged))


def _as_otlp(logged: LogRecord) -> JsonObject:
    trace_id, span_id = openinference.ids_of(logged)
    status = record(logged.get("status")).get("status_code") or logged.get("status.status_code")
    return {
        "traceId": trace_id,
        "spanId": span_id,
        "parentSpanId": logged.get("parent_id"),
        "startTimeUnixNano": logged.get("start_time"),
        "endTimeUnixNano": logged.get("end_time"),
        "status": {"code": "STATUS_CODE_ERROR" if status == "ERROR" else None},
        "attributes": openinference.attributes_of(logged),
        "events": parsed(logged.get("events")),
    }


def _entries(held: LogRecord, name: str) -> Sequence[LogRecord]:
    entries = held.get(name)
    return [entry for entry in entries if is_record(entry)] if isinstance(entries, list) else ()


def _log_records(logged: LogRecord) -> Iterator[tuple[LogRecord, LogRecord]]:
    """Log records of an export, with the attributes of what was watched."""
    for group in _entries(logged, "resourceLogs"):
        about = attributes_of(record(group.get("resource")).get("attributes"))
        for scope in _entries(group, "scopeLogs"):
            for entry in _entries(scope, "logRecords"):
                yield entry, about


def _content(held: LogRecord, where: str) -> tuple[TraceSpan, JsonObject] | None:
    """What a log record says of a call; None of one of another event."""
    attributes = attributes_of(held.get("attributes"))
    name = held.get("eventName") or attributes.get("event.name")
    given = _given(name, attributes, _value(held.get("body"), 0))
    trace_id, span_id = named(held.get("traceId")), named(held.get("spanId"))
    if given is None or trace_id is None or span_id is None:
        return None
    span = TraceSpan(trace_id, span_id, where)
    fill(span, attributes)
    span.kind, span.given = "content", given
    span.problem = Reason.INCOMPLETE.value if has_dropped(held) else None
    span.messages, span.answers, span.tools = [], [], []
    span.start = seconds(held.get("timeUnixNano")) or seconds(held.get("observedTimeUnixNano"))
    return span, attributes


def _fits(logged: LogRecord) -> bool:
    is_export = "resourceSpans" in logged or "resourceLogs" in logged
    is_span = "traceId" in logged and "spanId" in logged and "startTimeUnixNano" in logged
    return is_export or is_span or _is_of_sdk(logged)


def _with_events(attributes: JsonObject, held: LogRecord) -> tuple[JsonObject, str | None]:
    """Attributes of a span with what was written as its events instead, and the problem there is with that."""
    given: list[list[list[Any]]] = []
    is_cut = held.get("droppedEventsCount") not in (None, 0, "0")
    merged: JsonObject = {}
    for event in _entries(held, "events"):
        own = attributes_of(event.get("attributes"))
        if (content := _given(event.get("name"), own, None)) is not None:
            given.append(content)
            is_cut = is_cut or has_dropped(event)
        others = (name for name in own if name.startswith("gen_ai.") and not (content and _CONTENT.fullmatch(name)))
        merged = {**{name: own[name] for name in others}, **merged}
    merged |= attributes
    try:
        said = contents_of(given)
    except Unusable as error:
        return merged, error.reason.value
    names = ("gen_ai.input.messages", "gen_ai.output.messages")
    missing = {n: of_events for n, own, of_events in zip(names, _said(attributes), said, strict=True) if own is None}
    merged |= {name: of_events for name, of_events in missing.items() if of_events}
    return merged, Reason.INCOMPLETE.value if is_cut and any(missing.values()) else None


def _read(logged: LogRecord, where: str, documents: str | None) -> Iterator[FoundSpan]:
    for number, (held, about) in enumerate(_spans(logged), 1):
        trace_id, span_id = named(held.get("traceId")), named(held.get("spanId"))
        if trace_id is None or span_id is None:
            continue
        span = TraceSpan(trace_id, span_id, where if "resourceSpans" not in logged else f"{where}, span {number}")
        attributes = attributes_of(held.get("attributes"))
        attributes, problem = _with_events(attributes, held)
        (openinference.fill if openinference.is_of_convention(attributes) else fill)(span, attributes)
        span.parent_id = named(held.get("parentSpanId"))
        span.start, span.end = seconds(held.get("startTimeUnixNano")), seconds(held.get("endTimeUnixNano"))
        span.failed = record(held.get("status")).get("code") in (2, "STATUS_CODE_ERROR")
        span.problem = problem or span.problem
        if has_dropped(held):
            span.problem = Reason.INCOMPLETE.value
            is_known = any(name in attributes for name in ("gen_ai.operation.name", "openinference.span.kind"))
            if span.kind == "other" and not is_known and any(name.startswith(_OF_MODELS) for name in attributes):
                # What it was may have been dropped.
                span.kind = "llm"
        yield span, attributes, about
    for number, (held, about) in enumerate(_log_records(logged), 1):
        if (content := _content(held, f"{where}, log record {number}")) is not None:
            yield *content, about


FORMAT = TraceFormat(
    "otel",
    "spans of OpenTelemetry in OTLP's JSON, or as Python's SDK prints them",
    _fits,
    _read,
    lambda logged: False,
)
