"""The callback for LlamaIndex, driven by events and spans as its instrumentation emits them, without importing it.

Chats and condensed questions are those of LlamaIndex itself, in `test_real_libraries.py`, where it is installed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from enum import Enum
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest

from leakmeter.products.integrations import AnswerLog, LlamaIndexCallback, answering


def node(id_: str, text: str) -> SimpleNamespace:
    return SimpleNamespace(node=SimpleNamespace(node_id=id_, id_=id_, text=text, metadata={"source": "s"}), score=0.5)


NODES = [node("n1", "Anna Ek called at nine."), node("n2", "Soup is served at noon.")]
PAYLOAD = {"class_name": "Invented", "model_name": "invented-7b", "context_window": 4096}


def chat_message(role: str, text: str, *others: Any) -> SimpleNamespace:
    blocks = [SimpleNamespace(block_type="text", text=text), *others]
    return SimpleNamespace(role=Role(role), blocks=blocks, content=text, additional_kwargs={})


Role = Enum("Role", {name.upper(): name for name in ("system", "user", "assistant", "chatbot")})


class Event(SimpleNamespace):
    def __init__(self, kind: str, span_id: str | None, **more: Any) -> None:
        super().__init__(span_id=span_id, id_="event", tags={}, **more)
        self.kind = kind

    def class_name(self) -> str:
        return self.kind


class Response:
    """As LlamaIndex's: the attributes stand in the object."""

    def __init__(self, **held: Any) -> None:
        self.__dict__.update(held)


class Model:
    temperature = 0.7
    model = "invented-7b"

    def __init__(self) -> None:
        self.additional_kwargs = {"top_p": 0.9}

    def complete(self) -> None:
        """A model has it."""


class Traffic:
    """Emits what the dispatcher would."""

    def __init__(self, callback: LlamaIndexCallback) -> None:
        self.callback = callback
        self.model = Model()

    def enter(self, id_: str, parent: str | None = None, instance: Any = None, **tags: Any) -> str:
        self.callback.span_enter(id_=id_, bound_args=None, instance=instance, parent_id=parent, tags=tags)
        return id_

    def exit(self, id_: str, result: Any = None) -> None:
        self.callback.span_exit(id_=id_, bound_args=None, instance=None, result=result)

    def drop(self, id_: str) -> None:
        self.callback.span_drop(id_=id_, bound_args=None, instance=None, err=ValueError("Anna Ek"))

    def emit(self, kind: str, span: str | None, **more: Any) -> None:
        self.callback.handle(Event(kind, span, **more))

    def retrieve(self, id_: str, parent: str | None, nodes: list[Any]) -> None:
        self.enter(id_, parent)
        self.emit("RetrievalEndEvent", id_, str_or_query_bundle="q", nodes=nodes)
        self.exit(id_, nodes)

    def begin(self, id_: str, parent: str | None, prompt: str = "q") -> None:
        self.enter(id_, parent, self.model)
        self.emit("LLMCompletionStartEvent", id_, prompt=prompt, model_dict=PAYLOAD, additional_kwargs={})

    def complete(self, id_: str, parent: str | None, answer: str, prompt: str = "q") -> None:
        self.begin(id_, parent, prompt)
        self.emit("LLMCompletionEndEvent", id_, prompt=prompt, response=SimpleNamespace(text=answer, raw=None))
        self.exit(id_, SimpleNamespace(text=answer))

    def chat(self, id_: str, parent: str | None, messages: list[Any], answer: Any, **more: Any) -> None:
        self.enter(id_, parent, self.model)
        self.emit("LLMChatStartEvent", id_, messages=messages, model_dict=PAYLOAD, additional_kwargs=more)
        self.emit("LLMChatEndEvent", id_, messages=messages, response=answer)
        self.exit(id_, answer)

    def is_empty(self) -> bool:
        return not (self.callback._of or self.callback._traces)


