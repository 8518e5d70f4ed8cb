"""Maps that are proposed, and the paths that are listed, for logs of nested shapes."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from leakmeter.data.cases import cases_of
from leakmeter.errors import DataError

ANSWER = "The key is under the blue pot."
NOTES = ["The spare key is under the blue pot.", "The shop opens at nine on weekdays."]
HITS = [{"file_id": f"f-{n}", "filename": f"{n}.md", "text": text} for n, text in enumerate(NOTES)]
SAID = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": ANSWER}]}
ASKED = "Where is the spare key?"
CITED = [{"title": f"{n}.md", "content": text} for n, text in enumerate(NOTES)]
NESTED: dict[str, tuple[dict[str, Any], str]] = {
    "steps of an answer": (
        {"request": {"input": ASKED}, "response": {"output": [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "I look into the two files."}]},
            {"type": "file_search_call", "queries": [ASKED], "results": HITS}, SAID]}},
        "query=request.input,context=response.output[type=file_search_call].results,"
        "response=response.output[type=message].content[].text",
    ),
    "a tool's output as JSON": (
        {"request": {"instructions": "Be brief.", "input": [
            {"role": "user", "content": ASKED}, {"type": "function_call", "arguments": '{"query": "spare key"}'},
            {"type": "function_call_output", "output": '{"results": ' + str(HITS).replace("'", '"') + "}"}]},
         "response": {"output": [SAID]}},
        "query=request.input[0].content,context=request.input[type=function_call_output].output.results,"
        "response=response.output[0].content[].text",
    ),
    "tools within a case": (
        {"input": ASKED, "actualOutput": ANSWER, "retrievalContext": [],
         "toolsCalled": [{"name": "search", "inputParameters": {"query": "spare key"}, "output": HITS}]},
        "query=input,context=toolsCalled[].output[],response=actualOutput",
    ),
    "a pipeline": (
        {"query": ASKED, "retriever": {"documents": CITED}, "llm": {"replies": [ANSWER], "meta": [{"model": "m"}]}},
        "query=query,context=retriever.documents,response=llm.replies[0]",
    ),
    "a context that is empty": (
        {"name": "case 1", "input": ASKED, "actual_output": ANSWER, "context": None, "retrieval_context": NOTES},
        "query=input,context=retrieval_context,response=actual_output",
    ),
    "a response that is no text": (
        {"results": {"results": [
            {"vars": {"question": ASKED, "context": NOTES[0]}, "response": {"output": ANSWER, "cached": False}}] * 2}},
        "cases=results.results,query=vars.question,context=vars.context,response=response.output",
    ),
}  # fmt: skip


def refusal(data: Any, **how: Any) -> str:
    with pytest.raises(DataError) as caught:
        cases_of(data, **{"needs_response": True, **how})
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", NESTED)
def test_the_map_that_is_proposed_reads_query_texts_and_answer(name: str) -> None:
    record, expected = NESTED[name]
    # Some are known formats, which are read without a map.
    (proposed,) = shlex.split(refusal([record], format="native").partition("give --map ")[2])
    assert proposed == expected
    case = cases_of([record], map=proposed, needs_response=True).cases[0]
    assert (case.query, case.response) == (ASKED, ANSWER)
    assert [document.text for document in case.documents] in (NOTES, NOTES[:1])
    names = ["0.md", "1.md"] if "filename" in str(record) or "title" in str(record) else ["d1", "d2"]
    assert [document.name for document in case.documents] in (names, ["context"])


def test_a_map_that_does_not_read_all_of_the_first_rows_is_not_proposed() -> None:
    assert "give --map" not in refusal([{"question": ASKED, "docs": 3, "reply": ANSWER}])
    rows = [{"question": ASKED, "docs": NOTES, "reply": ANSWER, "ms": 3}] * 2
    assert "give --map query=question,context=docs,response=reply" in refusal(rows)
    said = refusal([*rows, {"question": ASKED, "docs": NOTES, "reply": 4, "ms": 3}])
    assert "give --map" not in said
    assert "--map query=question,context=docs,response=… and replace" in said


def test_no_map_is_proposed_without_a_response() -> None:
    said = refusal([{"prompt": f"Notes: {NOTES[0]} {ASKED}", "blocks": [{"type": "text", "text": "It is"}] * 2}])
    assert "with --map query=prompt,context=…,response=… and replace each … with a path" in said
    assert "the texts are at prompt, blocks[].text; if the query holds the retrieved text, give --context-from" in said


def test_an_answer_in_blocks_is_read_whole_or_refused() -> None:
    cut = [{"type": "text", "text": "The key is under the"}, {"type": "text", "text": " blue pot."}]
    thought = {"type": "thinking", "thinking": "The note says where."}
    row = {"q": ASKED, "docs": NOTES, "out": {"content": [thought, *cut]}}
    for path in ("out.content", "out.content[].text"):
        found = cases_of([row], map=f"query=q,context=docs,response={path}", needs_response=True)
        assert found.cases[0].response == ANSWER
    for path in ("out.content[1].text", "out.content[-1].text"):
        said = refusal([row], map=f"query=q,context=docs,response={path}")
        assert "the list has 2 texts; if they are blocks of one answer, response=out.content reads them all" in said
    assert "calls a tool" in refusal(
        [{**row, "out": {"content": [*cut, {"type": "tool_use", "name": "f"}]}}],
        map="query=q,context=docs,response=out.content",
    )
    assert "of one answer in blocks, each with its type, give the list itself" in refusal(
        [{**row, "out": ["a", "b"]}], map="query=q,context=docs,response=out"
    )


def test_requests_and_answers_of_anthropic_are_read() -> None:
    asked = [{"role": "user", "content": f"Notes: {NOTES[0]} Question: {ASKED}"}]
    blocks = [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "The key is"},
              {"type": "text", "text": " under the blue pot."}]  # fmt: skip
    row = {"request": {"system": "Be brief.", "messages": asked}, "response": {"role": "assistant", "content": blocks}}
    found = cases_of([row], context_from="Notes:(.*)Question:", needs_response=True)
    assert (found.cases[0].response, found.format) == (ANSWER, "openai")
    assert [message.role for message in found.cases[0].messages] == ["system", "user"]
    assert any("reasoning or other calls before the response" in note for note in found.notes)
    # A map that is given goes before the format, and an answer that it does not find is not dropped.
    mapped = cases_of(
        [row], map="query=request.messages[0].content,response=response.content[].text", needs_response=True,
        context_from="Notes:(.*)Question:",
    )  # fmt: skip
    assert mapped.cases[0].response == ANSWER


def test_documents_beside_a_chat_are_named_where_the_system_prompt_is_no_answer() -> None:
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": ASKED}]
    message = {"role": "assistant", "content": ANSWER, "grounding": {"citations": CITED, "intent": '["key"]'}}
    row = {"request": {"messages": chat}, "response": {"choices": [{"message": message}]}}
    said = refusal([row])
    assert "--context-from system" not in said
    (proposed,) = shlex.split(said.partition("give --map ")[2])
    (case,) = cases_of([row], map=proposed, needs_response=True).cases
    assert (case.query, case.response, [document.text for document in case.documents]) == (ASKED, ANSWER, NOTES)
    # Texts within the chat are not beside it.
    message.pop("grounding")
    assert "give --context-from system" in refusal([row])


def test_a_chat_beside_fields_that_are_mapped_is_left_out() -> None:
    chat = [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": ASKED}]},
            {"id": "m2", "role": "assistant", "parts": [{"type": "tool-search", "output": HITS},
                                                         {"type": "text", "text": ANSWER}]}]  # fmt: skip
    mapping = "query=messages[0].parts[0].text,context=messages[1].parts[0].output,response=messages[1].parts[1].text"
    (case,) = cases_of([{"id": "c", "messages": chat}], map=mapping, needs_response=True).cases
    assert (case.query, case.response, len(case.documents)) == (ASKED, ANSWER, 2)
    both = {"context": NOTES, "query": ASKED, "messages": [{"role": "tool", "content": NOTES[0]}, chat[0]]}
    (case,) = cases_of([{**both, "response": ANSWER}], map="messages=messages,response=response").cases
    assert (case.documents, len(case.messages)) == ((), 2)


def test_a_record_with_neither_context_nor_chat_is_told_what_helps() -> None:
    said = refusal([{"query": ASKED, "response": ANSWER}])
    assert "it has neither 'context', the retrieved texts, nor 'messages', a chat" in said
    assert "if the query holds the retrieved text, give --context-from REGEX" in said


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "f"}}]},
        {"role": "assistant", "content": [{"type": "text", "text": "I look."}, {"type": "tool_use", "name": "f"}]},
        {"role": "user", "content": [{"type": "tool_result", "content": "The pot."}]},
        {"role": "user", "content": [{"toolResult": {"content": [{"text": "The pot."}]}}]},
        {"role": "assistant", "parts": [{"type": "step-start"}, {"type": "tool-search", "output": []}]},
    ],
)
def test_who_logs_tools_has_what_they_returned_as_sources(message: dict[str, Any]) -> None:
    turns = [{"role": "user", "content": ASKED}, message, {"role": "tool", "content": NOTES[0]}]
    (case,) = cases_of([{"messages": [*turns, {"role": "assistant", "content": ANSWER}]}], needs_response=True).cases
    assert case.response == ANSWER
    assert [document.text for document in case.context_documents][-1] == NOTES[0]
    assert all(message.fixed for message in case.messages)


def test_reasoning_beside_an_answer_is_left_out_and_told() -> None:
    turns: list[dict[str, Any]] = [{"role": "tool", "content": NOTES[0]}, {"role": "user", "content": ASKED}]
    for answer in (
        {"role": "assistant", "content": ANSWER, "reasoning_content": "The pot, says the note."},
        {"role": "assistant", "content": [{"type": "reasoning", "text": "Hm."}, {"type": "text", "text": ANSWER}]},
    ):
        found = cases_of([{"messages": [*turns, answer]}], needs_response=True)
        assert found.cases[0].response == ANSWER
        assert found.notes == (
            "data: in 1 of 1 case the log has reasoning or other calls before the response that its reader did not "
            "see; they are not measured",
        )
    assert "field 'reasoning_content' is not understood" in refusal(
        [{"messages": [{**turns[1], "reasoning_content": "Hm."}, {"role": "assistant", "content": ANSWER}]}]
    )


def test_rows_that_are_empty_or_broken_do_not_stop_a_proposal(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f"question,notes,reply\n{ASKED},{NOTES[0]},{ANSWER}\n{ASKED},{NOTES[0]},\n")
    said = refusal(path)
    assert "--map query=question,context=notes,response=… and replace" in said
    lines = [json.dumps({"question": ASKED, "notes": NOTES, "reply": ANSWER, "ms": 1}), "{"]
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    assert "give --map query=question,context=notes,response=reply" in refusal(tmp_path / "log.jsonl")


@pytest.mark.parametrize(
    ("row", "several"),
    [
        ({"prompt": ASKED, "hits": CITED, "memory": [{"text": NOTES[1]}], "completion": ANSWER}, "hits or memory"),
        ({"prompt": ASKED, "hits": CITED, "completion": ANSWER}, ""),
        ({"prompt": ASKED, "hits": CITED, "completion": ANSWER, "targets": NOTES}, ""),
        ({"asked": ASKED, "notes": NOTES, "memos": NOTES[::-1], "said": ANSWER}, "notes or memos"),
    ],
)
def test_a_map_says_what_else_may_be_the_context(row: dict[str, Any], several: str) -> None:
    with pytest.raises(DataError) as error:
        cases_of([row], needs_response=True)
    assert (f"context may be {several}" in str(error.value)) == bool(several)
    assert ("may be" in str(error.value)) == bool(several)
