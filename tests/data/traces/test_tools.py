"""Traffic of agents: each call of a model is one prompt, its text goes to the user and arguments to their tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from helpers import logged_agents
from helpers.logged_agents import AGENTS, ANSWER, BOOKED, CALLS, FOUND, RESULT, TRACE, WORD, genai_message, otel_span
from helpers.logged_traffic import write
from leakmeter.core.case import Case, Emission
from leakmeter.data.cases import ReadCases, cases_of
from leakmeter.data.conversation import emission_options
from leakmeter.data.traces import LoggedAnswer, Reason, Refused, TraceReader, as_case
from leakmeter.data.traces.reader import presets
from leakmeter.data.traces.span import TraceSpan
from leakmeter.data.traces.trace import outcome_of
from leakmeter.errors import DataError

ARGUMENTS = json.dumps(BOOKED[1])
BOATS, HOURS = (json.dumps(record) for record in FOUND)


def loaded(held: Any, **options: Any) -> ReadCases:
    return cases_of(held, logs=presets, **options)


def read_of(case: Case) -> dict[str, str]:
    """What a case has as its context."""
    assert all(message.fixed for message in case.messages)
    return {
        part.name: part.text
        for message in case.messages
        for i, part in enumerate(message.parts)
        if i in message.retrieved
    }


def check_agent(found: ReadCases, name: str, talk: str = "talk-1") -> None:
    assert found.format == name
    word, booked, said = found.cases
    assert [case.response for case in found.cases] == [WORD, ARGUMENTS, ANSWER]
    assert word.emission == Emission(talk, 2)
    assert booked.emission == Emission(talk, 2, "tool", "calendar.create")
    assert said.emission == Emission(talk, 3)
    assert word.id == booked.id.removesuffix(" calendar.create") != said.id
    # Each has read what stands in its own prompt.
    assert read_of(word) == read_of(booked) == {"boats.md": BOATS, "hours.md": HOURS}
    assert read_of(said) == {"boats.md": BOATS, "hours.md": HOURS, "calendar.create#1": RESULT}
    # What was said and called before is a part of the prompt, and stays.
    assert [message.role for message in said.messages] == ["system", "user", "assistant", "tool", "assistant", "tool"]
    assert [call.name for message in said.messages for call in message.calls] == ["search_docs", "calendar.create"]
    assert (word.begun, said.begun) == (None, None)
    assert booked.begun is not None
    assert (booked.begun.text, booked.begun.calls[-1].name, booked.begun.calls[-1].arguments) == (
        WORD,
        "calendar.create",
        "",
    )
    assert "data: 1 conversation with 2 answers, 1 tool call" in found.notes
    assert found.notes[-1].startswith("data: 1 other emission came before anything was read")
    assert not any("did not see" in note for note in found.notes)


@pytest.mark.parametrize("name", AGENTS)
def test_each_call_of_an_agent_is_read_once(name: str, tmp_path: Path) -> None:
    records = AGENTS[name]()
    check_agent(loaded(records), name)
    check_agent(loaded(records[::-1]), name)
    if name != "openinference":
        check_agent(loaded(write(tmp_path / "log.jsonl", records)), name)
    reader = TraceReader(write(tmp_path / "log.jsonl", json.loads(json.dumps(records, default=str))))
    answers = [one for one in reader if isinstance(one, LoggedAnswer)]
    assert [(one.channel, one.recipient) for one in answers] == [
        ("answer", "reader-1"), ("tool", "tool:calendar.create"), ("answer", "reader-1")
    ]  # fmt: skip
    assert (reader.n_before_reading, reader.n_hidden_calls, reader.refused) == (1, 0, {})
    # The user saw neither what tools were told nor that they ran.
    assert answers[-1].n_hidden_calls == 4
    assert [as_case(one).id for one in answers] == [case.id for case in loaded(records).cases]


def test_a_table_of_phoenix_is_read_with_times_and_with_lists_in_its_cells(tmp_path: Path) -> None:
    frame = pd.DataFrame(logged_agents.openinference())
    frame.to_csv(tmp_path / "spans.csv", index=False)
    frame.to_parquet(tmp_path / "spans.parquet")
    check_agent(loaded(tmp_path / "spans.csv"), "openinference")
    check_agent(loaded(tmp_path / "spans.parquet"), "openinference")


def test_the_own_log_has_the_calls_and_the_answer_of_an_agent(tmp_path: Path) -> None:
    lines = logged_agents.own()
    check_agent(loaded(lines), "leakmeter", TRACE)
    reader = TraceReader(write(tmp_path / "log.jsonl", lines))
    answers = [one for one in reader if isinstance(one, LoggedAnswer)]
    assert [(one.recipient, one.n_hidden_calls) for one in answers] == [
        ("reader-1", 2), ("tool:calendar.create", 2), ("reader-1", 4)
    ]  # fmt: skip
    assert (reader.n_before_reading, reader.refused) == (1, {})
    # An older line says neither turn nor which of the hidden calls are measured.
    older = {name: value for name, value in lines[-1].items() if name not in ("turn", "unmeasured_calls")}
    found = loaded([older])
    assert [case.emission for case in found.cases] == [Emission(TRACE, 1)]
    assert any("did not see" in note for note in found.notes)


def test_emissions_are_chosen_by_channel_and_turn() -> None:
    records = AGENTS["otel"]()
    (call,) = loaded(records, emissions=emission_options(channels="tool")).cases
    assert call.response == ARGUMENTS
    (last,) = loaded(records, emissions=emission_options("last")).cases
    assert last.response == ANSWER


THOUGHT = "Orla Vane is on 555-010-7788."
THINKING: dict[str, Callable[[dict[str, Any]], Any]] = {
    "openai": lambda said: {**said, "reasoning_content": THOUGHT},
    "two names": lambda said: {**said, "reasoning_content": THOUGHT, "reasoning": THOUGHT},
    "langchain": lambda said: {**said, "additional_kwargs": {"reasoning_content": THOUGHT}},
    "anthropic": lambda said: {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": THOUGHT, "signature": "x"},
            {"type": "redacted_thinking", "data": "sealed"},
            {"type": "text", "text": said["content"]},
        ],
    },
    "responses": lambda said: [
        {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": THOUGHT}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": said["content"]}]},
    ],
    "responses with its own text": lambda said: [
        {"type": "reasoning", "id": "r1", "summary": [], "content": [{"type": "reasoning_text", "text": THOUGHT}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": said["content"]}]},
    ],
    "otel": lambda said: [
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": THOUGHT},
                {"type": "text", "content": said["content"]},
            ],
        }
    ],
    "openinference": lambda said: {
        "message.role": "assistant",
        "message": {
            "role": "assistant",
            "contents": [
                {"message_content": {"type": "reasoning", "text": THOUGHT}},
                {"message_content": {"type": "text", "text": said["content"]}},
            ],
        },
    },
    "google": lambda said: {"role": "model", "parts": [{"text": THOUGHT, "thought": True}, {"text": said["content"]}]},
    "bedrock": lambda said: {
        "role": "assistant",
        "content": [
            {"reasoningContent": {"reasoningText": {"text": THOUGHT, "signature": "x"}}},
            {"text": said["content"]},
        ],
    },
}


@pytest.mark.parametrize("name", THINKING)
def test_what_a_model_thought_is_an_emission_that_nobody_received(name: str) -> None:
    reply = THINKING[name]({"role": "assistant", "content": ANSWER})
    spans = [call(1, calling("load"), tool("One.", "c1"), reply=reply)]
    (answer,) = outcome_of(spans, "x").results
    thought, same = outcome_of(spans, "x", has_reasoning=True).results
    assert same == answer
    assert isinstance(answer, LoggedAnswer)
    assert isinstance(thought, LoggedAnswer)
    assert (thought.answer, thought.channel, thought.recipient) == (THOUGHT, "reasoning", "reasoning:nobody")
    assert (thought.span_id, thought.messages, thought.begun) == ("1 reasoning", answer.messages, None)
    assert (answer.answer, answer.span_id, answer.n_unmeasured_calls) == (ANSWER, "1", 1)
    # A spool keeps it.
    kept = [TraceSpan.unpacked(span.packed()) for span in spans]
    assert outcome_of(kept, "x", has_reasoning=True).results == [thought, answer]


def test_thoughts_belong_to_what_they_stand_before() -> None:
    items = [
        {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": "I look."}]},
        {"type": "file_search_call", "id": "f1", "queries": ["boat 9"], "results": [{"filename": "a.md", "text": A}]},
        {"type": "reasoning", "id": "r2", "summary": [{"type": "summary_text", "text": "Anna it is."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Anna sang."}]},
    ]
    before = [calling("load"), tool("One.", "c1")]
    found = outcome_of([call(1, *before, reply=items)], "x", has_reasoning=True).results
    assert [(one.span_id, one.answer, list(texts(one))) for one in found if isinstance(one, LoggedAnswer)] == [
        ("1 reasoning", "I look.", ["load#1"]),
        ("1", '["boat 9"]', ["load#1"]),
        ("1.2 reasoning", "Anna it is.", ["load#1", "a.md"]),
        ("1.2", "Anna sang.", ["load#1", "a.md"]),
    ]
    # Earlier thoughts are no part of a prompt, and a thought alone is no answer.
    earlier = {"role": "assistant", "content": "Yes.", "reasoning_content": THOUGHT}
    (answer,) = answers(call(1, earlier, *before))
    assert THOUGHT not in str(answer.messages)
    (refused,) = outcome_of([call(1, *before, reply=items[:1])], "x", has_reasoning=True).results
    assert isinstance(refused, Refused)
    assert refused.reason is Reason.NO_ANSWER


@pytest.mark.parametrize("name", ["otel", "langfuse"])
def test_thoughts_of_a_trace_are_cases_where_they_are_asked_for(name: str, tmp_path: Path) -> None:
    records = AGENTS[name]()
    if name == "otel":
        said = {
            "role": "assistant",
            "parts": [{"type": "reasoning", "content": THOUGHT}, *genai_message(CALLS[-1][1])["parts"]],
        }
        (output,) = (held for held in records[-1]["attributes"] if held["key"] == "gen_ai.output.messages")
        output["value"] = {"stringValue": json.dumps([said])}
    else:
        records[-1]["output"]["reasoning_content"] = THOUGHT
    found = loaded(records)
    assert [case.response for case in found.cases] == [WORD, ARGUMENTS, ANSWER]
    assert any("in 1 of 3 cases the log has reasoning" in note for note in found.notes)
    (thought,) = loaded(records, emissions=emission_options(channels="reasoning")).cases
    assert (thought.response, thought.emission) == (THOUGHT, Emission("talk-1", 3, "reasoning", "nobody"))
    found = loaded(records, emissions=emission_options(channels="answer,reasoning"))
    assert [case.response for case in found.cases] == [WORD, THOUGHT, ANSWER]
    assert not any("did not see" in note for note in found.notes)
    # A ledger is told what somebody received.
    reader = TraceReader(write(tmp_path / "log.jsonl", records))
    assert [one.channel for one in reader if isinstance(one, LoggedAnswer)] == ["answer", "tool", "answer"]


# --- what was read ----------------------------------------------------------------------------------------------------


def call(number: int, *said: dict[str, Any], reply: Any = ANSWER, **fields: Any) -> TraceSpan:
    span = TraceSpan("t", str(number), f"log, {number}", "llm", start=number, end=number + 0.5, **fields)
    span.read_call([{"role": "user", "content": "Who?"}, *said], reply)
    return span


def tool(content: Any, id_: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"role": "tool", "content": content, **({} if id_ is None else {"tool_call_id": id_}), **fields}


def calling(*names: str) -> dict[str, Any]:
    calls = [{"id": f"c{n}", "function": {"name": name, "arguments": '{"a": 1}'}} for n, name in enumerate(names, 1)]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def answers(*spans: TraceSpan) -> list[LoggedAnswer]:
    found = outcome_of(spans, "x").results
    assert all(isinstance(one, LoggedAnswer) for one in found), found
    return [one for one in found if isinstance(one, LoggedAnswer)]


def texts(answer: LoggedAnswer) -> dict[str, list[str]]:
    """By the names of documents, what stands at their places."""
    return {
        document.name: [answer.messages[p.message].content[p.start : p.end] for p in document.places]
        for document in answer.documents
    }


def searched(number: int, *documents: list[str | None], parent: str | None = None) -> TraceSpan:
    return TraceSpan("t", str(number), "log", "retriever", parent, number, number + 0.1, documents=list(documents))


def test_results_are_named_by_their_tools_and_numbered() -> None:
    prompt = [calling("search", "load", "search"), tool("One.", "c1"), tool("Two.", "c2"), tool("Three.", "c3")]
    (answer,) = answers(call(1, *prompt))
    assert texts(answer) == {"search#1": ["One."], "load#1": ["Two."], "search#2": ["Three."]}
    # Without ids they come in the order of the calls.
    bare = [{**calling("search", "load"), "tool_calls": [{"name": n, "arguments": "{}"} for n in ("search", "load")]}]
    (answer,) = answers(call(1, *bare, tool("One.", "x"), tool("Two.")))
    assert texts(answer) == {"search#1": ["One."], "load#1": ["Two."]}
    # Of a call that the prompt does not have, the run of the tool says which it was.
    ran = TraceSpan("t", "7", "log", "tool", start=0.5)
    ran.read_tool("c9", "weather")
    (answer,) = answers(ran, call(1, tool("It rains.", "c9"), tool("Nobody knows.", "c8")))
    assert texts(answer) == {"weather#1": ["It rains."], "tool 3": ["Nobody knows."]}


def test_equal_results_are_one_document_and_empty_ones_none() -> None:
    prompt = [calling("search", "search", "list"), tool("One.", "c1"), tool("One.", "c2"), tool('{"hits": []}', "c3")]
    (answer,) = answers(call(1, *prompt))
    assert texts(answer) == {"search#1": ["One.", "One."]}


A, B = "Anna sang at nine in the hall.", 'Bo said "no"\nand left the hall at noon.'


def test_what_was_retrieved_is_the_source_within_a_result() -> None:
    ran = TraceSpan("t", "2", "log", "tool", start=2)
    found = searched(2.1, ["a", A, "a"], ["b", B, "b"], parent="2")  # type: ignore[arg-type]
    # Verbatim: what stands around it is a document of its own.
    (answer,) = answers(ran, found, call(3, calling("search"), tool(f"Two hits of 40:\n{A}\n{B}", "c1")))
    assert texts(answer) == {"a": [A], "b": [B], "search#1": ["Two hits of 40:\n"]}
    (answer,) = answers(ran, found, call(3, calling("search"), tool(f"{A}\n\n{B}", "c1")))
    assert texts(answer) == {"a": [A], "b": [B]}
    # As a record, which JSON writes in another way, the record is the document.
    written = json.dumps([{"title": "x.md", "text": A}, {"title": "y.md", "text": B}])
    (answer,) = answers(ran, found, call(3, calling("search"), tool(written, "c1")))
    records = {"a": [json.dumps({"title": "x.md", "text": A})], "b": [json.dumps({"title": "y.md", "text": B})]}
    assert texts(answer) == records
    # So it is without a record.
    (answer,) = answers(ran, found, call(3, calling("search"), tool(json.dumps([A, B]), "c1")))
    assert texts(answer) == {"a": [A], "b": [json.dumps(B)[1:-1]]}
    # Where the result has it in a form that is not known, the result is the source, and nothing is missing.
    long = searched(2.1, ["c", f"{A} {B}", "c"], parent="2")  # type: ignore[arg-type]
    (answer,) = answers(ran, long, call(3, calling("search"), tool(f"{A.replace('.', ', they')} say.", "c1")))
    assert texts(answer) == {"search#1": [f"{A.replace('.', ', they')} say."]}
    # Of what a tool found the result may have nothing.
    (answer,) = answers(ran, found, call(3, calling("search"), tool("Two hits.", "c1")))
    assert (texts(answer), [document.id for document in answer.absent]) == ({"search#1": ["Two hits."]}, ["a", "b"])


def test_a_record_is_the_same_document_wherever_its_text_stands() -> None:
    def of(score: float) -> str:
        (answer,) = answers(
            call(1, calling("search"), tool(json.dumps([{"title": "x.md", "text": A, "score": score}]), "c1"))
        )
        (document,) = answer.documents
        assert (document.name, document.text) == ("x.md", A)
        return document.content_hash

    (retrieved,) = answers(searched(1, ["a", A, "a"]), call(2, {"role": "user", "content": f"{A} Who?"}))
    assert of(0.5) == of(0.7) == retrieved.documents[0].content_hash


def test_documents_of_a_log_have_names_that_can_be_read(tmp_path: Path) -> None:
    def names(*documents: dict[str, Any]) -> list[str]:
        asked = "\n".join(document["page_content"] for document in documents)
        run = {"trace_id": "t", "start_time": "2026-03-02T09:00:00", "extra": {}}
        inputs = {"messages": [{"role": "user", "content": f"{asked} Who?"}]}
        outputs = {"generations": [[{"text": "Anna."}]]}
        rows = [
            {**run, "id": "1", "run_type": "retriever", "outputs": {"documents": list(documents)}},
            {**run, "id": "2", "run_type": "llm", "inputs": inputs, "outputs": outputs},
        ]
        (case,) = loaded(rows).cases
        return list(read_of(case))

    first, second = {"page_content": "Anna sang."}, {"page_content": "Bo ate."}
    source, file_name = {"metadata": {"source": "deploy.md"}}, {"metadata": {"file_name": "crm.md"}}
    assert names(first | source, second | file_name) == ["deploy.md", "crm.md"]
    assert names(first | source, second | source) == ["deploy.md", "deploy.md (2)"]
    # An id counts where a person can read it.
    assert names(first | source | {"id": "ops/keys"}, second | source | {"id": "c3434cd7"}) == ["ops/keys", "deploy.md"]
    assert names(first)[0].startswith("sha256:")


def test_requests_of_other_interfaces_are_read_as_they_were_sent() -> None:
    items = [
        {"role": "user", "content": "Who?"},
        {"type": "reasoning", "id": "r", "summary": []},
        *({"type": "function_call", "call_id": f"c{n}", "name": "search", "arguments": "{}"} for n in (1, 2)),
        *({"type": "function_call_output", "call_id": f"c{n}", "output": f"Hit {n}."} for n in (1, 2)),
    ]
    used = [{"type": "tool_use", "id": f"c{n}", "name": "search", "input": {}} for n in (1, 2)]
    found = [{"type": "tool_result", "tool_use_id": f"c{n}", "content": f"Hit {n}."} for n in (1, 2)]
    blocks = [items[0], {"role": "assistant", "content": used}, {"role": "user", "content": found}]
    for request in ({"input": items, "instructions": "Be brief."}, {"messages": blocks, "system": "Be brief."}):
        span = call(1)
        span.read_call(request, ANSWER)
        (answer,) = answers(span)
        assert [(message.role, message.content) for message in answer.messages] == [
            ("system", "Be brief."), ("user", "Who?"), ("assistant", ""), ("tool", "Hit 1."), ("tool", "Hit 2.")
        ]  # fmt: skip
        assert [len(message.calls) for message in answer.messages] == [0, 0, 2, 0, 0]
        assert texts(answer) == {"search#1": ["Hit 1."], "search#2": ["Hit 2."]}


@pytest.mark.parametrize(("told", "read"), [("Be kind.", ["Be brief.", "Be kind."]), ("Be brief.", ["Be brief."])])
def test_instructions_stand_before_those_among_the_messages(told: str, read: list[str]) -> None:
    asked = {"role": "user", "content": "Who?"}
    messages = [{"role": "developer", "content": told}, asked, {"role": "tool", "content": "Hit 1."}]
    for name in ("instructions", "system"):
        span = call(1)
        span.read_call({"messages": messages, name: "Be brief."}, ANSWER)
        (answer,) = answers(span)
        assert [message.content for message in answer.messages if message.role in ("system", "developer")] == read


# --- what was emitted -------------------------------------------------------------------------------------------------


def test_calls_before_anything_was_read_are_counted_and_others_refused() -> None:
    found = outcome_of([call(1, reply=calling("search"))], "x")
    assert (found.results, found.n_before_reading, found.n_hidden) == ([], 1, 0)
    # An agent that calls nothing has read nothing; where no tool is known of, the log lacks what was retrieved.
    found = outcome_of([call(1, n_tools=2)], "x")
    assert (found.results, found.n_before_reading) == ([], 1)
    (refused,) = outcome_of([call(1)], "x").results
    assert isinstance(refused, Refused)
    assert refused.reason is Reason.NO_DOCUMENTS
    # One that failed and was tried again emitted nothing; what was read is never left out in silence.
    prompt = [calling("search"), tool("One.", "c1")]
    found = outcome_of([call(1, *prompt, failed=True), call(2, *prompt)], "x")
    assert ([getattr(one, "reason", None) for one in found.results], found.n_hidden) == ([None], 1)
    found = outcome_of([searched(0, ["a", A, "a"]), call(1, *prompt), call(2, *prompt)], "x")
    assert [getattr(one, "reason", None) for one in found.results] == [Reason.DOCUMENT_NOT_FOUND, None]
    # A call that rewrites a question stays hidden.
    found = outcome_of([call(1, reply="search: who"), call(2, calling("search"), tool("One.", "c1"))], "x")
    (answer,) = found.results
    assert isinstance(answer, LoggedAnswer)
    assert (found.n_hidden, answer.n_hidden_calls, answer.n_unmeasured_calls, answer.turn) == (1, 1, 1, 2)


def test_several_calls_in_a_reply_are_emissions_of_their_own() -> None:
    reply = {**calling("search", "search", "transfer_to_billing", "save_memory", "noop"), "content": "Wait."}
    reply["tool_calls"][-1]["function"]["arguments"] = "{}"
    found = answers(call(1, calling("load"), tool("One.", "c1"), reply=reply, response_id="r"))
    assert [(one.channel, one.recipient) for one in found] == [
        ("answer", None), ("tool", "tool:search"), ("tool", "tool:search"), ("agent", "agent:billing"),
        ("memory", "memory:save_memory"),
    ]  # fmt: skip
    ids = ["1", "1 search", "1 search (2)", "1 billing", "1 save_memory"]
    assert [one.span_id for one in found] == ids
    assert [one.response_id for one in found] == [id_.replace("1", "r", 1) for id_ in ids]
    assert [len(one.begun.calls) for one in found[1:] if one.begun] == [1, 2, 3, 4]


def test_tools_that_the_server_ran_within_a_reply() -> None:
    parts = [
        {
            "type": "server_tool_call",
            "id": "s1",
            "name": "web_search",
            "server_tool_call": {"type": "web", "q": "boat 9"},
        },
        {"type": "server_tool_call_response", "id": "s1", "server_tool_call_response": {"type": "web", "page": A}},
        {"type": "text", "content": "Anna sang."},
    ]
    before = [calling("load"), tool("One.", "c1")]
    searching, said = answers(call(1, *before, reply=[{"role": "assistant", "parts": parts}]))
    assert (searching.recipient, json.loads(searching.answer)) == ("tool:web_search", {"q": "boat 9"})
    assert list(texts(searching)) == ["load#1"]
    assert (said.answer, list(texts(said)), said.span_id) == ("Anna sang.", ["load#1", "web_search#1"], "1.2")
    # The items of a response say the same.
    items = [
        {"type": "reasoning", "id": "r1", "summary": []},
        {"type": "file_search_call", "id": "f1", "queries": ["boat 9"], "results": [{"filename": "a.md", "text": A}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Anna sang."}]},
    ]
    found = outcome_of([call(1, reply=items)], "x")
    (said,) = found.results
    assert isinstance(said, LoggedAnswer)
    assert (said.answer, list(texts(said)), found.n_before_reading) == ("Anna sang.", ["a.md"], 1)
    # Each choice has its own.
    two = {"choices": [{"message": {"role": "assistant", "content": text}} for text in ("Anna.", "Bo.")]}
    assert [(one.answer, one.span_id) for one in answers(call(1, *before, reply=two))] == [
        ("Anna.", "1"),
        ("Bo.", "1.2"),
    ]


def test_what_is_no_text_or_was_cut_is_refused() -> None:
    for part, reason in (
        ({"type": "blob", "modality": "image", "content": "aGk="}, Reason.NOT_TEXT),
        ({"type": "file", "modality": "document", "file_id": "f"}, Reason.NOT_TEXT),
        ({"type": "uri", "modality": "image", "uri": "https://x"}, Reason.NOT_TEXT),
        ({"type": "tool_call_response", "id": "c1", "response": [{"type": "image", "data": "x"}]}, Reason.NOT_TEXT),
        ({"type": "text", "content": A, "truncated": True}, Reason.INCOMPLETE),
    ):
        for prompt, reply in (
            ([{"role": "user", "parts": [part]}], ANSWER),
            ([], [{"role": "assistant", "parts": [part]}]),
        ):
            if part["type"] != "tool_call_response" or prompt:
                assert call(1, *prompt, reply=reply).problem == reason.value, part
    # Reasoning in a prompt is left out, as nobody sees it.
    thought = {
        "role": "assistant",
        "parts": [{"type": "reasoning", "content": "Hm."}, {"type": "text", "content": "Yes."}],
    }
    (answer,) = answers(call(1, thought, calling("load"), tool("One.", "c1")))
    assert [message.content for message in answer.messages] == ["Who?", "Yes.", "One."]


# --- events -----------------------------------------------------------------------------------------------------------


def event(span: dict[str, Any], name: str, number: int, **held: Any) -> dict[str, Any]:
    time = str(int(span["startTimeUnixNano"]) + 1000 * number)
    return {"traceId": TRACE, "spanId": span["spanId"], "eventName": name, "timeUnixNano": time, **held}


def details(span: dict[str, Any]) -> list[dict[str, Any]]:
    return [event(span, "gen_ai.client.inference.operation.details", 0, attributes=span["attributes"])]


def messages(span: dict[str, Any]) -> list[dict[str, Any]]:
    """A message an event, as until version 1.36."""
    number = (int(span["spanId"], 16) - 1) // 2
    prompt, reply = CALLS[number]
    out = []
    for said in prompt:
        held = logged_agents.openai_message(said)
        held["id"] = held.pop("tool_call_id", None)
        out.append(event(span, f"gen_ai.{said[0]}.message", len(out), body=logged_agents.any_value(_filled(held))))
    choice = {"index": 0, "finish_reason": "stop", "message": _filled(logged_agents.openai_message(reply))}
    return [*out, event(span, "gen_ai.choice", len(out), body=logged_agents.any_value(choice))]


def _filled(held: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in held.items() if value is not None}


@pytest.mark.parametrize("write_events", [details, messages])
@pytest.mark.parametrize("where", ["span", "records", "records alone"])
def test_contents_in_events_are_those_of_the_span(write_events: Callable[[Any], Any], where: str) -> None:
    spans, events = AGENTS["otel"](), []
    for span in spans:
        if "chat" not in span["name"]:
            continue
        held = write_events(span)
        span["attributes"] = [
            one for one in span["attributes"] if not one["key"].endswith(("messages", "instructions"))
        ]
        if where == "span":
            span["events"] = [_of_span(one) for one in held]
        events += held
    logs = [{"resourceLogs": [{"scopeLogs": [{"logRecords": [one]}]}]} for one in (*events, *events[:1])]
    if where != "records alone":
        check_agent(loaded(spans if where == "span" else [*logs[:3], *spans, *logs[3:]]), "otel")
        return
    found = loaded(logs[::-1])
    assert [case.response for case in found.cases] == [WORD, ARGUMENTS, ANSWER]
    assert list(read_of(found.cases[-1])) == ["boats.md", "hours.md", "calendar.create#1"]


def _of_span(record: dict[str, Any]) -> dict[str, Any]:
    """An event of a span has no body."""
    body = record.get("body")
    attributes = record.get("attributes") or body["kvlistValue"]["values"]
    return {"name": record["eventName"], "timeUnixNano": record["timeUnixNano"], "attributes": attributes}


def test_an_agent_within_a_tool_is_hidden_and_a_wrapper_is_no_call() -> None:
    spans = AGENTS["otel"]()
    asked, said = (json.dumps([genai_message((role, "Sub.", (), None))]) for role in ("user", "assistant"))
    inner = otel_span(9, "chat", {"gen_ai.input.messages": asked, "gen_ai.output.messages": said}, 2)
    whole = {"gen_ai.input.messages": inner["attributes"][1], "gen_ai.output.messages": inner["attributes"][2]}
    spans[0]["attributes"] += [{"key": key, "value": held["value"]} for key, held in whole.items()]
    found = loaded([*spans, inner])
    assert [case.response for case in found.cases] == [WORD, ARGUMENTS, ANSWER]


def test_a_session_has_its_turns_in_the_order_of_time() -> None:
    rows = []
    for day, text in ((3, "Later."), (1, "First."), (2, "Then.")):
        for row in AGENTS["langfuse"]():
            # Newest first, as APIs answer.
            time = row["startTime"].replace("-02T", f"-{day:02}T")
            row |= {"traceId": f"trace-{day}", "startTime": time, "endTime": time}
            if row["type"] == "GENERATION" and row["output"]["content"] == ANSWER:
                row["output"]["content"] = text
            rows.append(row)
    said = {
        case.response: case.emission.turn
        for case in loaded(rows).cases
        if case.emission and case.emission.turn % 3 == 0
    }
    assert said == {"Later.": 9, "First.": 3, "Then.": 6}


def test_the_first_call_of_an_agent_alone_says_why_there_is_no_case() -> None:
    rows = AGENTS["langsmith"]()[:1]
    with pytest.raises(DataError, match="1 other emission came before anything was read"):
        loaded(rows)


def test_a_prompt_without_the_documents_is_the_logged_one_without_them() -> None:
    (answer,) = answers(call(1, calling("search"), tool(f"Hits: {A}", "c1")))
    case = as_case(answer, by_id=True)
    assert [part.text for part in case.messages[2].parts] == [f"Hits: {A}"]
    assert case.messages[2].retrieved == (0,)
    assert as_case(replace(answer, documents=()), by_id=True).context_documents == ()
