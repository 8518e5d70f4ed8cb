"""The callback for LangChain, driven by events as `BaseCallbackHandler` describes them; nothing of it is imported."""

from __future__ import annotations

import itertools
import json
import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.logged_agents import ANSWER, BOOKED, CALLS, FOUND, RESULT, TOOLS, WORD, Said
from leakmeter.core.case import Emission
from leakmeter.data.cases import cases_of
from leakmeter.data.conversation import emission_options
from leakmeter.data.traces.reader import presets
from leakmeter.errors import StoreError, UsageError
from leakmeter.products.integrations import AnswerLog, LangChainCallback, answering, runs

DOCUMENT = SimpleNamespace(page_content="Anna Ek called at nine.", metadata={"source": "calls.txt"}, id="call-1")
OTHER = SimpleNamespace(page_content="Soup is served at noon.", metadata={"source": "menu.txt"}, id=None)
PARAMS = {"model": "invented-7b", "temperature": 0.7, "model_kwargs": {"top_p": 0.9}, "stop": None}


def message(kind: str, content: Any, **more: Any) -> SimpleNamespace:
    return SimpleNamespace(type=kind, content=content, **more)


def said(*texts: str, **more: Any) -> SimpleNamespace:
    return SimpleNamespace(
        generations=[[SimpleNamespace(text=text, message=message("ai", text, **more)) for text in texts]],
        llm_output=None,
    )


class Traffic:
    """Emits the events of runs, as LangChain would."""

    def __init__(self, callback: LangChainCallback) -> None:
        self.callback = callback
        self.ids = itertools.count(1)

    def chain(self, parent: str | None = None, **more: Any) -> str:
        id_ = f"chain-{next(self.ids)}"
        self.callback.on_chain_start(None, {"input": "q"}, run_id=id_, parent_run_id=parent, **more)
        return id_

    def retrieve(self, parent: str | None, *documents: Any, around: Any = None) -> None:
        id_ = f"retriever-{next(self.ids)}"
        self.callback.on_retriever_start(None, "q", run_id=id_, parent_run_id=parent)
        if around is not None:
            around(id_)
        self.callback.on_retriever_end(documents, run_id=id_, parent_run_id=parent)

    def ask(self, parent: str | None, content: str = "q") -> str:
        id_ = f"model-{next(self.ids)}"
        chat = [message("system", "Be short."), message("human", content)]
        self.callback.on_chat_model_start({}, [chat], run_id=id_, parent_run_id=parent, invocation_params=PARAMS)
        return id_

    def call(self, parent: str | None, answer: str, content: str = "q", **more: Any) -> str:
        id_ = self.ask(parent, content)
        for token in answer:
            self.callback.on_llm_new_token(token, chunk=None, run_id=id_, parent_run_id=parent)
        self.callback.on_llm_end(said(answer, **more), run_id=id_, parent_run_id=parent)
        return id_

    def end(self, id_: str, returned: Any) -> None:
        self.callback.on_chain_end(returned, run_id=id_, parent_run_id=None)

    def is_empty(self) -> bool:
        return not self.callback._of and not self.callback._traces


@pytest.fixture
def traffic(log: AnswerLog) -> Traffic:
    return Traffic(LangChainCallback(log))


def logged(log: AnswerLog) -> list[dict[str, Any]]:
    """Its lines; a blank one may stand between those of threads that write at one time."""
    return [json.loads(line) for line in log.path.read_bytes().splitlines() if line] if log.path.exists() else []


