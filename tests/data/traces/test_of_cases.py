"""Formats that are no traces have one reader: what a ledger is given is what `--data` measures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.data import test_evaluations as evaluations
from tests.data import test_transcripts as transcripts

from helpers.places import SHARED
from helpers.read_cases import read
from leakmeter.core.case import Case
from leakmeter.data.traces import LoggedAnswer, Reason, Refused, TraceReader, as_case
from leakmeter.data.traces.reader import presets

ANSWER = transcripts.ANSWER
CONVERSE = {
    "schemaType": "ModelInvocationLog", "requestId": "r1", "modelId": "m", "timestamp": "2026-11-02T08:00:00Z",
    "input": {"inputBodyJson": {"messages": [
        {"role": "user", "content": [{"text": transcripts.ASKED}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c1", "name": "find", "input": {"berth": 9}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": transcripts.RECORD}]}}]},
    ]}},
    "output": {"outputBodyJson": {"output": {"message": {"role": "assistant", "content": [{"text": ANSWER}]}}}},
}  # fmt: skip
RESPONSES = {
    "request": {"model": "m", "instructions": "Be brief.", "input": transcripts.ASKED},
    "response": {"id": "resp_1", "output": [
        {"type": "function_call", "call_id": "c1", "name": "find", "arguments": '{"berth": 9}'},
        {"type": "function_call_output", "call_id": "c1", "output": transcripts.RECORD},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": ANSWER}]},
    ]},
}  # fmt: skip
LOGS: dict[str, list[Any]] = {
    "agentleak": [transcripts.ALONE],
    "agentleak of several agents": [transcripts.AGENTS],
    "inspect": [evaluations.SAMPLE, {**evaluations.SAMPLE, "epoch": 2}],
    "promptfoo": [evaluations.evaluation({**evaluations.RESULT, "id": "r1"})],
    "promptfoo, a result a line": [{**evaluations.RESULT, "id": "r1"}],
    "deepeval": [{**evaluations.CASE, "id": "e1"}],
    "deepeval with tools": [{**evaluations.CAMEL, "id": "e1"}],
    "deepeval, test cases of a file": [{"testCases": [{**evaluations.CAMEL, "id": "e1"}]}],
    "claude-code": transcripts.SESSION,
    "transcript": [{"session_id": "k", **message} for message in transcripts.MESSAGES],
    "transcript of items": [{"session_id": "k", **item} for item in transcripts.ITEMS],
    "openai, whole conversations": [{"id": "k", "user": "desk 4", "messages": transcripts.MESSAGES}],
    "openai, Responses": [RESPONSES],
    "openai, Converse": [CONVERSE],
}


def log(path: Path, records: list[Any]) -> Path:
    path.write_text("\n".join(map(json.dumps, records)))
    return path


def answers(path: Path, **how: Any) -> list[LoggedAnswer]:
    found = list(TraceReader(path, **how))
    assert not [one.reason for one in found if isinstance(one, Refused)]
    return [one for one in found if isinstance(one, LoggedAnswer)]


def facts(case: Case) -> tuple[Any, ...]:
    """What is measured of a case, whatever its documents are called."""
    emission = case.emission
    whom = ("answer", "user") if emission is None else (emission.channel, emission.recipient)
    begun = None if case.begun is None else (case.begun.text, case.begun.calls)
    texts = [document.text for document in case.context_documents]
    return (case.response, *whom, texts, "".join(message.text for message in case.messages), begun)


@pytest.mark.parametrize("name", LOGS)
def test_a_ledger_is_given_the_cases_that_data_has(name: str, tmp_path: Path) -> None:
    path = log(tmp_path / ("log.json" if "of a file" in name else "log.jsonl"), LOGS[name])
    found = answers(path)
    measured = read(path, logs=presets)
    assert {one.format for one in found} == {measured.format} == {name.partition(",")[0].split()[0]}
    assert len(found) == len(measured.cases) > 0
    for one, case in zip(found, measured.cases, strict=True):
        assert all(
            one.messages[place.message].content[place.start : place.end] == document.text
            for document in one.documents
            for place in document.places
        )
        assert [document.name for document in one.documents] == [part.name for part in case.context_documents]
        if case.messages:
            assert facts(as_case(one)) == facts(case)
        else:
            assert one.is_rebuilt
            assert (one.answer, one.messages[-1].content.endswith(case.query)) == (case.response, True)
    assert len({(one.trace_id, one.span_id) for one in found}) == len(found)


def test_recipients_are_users_tools_and_agents(tmp_path: Path) -> None:
    found = answers(log(tmp_path / "a.jsonl", [{**transcripts.AGENTS, "user": "desk 4"}]))
    assert [one.recipient for one in found] == ["agent:worker", "agent:coordinator", "memory:memory", "desk 4"]
    (said,) = answers(log(tmp_path / "b.jsonl", transcripts.SESSION))
    assert (said.recipient, said.trace_id, said.span_id, said.time) == ("s1", "s1", "s1.2", None)
    assert said.n_hidden_calls == 1
    sample = {**evaluations.SAMPLE, "metadata": {"tenant": "north"}}
    (sampled,) = answers(log(tmp_path / "c.jsonl", [sample]), recipient="metadata.tenant")
    assert (sampled.recipient, sampled.model, sampled.n_hidden_calls) == ("north", "m", 2)


def test_a_transcript_without_a_name_is_known_by_what_it_says(tmp_path: Path) -> None:
    """What is added again when the conversation has gone on is known, and another file has other names."""
    more = [{"role": "user", "content": "And her phone?"}, {"role": "assistant", "content": "555-010-2231."}]
    (first,) = answers(log(tmp_path / "a.jsonl", transcripts.MESSAGES))
    again, later = answers(log(tmp_path / "b.jsonl", [*transcripts.MESSAGES, *more]))
    assert (again.trace_id, again.span_id) == (first.trace_id, first.span_id)
    assert (later.trace_id, later.turn) == (first.trace_id, 3)
    assert later.span_id != first.span_id
    other = [*transcripts.MESSAGES[:3], {**transcripts.MESSAGES[3], "content": "Let to Bo Lind."}, more[1]]
    (another,) = answers(log(tmp_path / "c.jsonl", other))
    assert another.span_id != first.span_id
    # So it is with a named one of which only the first answer was there.
    named = [{"session_id": "k", **message} for message in (*transcripts.MESSAGES, *more)]
    (first,) = answers(log(tmp_path / "d.jsonl", named[:-2]))
    assert [one.span_id for one in answers(log(tmp_path / "e.jsonl", named))] == [first.span_id, "k.3"]


def test_transcripts_without_names_are_as_many_as_their_files(tmp_path: Path) -> None:
    other = [*transcripts.MESSAGES[:3], {**transcripts.MESSAGES[3], "content": "Let to Bo Lind."},
             {"role": "assistant", "content": "Bo Lind."}]  # fmt: skip
    paths = [log(tmp_path / "a.jsonl", transcripts.MESSAGES), log(tmp_path / "b.jsonl", other)]
    found = [one for one in TraceReader(paths) if isinstance(one, LoggedAnswer)]
    assert [(one.answer, len(one.messages), one.turn) for one in found] == [(ANSWER, 4, 2), ("Bo Lind.", 4, 2)]


def test_a_conversation_that_is_logged_again_after_each_turn_is_read_once(tmp_path: Path) -> None:
    more = [{"role": "user", "content": "And her phone?"}, {"role": "assistant", "content": "555-010-2231."}]
    rows = [{"id": n, "messages": [*transcripts.MESSAGES, *more][:end]} for n, end in ((7, 5), (8, 7))]
    for number, records in enumerate((rows, rows[::-1])):
        found = answers(log(tmp_path / f"{number}.jsonl", records))
        assert sorted(one.answer for one in found) == ["555-010-2231.", ANSWER]
    # Two people asked the same.
    again = [{**rows[0], "id": 9}, rows[0]]
    assert [one.answer for one in answers(log(tmp_path / "log.jsonl", again))] == [ANSWER] * 2


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared samples are not here")
@pytest.mark.parametrize("name", ["agentleak_single_200", "agentleak_multi_20", "taubench_30"])
def test_shared_logs_of_agents_have_the_same_emissions_in_a_ledger(name: str) -> None:
    path = SHARED / "data" / "agents" / f"{name}.jsonl"
    reader = TraceReader(path)
    found = [one for one in reader if isinstance(one, LoggedAnswer)]
    measured = read(path, logs=presets)
    texts = [case.response for case in measured.cases if not case.has_unmarked_context]
    assert [one.answer for one in found] == texts
    assert len(texts) + reader.refused[Reason.NO_DOCUMENTS] == len(measured.cases)
    assert set(reader.refused) <= {Reason.NO_DOCUMENTS, Reason.FAILED}


def test_what_is_no_case_is_refused_and_counted(tmp_path: Path) -> None:
    lost = {**transcripts.ALONE, "vault": {"name": "Bo Lind"}}
    failed = {**transcripts.ALONE, "id": "t2", "messages": [*transcripts.ALONE["messages"][:2],
              {"role": "assistant", "content": "[ERROR: Insufficient credits.]"}]}  # fmt: skip
    nested: Any = {}
    for _ in range(100):
        nested = {"metadata": nested}
    path = tmp_path / "log.jsonl"
    records = (lost, failed, {**transcripts.ALONE, "id": "t3", **nested})
    path.write_text(f"{json.dumps(transcripts.ALONE)}\nno json\n" + "\n".join(map(json.dumps, records)))
    reader = TraceReader(path)
    (answer,) = [one for one in reader if isinstance(one, LoggedAnswer)]
    assert answer.answer == ANSWER
    assert reader.refused == {Reason.MALFORMED: 2, Reason.NO_CASE: 1, Reason.FAILED: 1}
    assert (reader.n_records, reader.n_answers, reader.format) == (5, 1, "agentleak")
    # In a chat of texts alone, nothing was read but what the user said.
    chat = [{"role": role, "content": f"{role} {n}"} for n in (1, 2) for role in ("user", "assistant")]
    reader = TraceReader(log(tmp_path / "chat.jsonl", chat))
    assert not [one for one in reader if isinstance(one, LoggedAnswer)]
    assert reader.n_before_reading or reader.refused


def test_an_answer_that_may_stand_beside_a_chat_is_not_left_out(tmp_path: Path) -> None:
    chat = [*transcripts.MESSAGES, {"role": "user", "content": "And berth ten?"}]
    for beside, refused in (({}, {}), ({"final_answer": "Bo Lind."}, {Reason.NO_CASE: 1})):
        reader = TraceReader(log(tmp_path / "log.jsonl", [{"messages": chat, **beside}]))
        assert bool([one for one in reader if isinstance(one, LoggedAnswer)]) is not bool(refused)
        assert reader.refused == refused
    said = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Bo Lind."}]}}]}
    (last,) = answers(log(tmp_path / "log.jsonl", [{"request": {"messages": chat}, "response": said}]))
    assert last.answer == "Bo Lind."


def test_a_log_of_inspect_is_read_from_its_archive_and_from_its_json(tmp_path: Path) -> None:
    (tmp_path / "log.eval").write_bytes(evaluations.archive(evaluations.in_archive(evaluations.SAMPLE)))
    whole = {"version": 2, "status": "success", "eval": {"task": "t"}, "samples": [evaluations.SAMPLE]}
    (tmp_path / "log.json").write_text(json.dumps(whole))
    for name in ("log.eval", "log.json"):
        (one,) = answers(tmp_path / name)
        assert (one.answer, one.format, one.trace_id) == (ANSWER, "inspect", "berth")
        assert [document.name for document in one.documents] == list(evaluations.FILES)


def test_what_was_read_before_is_left_out_and_thoughts_are_given_where_asked_for(tmp_path: Path) -> None:
    path = log(tmp_path / "log.jsonl", transcripts.SESSION)
    reader = TraceReader(path, seen=lambda trace, span: (trace, span) == ("s1", "s1.2"))
    assert not list(reader)
    assert reader.n_seen == 1
    assert reader.offsets[str(path)] == path.stat().st_size
    thought = {"type": "thinking", "thinking": "Ines it is.", "signature": "x"}
    later = [*transcripts.SESSION[:-1], transcripts.line("assistant", [thought, {"type": "text", "text": ANSWER}])]
    found = answers(log(tmp_path / "more.jsonl", later), reasoning=True)
    assert [(one.answer, one.recipient) for one in found] == [("Ines it is.", "reasoning:nobody"), (ANSWER, "s1")]


def test_bedrock_has_a_prompt_that_was_rebuilt(tmp_path: Path) -> None:
    reference = {"content": {"text": transcripts.RECORD}, "location": {"s3Location": {"uri": "s3://b/berths.md"}}}
    record = {
        "request": {"input": {"text": transcripts.ASKED}}, "user": "desk 4",
        "response": {"output": {"text": ANSWER}, "citations": [{"retrievedReferences": [reference]}]},
    }  # fmt: skip
    (one,) = answers(log(tmp_path / "log.jsonl", [record]))
    assert (one.format, one.is_rebuilt, one.answer, one.recipient) == ("bedrock", True, ANSWER, "desk 4")
    assert [(document.name, document.text) for document in one.documents] == [("berths.md", transcripts.RECORD)]


def test_the_system_prompt_beside_the_messages_is_part_of_the_prompt(tmp_path: Path) -> None:
    def blocks() -> Iterator[dict[str, Any]]:
        yield {"role": "user", "content": transcripts.ASKED}
        yield {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "find", "input": {"n": 9}}]}
        yield {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": transcripts.RECORD}]}

    answer = {"role": "assistant", "type": "message", "content": [{"type": "text", "text": ANSWER}]}
    record = {"request": {"system": "Be brief.", "messages": list(blocks()), "model": "m"}, "response": answer}
    (one,) = answers(log(tmp_path / "log.jsonl", [record]))
    assert [message.role for message in one.messages] == ["system", "user", "assistant", "tool"]
    (case,) = read([record]).cases
    assert facts(as_case(one)) == facts(case)
