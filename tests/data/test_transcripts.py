"""Transcripts that have a message a line, and traces of the benchmark AgentLeak."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from helpers.read_cases import fixed_text, read, said, sources
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
