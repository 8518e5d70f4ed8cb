"""A span processor for OpenTelemetry, by the interface of `opentelemetry.sdk.trace.SpanProcessor`.

Of spans it reads the attributes of OpenInference (https://github.com/Arize-ai/openinference, spec/semantic_conventions)
and of OpenTelemetry's conventions for generative AI (gen_ai.*, https://github.com/open-telemetry/semantic-conventions).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from leakmeter.integrations.log import AnswerLog, opened
from leakmeter.integrations.runs import Choice, Kind, Prompt, Recorder, guarded
from leakmeter.integrations.values import (
    Fields,
    answer_text,
    content_of,
    documents_of,
    getter,
    listed,
    messages_of,
    model_of,
    name_of,
    sampling_of,
    tools_of,
)
from leakmeter.overriding import override

_KINDS: Final[Mapping[str, Kind]] = {
    "LLM": "model",
    "RETRIEVER": "retriever",
    "RERANKER": "reranker",
    "TOOL": "tool",
    "chat": "model",
    "text_completion": "model",
    "generate_content": "model",
    "retrieval": "retriever",
    "execute_tool": "tool",
}
_PREFIXES: Final[Mapping[str, Kind]] = {
    "llm.": "model",
    "gen_ai.output.": "model",
    "retrieval.documents.": "retriever",
    "reranker.": "reranker",
}
_RECIPIENTS: Final = ("user.id", "enduser.id", "enduser.pseudo.id")
_NUMBERED: Final = re.compile(r"\d+")


class AnswerSpanProcessor(Recorder):
    """Appends each answer that spans tell of to a log: `provider.add_span_processor(AnswerSpanProcessor(path))`.

    It sees spans when they end, before any exporter does, and sends nothing.

    Examples:
        >>> AnswerSpanProcessor("answers.jsonl").force_flush()
        True
    """

    _SOURCE = "opentelemetry"

    def __init__(self, log: AnswerLog | str | os.PathLike[str], *, recipient: object = None) -> None:
        """A processor that appends to a log.

        Args:
            log: the log, or the path of its file.
            recipient: of answers of which no span has `user.id`: a text, or a function that returns one.
        """
        super().__init__(opened(log), recipient)

    @guarded
    def on_start(self, span: Any, parent_context: Any = None) -> None:
        """A span begins."""
        context = span.get_span_context()
        self._runs.start(_span_id(context), _parent_id(span), trace_id=f"{context.trace_id:032x}")

    @guarded
    def on_end(self, span: Any) -> None:
        """A span has ended."""
        held = dict(span.attributes or {})
        kind = _kind(held)
        has_failed = _has_failed(span)
        recipient = next((held[name] for name in _RECIPIENTS if held.get(name)), None)
        said: dict[str, Any] = {"kind": kind, "recipient": recipient, "has_failed": has_failed, "time": _time(span)}
        if kind == "model":
            said["prompt"] = _prompt(span, held)
            said["choices"] = _choices(span, held)
        elif kind in ("retriever", "reranker"):
            said["documents"] = _documents(held, "reranker.output" if kind == "reranker" else "retrieval")
            said["replaced"] = _documents(held, "reranker.input") if kind == "reranker" else ()
        said["is_incomplete"] = _is_cut(span, held if kind in ("retriever", "reranker", "model") else {})
        output = listed(held.get("output.value")), listed(held.get("gen_ai.output.messages"))
        self._runs.end(_span_id(span.get_span_context()), returned=output, **said)

    def _on_ending(self, span: Any) -> None:
        """A span is about to end; the interface has it for processors that change spans."""

    def shutdown(self) -> None:
        """Log the answers of traces that have not ended."""
        self.close()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Nothing waits: an answer is written when its trace has ended."""
        return True

    @override
    def _spoil(self, span: Any, *args: Any, **kwargs: Any) -> None:
        self._runs.spoil(_span_id(span.get_span_context()), _parent_id(span))


def _kind(held: Mapping[str, Any]) -> Kind:
    name = held.get("openinference.span.kind") or held.get("gen_ai.operation.name")
    if name is not None:
        return _KINDS.get(str(name), "other")
    # The kind is set first, and is the first that a limit of the SDK takes away.
    return next((kind for key in held for prefix, kind in _PREFIXES.items() if key.startswith(prefix)), "other")


def _span_id(context: Any) -> str:
    return f"{context.span_id:016x}"


def _parent_id(span: Any) -> str | None:
    return None if span.parent is None else _span_id(span.parent)


def _time(span: Any) -> datetime | None:
    return None if span.end_time is None else datetime.fromtimestamp(span.end_time / 1e9, UTC)


def _has_failed(span: Any) -> bool:
    return str(getattr(getattr(getattr(span, "status", None), "status_code", None), "name", "")) == "ERROR"


def _is_cut(span: Any, held: Mapping[str, Any]) -> bool:
    """Whether limits of the SDK took attributes away, or the ends of texts."""
    if getattr(span, "dropped_attributes", 0) or getattr(span, "dropped_events", 0):
        return True
    # The SDK cuts texts at this length without a word.
    longest = getattr(getattr(span, "_attributes", None), "max_value_len", None)
    return isinstance(longest, int) and any(isinstance(one, str) and len(one) >= longest for one in held.values())


