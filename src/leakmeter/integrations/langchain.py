"""A callback for LangChain: its runs, as `langchain_core.callbacks.BaseCallbackHandler` describes them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from leakmeter.integrations.log import AnswerLog, opened
from leakmeter.integrations.runs import Choice, Kind, Prompt, Recorder, guarded
from leakmeter.integrations.values import (
    answer_text,
    documents_of,
    getter,
    messages_of,
    model_of,
    name_of,
    sampling_of,
    tools_of,
)
from leakmeter.overriding import override

_RECIPIENTS = ("recipient", "user_id")
_MODEL = "ls_model_name"


class LangChainCallback(Recorder):
    """Appends each answer that a chain of LangChain or a graph of LangGraph gives to a log.

    Give it as `config={"callbacks": [callback], "metadata": {"recipient": "desk 4"}}`. One callback serves a whole
    program, in any number of threads and tasks.

    Examples:
        >>> callback = LangChainCallback("answers.jsonl")
        >>> callback.raise_error
        False
    """

    _SOURCE = "langchain"

    run_inline = True  # events of one run in order, also where tasks run at one time
    ignore_llm = ignore_chain = ignore_agent = ignore_retriever = False
    ignore_chat_model = False
    ignore_retry = ignore_custom_event = True

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """One that LangChain's type checks take, where LangChain is imported."""
        base = getattr(sys.modules.get("langchain_core.callbacks"), "BaseCallbackHandler", None)
        if base is None or issubclass(cls, base):
            return super().__new__(cls)
        made: Self = super().__new__(type(cls.__name__, (cls, base), {"__module__": cls.__module__}))
        return made

    def __init__(self, log: AnswerLog | str | os.PathLike[str], *, recipient: object = None) -> None:
        """A callback that appends to a log.

        Args:
            log: the log, or the path of its file.
            recipient: of answers whose metadata have neither `recipient` nor `user_id`: a text, or a function that
                returns one.
        """
        super().__init__(opened(log), recipient)
        self.raise_error = self.log.strict

    @override
    def _spoil(self, *args: Any, run_id: Any = None, parent_run_id: Any = None, **kwargs: Any) -> None:
        self._runs.spoil(run_id, parent_run_id)

    def _start(self, kind: Kind, run_id: Any, prompt: Prompt | None, given: Mapping[str, Any]) -> None:
        metadata = given.get("metadata") or {}
        recipient = next((metadata[name] for name in _RECIPIENTS if metadata.get(name) is not None), None)
        self._runs.start(run_id, given.get("parent_run_id"), kind, recipient=recipient, prompt=prompt)

    @guarded
    def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: Any, **kwargs: Any) -> None:
        """A chain begins."""
        self._start("other", run_id, None, kwargs)

    @guarded
    def on_chain_end(self, outputs: Any, *, run_id: Any, **kwargs: Any) -> None:
        """A chain has returned."""
        self._runs.end(run_id, returned=outputs)

    @guarded
    def on_chain_error(self, error: BaseException, *, run_id: Any, **kwargs: Any) -> None:
        """A chain has raised."""
        self._runs.end(run_id, has_failed=True)

    @guarded
    def on_tool_start(self, serialized: Any, input_str: str, *, run_id: Any, **kwargs: Any) -> None:
        """A tool begins."""
        self._start("tool", run_id, None, kwargs)

    @guarded
    def on_tool_end(self, output: Any, *, run_id: Any, **kwargs: Any) -> None:
        """A tool has returned."""
        self._runs.end(run_id)

    @guarded
    def on_tool_error(self, error: BaseException, *, run_id: Any, **kwargs: Any) -> None:
        """A tool has raised."""
        self._runs.end(run_id, has_failed=True)

    @guarded
    def on_retriever_start(self, serialized: Any, query: str, *, run_id: Any, **kwargs: Any) -> None:
        """A retriever begins."""
        self._start("retriever", run_id, None, kwargs)

    @guarded
    def on_retriever_end(self, documents: Sequence[Any], *, run_id: Any, **kwargs: Any) -> None:
        """A retriever has found documents."""
        self._runs.end(run_id, documents=documents_of(documents))

    @guarded
    def on_retriever_error(self, error: BaseException, *, run_id: Any, **kwargs: Any) -> None:
        """A retriever has raised."""
        self._runs.end(run_id, has_failed=True)

    @guarded
    def on_chat_model_start(self, serialized: Any, messages: list[list[Any]], *, run_id: Any, **kwargs: Any) -> None:
        """A chat model is sent messages."""
        chat = messages_of(next(iter(messages), ()))
        self._start("model", run_id, _prompt(kwargs, messages=chat), kwargs)

    @guarded
    def on_llm_start(self, serialized: Any, prompts: list[str], *, run_id: Any, **kwargs: Any) -> None:
        """A model is sent a text."""
        self._start("model", run_id, _prompt(kwargs, text=next(iter(prompts), "")), kwargs)

    @guarded
    def on_llm_end(self, response: Any, *, run_id: Any, **kwargs: Any) -> None:
        """A model has answered."""
        self._runs.end(run_id, choices=_choices(response))

    @guarded
    def on_llm_error(self, error: BaseException, *, run_id: Any, **kwargs: Any) -> None:
        """A model has raised; `response` is what it had streamed."""
        self._runs.end(run_id, choices=_choices(kwargs.get("response")), has_failed=True)

    def on_llm_new_token(self, token: Any, **kwargs: Any) -> None:
        """Part of an answer, which is taken whole when it has ended."""

    def on_stream_event(self, event: Any, **kwargs: Any) -> None:
        """Part of an answer, likewise."""

    def on_text(self, text: str, **kwargs: Any) -> None:
        """Text of a chain, which is no answer."""

    def on_agent_action(self, action: Any, **kwargs: Any) -> None:
        """An agent's step; its calls are runs of their own."""

    def on_agent_finish(self, finish: Any, **kwargs: Any) -> None:
        """An agent's last step, likewise."""

    def on_retry(self, retry_state: Any, **kwargs: Any) -> None:
        """A call is made again, as one run."""

    def on_custom_event(self, name: str, data: Any, **kwargs: Any) -> None:
        """An event of the program's own."""