@pytest.fixture
def traffic(log: AnswerLog) -> Traffic:
    return Traffic(LlamaIndexCallback(log))


def logged(log: AnswerLog) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.path.read_bytes().splitlines()] if log.path.exists() else []


def test_a_query(log: AnswerLog, traffic: Traffic) -> None:
    traffic.enter("query", None, recipient="desk 4")
    traffic.retrieve("retrieve", "query", [*NODES, node("n3", "Dropped by a postprocessor.")])
    traffic.enter("synthesize", "query")
    traffic.complete("llm", "synthesize", "Anna Ek.", "Anna Ek called at nine. Who called?")
    response = Response(response="Anna Ek.", source_nodes=NODES)
    traffic.emit("SynthesizeEndEvent", "synthesize", query="q", response=response)
    traffic.exit("synthesize", response)
    assert logged(log) == []
    traffic.exit("query", response)
    (line,) = logged(log)
    assert line.pop("time")
    assert line == {
        "schema": "leakmeter-answer/1",
        "trace_id": "query",
        "span_id": "llm",
        "recipient": "desk 4",
        "model": "invented-7b",
        "sampling": {"temperature": 0.7, "top_p": 0.9},
        "prompt": "Anna Ek called at nine. Who called?",
        "answer": "Anna Ek.",
        "documents": [{"id": "n1", "text": "Anna Ek called at nine."}, {"id": "n2", "text": "Soup is served at noon."}],
        "hidden_calls": 0,
        "source": "llamaindex",
    }
    assert traffic.is_empty()


def test_a_chat_with_parts_tools_and_reasoning(log: AnswerLog, traffic: Traffic) -> None:
    image = SimpleNamespace(block_type="image", image=b"secret")
    turns = (("system", "Be short."), ("chatbot", "Yes?"), ("user", "Who?", image))
    messages = [chat_message(*turn) for turn in turns]
    call = SimpleNamespace(block_type="tool_call", tool_name="clock", tool_kwargs={})
    thinking = SimpleNamespace(block_type="thinking", content="hm")
    traffic.enter("engine")
    traffic.chat("agent", "engine", messages, SimpleNamespace(message=chat_message("assistant", "", call), raw=None))
    answer = SimpleNamespace(message=chat_message("assistant", "Anna Ek.", thinking), raw={"id": "draw-1"})
    traffic.chat("chat", "engine", messages, answer, tools=[{"name": "look"}], temperature=0.1)
    traffic.exit("engine", Response(response="Anna Ek.", source_nodes=NODES))
    (line,) = logged(log)
    assert line["messages"] == [
        {"role": "system", "content": "Be short."},
        {"role": "assistant", "content": "Yes?"},
        {"role": "user", "content": [{"type": "text", "text": "Who?"}, {"type": "image"}]},
    ]
    assert (line["span_id"], line["answer"], line["hidden_calls"], line["n_tools"]) == ("chat", "Anna Ek.", 2, 1)
    assert (line["sampling"]["temperature"], line["response_id"]) == (0.1, "draw-1")


def test_a_call_of_a_tool(log: AnswerLog, traffic: Traffic) -> None:
    call = SimpleNamespace(block_type="tool_call", tool_name="mail", tool_kwargs={"to": "Anna Ek"}, tool_call_id="c1")
    beside = {"tool_calls": [{"id": "c1", "function": {"name": "mail", "arguments": '{"to":"Anna Ek"}'}}]}
    traffic.enter("engine")
    for number, more in enumerate(({}, beside), 1):
        said = chat_message("assistant", "", *([] if more else [call]))
        said.additional_kwargs = more
        asked = [chat_message("user", "Who?")]
        traffic.chat(f"call-{number}", "engine", asked, SimpleNamespace(message=said, raw=None))
    traffic.exit("engine")
    first, second = logged(log)
    for line in (first, second):
        (told,) = line["tool_calls"]
        assert (line["answer"], told["name"], json.loads(told["arguments"])) == ("", "mail", {"to": "Anna Ek"})