def test_the_libraries_are_not_imported() -> None:
    code = (
        "import sys, leakmeter.integrations as i; i.LangChainCallback('x'); i.LlamaIndexCallback('x');"
        "i.AnswerSpanProcessor('x'); print(*{name.split('.')[0] for name in sys.modules})"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    others = {"langchain_core", "llama_index", "opentelemetry", "socket", "httpx2", "torch", "pandas", "pyarrow"}
    assert not others & set(ran.stdout.split())


def test_a_chain_with_a_retriever(log: AnswerLog, traffic: Traffic) -> None:
    root = traffic.chain(metadata={"recipient": "desk 4"})
    traffic.retrieve(root, DOCUMENT, OTHER, DOCUMENT)
    inner = traffic.chain(root)
    asked = "Anna Ek called at nine. Who called?"
    call = traffic.call(inner, "Anna Ek.", asked, id="draw-1", response_metadata={"finish_reason": "stop"})
    traffic.callback.on_chain_end("Anna Ek.", run_id=inner)
    assert logged(log) == []
    traffic.end(root, "Anna Ek.")
    (line,) = logged(log)
    del line["time"]
    assert line == {
        "schema": "leakmeter-answer/1",
        "trace_id": root,
        "span_id": call,
        "recipient": "desk 4",
        "model": "invented-7b",
        "sampling": {"temperature": 0.7, "top_p": 0.9},
        "messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": asked}],
        "answer": "Anna Ek.",
        "documents": [
            {"id": "call-1", "text": "Anna Ek called at nine."},
            {"id": "menu.txt", "text": "Soup is served at noon."},
        ],
        "hidden_calls": 0,
        "response_id": "draw-1",
        "finish_reason": "stop",
        "source": "langchain",
    }
    assert traffic.is_empty()


def test_a_completion_alone(log: AnswerLog, traffic: Traffic) -> None:
    traffic.callback.on_llm_start({}, ["Who called?"], run_id="m", invocation_params={"_type": "x", "top_k": 5})
    generation = SimpleNamespace(text="Anna Ek.", generation_info={"finish_reason": "length"})
    response = SimpleNamespace(generations=[[generation]], llm_output={"model_name": "invented-7b"})
    traffic.callback.on_llm_end(response, run_id="m")
    (line,) = logged(log)
    assert (line["prompt"], "messages" in line, line["documents"]) == ("Who called?", False, [])
    assert (line["model"], line["sampling"], line["finish_reason"]) == ("invented-7b", {"top_k": 5}, "length")
    assert line["trace_id"] == line["span_id"] == "m"


def test_several_choices_are_several_answers_and_reasoning_is_a_hidden_call(log: AnswerLog, traffic: Traffic) -> None:
    call = traffic.ask(None)
    traffic.callback.on_llm_end(said("one", "two"), run_id=call)
    assert [(line["span_id"], line["answer"]) for line in logged(log)] == [(call, "one"), (f"{call}.2", "two")]
    parts = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Anna "}, {"type": "text", "text": "Ek."}]
    generation = SimpleNamespace(text="", message=message("ai", parts))
    traffic.callback.on_llm_end(SimpleNamespace(generations=[[generation]]), run_id=traffic.ask(None))
    line = logged(log)[-1]
    assert (line["answer"], line["hidden_calls"], line["reasoning"]) == ("Anna Ek.", 1, "hm")


@pytest.mark.parametrize(
    ("calls", "returned", "answer"),
    [
        (("query", '{"who": "Ek"}'), {"who": "Ek"}, '{"who": "Ek"}'),  # no text of any: the last
        (("Who called?", "Who called?"), "Who called?", "Who called?"),  # of two with one text the last
        (("Anna Ek.", "a title"), {"messages": [message("human", "q"), message("ai", "Anna Ek.")]}, "Anna Ek."),
    ],
)
def test_of_several_calls_one_is_the_answer(
    log: AnswerLog, traffic: Traffic, calls: tuple[str, ...], returned: Any, answer: str
) -> None:
    root = traffic.chain()
    ids = [traffic.call(root, text) for text in calls]
    traffic.end(root, returned)
    (line,) = logged(log)
    expected = max(number for number, text in enumerate(calls) if text == answer)
    assert (line["span_id"], line["answer"], line["hidden_calls"]) == (ids[expected], answer, 1)


def test_tools_and_an_attempt_that_failed_are_hidden(log: AnswerLog, traffic: Traffic) -> None:
    root, callback = traffic.chain(), traffic.callback
    first, second = traffic.chain(root), traffic.chain(root)
    traffic.call(first, "no JSON")
    callback.on_chain_error(ValueError(), run_id=first)
    traffic.call(second, "", tool_calls=[{"name": "clock", "args": {}}])
    callback.on_tool_start({}, "x", run_id="tool", parent_run_id=second)
    callback.on_tool_end("y", run_id="tool", parent_run_id=second)
    last = traffic.call(second, '{"x": 1}')
    callback.on_chain_end({"x": 1}, run_id=second)
    traffic.end(root, {"x": 1})
    (line,) = logged(log)
    assert (line["span_id"], line["answer"], line["hidden_calls"]) == (last, '{"x": 1}', 3)


