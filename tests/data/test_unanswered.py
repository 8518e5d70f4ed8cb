"""A response that was logged and not read is never replaced by one that is drawn."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import leakmeter
from leakmeter.core.case import Case, Document
from leakmeter.data.cases import cases_of
from leakmeter.errors import DataError, LeakmeterError

ANSWER = "Anna Ek called at nine."
TEXTS = ["Anna Ek called at nine, about the boat.", "Soup is served at noon in the hall."]
PAGES = [{"page_content": text, "metadata": {"source": "notes.md"}} for text in TEXTS]
NODES = [{"node": {"text": text, "id_": f"n{number}"}} for number, text in enumerate(TEXTS)]
CHAT = [{"role": "tool", "content": TEXTS[0]}, {"role": "user", "content": "Who called?"}]
WITHOUT: dict[str, dict[str, Any]] = {
    "native": {"query": "Who called?", "context": TEXTS},
    "rag": {"question": "Who called?", "documents": [{"content": text} for text in TEXTS]},
    "ragas": {"user_input": "Who called?", "retrieved_contexts": TEXTS},
    "langchain": {"input": "Who called?", "context": PAGES},
    "llamaindex": {"query": "Who called?", "source_nodes": NODES},
    "openai": {"messages": CHAT, "model": "m"},
    "squad": {"question": "Who called?", "context": TEXTS[0], "answers": {"text": ["Anna Ek"]}},
    "haystack": {"query": "Who called?", "documents": [{"content": text} for text in TEXTS], "data": None},
}


def refusal(data: Any, **how: Any) -> str:
    with pytest.raises(LeakmeterError) as caught:
        cases_of(data, needs_response=True, **how)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", WITHOUT)
def test_a_row_without_a_response_is_an_error_in_every_format(name: str) -> None:
    said = refusal([WITHOUT[name]], format=name)
    assert "record 1: the row names no response" in said
    assert "--samples 1" in said
    # Where drawing is asked for, it is read.
    (case,) = cases_of([WITHOUT[name]], format=name).cases
    assert case.response is None


@pytest.mark.parametrize("field", ["respnse", "generated_answer", "response_str", "generation", "final_answer"])
@pytest.mark.parametrize("name", ["native", "rag", "ragas", "langchain", "llamaindex"])
def test_an_answer_under_another_name_is_found_by_the_map_that_is_proposed(name: str, field: str) -> None:
    row = {**WITHOUT[name], field: ANSWER, "answer" if name != "native" else "response": None}
    said = refusal([row])
    (proposed,) = shlex.split(re.split("give --map ", said, maxsplit=1)[1].partition(";")[0])
    assert f"response={field}" in proposed
    (case,) = cases_of([row], map=proposed, needs_response=True).cases
    assert (case.response, case.query, len(case.documents)) == (ANSWER, "Who called?", 2)


def test_the_answer_of_haystack_is_read() -> None:
    documents = [{"id": "9f", "content": text, "meta": {"file_path": f"{n}.md"}} for n, text in enumerate(TEXTS)]
    answer = {"data": ANSWER, "query": "Who called?", "documents": documents, "meta": {}}
    for row in (answer, {"type": "haystack.dataclasses.answer.GeneratedAnswer", "init_parameters": answer}):
        found = cases_of([row], needs_response=True)
        assert (found.cases[0].response, found.format) == (ANSWER, "haystack")
        assert [document.name for document in found.cases[0].documents] == ["0.md", "1.md"]


def test_rows_without_a_response_may_be_left_out_and_are_counted() -> None:
    rows = [{**WITHOUT["ragas"], "response": ANSWER}, {**WITHOUT["ragas"], "said": ANSWER}]
    found = cases_of(rows, needs_response=True, skip_bad=True)
    assert ([case.response for case in found.cases], len(found.problems)) == ([ANSWER], 1)
    assert "record 2: the row names no response; if it has one under another name" in found.problems[0]
    drawn = cases_of(rows)
    assert "data: 1 of 2 cases has no response" in drawn.notes


def test_an_explicit_map_of_a_response_that_finds_nothing_is_an_error() -> None:
    row = {**WITHOUT["ragas"], "said": None}
    for needs_response in (True, False):
        with pytest.raises(DataError, match="record 1: --map response=said: there is no response"):
            cases_of([row], map="response=said", needs_response=needs_response)
    # Left out on purpose, it is no answer that was overlooked.
    assert cases_of([{**row, "response": ANSWER}], map="response=").cases[0].response is None


def test_responses_are_drawn_only_where_that_is_asked_for(tmp_path: Path) -> None:
    rows = [{"id": "a", "context": "Ana is 41.", "query": "Who?"}]
    with pytest.raises(LeakmeterError, match="the row names no response"):
        leakmeter.influence("toy", rows)
    with pytest.raises(LeakmeterError, match="the row names no response"):
        leakmeter.redact("toy", rows, max_loss=5.0)
    with pytest.raises(LeakmeterError, match="samples is 2; it has to be 0 or 1"):
        leakmeter.redact("toy", rows, max_loss=5.0, samples=2)
    short = {"max_new_tokens": 2}
    asked = leakmeter.influence("toy", rows, samples=1, **short)
    assert asked[0].response.sampled
    assert "The drawn response" in asked.headline
    assert leakmeter.redact("toy", rows, max_loss=5.0, samples=1, **short)[0].response.sampled
    # A single case, and an object that says itself that there is none, are no log.
    assert leakmeter.influence("toy", context="Ana is 41.", query="Who?", **short).response.sampled
    case = Case("a", (Document("d", "Ana is 41."),), "Who?")
    assert leakmeter.influence("toy", [case], **short)[0].response.sampled


def test_the_headline_says_how_many_responses_were_given_drawn_and_left_out() -> None:
    rows = [{"id": str(n), "context": "Ana is 41.", "query": "Who?"} for n in range(3)]
    rows[0]["response"] = "Ana"
    found = leakmeter.influence("toy", [*rows, {"id": "b", "query": "?"}], samples=1, max_new_tokens=2, skip_bad=True)
    text = found.report().blocks[0]
    assert "1 case could not be used and is left out. " in str(text)
    assert "3 responses (1 given, 2 drawn)" in found.headline
    assert "1 case could not be used" in found.render_page()


def test_a_chat_that_ends_with_a_question_is_no_map_that_has_an_answer() -> None:
    chat = [{"role": role, "content": "Who?"} for role in ("system", "user")]
    for row, said in (
        ({"messages": chat}, "names no response; to have"),
        ({"messages": chat, "reply": ANSWER}, "reply;"),
    ):
        told = refusal([row], context_from="system")
        assert said in told
        assert "give --map messages=messages;" not in told


TURNS = [*CHAT, {"role": "assistant", "content": ANSWER}, {"role": "user", "content": "And who is ill?"}]
LOST = ["reply", "final_answer", "output_text", "generated_text", "assistant_message", "text", "respnse"]


@pytest.mark.parametrize("name", LOST)
def test_an_answer_beside_a_chat_is_not_lost_among_its_other_turns(name: str) -> None:
    for row in (
        {"messages": TURNS, name: "Bo Lind.", "model": "m"},
        {"request": {"messages": TURNS}, name: "Bo Lind."},
    ):
        if name == "respnse" and "messages" in row:
            continue  # a field of a case, misspelled
        said = refusal([row])
        assert f"ends without an answer, which may be at {name}; name it, as in --map response={name}, or" in said
        assert cases_of([row], map=f"response={name}", needs_response=True).cases[-1].response == "Bo Lind."
        found = cases_of([row], map="response=", needs_response=True)
        assert [case.response for case in found.cases] == [ANSWER]


@pytest.mark.parametrize(
    "beside",
    [
        {"response_format": {"type": "json", "schema": {"title": "An answer"}}, "tool_choice": "auto"},
        {"generation_config": {"stop": "a b"}, "response_id": "r1", "title": "A chat about boats", "reference": "Bo."},
        {"expected_answer": "Bo Lind.", "tool_result": "Found it.", "search_results": TEXTS, "output": None},
    ],
)
def test_chats_that_end_without_an_answer_are_counted(beside: dict[str, Any]) -> None:
    rows = [{"id": "a", "messages": TURNS, **beside}, {"id": "b", "messages": TURNS[:3]}]
    found = cases_of(rows, needs_response=True)
    assert [case.response for case in found.cases] == [ANSWER]
    assert "data: 1 chat ends without an answer; only earlier turns are measured" in found.notes
    assert not any("ends without" in note for note in cases_of(rows[1:], needs_response=True).notes)


def test_a_response_beside_a_chat_of_ragas_is_its_answer() -> None:
    row = {"user_input": TURNS, "response": "Bo Lind.", "reference": "Bo."}
    assert [case.response for case in cases_of([row], needs_response=True).cases] == [ANSWER, "Bo Lind."]
    # The same text in both places is one answer.
    whole = {**row, "user_input": [*TURNS, {"role": "assistant", "content": "Bo Lind."}]}
    assert [case.response for case in cases_of([whole], needs_response=True).cases] == [ANSWER, "Bo Lind."]
    with pytest.raises(DataError, match="is the response, and a response is given too"):
        cases_of([{**whole, "response": "Nobody."}])
