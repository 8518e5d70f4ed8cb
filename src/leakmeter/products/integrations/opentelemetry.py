"""A span processor for OpenTelemetry, by the interface of `opentelemetry.sdk.trace.SpanProcessor`.

What the attributes of spans mean, by OpenInference's conventions or by OpenTelemetry's for generative AI, is known to
`traces.formats`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from leakmeter.data.foreign import LoggedFields, choice_of, getter, messages_of, parsed, sampling_of, turn_of
from leakmeter.data.traces.formats import openinference, otel
from leakmeter.data.traces.span import TraceSpan
from leakmeter.overriding import override
from leakmeter.products.integrations.runs import Recorder, guarded

_PREFIXES: Final = {"llm.": "LLM", "retrieval.documents.": "RETRIEVER", "reranker.": "RERANKER"}
_RECIPIENTS: Final = ("user.id", "enduser.id", "enduser.pseudo.id")


class _Step(TraceSpan):
    """A span whose call is left as it was given."""

    prompt_and_answer: tuple[Any, Any] = (None, None)

    @override
    def read_call(self, prompt: object, reply: object) -> None:
        self.prompt_and_answer = prompt, reply


class AnswerSpanProcessor(Recorder):
    """Appends each answer that spans tell of to a log: `provider.add_span_processor(AnswerSpanProcessor(path))`.

    It sees spans when they end, before any exporter does, and sends nothing.
    """

    _SOURCE = "opentelemetry"

    @guarded
    def on_start(self, span: Any, parent_context: Any = None) -> None:
        self._start(*_ids(span), trace_id=f"{span.get_span_context().trace_id:032x}")

    @guarded
    def on_end(self, span: Any) -> None:
        events = [dict(event.attributes or {}) for event in getattr(span, "events", None) or ()]
        held = {name: attributes[name] for attributes in events for name in attributes if name.startswith("gen_ai.")}
        held |= dict(span.attributes or {})
        # The kind is set first, and is the first that a limit of the SDK takes away.
        guess = next((kind for name in held for prefix, kind in _PREFIXES.items() if name.startswith(prefix)), None)
        is_openinference = guess is not None or "openinference.span.kind" in held
        if is_openinference:
            held = {"openinference.span.kind": guess, **held}
        step = _Step("", "", "")
        (openinference.fill if is_openinference else otel.fill)(step, held)
        status = getattr(getattr(span, "status", None), "status_code", None)
        self._end(
            _ids(span)[0],
            kind=step.kind,
            **(_call(step, held) if step.kind == "llm" else {}),
            documents=_fields(step.documents),
            replaced=_fields(openinference.replaced(held)) if step.kind == "reranker" else (),
            returned=(parsed(held.get("output.value")), parsed(held.get("gen_ai.output.messages"))),
            recipient=next((held[name] for name in _RECIPIENTS if held.get(name)), None),
            time=None if span.end_time is None else datetime.fromtimestamp(span.end_time / 1e9, UTC),
            has_failed=getattr(status, "name", "") == "ERROR",
            is_cut=step.kind in ("llm", "retriever", "reranker") and _is_cut(span, held),
        )

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
        self._drop(*_ids(span))


def _ids(span: Any) -> tuple[str, str | None]:
    return f"{span.get_span_context().span_id:016x}", None if span.parent is None else f"{span.parent.span_id:016x}"


def _is_cut(span: Any, held: LoggedFields) -> bool:
    """Whether limits of the SDK took attributes away, or the ends of texts."""
    if getattr(span, "dropped_attributes", 0) or getattr(span, "dropped_events", 0):
        return True
    # The SDK cuts texts at this length without a word.
    longest = getattr(getattr(span, "_attributes", None), "max_value_len", None)
    return isinstance(longest, int) and any(isinstance(value, str) and len(value) >= longest for value in held.values())


def _fields(documents: list[list[Any]]) -> tuple[LoggedFields, ...]:
    return tuple({"id": id_, "text": text} for id_, text, *_ in documents)


def _call(step: _Step, held: LoggedFields) -> LoggedFields:
    """What a model was sent, which is empty where the span does not say it, and what it answered."""
    prompt, answer = step.prompt_and_answer
    if isinstance(prompt, Mapping) and "prompts" in prompt:
        first = next(iter(prompt["prompts"]), None)
        sent: LoggedFields = {"prompt": first if isinstance(first, str) else getter(getter(first)("prompt"))("text")}
    else:
        sent = {"messages": messages_of(prompt) if isinstance(prompt, list) else None}
    settings = {"model": step.model, "sampling": sampling_of(step.parameters), "n_tools": step.n_tools}
    reasons = held.get("gen_ai.response.finish_reasons") or held.get("llm.finish_reason")
    reason = reasons if isinstance(reasons, str) else next(iter(reasons or ()), None)
    choices = [
        choice_of(
            choice,
            has_reasoned=step.n_hidden,
            finish_reason=turn_of(choice).get("finish_reason") or reason,
            response_id=step.response_id,
        )
        for choice in (answer if isinstance(answer, list) else [answer])
        if choice is not None
    ]
    return {"sent": {**sent, **settings} if any(sent.values()) else {}, "choices": choices}