def _nested(held: Mapping[str, Any], name: str) -> list[Any]:
    """A list that is flattened into attributes, NAME.0.…, or stands in one, maybe as JSON."""
    if name in held:
        found = listed(held[name])
        return list(found) if isinstance(found, list | tuple) else []
    made: dict[str, Any] = {}
    for key, value in held.items():
        if key.startswith(f"{name}."):
            inner = made
            *path, last = key[len(name) + 1 :].split(".")
            for step in path:
                inner = inner.setdefault(step, {})
            inner[last] = value
    return [made[key] for key in sorted(filter(_NUMBERED.fullmatch, made), key=int)]


def _openinference_message(entry: Any) -> Fields:
    held = getter(entry)("message")
    said: Any = (
        held
        if isinstance(held, Mapping)
        else {key.removeprefix("message."): value for key, value in dict(entry).items()}
    )
    parts = [getter(one)("message_content") or one for one in _listed_under(said.get("contents"))]
    calls = [getter(one)("tool_call") or one for one in _listed_under(said.get("tool_calls"))]
    return {
        "role": said.get("role"),
        "content": said["content"] if said.get("content") else parts,
        "name": said.get("name"),
        "tool_call_id": said.get("tool_call_id"),
        "tool_calls": calls,
    }


def _listed_under(held: Any) -> list[Any]:
    if isinstance(held, Mapping):
        return [held[key] for key in sorted(filter(_NUMBERED.fullmatch, held), key=int)]
    return list(held) if isinstance(held, list | tuple) else []


def _prompt(span: Any, held: Mapping[str, Any]) -> Prompt | None:
    """What a model was sent; None where the span does not say it."""
    parameters = listed(held.get("llm.invocation_parameters"))
    request = {key.removeprefix("gen_ai.request."): value for key, value in held.items() if "gen_ai.request." in key}
    messages = [_openinference_message(one) for one in _nested(held, "llm.input_messages")]
    if not messages:
        chat = _nested(held, "gen_ai.input.messages") or _events(span)
        instructions, _ = content_of(listed(held.get("gen_ai.system_instructions")))
        messages = [*([{"role": "system", "content": instructions}] if instructions else []), *chat]
    prompts = held.get("llm.prompts") or [
        (getter(getter(one)("prompt") or {})("text")) for one in _nested(held, "llm.prompts")
    ]
    text = prompts if isinstance(prompts, str) else next(filter(None, prompts), None)
    if not messages and not isinstance(text, str):
        return None
    tools = _nested(held, "llm.tools") or _nested(held, "gen_ai.tool.definitions")
    return Prompt(
        messages=messages_of(messages) if messages else None,
        text=text,
        model=name_of(held.get("llm.model_name")) or model_of(parameters, request),
        sampling=sampling_of(parameters, request, {"response_format": held.get("gen_ai.output.type")}),
        n_tools=max(len(tools), tools_of(parameters)),
    )


def _choices(span: Any, held: Mapping[str, Any]) -> list[Choice]:
    reasons = held.get("gen_ai.response.finish_reasons") or held.get("llm.finish_reason")
    reason = reasons if isinstance(reasons, str) else next(iter(reasons or ()), None)
    common: dict[str, Any] = {"response_id": name_of(held.get("gen_ai.response.id"))}
    found = [_openinference_message(one) for one in _nested(held, "llm.output_messages")]
    found = found or _nested(held, "gen_ai.output.messages") or _event_choices(span)
    if not found:
        texts = [getter(getter(one)("completion") or {})("text") for one in _nested(held, "llm.choices")]
        found = [{"role": "assistant", "content": text} for text in texts if isinstance(text, str)]
    out = []
    for message in found:
        get = getter(message)
        text, calls_tools, has_reasoned = answer_text(get("content") if get("content") is not None else get("parts"))
        out.append(
            Choice(
                text=text,
                calls_tools=calls_tools or bool(get("tool_calls")),
                has_reasoned=has_reasoned,
                finish_reason=name_of(get("finish_reason") or reason),
                **common,
            )
        )
    return out


def _events(span: Any) -> list[Any]:
    """Messages in events of the span, as older versions of the conventions have them."""
    made = []
    for event in getattr(span, "events", None) or ():
        held = dict(event.attributes or {})
        if event.name == "gen_ai.client.inference.operation.details":
            return _nested(held, "gen_ai.input.messages")
        if event.name.startswith("gen_ai.") and event.name.endswith(".message"):
            made.append({"role": event.name.split(".")[1], **held})
    return made


def _event_choices(span: Any) -> list[Any]:
    made: list[Any] = []
    for event in getattr(span, "events", None) or ():
        held = dict(event.attributes or {})
        if event.name == "gen_ai.client.inference.operation.details":
            return _nested(held, "gen_ai.output.messages")
        if event.name == "gen_ai.choice":
            message = listed(held.get("message"))
            made.append({**(message if isinstance(message, Mapping) else held)})
    return made


def _documents(held: Mapping[str, Any], name: str) -> Iterable[Fields]:
    found = _nested(held, f"{name}.documents" if name == "retrieval" else f"{name}_documents")
    found = found or (_nested(held, "gen_ai.retrieval.documents") if name == "retrieval" else [])
    return documents_of([_document(one) for one in found])


def _document(entry: Any) -> Any:
    if not isinstance(entry, Mapping):
        return entry
    return {str(key).removeprefix("document."): value for key, value in entry.items()}
