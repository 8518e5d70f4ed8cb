"""A callback for LlamaIndex: handles events and spans of its instrumentation, `llama_index.core.instrumentation`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leakmeter.data import foreign
from leakmeter.data.foreign import LoggedFields, choice_of, documents_of, getter
from leakmeter.errors import UsageError
from leakmeter.overriding import override
from leakmeter.products.integrations.runs import CallbackRun, Recorder, guarded, is_answering


class LlamaIndexCallback(Recorder):
    """Appends each answer that LlamaIndex gives to a log. It is both an event handler and a span handler.

    With `get_dispatcher` of `llama_index.core.instrumentation`: `get_dispatcher().add_event_handler(callback)` and
    `get_dispatcher().add_span_handler(callback)`. LlamaIndex drops what a handler raises: a strict log is no use here.
    """

    _SOURCE = "llamaindex"
    open_spans: Mapping[str, Any] = {}  # a span handler has it

    @guarded
    def span_enter(self, id_: str, instance: Any = None, parent_id: Any = None, tags: Any = None, **_: Any) -> None:
        # That of a model has its settings.
        settings = foreign.settings_of(instance) if hasattr(type(instance), "complete") else {}
        recipient = next((tags[name] for name in ("recipient", "user_id") if tags and tags.get(name) is not None), None)
        self._start(id_, parent_id, sent=settings, recipient=recipient)

    @guarded
    def span_exit(self, id_: str, result: Any = None, **_: Any) -> None:
        # That of a call that has not answered has returned a stream.
        if (run := self._run(id_)) is not None and run.kind != "llm":
            self._end(id_, returned=result)
        if getattr(result, "__dict__", {}).get("response_gen") is not None and not is_answering():
            raise UsageError(
                "a stream of LlamaIndex makes its call when it is read; query and read it within `answering`"
            )

    @guarded
    def span_drop(self, id_: str, **_: Any) -> None:
        self._broken(self._run(id_))

    def capture_propagation_context(self) -> dict[str, Any]:
        """Nothing is handed to other processes."""
        return {}

    def restore_propagation_context(self, context: Mapping[str, Any]) -> None:
        """Nothing is taken from other processes."""

    async def ahandle(self, event: Any, **kwargs: Any) -> None:
        self.handle(event, **kwargs)

    @guarded
    def handle(self, event: Any, **_: Any) -> None:
        kind, run = event.class_name(), self._run(event.span_id)
        if kind == "RetrievalEndEvent":
            self._start(event.span_id or event.id_)
            self._end(event.span_id or event.id_, kind="retriever", documents=documents_of(event.nodes))
        elif kind in ("LLMChatStartEvent", "LLMCompletionStartEvent"):
            if run is None:
                raise UsageError("a call outside of all spans is not logged; add the callback as a span handler too")
            run.kind, run.sent = "llm", _sent(event, run.sent)
        elif run is None:
            return
        elif kind in ("LLMChatInProgressEvent", "LLMCompletionInProgressEvent"):
            run.streamed = event.response
        elif kind in ("LLMChatEndEvent", "LLMCompletionEndEvent"):
            self._end(run.id, choices=[_choice(event.response)])
        elif kind == "SynthesizeEndEvent":
            run.used = (*run.used, *documents_of(getattr(event.response, "source_nodes", None) or ()))
        elif kind == "ExceptionEvent":
            self._broken(run)

    @override
    def _spoil(self, *args: Any, **kwargs: Any) -> None:
        event = args[0] if args else kwargs.get("id_")
        self._drop(event if isinstance(event, str) else getattr(event, "span_id", None))

    def _broken(self, run: CallbackRun | None) -> None:
        if run is not None:
            choices = [] if run.streamed is None else [_choice(run.streamed)]
            self._end(run.id, choices=choices, has_failed=True)


def _sent(event: Any, settings: LoggedFields) -> LoggedFields:
    chat, call_settings = getattr(event, "messages", None), (event.model_dict, event.additional_kwargs)
    sent = {"prompt": event.prompt} if chat is None else {"messages": foreign.messages_of(chat)}
    return foreign.asked_of(settings, *call_settings, **sent)


def _choice(response: Any) -> LoggedFields:
    get = getter(response)
    return choice_of(get("text") if get("message") is None else get("message"), response_id=getter(get("raw"))("id"))
