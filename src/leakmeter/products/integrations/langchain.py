"""A callback for LangChain: its runs, as `langchain_core.callbacks.BaseCallbackHandler` describes them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, Self

from leakmeter.data import foreign
from leakmeter.data.foreign import LoggedFields, choice_of, getter
from leakmeter.data.traces.span import SpanKind
from leakmeter.overriding import override
from leakmeter.products.integrations.log import AnswerLog
from leakmeter.products.integrations.runs import Recorder, guarded


def _started(kind: SpanKind) -> Callable[..., None]:
    def on_start(self: LangChainCallback, serialized: Any, content: Any, *, run_id: Any, **kwargs: Any) -> None:
        self._begin(kind, run_id, kwargs)

    return guarded(on_start)


class LangChainCallback(Recorder):
    """Appends each answer that a chain of LangChain or a graph of LangGraph gives to a log.

    Give it as `config={"callbacks": [callback], "metadata": {"recipient": "desk 4"}}`. One callback serves a whole
    program, in any number of threads and tasks.
    """

    _SOURCE = "langchain"

    run_inline = True  # events of one run in order, also where tasks run at one time
    ignore_llm = ignore_chain = ignore_agent = ignore_retriever = ignore_chat_model = False
    ignore_retry = ignore_custom_event = True

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """One that LangChain's type checks take, where LangChain is imported."""
        base = getattr(sys.modules.get("langchain_core.callbacks"), "BaseCallbackHandler", None)
        if base is None or issubclass(cls, base):
            return super().__new__(cls)
        instance: Self = super().__new__(type(cls.__name__, (cls, base), {"__module__": cls.__module__}))
        return instance

    def __init__(self, log: AnswerLog | str | os.PathLike[str], *, recipient: object = None) -> None:
        super().__init__(log, recipient=recipient)
        self.raise_error = self.log.strict

    @override
    def _spoil(self, *args: Any, run_id: Any = None, parent_run_id: Any = None, **kwargs: Any) -> None:
        self._drop(run_id, parent_run_id)

    def _begin(self, kind: SpanKind, run_id: Any, options: LoggedFields, **sent: Any) -> None:
        metadata, params = options.get("metadata") or {}, (options.get("invocation_params"), options.get("options"))
        recipient = metadata.get("recipient") if metadata.get("recipient") is not None else metadata.get("user_id")
        described = {name: metadata.get(f"ls_{name}") for name in ("temperature", "max_tokens")}
        sent_fields = foreign.asked_of(described, *params, **sent) if sent else {}
        if sent and sent_fields["model"] is None:
            sent_fields["model"] = foreign.name_of(metadata.get("ls_model_name"))
        self._start(run_id, options.get("parent_run_id"), kind, sent=sent_fields, recipient=recipient)

    on_chain_start, on_tool_start, on_retriever_start = _started("other"), _started("tool"), _started("retriever")

    @guarded
    def on_chat_model_start(self, serialized: Any, messages: list[list[Any]], *, run_id: Any, **kwargs: Any) -> None:
        self._begin("llm", run_id, kwargs, messages=foreign.messages_of(next(iter(messages), ())))

    @guarded
    def on_llm_start(self, serialized: Any, prompts: list[str], *, run_id: Any, **kwargs: Any) -> None:
        self._begin("llm", run_id, kwargs, prompt=next(iter(prompts), ""))

    @guarded
    def on_llm_end(self, response: Any, *, run_id: Any, **kwargs: Any) -> None:
        self._end(run_id, choices=_choices(response))

    @guarded
    def on_llm_error(self, error: BaseException, *, run_id: Any, **kwargs: Any) -> None:
        # `response` is what it had streamed.
        self._end(run_id, choices=_choices(kwargs.get("response")), has_failed=True)

    @guarded
    def on_retriever_end(self, documents: Any, *, run_id: Any, **kwargs: Any) -> None:
        self._end(run_id, documents=foreign.documents_of(documents))

    @guarded
    def on_chain_end(self, outputs: Any, *, run_id: Any, **kwargs: Any) -> None:
        self._end(run_id, returned=outputs)

    @guarded
    def on_chain_error(self, error: BaseException, *, run_id: Any, **kwargs: Any) -> None:
        self._end(run_id, has_failed=True)

    def on_text(self, *args: Any, **kwargs: Any) -> None:
        """A part of an answer, which is taken whole when it has ended, or a text that is none."""

    on_tool_end, on_tool_error, on_retriever_error = on_chain_end, on_chain_error, on_chain_error
    on_llm_new_token = on_stream_event = on_agent_action = on_agent_finish = on_retry = on_custom_event = on_text


def _choices(response: Any) -> list[LoggedFields]:
    """Of an `LLMResult` for one prompt."""
    model = foreign.model_of(getter(response)("llm_output"))
    generations = next(iter(getter(response)("generations") or ()), ())
    return [_choice(getter(generation), model) for generation in generations]


def _choice(get: Callable[[str], Any], model: str | None) -> LoggedFields:
    ended = (get("generation_info") or {}).get("finish_reason")
    if (message := get("message")) is None:
        return choice_of(get("text") or "", finish_reason=ended, model=model)
    held = getter(message)
    described, extra, usage = (
        held(name) or {} for name in ("response_metadata", "additional_kwargs", "usage_metadata")
    )
    return choice_of(
        message,
        has_reasoned=(usage.get("output_token_details") or {}).get("reasoning") or extra.get("reasoning_content"),
        finish_reason=described.get("finish_reason") or ended,
        # A cached answer keeps the id of the run, or of the provider's response, that it was drawn in.
        response_id=held("id"),
        model=foreign.model_of(described) or model,
    )