def test_a_model_around_a_model_is_one_call(log: AnswerLog, traffic: Traffic) -> None:
    outer = traffic.ask(None, "outer")
    inner = traffic.call(outer, "Anna Ek.", "inner")
    traffic.callback.on_llm_end(said("Anna Ek."), run_id=outer)
    (line,) = logged(log)
    assert (line["span_id"], line["hidden_calls"]) == (inner, 0)


def test_all_answers_that_a_chain_returns_are_logged(log: AnswerLog, traffic: Traffic) -> None:
    root = traffic.chain()
    first, second = traffic.ask(root), traffic.ask(root)
    traffic.callback.on_llm_end(said("one"), run_id=first)
    traffic.callback.on_llm_end(said("two"), run_id=second)
    third = traffic.call(root, "two")
    traffic.call(root, "a title")
    traffic.end(root, {"a": "one", "b": ["two", "two"]})
    # The third began when the others had ended, which it may have been made of.
    assert {line["span_id"]: line["hidden_calls"] for line in logged(log)} == {first: 1, second: 1, third: 3}


def test_several_retrievers_and_those_within_others(log: AnswerLog, traffic: Traffic) -> None:
    raw = SimpleNamespace(page_content="Raw text, which is compressed.", metadata={}, id="raw")
    root = traffic.chain()
    traffic.retrieve(root, DOCUMENT, around=lambda id_: traffic.retrieve(id_, raw))
    traffic.retrieve(root, OTHER, DOCUMENT)
    traffic.call(root, "Anna Ek.")
    traffic.retrieve(root, raw)
    traffic.end(root, "Anna Ek.")
    (line,) = logged(log)
    assert [document["id"] for document in line["documents"]] == ["call-1", "menu.txt"]


def test_a_retriever_that_runs_before_belongs_to_the_block(log: AnswerLog, traffic: Traffic) -> None:
    with answering("desk 4", documents={"menu": "Soup is served at noon."}, trace_id="question-1") as trace:
        traffic.retrieve(None, DOCUMENT)
        root = traffic.chain(metadata={"recipient": "another"})
        call = traffic.call(root, "Anna Ek.")
        traffic.end(root, "Anna Ek.")
        late = traffic.ask(None)
        assert logged(log) == []
    assert logged(log) == []
    traffic.callback.on_llm_error(ValueError(), run_id=late)
    (line,) = logged(log)
    assert trace == line["trace_id"] == "question-1"
    assert (line["recipient"], line["span_id"]) == ("desk 4", call)
    assert [document["id"] for document in line["documents"]] == ["menu", "call-1"]
    assert traffic.is_empty()


def test_blocks_at_one_time_do_not_mix(log: AnswerLog, traffic: Traffic) -> None:
    def one(number: int) -> None:
        with answering(number):
            traffic.retrieve(None, SimpleNamespace(page_content=f"text {number}", metadata={}, id=number))
            traffic.call(None, f"answer {number}")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(one, range(64)))
    found = {line["recipient"]: (line["answer"], line["documents"]) for line in logged(log)}
    assert found == {str(n): (f"answer {n}", [{"id": str(n), "text": f"text {n}"}]) for n in range(64)}


def test_a_block_may_end_in_another_context(log: AnswerLog, traffic: Traffic) -> None:
    """As a web framework does that runs both halves in threads."""

    def dependency() -> Any:
        with answering("desk 4"):
            yield

    begun, context = dependency(), copy_context()
    context.run(next, begun)
    context.run(traffic.call, None, "Anna Ek.")
    assert next(begun, "ended") == "ended"
    assert logged(log)[0]["recipient"] == "desk 4"


