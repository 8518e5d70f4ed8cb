"""A callback for LlamaIndex: handles events and spans of its instrumentation, `llama_index.core.instrumentation`."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from leakmeter.integrations.log import AnswerLog, opened
from leakmeter.integrations.runs import Choice, Prompt, Recorder, guarded
from leakmeter.integrations.values import (
    answer_text,
    documents_of,
    getter,
    messages_of,
    model_of,
    name_of,
    sampling_of,
    settings_of,
    tools_of,
)
from leakmeter.overriding import override

_MOST: Final = 32
_RECIPIENTS: Final = ("recipient", "user_id")


@dataclass(slots=True)
class _Call:
    """A model's call that has not ended."""

    id: str
    sent: str
    """The last of what the model is sent."""
    is_chat: bool
    streamed: Any = None
    """The answer as far as it has come."""
    has_ended: bool = False


class LlamaIndexCallback(Recorder):
    """Appends each answer that LlamaIndex gives to a log. It is both an event handler and a span handler.

    With `get_dispatcher` of `llama_index.core.instrumentation`: `get_dispatcher().add_event_handler(callback)` and
    `get_dispatcher().add_span_handler(callback)`. LlamaIndex drops what a handler raises: a strict log is no use here.

    Examples:
        >>> LlamaIndexCallback("answers.jsonl").class_name()
        'LlamaIndexCallback'
    """

    _SOURCE = "llamaindex"

    def __init__(self, log: AnswerLog | str | os.PathLike[str], *, recipient: object = None) -> None:
        """A callback that appends to a log.

        Args:
            log: the log, or the path of its file.
            recipient: of answers outside of `instrument_tags({"recipient": …})`: a text, or a function that returns
                one.
        """
        super().__init__(opened(log), recipient)
        self.open_spans: dict[str, Any] = {}  # a span handler has it; the spans are with `_runs`
        self._calls: Final[dict[str, list[_Call]]] = {}
        self._settings: Final[dict[str, Any]] = {}
        self._orphans: Final[set[str]] = set()
        # Calls that a task or a thread began and that have not ended.
        self._latest: Final[ContextVar[tuple[_Call, ...]]] = ContextVar("leakmeter_latest_calls", default=())
        self._streams: Final[weakref.WeakSet[Any]] = weakref.WeakSet()
        self._number = 0
        self._lock: Final = threading.Lock()

    @classmethod
    def class_name(cls) -> str:
        """The handler's name."""
        return cls.__name__

    @guarded
    def span_enter(
        self, id_: str, bound_args: Any, instance: Any = None, parent_id: str | None = None, tags: Any = None, **_: Any
    ) -> None:
        """A span begins."""
        if parent_id is None or not self._runs.knows(parent_id):
            self._orphans.add(id_)
        self._runs.start(id_, parent_id, recipient=_recipient(tags))
        if hasattr(type(instance), "complete"):
            self._settings[id_] = settings_of(instance)

    @guarded
    def span_exit(self, id_: str, bound_args: Any, instance: Any = None, result: Any = None, **_: Any) -> None:
        """A span has ended; what it returned may go on as a stream, which makes its call when it is read."""
        stream = getattr(result, "__dict__", {}).get("response_gen")
        if isinstance(stream, Generator | AsyncGenerator) and stream not in self._streams:
            result.response_gen = made = self._runs.streamed(id_, stream)
            self._streams.add(made)
        self._orphans.discard(id_)
        self._settings.pop(id_, None)
        self._runs.end(id_, returned=result)

    @guarded
    def span_drop(self, id_: str, bound_args: Any, instance: Any = None, err: Any = None, **_: Any) -> None:
        """A span has raised."""
        self._orphans.discard(id_)
        self._settings.pop(id_, None)
        self._broke_off(id_)
        self._runs.end(id_, has_failed=True)

    def capture_propagation_context(self) -> dict[str, Any]:
        """Nothing is handed to other processes."""
        return {}

    def restore_propagation_context(self, context: Mapping[str, Any]) -> None:
        """Nothing is taken from other processes."""

    async def ahandle(self, event: Any, **kwargs: Any) -> None:
        """An event, from a task."""
        self.handle(event, **kwargs)

    @guarded
    def handle(self, event: Any, **_: Any) -> None:
        """An event."""
        handled: Mapping[str, Callable[[Any], None]] = {
            "LLMChatStartEvent": self._begins,
            "LLMCompletionStartEvent": self._begins,
            "LLMChatInProgressEvent": self._goes_on,
            "LLMCompletionInProgressEvent": self._goes_on,
            "LLMChatEndEvent": self._answered,
            "LLMCompletionEndEvent": self._answered,
            "RetrievalEndEvent": self._retrieved,
            "SynthesizeEndEvent": self._synthesized,
            "ExceptionEvent": lambda event: self._broke_off(event.span_id),
        }
        if (handle := handled.get(event.class_name())) is not None:
            handle(event)

    @override
    def _spoil(self, *args: Any, **kwargs: Any) -> None:
        event = args[0] if args else kwargs.get("id_")
        span = event if isinstance(event, str) else getattr(event, "span_id", None)
        while (call := self._taken(span)) is not None:
            self._runs.end(call.id, has_failed=True)
        self._runs.spoil(span)

    def _begins(self, event: Any) -> None:
        chat, given = getattr(event, "messages", None), (event.model_dict, event.additional_kwargs)
        settings = (self._settings.get(str(event.span_id)), *given)
        prompt = Prompt(
            messages=None if chat is None else messages_of(chat),
            text=getattr(event, "prompt", None),
            model=model_of(*settings),
            sampling=sampling_of(*settings),
            n_tools=tools_of(*given),
        )
        last = prompt.text if not prompt.messages else prompt.messages[-1]["content"]
        with self._lock:
            self._number += 1
            sent = last if isinstance(last, str) else ""
            call = _Call(f"{event.span_id}#{self._number}", sent, is_chat=prompt.messages is not None)
            around = self._around(event.span_id, call)
            self._calls.setdefault(str(event.span_id), []).append(call)
        self._latest.set((*(one for one in self._latest.get()[-_MOST:] if not one.has_ended), call))
        recipient = _recipient(event.tags)
        self._runs.start(call.id, around or event.span_id, "model", recipient=recipient, prompt=prompt)

    def _around(self, span_id: Any, call: _Call) -> str | None:
        """The call that makes a call: of a chat that is answered by a completion, the completion says what was sent."""
        for span in self._spans(span_id):
            if found := self._calls.get(span):
                return found[-1].id
        # A stream that is answered by another one makes its call when it is read, out of its span.
        if span_id not in self._orphans:
            return None
        waiting = [
            one for one in reversed(self._latest.get()) if one.sent and not one.has_ended and one.streamed is None
        ]
        same = (one.id for one in waiting if one.sent == call.sent or (one.is_chat and one.sent in call.sent))
        return next(same, None)

    def _spans(self, span_id: Any) -> Iterator[str]:
        span: Any = span_id
        while span is not None:
            yield str(span)
            span = self._runs.parent_of(span)

    def _goes_on(self, event: Any) -> None:
        with self._lock:
            if found := self._calls.get(str(event.span_id)):
                found[-1].streamed = event.response

    def _taken(self, span_id: Any) -> _Call | None:
        with self._lock:
            found = self._calls.get(str(span_id))
            call = found.pop() if found else None
            if call is not None:
                call.has_ended = True
            if found is not None and not found:
                del self._calls[str(span_id)]
        return call

    def _answered(self, event: Any) -> None:
        choices = _choices(event.response)
        if (call := self._taken(event.span_id)) is not None:
            self._runs.end(call.id, choices=choices)

    def _broke_off(self, span_id: Any) -> None:
        while (call := self._taken(span_id)) is not None:
            choices: list[Choice] = []
            try:
                choices = _choices(call.streamed)
            finally:
                self._runs.end(call.id, choices=choices, has_failed=True)

    def _retrieved(self, event: Any) -> None:
        self._runs.start(event.span_id or event.id_)
        self._runs.end(event.span_id or event.id_, kind="retriever", documents=documents_of(event.nodes))

    def _synthesized(self, event: Any) -> None:
        self._runs.use(event.span_id, documents_of(getattr(event.response, "source_nodes", None) or ()))


def _recipient(tags: Any) -> Any:
    return next((tags[name] for name in _RECIPIENTS if tags.get(name) is not None), None) if tags else None


def _choices(response: Any) -> list[Choice]:
    if response is None:
        return []
    get = getter(response)
    message, raw = get("message"), get("raw")
    extra = getter(message)("additional_kwargs") or {}
    content = get("text") if message is None else getter(message)("blocks") or getter(message)("content")
    text, calls_tools, has_reasoned = answer_text(content)
    return [
        Choice(
            text=text,
            calls_tools=calls_tools or bool(extra.get("tool_calls")),
            has_reasoned=has_reasoned,
            response_id=name_of(getter(raw)("id")) if raw is not None else None,
        )
    ]