def _prompt(kwargs: Mapping[str, Any], **sent: Any) -> Prompt:
    params, metadata = kwargs.get("invocation_params") or {}, kwargs.get("metadata") or {}
    options = kwargs.get("options")
    return Prompt(
        model=model_of(params) or name_of(metadata.get(_MODEL)),
        sampling=sampling_of(
            {name: metadata.get(f"ls_{name}") for name in ("temperature", "max_tokens")}, params, options
        ),
        n_tools=tools_of(params, options),
        **sent,
    )


def _choices(response: Any) -> list[Choice]:
    """Of an `LLMResult` for one prompt."""
    return [_choice(generation, model_of(getter(response)("llm_output"))) for generation in _generations(response)]


def _generations(response: Any) -> Iterable[Any]:
    return next(iter(getter(response)("generations") or ()), ())


def _choice(generation: Any, model: str | None) -> Choice:
    get = getter(generation)
    message, info = get("message"), get("generation_info") or {}
    if message is None:
        return Choice(text=get("text") or "", finish_reason=name_of(info.get("finish_reason")), model=model)
    held = getter(message)
    text, calls_tools, has_reasoned = answer_text(held("content"))
    said, extra, usage = (held(name) or {} for name in ("response_metadata", "additional_kwargs", "usage_metadata"))
    reasoning = (usage.get("output_token_details") or {}).get("reasoning")
    return Choice(
        text=text,
        calls_tools=calls_tools or bool(held("tool_calls")),
        has_reasoned=has_reasoned or bool(reasoning) or bool(extra.get("reasoning_content")),
        finish_reason=name_of(said.get("finish_reason") or info.get("finish_reason")),
        # A cached answer keeps the id of the run, or of the provider's response, that it was drawn in.
        response_id=name_of(held("id")),
        model=model_of(said) or model,
    )