def test_runs_at_one_time_are_told_apart_by_their_ids(log: AnswerLog, traffic: Traffic) -> None:
    roots = [traffic.chain(metadata={"user_id": n}) for n in range(3)]
    for n in (2, 0, 1):
        traffic.retrieve(roots[n], SimpleNamespace(page_content=f"text {n}", metadata={}, id=f"d{n}"))
    calls = [traffic.ask(root, f"question {n}") for n, root in enumerate(roots)]
    for n in (1, 2, 0):
        traffic.callback.on_llm_end(said(f"answer {n}"), run_id=calls[n], parent_run_id=roots[n])
    for n, root in enumerate(roots):
        traffic.end(root, f"answer {n}")
    assert [
        (line["recipient"], line["messages"][1]["content"], line["answer"], line["documents"]) for line in logged(log)
    ] == [(str(n), f"question {n}", f"answer {n}", [{"id": f"d{n}", "text": f"text {n}"}]) for n in range(3)]
    assert traffic.is_empty()


def test_what_fails_is_no_answer(log: AnswerLog, traffic: Traffic) -> None:
    error, callback = ValueError("Anna Ek"), traffic.callback
    first, second, third = (traffic.chain() for _ in range(3))
    callback.on_llm_error(error, run_id=traffic.ask(first), response=SimpleNamespace(generations=[]))
    traffic.call(second, "Anna Ek.")  # and a parser raises
    callback.on_retriever_start(None, "q", run_id="r", parent_run_id=third)
    callback.on_retriever_error(error, run_id="r")
    callback.on_tool_start(None, "q", run_id="t", parent_run_id=third)
    callback.on_tool_error(error, run_id="t")
    for root in (first, second, third):
        callback.on_chain_error(error, run_id=root)
    assert (logged(log), log.lost, traffic.is_empty()) == ([], 0, True)


def test_a_stream_may_break_off_or_end_after_the_chain_that_returned_it(log: AnswerLog, traffic: Traffic) -> None:
    # What it had told is logged, though the chain fails with it.
    first, second = traffic.chain(), traffic.chain()
    for root in (first, second):
        traffic.callback.on_llm_error(ConnectionError(), run_id=traffic.ask(root), response=said("Anna"))
    traffic.callback.on_chain_error(ConnectionError(), run_id=first)
    (line,) = logged(log)
    assert (line["answer"], line["interrupted"]) == ("Anna", True)
    # Where the call is made again, that call's text is the answer.
    traffic.call(second, "Bo Lind.")
    traffic.end(second, "Bo Lind.")
    _, line = logged(log)
    assert (line["answer"], line["hidden_calls"], "interrupted" in line) == ("Bo Lind.", 1, False)
    root = traffic.chain()
    call = traffic.ask(root)
    traffic.end(root, None)
    assert len(logged(log)) == 2
    traffic.callback.on_llm_end(said("Anna Ek."), run_id=call)
    assert logged(log)[2]["answer"] == "Anna Ek."


def test_an_answer_that_is_a_call_of_a_tool_is_logged(log: AnswerLog, traffic: Traffic) -> None:
    root = traffic.chain()
    traffic.call(root, "better query")
    call = traffic.call(root, "", tool_calls=[{"name": "Person", "args": {"name": "Anna Ek"}}])
    traffic.end(root, {"name": "Anna Ek"})
    (line,) = logged(log)
    assert (line["span_id"], line["answer"], line["turn"], line["hidden_calls"]) == (call, "", 2, 1)
    assert line["tool_calls"] == [{"name": "Person", "arguments": '{"name": "Anna Ek"}'}]
    assert log.lost == 0


def test_an_answer_that_says_nothing_is_counted(
    log: AnswerLog, traffic: Traffic, caplog: pytest.LogCaptureFixture
) -> None:
    root = traffic.chain(metadata={"recipient": "Anna Ek"})
    traffic.call(root, "better query")
    traffic.call(root, "", tool_calls=[{"name": "clock", "args": {}}])
    traffic.end(root, None)
    assert (logged(log), log.lost) == ([], 1)
    assert "says nothing" in caplog.text
    assert "Anna" not in caplog.text


