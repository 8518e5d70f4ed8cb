"""Conversations: every turn and call is a case, and what was read before it is its context."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakmeter.core.case import Case, Channel, Document, Emission, Message, unmeasured_answers
from leakmeter.data.cases import ReadCases, case_of, cases_of
from leakmeter.data.conversation import emission_options, entries_of
from leakmeter.errors import DataError, LeakmeterError, UsageError

NOTE = "Orla Brennick, phone 555-010-4471."
SYSTEM, ASKED = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who owns the boat?"}
THANKS, WELCOME = {"role": "user", "content": "Thanks!"}, {"role": "assistant", "content": "You are welcome."}


def call(name: str, arguments: Any, id_: str = "c1") -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": id_, "type": "function", "function": function}]}


def result(text: str, id_: str = "c1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id_, "content": text}


def answer(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


LEAKS_EARLY = [SYSTEM, ASKED, call("kb.find", {"q": "boat"}), result(NOTE), answer("Orla Brennick."), THANKS, WELCOME]
LEAKS_IN_A_CALL = [
    *LEAKS_EARLY[:4], answer("I do not say who."), {"role": "user", "content": "Then remind me."},
    call("calendar.create", {"title": "Call Orla Brennick"}, "c2"), result("ok", "c2"), answer("Done."),
]  # fmt: skip


def read(messages: Any, **how: Any) -> ReadCases:
    return cases_of([{"id": "c", "messages": messages}], needs_response=True, **how)


def shape(cases: Any) -> list[tuple[str, str, str]]:
    return [(case.id, case.emission.channel, case.emission.recipient) for case in cases]


def sources(case: Case) -> list[str]:
    return [document.name for document in case.context_documents]


def test_every_turn_that_had_read_something_is_a_case() -> None:
    found = read(LEAKS_EARLY)
    assert shape(found.cases) == [("c.2", "answer", "user"), ("c.3", "answer", "user")]
    assert [case.response for case in found.cases] == ["Orla Brennick.", "You are welcome."]
    assert [sources(case) for case in found.cases] == [["kb.find#1"]] * 2
    assert found.notes == (
        "data: 1 conversation with 2 answers",
        "data: 1 other emission came before anything was read, so that there is nothing to measure",
    )
    # Nothing but what was read is ever left out, and the prompt is that up to the turn.
    for case, n in zip(found.cases, (4, 6), strict=True):
        assert len(case.messages) == n
        assert all(message.fixed for message in case.messages)


MAIL = {"body": f"For {NOTE}"}


@pytest.mark.parametrize("in_part", [MAIL, {}, ""])
@pytest.mark.parametrize("args", [MAIL, json.dumps(MAIL)])
def test_a_call_among_the_parts_and_beside_them_is_one(in_part: Any, args: Any) -> None:
    parts = [
        {"type": "text", "text": "I write."},
        {"type": "tool_use", "id": "c2", "name": "send_mail", "input": in_part},
    ]
    twice = {"role": "assistant", "content": parts, "tool_calls": [{"id": "c2", "name": "send_mail", "args": args}]}
    found = read([*LEAKS_EARLY[:4], twice, result("ok", "c2"), answer("Done.")])
    assert shape(found.cases) == [
        ("c.2", "answer", "user"), ("c.2 send_mail", "tool", "send_mail"), ("c.3", "answer", "user")
    ]  # fmt: skip
    assert json.loads(found.cases[1].response or "") == MAIL
    assert [(call.name, json.loads(call.arguments)) for call in found.cases[2].messages[4].calls] == [
        ("send_mail", MAIL)
    ]
    other = {**twice, "tool_calls": [{"id": "c2", "name": "send_mail", "args": {"body": "Hello."}}]}
    if in_part:
        with pytest.raises(DataError, match="a call stands among the parts and beside them, with other arguments"):
            read([*LEAKS_EARLY[:4], other])


def test_arguments_of_a_call_are_an_emission_to_its_tool() -> None:
    found = read(LEAKS_IN_A_CALL)
    assert shape(found.cases) == [
        ("c.2", "answer", "user"), ("c.3 calendar.create", "tool", "calendar.create"), ("c.4", "answer", "user"),
    ]  # fmt: skip
    leaking = found.cases[1]
    assert (leaking.response, sources(leaking)) == ('{"title": "Call Orla Brennick"}', ["kb.find#1"])
    assert leaking.begun is not None
    assert [(each.name, each.arguments) for each in leaking.begun.calls] == [("calendar.create", "")]
    assert sources(found.cases[2]) == ["kb.find#1", "calendar.create#1"]


def test_turns_and_channels_are_chosen() -> None:
    def chosen(**how: Any) -> list[str]:
        return [case.id for case in read(LEAKS_IN_A_CALL, emissions=emission_options(**how)).cases]

    assert chosen(turns="last") == ["c"]
    assert chosen(channels="tool") == ["c"]
    assert chosen(channels="answer,tool") == ["c.2", "c.3 calendar.create", "c.4"]
    with pytest.raises(UsageError, match="no channel named 'mail'"):
        emission_options(channels="mail")
    with pytest.raises(UsageError, match="no channel is named"):
        emission_options(channels=",")
    with pytest.raises(UsageError, match="no choice of turns named 'first'"):
        emission_options(turns="first")


def named(role: str, name: str, text: str) -> dict[str, Any]:
    return {"role": role, "name": name, "content": text}


WEATHER = [{**call("weather.get", {"day": "Monday"}), "name": "writer"}, result("Clear.")]
BY_WRITER = named("assistant", "writer", "Clear. Orla Brennick.")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ([named("assistant", "desk", NOTE), *WEATHER, BY_WRITER], ["desk", "weather.get#1"]),
        ([named("assistant", "desk", NOTE), BY_WRITER], ["desk"]),
        ([named("assistant", "desk", NOTE), named("assistant", "desk", "So."), BY_WRITER], ["desk"]),
        ([named("assistant", "writer", NOTE), *WEATHER, BY_WRITER], ["weather.get#1"]),
        ([named("assistant", "desk", NOTE), *WEATHER, answer("Clear.")], ["weather.get#1"]),
        ([named("user", "hr_agent", NOTE), *WEATHER, BY_WRITER], ["hr_agent", "weather.get#1"]),
        ([named("user", "hr_agent", NOTE), BY_WRITER], ["hr_agent"]),
        ([named("assistant", "desk", "Yes?"), named("user", "desk", NOTE), *WEATHER, BY_WRITER],
         ["desk", "desk (2)", "weather.get#1"]),
        ([call("transfer_to_desk", {"q": "boat"}), result("ok"), named("user", "desk", NOTE), *WEATHER, BY_WRITER],
         ["transfer_to_desk#1", "desk", "weather.get#1"]),
        ([named("user", "Orla", NOTE), *WEATHER, BY_WRITER], ["weather.get#1"]),
        ([named("user", "Orla", NOTE), *WEATHER, named("user", "Orla", "Go on."), BY_WRITER], ["weather.get#1"]),
    ],
)  # fmt: skip
def test_what_another_agent_said_is_a_source_and_what_the_user_said_is_none(said: Any, expected: list[str]) -> None:
    assert sources(read([ASKED, *said]).cases[-1]) == expected


def test_each_agent_reads_what_the_others_said() -> None:
    found = read([ASKED, named("assistant", "desk", NOTE), BY_WRITER, named("assistant", "desk", "Good.")])
    assert [(case.response, sources(case)) for case in found.cases] == [
        (BY_WRITER["content"], ["desk"]), ("Good.", ["writer"]),
    ]  # fmt: skip
    assert "data: 1 other emission came before anything was read, so that there is nothing to measure" in found.notes


OF_TEXTS = [ASKED, answer(NOTE), THANKS, WELCOME]
ALONE = {"context": [NOTE], "query": "Who owns it?", "response": "Orla Brennick."}
RECORDS = {
    "rag": {"question": "Who owns it?", "documents": [{"content": NOTE}], "answer": "Orla Brennick."},
    "texts": {"messages": OF_TEXTS},
    "native": ALONE,
}


@pytest.mark.parametrize("channel", ["tool", "agent", "memory", "reasoning"])
@pytest.mark.parametrize("name", RECORDS)
def test_answers_are_not_measured_where_other_channels_are_asked_for(name: str, channel: str) -> None:
    with pytest.raises(DataError) as caught:
        cases_of([RECORDS[name]], needs_response=True, emissions=emission_options(channels=channel))
    assert re.search(
        r"there is no .* to measure; the data have answer \(\d\): choose with --channels", str(caught.value)
    )
    rows = [RECORDS[name], {"id": "c", "messages": LEAKS_IN_A_CALL}]
    if name != "rag" and channel == "tool":
        found = cases_of(rows, needs_response=True, emissions=emission_options(channels=channel))
        assert shape(found.cases) == [("c", "tool", "calendar.create")]
        assert "data: 1 conversation has no tool call to measure, and is left out" in found.notes


def test_what_a_case_says_itself_is_chosen_by_channel_too() -> None:
    case = Case("a", documents=(Document("n", NOTE),), query="Who?", response="Orla.")
    assert cases_of([case], emissions=emission_options(channels="answer")).cases == (case,)
    with pytest.raises(DataError, match=r"no memory write to measure; the data have answer \(1\)"):
        cases_of([case], emissions=emission_options(channels="memory"))


@pytest.mark.parametrize("channel", ["memory", "agent", "tool,memory"])
def test_the_last_turn_is_that_of_the_conversation_in_any_channel(channel: str) -> None:
    said = "in the last turn; the data have tool (2), answer (2): choose with --channels and --turns"
    with pytest.raises(DataError, match=re.escape(said)):
        read(LEAKS_IN_A_CALL, emissions=emission_options(turns="last", channels=channel))
    turns = ((1, "tool"), (2, "answer"))
    cases = [Case(f"{n}", (Document("n", NOTE),), "Who?", "Orla.", emission=Emission("c", n, to)) for n, to in turns]
    with pytest.raises(DataError, match=r"in the last turn; the data have tool \(1\), answer \(1\)"):
        cases_of(cases, emissions=emission_options(turns="last", channels="memory"))
    with pytest.raises(DataError, match=r"in the last turn; the data have answer \(1\), tool \(1\)"):
        cases_of(cases, emissions=emission_options(turns="last", channels="tool"))


def test_of_a_chat_of_texts_that_ends_with_a_question_the_last_turn_is_the_last_answer() -> None:
    found = read([*OF_TEXTS, THANKS], emissions=emission_options(turns="last"))
    assert [case.response for case in found.cases] == [WELCOME["content"]]


def test_reasoning_is_measured_only_where_it_is_asked_for() -> None:
    thought = {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "It is Orla."}, {"type": "text", "text": "No."}],
    }
    chat = [*LEAKS_EARLY[:4], thought]
    assert [case.response for case in read(chat).cases] == ["No."]
    found = read(chat, emissions=emission_options(channels=["reasoning"]))
    assert [(case.response, case.emission.recipient) for case in found.cases if case.emission] == [
        ("It is Orla.", "nobody")
    ]


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ("transfer_to_billing", ("agent", "billing")), ("handoff_to_triage", ("agent", "triage")),
        ("ask_agent", ("agent", "ask_agent")), ("memory", ("memory", "memory")),
        ("save_memory", ("memory", "save_memory")), ("calendar.create", ("tool", "calendar.create")),
        *((name, ("memory", name)) for name in ("mem0_add", "add_memory", "memory_write", "core_memory_append",
                                                "memory.create_entities", "read_and_update_memory", "remember")),
        *((name, ("tool", name)) for name in ("search_memory", "recall_memory", "read_memory", "memory.search_nodes",
                                              "mem0_search", "SearchMemory", "get_memories", "task", "TaskList")),
    ],
)  # fmt: skip
def test_handoffs_and_memories_have_channels_of_their_own(tool: str, expected: tuple[str, str]) -> None:
    chat = [*LEAKS_EARLY[:4], call(tool, {"note": "Orla"}, "c2"), result("ok", "c2"), answer("Done.")]
    assert shape(read(chat).cases)[0][1:] == expected


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("transfer_to_agent", {"agent_name": "billing"}, ("agent", "billing")),
        ("transfer_to_billing", {"agent_name": "sales"}, ("agent", "billing")),
        ("delegate_work_to_coworker", {"task": "Write.", "context": "Orla", "coworker": "Writer"}, ("agent", "Writer")),
        ("Ask question to coworker", {"question": "Who?", "coworker": "Desk"}, ("agent", "Desk")),
        ("ask_question_to_coworker", {"question": "Who?"}, ("agent", "ask_question_to_coworker")),
        ("Task", {"description": "Find", "prompt": "Orla", "subagent_type": "Explore"}, ("agent", "Explore")),
        ("Task", {"subagent_type": "Orla\n" * 30}, ("agent", "Task")),
        ("memory", {"command": "view", "path": "/memories"}, ("tool", "memory")),
        ("memory", {"command": "create", "path": "/memories/a", "file_text": "Orla"}, ("memory", "memory")),
    ],
)  # fmt: skip
def test_arguments_say_which_agent_receives_them_and_what_a_memory_does(
    tool: str, arguments: Any, expected: tuple[str, str]
) -> None:
    chat = [*LEAKS_EARLY[:4], call(tool, arguments, "c2"), result("ok", "c2"), answer("Done.")]
    assert shape(read(chat).cases)[0][1:] == expected


def test_an_error_of_an_api_is_counted_apart() -> None:
    errors = ("[ERROR: Insufficient credits.]", "Error code: 429", '{"error": {"message": "No.", "code": 402}}')
    rows = [{"messages": [*LEAKS_EARLY[:4], answer(text)]} for text in (*errors, "Error 404 means: not found.")]
    found = cases_of(rows, needs_response=True)
    assert [case.response for case in found.cases] == ["Error 404 means: not found."]
    assert "data: 3 responses are errors of an API, and not measured" in found.notes
    with pytest.raises(DataError, match="3 responses are errors of an API"):
        cases_of(rows[:3], needs_response=True)
    plain = [{"context": NOTE, "query": "Who?", "response": text} for text in (errors[0], "Orla.")]
    assert len(cases_of(plain, needs_response=True).cases) == 1


def test_what_is_a_row_of_its_own_is_measured_once() -> None:
    turns = [LEAKS_EARLY[:5], LEAKS_EARLY]
    for order in (turns, turns[::-1]):
        found = cases_of([{"id": str(len(chat)), "messages": chat} for chat in order], needs_response=True)
        assert sorted(case.response or "" for case in found.cases) == ["Orla Brennick.", "You are welcome."]
        assert {case.id for case in found.cases} >= {"5"}


def test_a_conversation_that_ends_with_a_question_is_drawn_or_has_its_turns_measured() -> None:
    asking = [*LEAKS_EARLY[:5], THANKS]
    (drawn,) = cases_of([{"messages": asking}]).cases
    assert (drawn.response, drawn.messages[-1].text, sources(drawn)) == (None, "Thanks!", ["kb.find#1"])
    assert [case.response for case in read(asking).cases] == ["Orla Brennick."]
    with pytest.raises(DataError, match="the row names no response"):
        read([SYSTEM, result(NOTE), ASKED])


def test_a_chat_of_texts_has_each_turn_that_something_was_said_before() -> None:
    chat = [
        SYSTEM,
        ASKED,
        answer("Orla."),
        THANKS,
        WELCOME,
        {"role": "user", "content": "Who?"},
        answer("Orla, I said."),
    ]
    found = read(chat)
    assert [(case.id, case.response) for case in found.cases] == [("c.2", "You are welcome."), ("c.3", "Orla, I said.")]
    assert sources(found.cases[1])[-1] == "assistant 5"


def test_the_system_prompt_is_a_source_beside_results_where_it_is_asked_for() -> None:
    calling, first, _ = read(LEAKS_EARLY, context_from="system").cases
    assert (calling.response, sources(calling)) == ('{"q": "boat"}', ["system 1"])
    assert sources(first) == ["system 1", "kb.find#1"]


def test_documents_that_a_tool_found_have_names_of_their_own() -> None:
    hits = [{"source": "crm.md", "text": NOTE}, {"source": "tides.md", "text": "High water at noon."}]
    for written in (json.dumps(hits), json.dumps({"n": 2, "results": hits}, indent=1)):
        (case,) = read([ASKED, call("find", {"q": 1}), result(written), answer("Orla.")]).cases
        assert sources(case) == ["crm.md", "tides.md"]
        assert case.messages[2].text == written
    blocks = [
        {"type": "search_result", "title": hit["source"], "content": [{"type": "text", "text": hit["text"]}]}
        for hit in hits
    ]
    (case,) = read(
        [ASKED, {"role": "user", "content": [{"type": "tool_result", "content": blocks}]}, answer("Orla.")]
    ).cases
    assert sources(case) == ["crm.md", "tides.md"]


PRIVATE = {"tenant": "Orla Brennick", "phone": "555-010-4471"}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        # More than a text and what describes it
        ([{"title": "Boat", "text": "let", **PRIVATE}], ("Boat", None)),
        ([{"filename": "boat.md", "text": "let", **PRIVATE}], ("boat.md", None)),
        ([{"url": "https://boat.example", "content": "let", **PRIVATE}], ("https://boat.example", None)),
        ([{"title": "Boat", "text": "let", "body": "Orla Brennick"}], ("Boat", None)),
        ([{"title": "Boat", "text": "let", "is_ill": True}], ("Boat", None)),
        ([{"title": "Boat", "text": "let", "metadata": {"owner": "Orla"}}], ("Boat", None)),
        ([{"type": "contact", "text": "let", **PRIVATE}], ("find#1", None)),
        ([{"type": "contact", "text": "let", "name": "Orla Brennick"}], ("find#1", None)),
        ([{"type": "contact", "content": [{"type": "text", "text": "let"}], **PRIVATE}], ("find#1", None)),
        ([{"type": "text", "text": "let", **PRIVATE}], ("find#1", None)),
        ({"type": "contact", "text": "let", "value": "Orla Brennick"}, ("find#1", None)),
        ([{"title": "Orla Brennick", "text": "let"}], ("Orla Brennick", None)),
        # Nothing more
        ([{"title": "Boat", "text": "Boat: let", "score": 0.4, "id": 7, "url": "boat.example"}], ("Boat", "Boat: let")),
        ([{"filename": "boat.md", "text": "let", "metadata": {"source": "boat.md", "page": 3}}], ("boat.md", "let")),
        ([{"filename": "boat.md", "text": "let", "content": "let", "error": None}], ("boat.md", "let")),
        ([{"type": "text", "text": "let", "annotations": {"audience": ["user"]}}], ("find#1", "let")),
        ([{"type": "resource", "resource": {"uri": "boat.md", "text": "let"}}], ("boat.md", "let")),
        (
            [{"type": "document", "title": "Boat", "source": {"type": "text", "media_type": "text", "data": "let"}}],
            ("Boat", "let"),
        ),
    ],
)  # fmt: skip
def test_no_field_of_a_record_that_a_tool_returned_is_lost(found: Any, expected: tuple[str, str | None]) -> None:
    part = {"type": "tool-find", "toolCallId": "c1", "state": "output-available", "input": {"q": 1}, "output": found}
    (case,) = read([ASKED, {"role": "assistant", "parts": [part, {"type": "text", "text": "Orla."}]}]).cases
    (source,) = (message.parts[number] for message in case.messages for number in message.retrieved)
    name, text = expected
    assert source.name == name
    if text is not None:
        assert source.text == text
    else:
        held = json.loads(source.text)
        assert held in (found, *(found if isinstance(found, list) else ()))


def test_a_document_beside_the_question_is_a_source_and_the_question_stays() -> None:
    asked = {
        "role": "user",
        "content": [
            {"type": "document", "title": "crm.md", "source": {"type": "text", "data": NOTE}},
            {"type": "text", "text": "Who?"},
        ],
    }
    (case,) = read([asked, answer("Orla.")]).cases
    assert sources(case) == ["crm.md"]
    assert case.messages[0].text == f"{NOTE}\n\nWho?"


def test_one_chat_is_the_case_of_its_last_answer() -> None:
    case = case_of(messages=LEAKS_IN_A_CALL)
    assert (case.id, case.response, len(case.messages)) == ("case", "Done.", len(LEAKS_IN_A_CALL) - 1)
    with pytest.raises(DataError, match="nothing was read before the last turn"):
        case_of(messages=[ASKED, call("f", {"a": 1})])


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["role", "content", "type", "tool_calls", "text", "name", "function", "arguments", "output"])
        | st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
))  # fmt: skip
def test_anything_is_read_or_refused_in_one_line(value: Any) -> None:
    for messages in (
        value,
        [value],
        [ASKED, value, answer("Orla.")],
        [ASKED, {"role": "tool", "content": value}, answer("x")],
    ):
        for call_ in (lambda given=messages: entries_of(given, "log"), lambda given=messages: read(given)):
            said = ""
            try:
                call_()
            except LeakmeterError as error:
                said = str(error)
            assert "\n" not in said


def test_results_are_context_beside_a_system_prompt_that_is_marked() -> None:
    found = read(LEAKS_EARLY, context_from="system").cases
    assert [case.has_unmarked_context for case in found] == [True, False, False]
    assert [case.has_only_system_context for case in found] == [True, False, False]


def test_what_several_emissions_have_before_them_is_counted_once() -> None:
    messages = (
        Message("tool", "t#1", (Document("t#1", NOTE),), (0,), fixed=True),
        Message("user", "user 2", (Document("user 2", "Who?"),), fixed=True),
        Message("assistant", "assistant 3", (Document("assistant 3", "Orla."),), fixed=True),
        Message("user", "user 4", (Document("user 4", "Call them."),), fixed=True),
    )
    to: tuple[Channel, ...] = ("answer", "tool")
    cases = [Case(name, response=name, messages=messages, emission=Emission("c", 2, name)) for name in to]
    assert unmeasured_answers(cases) == [1, 0]
