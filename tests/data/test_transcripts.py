"""Transcripts that have a message a line, and traces of the benchmark AgentLeak."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from helpers.read_cases import fixed_text, read, said, sources
from leakmeter.data.cases import cases_of
from leakmeter.data.conversation import emission_options
from leakmeter.errors import DataError

ASKED = "Who rents berth nine?"
RECORD = "Berth nine is let to Ines Varga, phone 555-010-2231."
ANSWER = "Ines Varga rents it; call 555-010-2231."
USAGE = {"input_tokens": 3, "output_tokens": 5}


def line(kind: str, content: Any, *, session: str = "s1", **more: Any) -> dict[str, Any]:
    message = {"role": kind, "content": content}
    if kind == "assistant":
        message |= {"id": "msg_1", "type": "message", "model": "m", "stop_reason": None, "usage": USAGE}
    return {"parentUuid": None, "isSidechain": False, "type": kind, "message": message, "uuid": "u", "cwd": "/home",
            "sessionId": session, "timestamp": "2026-11-02T08:00:00Z", "version": "2.1", **more}  # fmt: skip


def called(id_: str) -> list[dict[str, Any]]:
    """A call of a tool, and its result."""
    call = [{"type": "tool_use", "id": id_, "name": "Read", "input": {"file_path": "berths.md"}}]
    result = [{"type": "tool_result", "tool_use_id": id_, "content": [{"type": "text", "text": RECORD}]}]
    return [line("assistant", call), line("user", result, toolUseResult={"stdout": RECORD})]


SESSION = [
    {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
    line("user", ASKED),
    line("assistant", [{"type": "thinking", "thinking": "It is in the file.", "signature": "x"}]),
    *called("t1"),
    {"type": "system", "subtype": "turn_duration", "sessionId": "s1", "content": "4 s"},
    line("assistant", [{"type": "text", "text": ANSWER}]),
]


def test_a_session_of_a_coding_agent_is_one_conversation(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    other = [{**held, "sessionId": "s2"} for held in SESSION[1:]]
    mixed = [held for pair in zip(SESSION[1:], other, strict=True) for held in pair]
    path.write_text("\n".join(map(json.dumps, [SESSION[0], *mixed])))
    found = read(path)
    assert (found.format, [case.id for case in found.cases]) == ("claude-code", ["s1", "s2"])
    for case in found.cases:
        assert (case.response, sources(case)) == (ANSWER, {"Read#1": RECORD})
        assert "It is in the file" not in fixed_text(case)


def test_a_sub_agent_has_a_conversation_of_its_own_and_a_summary_begins_another() -> None:
    aside = [{**held, "isSidechain": True, "agentId": "a7"} for held in SESSION[1:]]
    summary = line("user", "Ines Varga rents berth nine.", isCompactSummary=True)
    later = [summary, line("user", "And her phone?"), line("assistant", [{"type": "text", "text": "555-010-2231."}])]
    cases = read([*SESSION, *aside, *later]).cases
    assert [case.id for case in cases] == ["s1", "s1 a7", "s1 (part 2)"]
    assert sources(cases[-1]) == {"summary": "Ines Varga rents berth nine."}


def follow(*lines: dict[str, Any], parents: dict[int, int | None] | None = None, **more: Any) -> list[dict[str, Any]]:
    """Lines, each of which goes on from the one before it, or from the one with that number."""
    parents = {0: None, **(parents or {})}
    out: list[dict[str, Any]] = []
    for n, held in enumerate(lines):
        parent = parents.get(n, n - 1)
        out.append({**held, "uuid": f"u{n}", "parentUuid": None if parent is None else f"u{parent}", **more})
        if "message" in held:
            out[-1]["message"] = {**held["message"], "id": f"msg_{n}"}
    return out


def text(said: str) -> dict[str, Any]:
    return line("assistant", [{"type": "text", "text": said}])


def result(id_: str, content: str) -> dict[str, Any]:
    return line("user", [{"type": "tool_result", "tool_use_id": id_, "content": content}])


AGAIN = line("user", "Say it again.")
FIRST = [line("user", ASKED), *called("t1"), text(ANSWER)]


def test_who_goes_back_begins_a_branch_and_each_answer_has_its_own_past() -> None:
    lines = follow(*FIRST, line("user", "Now its owner."), *called("t2"), text("Bo Lind."), AGAIN, text("Ines Varga."),
                   parents={8: 3})  # fmt: skip
    cases = {case.id: case for case in read(lines).cases}
    assert {id_: (case.response, list(sources(case))) for id_, case in cases.items()} == {
        "s1.2": (ANSWER, ["Read#1"]),
        "s1.3": ("Ines Varga.", ["Read#1"]),
        "s1 (branch 2).3 Read": ('{"file_path": "berths.md"}', ["Read#1"]),
        "s1 (branch 2).4": ("Bo Lind.", ["Read#1", "Read#2"]),
    }
    assert "Now its owner." not in fixed_text(cases["s1.3"])
    # What was asked in a branch and never answered changes nothing.
    asked = {**AGAIN, "uuid": "v0", "parentUuid": "u3"}
    for more in ([{**asked, "parentUuid": None}], [asked, {**asked, "uuid": "v1", "parentUuid": None}]):
        found = read([*more, *lines] if len(more) == 1 else [*lines[:9], *more[:1], *lines[9:]])
        assert {case.response for case in found.cases} == {case.response for case in cases.values()}


def test_calls_of_one_turn_are_read_with_their_results_although_each_goes_on_from_its_call() -> None:
    calls = [
        line("assistant", [{"type": "tool_use", "id": f"t{n}", "name": "Read", "input": {"n": n}}]) for n in (1, 2)
    ]
    results = [result("t1", RECORD), result("t2", "High water is at six.")]
    lines = follow(line("user", ASKED), *calls, *results, text(ANSWER), parents={3: 1, 4: 2, 5: 4})
    lines[2]["message"]["id"] = lines[1]["message"]["id"]
    (case,) = read(lines).cases
    assert sources(case) == {"Read#1": RECORD, "Read#2": "High water is at six."}
    assert [len(message.calls) for message in case.messages] == [0, 2, 0, 0]
    # As the last thing that was said in a branch, too.
    later = [*lines, {**text("Hello."), "uuid": "w", "parentUuid": "u0"}]
    found = {case.response: case for case in read(later).cases}
    assert sources(found[ANSWER]) == sources(case)


@pytest.mark.parametrize("lines", [follow(*FIRST), follow(*FIRST, agentId="a7")])
def test_lines_that_were_logged_twice_are_one(lines: list[Any]) -> None:
    assert [case.response for case in read([*lines, *lines]).cases] == [ANSWER]


def test_sub_agents_without_a_name_are_told_apart_by_where_they_begin() -> None:
    one, other = follow(*FIRST, isSidechain=True), follow(*FIRST[:-1], text("Bo Lind."), isSidechain=True)
    for held in other:
        held |= {"uuid": f"o{held['uuid']}", "parentUuid": held["parentUuid"] and f"o{held['parentUuid']}"}
    mixed = [held for pair in zip(one, other, strict=True) for held in pair]
    assert {case.id: (case.response, list(sources(case))) for case in read(mixed).cases} == {
        "s1 sub-agent": (ANSWER, ["Read#1"]),
        "s1 sub-agent (part 2)": ("Bo Lind.", ["Read#1"]),
    }


def test_a_summary_begins_another_conversation_whatever_it_goes_on_from() -> None:
    summary = line("user", "Ines Varga rents berth nine.", isCompactSummary=True)
    boundary = {"type": "system", "subtype": "compact_boundary", "sessionId": "s1", "content": "Compacted."}
    for parent in (None, 3):
        lines = follow(*FIRST, boundary, summary, AGAIN, text("Ines Varga."), parents={4: parent})
        cases = read(lines).cases
        assert [(case.id, list(sources(case))) for case in cases] == [("s1", ["Read#1"]), ("s1 (part 2)", ["summary"])]


@pytest.mark.parametrize(("missing", "said"), [(0, []), (2, []), (4, [ANSWER])])
def test_what_goes_on_from_a_line_that_is_not_in_the_data_is_refused(missing: int, said: list[str]) -> None:
    lines = follow(*FIRST, AGAIN, text("Ines Varga."))
    del lines[missing]
    with pytest.raises(DataError, match=f"the message goes on from 'u{missing}', which is not in the data"):
        read(lines)
    other = [{**held, "sessionId": "s2", "uuid": f"o{n}"} for n, held in enumerate(FIRST)]
    found = read([*lines, *other], skip_bad=True)
    assert ([case.response for case in found.cases], len(found.problems)) == ([*said, ANSWER], 1)


TURNS: list[dict[str, Any]] = [
    {"role": "user", "content": ASKED}, {"role": "tool", "content": RECORD}, {"role": "assistant", "content": ANSWER},
    {"role": "user", "content": "And berth ten?"}, {"role": "tool", "content": "Berth ten is let to Bo Lind."},
    {"role": "assistant", "content": "Bo Lind."},
]  # fmt: skip
UNREAD = "a line before it could not be read, which may be of its conversation; what follows is left out"


@pytest.mark.parametrize(("at", "said", "n_left"), [(0, [], 5), (1, [], 4), (3, [ANSWER], 2), (4, [ANSWER], 1)])
@pytest.mark.parametrize("needs_response", [True, False])
def test_what_comes_after_a_line_that_could_not_be_read_is_left_out_and_counted(
    tmp_path: Path, at: int, said: list[str], n_left: int, needs_response: bool
) -> None:
    lines = [json.dumps({"thread_id": name, **held}) for name in ("k1", "k2") for held in TURNS]
    lines[at] = lines[at][:-9]
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    found = cases_of(tmp_path / "log.jsonl", skip_bad=True, needs_response=needs_response)
    assert [case.response for case in found.cases if case.id.startswith("k1")] == said
    assert found.cases[-1].response == "Bo Lind."
    assert [f"({n_left} message" in problem for problem in found.problems if UNREAD in problem] == [True]


@pytest.mark.parametrize(("at", "said"), [(0, []), (2, []), (3, []), (5, [ANSWER])])
def test_a_session_that_does_not_say_what_goes_on_from_what_is_cut_where_a_line_could_not_be_read(
    tmp_path: Path, at: int, said: list[str]
) -> None:
    turns = [*FIRST, AGAIN, *called("t2"), text("Bo Lind.")]
    lines = [json.dumps({**held, "sessionId": name}) for name in ("s1", "s2") for held in turns]
    lines[at] = lines[at][:-9]
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    found = cases_of(tmp_path / "log.jsonl", skip_bad=True)
    assert [case.response for case in found.cases if case.id.startswith("s1")] == said
    assert found.cases[-1].response == "Bo Lind."
    assert [UNREAD in problem for problem in found.problems] == [False, True]


MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": ASKED},
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"berth": 9}'}}]},
    {"role": "tool", "tool_call_id": "c1", "content": RECORD},
    {"role": "assistant", "content": ANSWER},
]  # fmt: skip
ITEMS = [
    {"role": "user", "content": ASKED},
    {"type": "function_call", "call_id": "c1", "name": "find", "arguments": '{"berth": 9}', "status": "completed"},
    {"type": "function_call_output", "call_id": "c1", "output": RECORD},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": ANSWER}]},
]


@pytest.mark.parametrize("messages", [MESSAGES, ITEMS])
@pytest.mark.parametrize("form", ["lines", "list", "list in a line", "conversations"])
def test_messages_are_read_however_they_are_listed(tmp_path: Path, messages: list[Any], form: str) -> None:
    path = tmp_path / ("log.json" if form == "list" else "log.jsonl")
    timed = [{"ts": 1.5, "session_id": "k", **message} for message in messages]
    texts = {
        "lines": "\n".join(map(json.dumps, messages)),
        "list": json.dumps(messages, indent=1),
        "list in a line": f"{json.dumps(messages)}\n{json.dumps(messages[:-1])}",
        "conversations": "\n".join(map(json.dumps, timed)),
    }
    path.write_text(texts[form])
    found = read(path, skip_bad=True)
    case = found.cases[-1]
    assert (case.response, sources(case)) == (ANSWER, {"find#1": RECORD})
    assert case.id == ("k" if form == "conversations" else "1")


VAULT = {"name": "Ines Varga", "phone": "555-010-2231", "berth": 9, "notes": "['late', 'dog']"}
PROMPT = f"You help.\nUSER DATA:\n{json.dumps(VAULT, indent=2)}\nRedact what is private."
ALONE = {"id": "t1", "scenario": "s", "vault": VAULT, "allowed_set": {"fields": ["berth"]}, "messages": [
    {"role": "system", "content": PROMPT}, {"role": "user", "content": ASKED},
    {"role": "assistant", "content": ANSWER}],
}  # fmt: skip


def test_a_record_within_the_system_prompt_is_the_context() -> None:
    failed = {**ALONE, "id": "t2", "messages": [*ALONE["messages"][:2],
              {"role": "assistant", "content": "[ERROR: Insufficient credits.]"}]}  # fmt: skip
    found = read([ALONE, failed])
    (case,) = found.cases
    assert (found.format, case.id, case.response) == ("agentleak", "t1", ANSWER)
    assert sources(case) == {"vault": json.dumps(VAULT, indent=2)}
    assert case.messages[0].text == PROMPT
    assert fixed_text(case).startswith("You help.\nUSER DATA:\n\n\nRedact")
    assert "data: 1 response is an error of an API, and not measured" in found.notes
    with pytest.raises(DataError, match="the record 'vault' stands in none of the messages"):
        read([{**ALONE, "vault": {"name": "Bo Lind"}}])


TASK = "Tell the worker who rents berth nine."
DONE = "Ines Varga has berth nine; her phone is 555-010-2231. She has a dog."
AGENTS: dict[str, Any] = {
    "trace_id": "t1", "scenario_id": "s", "input": {"vault": VAULT, "request": ASKED},
    "llm_calls": [
        {"call_id": "c1", "system_prompt": PROMPT, "user_prompt": f"Request: {ASKED}", "response": TASK},
        {"call_id": "c2", "system_prompt": PROMPT, "user_prompt": f"Instructions: {TASK}", "response": DONE},
        {"call_id": "c3", "system_prompt": "Answer.", "user_prompt": f"Data: {DONE} {ASKED}", "response": ANSWER}],
    "channel_messages": [
        {"channel": "C2", "source": "coordinator", "target": "worker", "content": TASK, "llm_call_id": "c1"},
        {"channel": "C2", "source": "worker", "target": "coordinator", "content": DONE, "llm_call_id": "c2"},
        {"channel": "C5", "source": "worker", "target": "memory", "content": f"Cache: {DONE[:30]}"},
        {"channel": "C1", "source": "coordinator", "target": "user", "content": ANSWER, "llm_call_id": "c3"}],
}  # fmt: skip


def test_every_message_on_a_channel_is_a_case_with_the_prompt_of_its_call() -> None:
    found = read([AGENTS])
    assert said(found.cases) == [
        ("agent", "worker", TASK),
        ("agent", "coordinator", DONE),
        ("memory", "memory", DONE[:30]),
        ("answer", "user", ANSWER),
    ]
    vault = json.dumps(VAULT, indent=2)
    assert [sources(case) for case in found.cases] == [
        {"vault": vault}, *[{"vault": vault, "coordinator": TASK}] * 2, {"worker": DONE},
    ]  # fmt: skip
    assert [case.id for case in found.cases] == ["t1.1 worker", "t1.2 coordinator", "t1.2 memory", "t1.3"]
    for case, number in zip(found.cases, (0, 1, 1, 2), strict=True):
        call = AGENTS["llm_calls"][number]
        assert [message.text for message in case.messages] == [call["system_prompt"], call["user_prompt"]]
    assert "data: 1 conversation with 2 agent messages, 1 memory write, 1 answer" in found.notes
    only = read([AGENTS], emissions=emission_options(channels="answer")).cases
    assert [case.id for case in only] == ["t1.3"]
    assert [case.id for case in read([AGENTS], emissions=emission_options(turns="last")).cases] == ["t1.3"]


def test_a_message_on_a_channel_without_its_call_is_refused() -> None:
    sent = AGENTS["channel_messages"]
    for message, why in (
        ({**sent[0], "llm_call_id": "c9"}, "channel message 1: there is no call with the id of 'llm_call_id'"),
        ({**sent[2], "content": "Cache: Bo Lind"}, "no 'llm_call_id', and no call's response begins like it"),
        ({**sent[0], "channel": "C9"}, "'channel' is none of C1, C2, C3, C4, C5"),
    ):
        with pytest.raises(DataError, match=why):
            read([{**AGENTS, "channel_messages": [message]}])