def test_calls_of_tools_are_logged_whatever_becomes_of_the_chain(log: AnswerLog, traffic: Traffic) -> None:
    callback, calls = traffic.callback, [{"name": "mail", "args": {"to": "Anna Ek"}}]
    failed, broken, within = (traffic.chain() for _ in range(3))
    call = traffic.call(failed, "", tool_calls=calls)
    callback.on_tool_start(None, "q", run_id="t", parent_run_id=failed)
    callback.on_tool_error(ValueError(), run_id="t")
    callback.on_chain_error(ValueError(), run_id=failed)
    # A call that broke off told no tool; within a tool, calls are hidden.
    callback.on_llm_error(ConnectionError(), run_id=traffic.ask(broken), response=said("", tool_calls=calls))
    callback.on_chain_error(ConnectionError(), run_id=broken)
    callback.on_tool_start(None, "q", run_id="agent", parent_run_id=within)
    traffic.call("agent", "", tool_calls=calls)
    callback.on_tool_end("y", run_id="agent")
    traffic.call(within, "Written.")
    traffic.end(within, "Written.")
    beside = traffic.chain()
    traffic.call(beside, "I look at the clock.", tool_calls=[{"name": "clock", "args": {}}])
    traffic.call(beside, "At nine.")
    traffic.end(beside, "At nine.")
    told, answer, looking, _ = logged(log)
    assert looking["answer"] == "I look at the clock."
    assert (told["span_id"], told["answer"], told["hidden_calls"], "interrupted" in told) == (call, "", 0, False)
    assert (answer["answer"], answer["hidden_calls"], answer["unmeasured_calls"]) == ("Written.", 2, 1)


def langchain_message(said: Said) -> SimpleNamespace:
    """As Anthropic's models have it in LangChain: each call stands among the parts and beside them."""
    role, text, calls, of = said
    if of is not None:
        return message("tool", text, tool_call_id=of)
    content: Any = [{"type": "text", "text": text}] if calls and text else text if not calls else []
    if calls:
        content += [{"type": "tool_use", "id": id_, "name": name, "input": given} for name, given, id_ in calls]
    kind = {"user": "human", "assistant": "ai"}.get(role, role)
    more = {"tool_calls": [{"name": name, "args": given, "id": id_} for name, given, id_ in calls]} if calls else {}
    return message(kind, content, **more)


def test_each_emission_of_an_agent_is_logged_and_read_as_a_case(log: AnswerLog, traffic: Traffic) -> None:
    root, callback = traffic.chain(metadata={"recipient": "desk 4"}), traffic.callback
    for tool, (prompt, reply) in zip(TOOLS, CALLS, strict=True):
        if tool is not None:
            callback.on_tool_start({}, "x", run_id=tool[1], parent_run_id=root)
            callback.on_tool_end(tool[2], run_id=tool[1], parent_run_id=root)
        id_ = f"model-{next(traffic.ids)}"
        callback.on_chat_model_start({}, [list(map(langchain_message, prompt))], run_id=id_, parent_run_id=root)
        said_now = langchain_message(reply)
        said_now.additional_kwargs = {"reasoning_content": "Red is Orla."}
        generation = SimpleNamespace(text=reply[1], message=said_now)
        callback.on_llm_end(SimpleNamespace(generations=[[generation]], llm_output=None), run_id=id_)
    traffic.end(root, {"messages": [message("ai", WORD), message("ai", ANSWER)]})
    assert [(line["answer"], line.get("turn", 1), line["hidden_calls"]) for line in logged(log)] == [
        ("", 1, 1), (WORD, 2, 3), (ANSWER, 3, 5)
    ]  # fmt: skip
    # Thoughts are none of them.
    found = cases_of(log.path, logs=presets)
    word, booked, answer = found.cases
    assert (word.response, json.loads(booked.response or ""), answer.response) == (WORD, BOOKED[1], ANSWER)
    assert (word.emission, answer.emission) == (Emission(root, 2), Emission(root, 3))
    assert booked.emission == Emission(root, 2, "tool", "calendar.create")
    sources = [document.name for document in booked.context_documents]
    assert sources == [record["source"] for record in FOUND]
    assert [document.text for document in answer.context_documents][-1] == RESULT
    assert found.notes[-1].startswith("data: 1 other emission came before anything was read")
    assert any("in 3 of 3 cases the log has reasoning" in note for note in found.notes)
    found = cases_of(log.path, logs=presets, emissions=emission_options(channels="reasoning"))
    assert [case.response for case in found.cases] == ["Red is Orla."] * 2
    assert not any("did not see" in note for note in found.notes)