def streamed(traffic: Traffic) -> Generator[str, None, None]:
    """As a synthesizer streams: the call is made when the generator is read, after the query's span has ended."""
    traffic.begin("llm", None)
    traffic.exit("llm")
    try:
        for text in ("Anna", "Anna Ek", "Anna Ek."):
            response = SimpleNamespace(text=text, raw=None)
            traffic.emit("LLMCompletionInProgressEvent", "llm", prompt="q", response=response)
            yield text
    except GeneratorExit as error:
        traffic.emit("ExceptionEvent", "llm", exception=error)
        raise
    traffic.emit("LLMCompletionEndEvent", "llm", prompt="q", response=response)


def queried(traffic: Traffic) -> Generator[str, None, None]:
    """The stream that a query returned."""
    traffic.enter("query", None, recipient="desk 4")
    traffic.retrieve("retrieve", "query", NODES)
    traffic.enter("synthesize", "query")
    stream = streamed(traffic)
    response = Response(response_gen=stream, source_nodes=NODES[:1])
    traffic.emit("SynthesizeEndEvent", "synthesize", query="q", response=response)
    for span in ("synthesize", "query"):
        traffic.exit(span, response)
    return stream


def test_a_stream_belongs_to_its_query_within_a_block_and_is_counted_outside(log: AnswerLog, traffic: Traffic) -> None:
    for n_read, answer in ((4, "Anna Ek."), (2, "Anna Ek")):
        with answering():
            stream = queried(traffic)
            assert [*islice(stream, n_read)][-1] == answer
            stream.close()
        line = logged(log)[-1]
        assert (line["recipient"], line["answer"], line["hidden_calls"]) == ("desk 4", answer, 0)
        assert line.get("interrupted", False) == (n_read < 3)
        assert [document["id"] for document in line["documents"]] == ["n1", "n2"]
    assert (log.lost, traffic.is_empty()) == (0, True)
    queried(traffic)
    assert (len(logged(log)), log.lost, traffic.is_empty()) == (2, 2, True)


def test_what_fails_is_no_answer(log: AnswerLog, traffic: Traffic) -> None:
    for query in ("query", "query 2"):
        traffic.enter(query)
    traffic.begin("llm", "query")
    traffic.complete("llm 2", "query 2", "Anna Ek.")
    for span in ("llm", "query", "query 2"):
        traffic.drop(span)
    assert (logged(log), log.lost, traffic.is_empty()) == ([], 0, True)


def test_what_cannot_be_read_costs_its_trace_and_no_more(log: AnswerLog, traffic: Traffic) -> None:
    traffic.enter("query")
    traffic.complete("condense", "query", "better query")
    traffic.begin("llm", "query")
    traffic.emit("LLMCompletionEndEvent", "llm", prompt="q", response=SimpleNamespace(text=7, raw=None))
    traffic.emit("SynthesizeEndEvent", "query", response=SimpleNamespace(source_nodes=[SimpleNamespace(text=7)]))
    traffic.exit("llm")
    traffic.exit("query", "Anna Ek.")
    traffic.emit("LLMChatStartEvent", "unknown", messages=[object()], model_dict={}, additional_kwargs={})
    traffic.emit("AnotherEvent", None)
    assert logged(log) == []
    assert log.lost >= 2
    assert traffic.is_empty()


def test_events_from_tasks_and_the_rest_of_the_interface(log: AnswerLog, traffic: Traffic) -> None:
    callback = traffic.callback
    traffic.begin("llm", None)
    event = Event("LLMCompletionEndEvent", "llm", prompt="q", response=SimpleNamespace(text="Anna Ek.", raw=None))
    asyncio.run(callback.ahandle(event))
    traffic.exit("llm")
    assert len(logged(log)) == 1
    assert callback.open_spans == callback.capture_propagation_context() == {}
    callback.restore_propagation_context({})
    callback.close()
