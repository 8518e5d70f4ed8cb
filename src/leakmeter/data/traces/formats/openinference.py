"""Spans by OpenInference's conventions, as Phoenix exports them: a span a record, or in OTLP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from leakmeter.core.record import JsonObject
from leakmeter.data.foreign import first, has_reasoned, n_listed, parsed, record
from leakmeter.data.mapping import parsed_cell
from leakmeter.data.traces.answer import Reason
from leakmeter.data.traces.formats.base import FoundSpan, LogRecord, TraceFormat, has_dropped, span_of
from leakmeter.data.traces.plainly import at_path, is_record, named, seconds
from leakmeter.data.traces.span import FoundDocument, SpanKind, TraceSpan, document_of, documents_of
from leakmeter.data.unfolded import has_gap, nested

_KINDS: Mapping[str, SpanKind] = {"LLM": "llm", "RETRIEVER": "retriever", "RERANKER": "reranker", "TOOL": "tool"}
_LISTS: Mapping[str, SpanKind] = {
    "llm.input_messages": "llm",
    "llm.output_messages": "llm",
    "reranker.input_documents": "reranker",
    "reranker.output_documents": "reranker",
    "retrieval.documents": "retriever",
}
"""What a span is that has these."""
_KIND = "openinference.span.kind"
_STARTS: Mapping[SpanKind, str] = {"llm": "llm", "retriever": "retrieval", "reranker": "reranker"}


def _document(logged: Any) -> FoundDocument:
    return document_of(record(record(logged).get("document", logged)))


def fill(span: TraceSpan, attributes: LogRecord) -> None:
    kind = str(at_path(attributes, _KIND) or "UNKNOWN").upper()
    # What is set first is evicted first where a span has too many attributes.
    evicted = next(_held_lists(attributes), None) if kind == "UNKNOWN" else None
    span.kind = _KINDS.get(kind, "other") if evicted is None else _LISTS[evicted]
    span.user, span.session = named(at_path(attributes, "user.id")), named(at_path(attributes, "session.id"))
    start = _STARTS.get(span.kind)
    held = nested(_lists({name: value for name, value in attributes.items() if start and str(name).startswith(start)}))
    if span.kind == "llm":
        llm = record(held.get("llm"))
        input_messages, output_messages = parsed(llm.get("input_messages")), parsed(llm.get("output_messages"))
        prompt: Any = input_messages if isinstance(input_messages, list) else None
        if prompt is None and llm.get("prompts") is not None:
            prompt = {"prompts": llm["prompts"]}
        answer: Any = output_messages if isinstance(output_messages, list) else None
        if answer is None and isinstance(choices := parsed(llm.get("choices")), list):
            texts = (at_path(choice, "completion.text") for choice in choices)
            answer = [None if text is None else {"role": "assistant", "content": text} for text in texts]
        span.read_call(
            prompt if prompt else at_path(attributes, "input.value"),
            answer if answer else at_path(attributes, "output.value"),
        )
        counts = at_path(llm, "token_count.completion_details.reasoning")
        span.n_hidden = int(has_reasoned(output_messages) or has_reasoned({"reasoning": counts}))
        parameters = record(llm.get("invocation_parameters"))
        span.parameters = dict(parameters)
        span.model = named(llm.get("model_name")) or named(parameters.get("model"))
        span.n_tools = n_listed(llm.get("tools"))
        span.response_id = named(at_path(attributes, "gen_ai.response.id"))
    elif span.kind == "retriever":
        # An empty list leaves no attribute.
        places: tuple[Any, ...] = (at_path(held, "retrieval.documents"), at_path(attributes, "output.value"), [])
        span.read_documents(next(found for found in places if found is not None), _document)
    elif span.kind == "reranker":
        span.documents = documents_of(at_path(held, "reranker.output_documents"), _document)
    elif span.kind == "tool":
        span.read_tool(at_path(attributes, "tool_call.id"), at_path(attributes, "tool.name"))
    if evicted or (start and any(has_gap(attributes, name) for name in _LISTS if name.startswith(start))):
        span.problem = Reason.INCOMPLETE.value


def _held_lists(attributes: LogRecord) -> Iterator[str]:
    for start in _LISTS:
        if at_path(attributes, start) is not None or any(str(name).startswith(f"{start}.") for name in attributes):
            yield start


def is_of_convention(attributes: LogRecord) -> bool:
    """Whether attributes are of OpenInference's, also where their kind was evicted."""
    if at_path(attributes, _KIND) is not None:
        return True
    is_other = any(str(name).startswith(("mlflow.", "gen_ai.")) for name in attributes)
    return not is_other and any(_held_lists(attributes))


def _lists(attributes: LogRecord) -> JsonObject:
    """Attributes with their lists, which a table holds as texts; in a message such a text is one."""
    return {name: parsed_cell(value) if name in _LISTS else value for name, value in attributes.items()}


def replaced(attributes: LogRecord) -> list[list[Any]]:
    """Documents that a reranker was given, in place of which its own stand."""
    held = nested(_lists({name: value for name, value in attributes.items() if str(name).startswith("reranker")}))
    return documents_of(at_path(held, "reranker.input_documents"), _document)


def attributes_of(logged: LogRecord) -> LogRecord:
    """Of a span: a record, or columns."""
    if is_record(held := parsed(logged.get("attributes"))):
        return held
    # A column for each, as in a data frame.
    columns = {str(name): value for name, value in logged.items() if value is not None}
    start = "attributes."
    return {name.removeprefix(start): value for name, value in columns.items() if name.startswith(start)}


def ids_of(logged: LogRecord) -> tuple[str | None, str | None]:
    """Of a trace and a span: in the span's context, in columns of it, or beside it."""
    context = record(logged.get("context"))
    trace_id, span_id = (
        named(context.get(name)) or named(logged.get(f"context.{name}")) or named(logged.get(name))
        for name in ("trace_id", "span_id")
    )
    return trace_id, span_id


def _fits(logged: LogRecord) -> bool:
    if None in ids_of(logged):
        return False
    is_named = "span_kind" in logged or "attributes" in logged or any(str(n).startswith("attributes.") for n in logged)
    held = attributes_of(logged)
    is_other = any(str(name).startswith(("mlflow.", "gen_ai.")) for name in held)
    return is_named and ("span_kind" in logged or _KIND in held or not is_other)


def _read(logged: LogRecord, where: str, documents: str | None) -> Iterator[FoundSpan]:
    span = span_of(*ids_of(logged), where)
    attributes = attributes_of(logged)
    if _KIND not in attributes and "openinference" not in attributes:
        attributes = {**attributes, _KIND: logged.get("span_kind")}
    fill(span, attributes)
    span.parent_id = named(logged.get("parent_id"))
    span.start, span.end = seconds(logged.get("start_time")), seconds(logged.get("end_time"))
    status = logged.get("status_code")
    span.failed = status == "ERROR" or first(record(logged.get("status")), "code", "status_code") == "ERROR"
    if has_dropped(logged):
        span.problem = Reason.INCOMPLETE.value
    yield span, attributes, logged


FORMAT = TraceFormat(
    "openinference", "spans by OpenInference, as Phoenix exports them", _fits, _read, lambda logged: False
)