def test_parts_that_are_no_text_are_named(log: AnswerLog, traffic: Traffic) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:secret"}}
    chat = [
        message("human", ["Who is this?", image]),
        message("ai", "", tool_calls=[{"name": "look", "args": {"at": 1}, "id": "1"}]),
        message("tool", "A person.", tool_call_id="1", name="look"),
        SimpleNamespace(type="chat", role="critic", content="So?"),
    ]
    params = {"tools": [{"name": "look"}], "response_format": {"type": "json_schema"}, "logit_bias": {"1": 1}}
    traffic.callback.on_chat_model_start({}, [chat], run_id="m", invocation_params=params)
    traffic.callback.on_llm_end(said("Anna Ek."), run_id="m")
    (line,) = logged(log)
    assert line["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Who is this?"}, {"type": "image_url"}]},
        {"role": "assistant", "content": "", "tool_calls": [{"name": "look", "arguments": '{"at": 1}'}]},
        {"role": "tool", "content": "A person.", "name": "look", "tool_call_id": "1"},
        {"role": "critic", "content": "So?"},
    ]
    assert line["n_tools"] == 1
    assert line["sampling"] == {"logit_bias": True, "constrained": True}


def test_what_cannot_be_read_costs_a_trace(log: AnswerLog, traffic: Traffic, caplog: pytest.LogCaptureFixture) -> None:
    for broken in ("start", "end", "documents"):
        root = traffic.chain()
        traffic.call(root, "better query")
        if broken == "start":
            traffic.callback.on_chat_model_start({}, [[object()]], run_id="m", parent_run_id=root)
            traffic.callback.on_llm_end(said("Anna Ek."), run_id="m")
        elif broken == "end":
            call = traffic.ask(root)
            traffic.callback.on_llm_end(SimpleNamespace(generations=[[7]], llm_output=7), run_id=call)
        else:
            traffic.callback.on_retriever_start({}, "q", run_id="r", parent_run_id=root)
            traffic.callback.on_retriever_end(7, run_id="r", parent_run_id=root)
            traffic.call(root, "Anna Ek.")
        traffic.end(root, "Anna Ek.")
    # Nothing that is an intermediate call's is taken for the answer.
    assert logged(log) == []
    assert log.lost >= 3
    assert "Anna" not in caplog.text
    traffic.call(None, "Bo Lind.")
    assert len(logged(log)) == 1
    assert traffic.is_empty()


def test_strict_logs_raise_and_a_recipient_may_be_a_function(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = AnswerLog(tmp_path / "answers.jsonl")
    for recipient in (lambda: 7, "desk 4", lambda: 1 / 0):
        Traffic(LangChainCallback(log, recipient=recipient)).call(None, "Anna Ek.")
    assert [line["recipient"] for line in logged(log)] == ["7", "desk 4"]
    assert [one.levelno for one in caplog.records] == [logging.WARNING]
    callback = LangChainCallback(AnswerLog(tmp_path, strict=True))
    assert callback.raise_error is True
    with pytest.raises(StoreError):
        Traffic(callback).call(None, "Anna Ek.")
    with pytest.raises(UsageError):
        callback.on_chat_model_start({}, [[object()]], run_id="m")


def test_traces_that_never_end_are_bounded(log: AnswerLog, traffic: Traffic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MOST_OPEN", 3)
    roots = [traffic.chain() for _ in range(3)]
    traffic.call(roots[0], "first")
    traffic.call(roots[1], "second")
    last = traffic.chain()
    assert [line["answer"] for line in logged(log)] == ["first"]
    traffic.end(roots[0], "first")
    traffic.callback.close()
    assert [line["answer"] for line in logged(log)] == ["first", "second"]
    traffic.end(last, None)
    assert traffic.is_empty()


def test_every_event_of_the_interface_is_answered(log: AnswerLog, traffic: Traffic) -> None:
    callback = traffic.callback
    for name in ("text", "agent_action", "agent_finish", "retry", "custom_event", "stream_event"):
        getattr(callback, f"on_{name}")("t", None, run_id="x")
    callback.on_llm_end(said("of an unknown run"), run_id="unknown")
    assert (logged(log), callback.run_inline) == ([], True)
