"""Records as other tools write them: what of them is the query, the context, the response."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakmeter.core.case import Case, Document
from leakmeter.data.cases import cases_of
from leakmeter.data.formats import FORMATS
from leakmeter.errors import DataError, UnknownNameError
from leakmeter.text.entities.values import NOWHERE

DOCUMENTS = (Document("calls.txt", "Anna called at nine."), Document("menu", "Bo ate soup."))
METADATA = ({"source": "calls.txt", "page": 2}, {"title": "menu"})
CASE = Case("1", DOCUMENTS, "Who called?", "Anna called.")
UNNAMED = Case("1", tuple(Document(f"d{i}", d.text) for i, d in enumerate(DOCUMENTS, 1)), "Who called?", "Anna called.")
TEXTS = [document.text for document in DOCUMENTS]
PAIRS = list(zip(DOCUMENTS, METADATA, strict=True))
PAGES = [{"page_content": d.text, "metadata": m, "type": "Document", "id": None} for d, m in PAIRS]
NODES = [
    {"node": {"id_": "n", "metadata": m, "text": d.text, "class_name": "TextNode"}, "score": 0.8,
     "class_name": "NodeWithScore"}
    for d, m in PAIRS
]  # fmt: skip
ASKED = {"query": "Who called?"}


def serialised(page: dict[str, Any]) -> dict[str, Any]:
    """As `langchain_core.load.dumps` writes it."""
    kwargs = {"page_content": page["page_content"], "metadata": page["metadata"]}
    return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "document", "Document"], "kwargs": kwargs}


WHO, SAID = {"question": "Who called?"}, {"answer": "Anna called."}
RESOURCES = [{"node": {"metadata": m, "text_resource": {"text": d.text}}} for d, m in PAIRS]
RAGAS = {"user_input": "Who called?", "retrieved_contexts": TEXTS, "response": "Anna called.", "reference": "Anna."}
RECORDS: list[tuple[str, dict[str, Any], Case]] = [
    ("ragas", RAGAS, UNNAMED),
    ("ragas", {**WHO, **SAID, "contexts": TEXTS, "ground_truths": ["Anna."], "faithfulness": 0.5}, UNNAMED),
    ("langchain", {**ASKED, "result": "Anna called.", "source_documents": PAGES}, CASE),
    ("langchain", {"input": "Who called?", "chat_history": [], "context": PAGES, **SAID}, CASE),
    ("langchain", {**WHO, "context": [*map(serialised, PAGES)], "output": "Anna called."}, CASE),
    ("langchain", {**WHO, "documents": PAGES, "answer": {"content": "Anna called."}}, CASE),
    ("rag", {**ASKED, "documents": TEXTS, "response": "Anna called."}, UNNAMED),
    ("rag", {**WHO, "context": TEXTS, **SAID}, UNNAMED),
    ("llamaindex", {**ASKED, "response": "Anna called.", "source_nodes": NODES, "metadata": {}}, CASE),
    ("llamaindex", {**ASKED, "response": {"response": "Anna called.", "source_nodes": NODES}}, CASE),
    ("llamaindex", {"query": {"query_str": CASE.query}, "response": CASE.response, "source_nodes": RESOURCES}, CASE),
]


@pytest.mark.parametrize(("name", "record", "case"), RECORDS)
def test_a_record_is_known_by_fields_or_format(tmp_path: Path, name: str, record: dict[str, Any], case: Case) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(record))
    found = cases_of(path)
    assert (found.format, found.cases) == (name, (case,))
    assert found.notes == (f"data: read as --format {name}: {FORMATS[name].about}",)
    named = cases_of([record], format=name)
    assert (named.cases, named.notes, named.references) == (found.cases, (), found.references)
    assert found.references[0] == ("Anna." if name == "ragas" else None)
    # Nobody has an object as a question or an answer in a table.
    if not any(isinstance(record.get(field), dict) for field in ("query", "response", "answer")):
        frame = pd.DataFrame([record])
        assert cases_of(frame).cases == (case,)
        # pandas writes lists and objects as Python does.
        frame.to_csv(tmp_path / "log.csv")
        assert cases_of(tmp_path / "log.csv").cases == (case,)


MESSAGES = [{"role": "tool", "content": "Anna called at nine."}, {"role": "user", "content": "Who called?"}]
ANSWER = {"role": "assistant", "content": "Anna.", "refusal": None, "annotations": [], "tool_calls": None}
CHOICES = [{"index": 0, "message": ANSWER, "finish_reason": "stop"}]
COMPLETION = {"id": "chatcmpl-7", "object": "chat.completion", "model": "m", "choices": CHOICES, "usage": {"n": 9}}
BODY = {"model": "m", "messages": MESSAGES, "temperature": 0}
REQUEST = {"custom_id": "r1", "method": "POST", "url": "/v1/chat/completions", "body": BODY}
ANSWERED = {"id": "b1", "custom_id": "r1", "response": {"status_code": 200, "body": COMPLETION}, "error": None}


def test_a_logged_chat_ends_with_its_response() -> None:
    for records, id_ in (
        ([{**COMPLETION, "messages": MESSAGES}], "chatcmpl-7"),
        ([{"messages": [*MESSAGES, ANSWER], "model": "m"}], "1"),
        ([{"messages": [*MESSAGES, ANSWER]}], "1"),
        ([{"request": BODY, "response": COMPLETION}], "1"),
        ([{"messages": MESSAGES, "response": "Anna.", "latency": 3}], "1"),
        ([{"messages": MESSAGES, "output": "Anna.", "latency": 3}], "1"),
        ([REQUEST, ANSWERED], "r1"),
        ([ANSWERED, REQUEST], "r1"),
        ([{**REQUEST, "response": ANSWERED["response"]}], "r1"),
    ):
        (case,) = cases_of(records).cases
        assert (case.id, case.response) == (id_, "Anna.")
        assert [{"role": one.role, "content": one.parts[0].text} for one in case.messages] == MESSAGES


def test_requests_and_answers_of_a_batch_are_joined_in_the_order_of_the_requests() -> None:
    requests = [{**REQUEST, "custom_id": f"r{n}"} for n in range(3)]
    answers = [{**ANSWERED, "custom_id": f"r{n}"} for n in (2, 0)]
    found = cases_of([*requests, *answers])
    assert [(case.id, case.response) for case in found.cases] == [("r0", "Anna."), ("r1", None), ("r2", "Anna.")]
    assert found.notes[1:] == ("data: 1 of 3 cases has no response",)
    assert cases_of(requests).notes[1:] == ("data: 3 of 3 cases have no response",)
    with pytest.raises(DataError, match="an answer of a batch without its request; give the lines of both files"):
        cases_of(answers)
    with pytest.raises(DataError, match="record 2: id 'r1' was already used in record 1"):
        cases_of([REQUEST, REQUEST])
    several = {**COMPLETION, "messages": MESSAGES, "choices": [{"message": {"content": text}} for text in "ab"]}
    found = cases_of([several])
    assert [(case.id, case.response) for case in found.cases] == [("chatcmpl-7", "a"), ("chatcmpl-7 (choice 2)", "b")]


def test_messages_of_langchain_are_a_chat() -> None:
    chat = [
        {"type": "tool", "content": "Anna called.", "additional_kwargs": {}},
        {"type": "human", "content": "Who called?", "additional_kwargs": {}, "id": None},
        {"type": "ai", "data": {"content": "Anna.", "tool_calls": []}},
    ]
    (case,) = cases_of([{"messages": chat}]).cases
    assert ([message.role for message in case.messages], case.response) == (["tool", "user"], "Anna.")
    (case,) = cases_of([{"user_input": chat, "reference": "Anna."}]).cases
    assert case.response == "Anna."


def test_an_empty_answer_is_kept_for_the_case_to_refuse() -> None:
    """It was given: to draw another would measure something else."""
    for record in (
        {"user_input": "Who?", "retrieved_contexts": TEXTS, "response": ""},
        {"input": "Who?", "context": PAGES, "answer": "", "chat_history": ""},
        {"messages": MESSAGES, "response": "", "model": "m"},
        {"messages": MESSAGES, "choices": [{"message": {"content": ""}}]},
    ):
        assert cases_of([record]).cases[0].response == ""


QUESTIONS = [
    {"id": "q1", "question": "Who swims?", "answers": [{"text": "Anna", "answer_start": 18}]},
    {"id": "q2", "question": "Who runs?", "answers": [], "is_impossible": True},
]
PARAGRAPH = {"context": "The lake is calm. Anna swims.", "qas": QUESTIONS}
SQUAD = {"version": "v2.0", "data": [{"title": "Lake", "paragraphs": [PARAGRAPH]}]}


def test_squad_is_read_nested_and_flat(tmp_path: Path) -> None:
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(SQUAD))
    nested = cases_of(path)
    lake = (Document("Lake", "The lake is calm. Anna swims."),)
    assert nested.cases == (Case("q1", lake, "Who swims?"), Case("q2", lake, "Who runs?"))
    assert (nested.format, nested.references) == ("squad", ("Anna", None))
    flat = {"id": "q1", "title": "Lake", "context": lake[0].text, "question": "Who swims?"}
    found = cases_of([{**flat, "answers": {"text": ["Anna"], "answer_start": [18]}}])
    assert (found.cases, found.references, found.format) == (nested.cases[:1], ("Anna",), "squad")
    broken = json.loads(json.dumps(SQUAD))
    broken["data"][0]["paragraphs"][0]["qas"][1]["question"] = 3
    path.write_text(json.dumps(broken))
    with pytest.raises(DataError, match="record 1, paragraph 1, question 2: 'query' is a number"):
        cases_of(path)


TOLD = {"messages": [*MESSAGES, {"role": "user", "content": None, "tool_calls": [{}]}]}


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"user_input": "Who?", "response": "a"}, "there is no 'retrieved_contexts'"),
        ({"input": "Who?", "context": PAGES, "answer": "a", "chat_history": ["x"]}, "'chat_history' was part of the"),
        ({**RAGAS, "answer": "Bo called."}, "'response' and 'answer' differ, and each may be the answer; name the one"),
        ({**ASKED, "source_documents": PAGES, "result": "a", "response": "b"}, "context=…,response=result"),
        ({"response": "a", "source_nodes": NODES}, "there is no 'query'; LlamaIndex does not keep"),
        ({"question": "Who?", "context": [{"metadata": {}}], "answer": "a"}, "document 1 is an object without 'text'"),
        ({**COMPLETION, "messages": MESSAGES, "choices": []}, "'choices' has to be a list of one answer or more"),
        ({**COMPLETION, "messages": MESSAGES, "choices": [{"message": {"content": None}}]}, "choice 1 has no text"),
        ({**ANSWERED, "response": None, "error": {"code": 1}}, "the request failed, and there is no answer"),
        ({"title": "x", "paragraphs": 3}, "'paragraphs' has to be a list"),
        ({"title": "x", "paragraphs": [{"context": "x"}]}, "paragraph 1: expected 'context' and a list 'qas'"),
        (TOLD, "a message of role 'user' calls a tool; only the assistant's do"),
    ],
)
def test_what_a_format_cannot_say_is_refused_and_may_be_left_out(record: dict[str, Any], problem: str) -> None:
    good = next((r for name, r, _ in RECORDS if FORMATS[name].fits(record)), None) or {"messages": MESSAGES, "x": 1}
    good = SQUAD["data"][0] if "paragraphs" in record else good  # type: ignore[assignment]
    with pytest.raises(DataError) as caught:
        cases_of([record])
    assert problem in str(caught.value)
    found = cases_of([good, record], skip_bad=True)
    assert len(found.problems) == 1
    assert "record 2" in found.problems[0]
    with pytest.raises(UnknownNameError, match="no format named 'raga'; did you mean 'ragas'\\?"):
        cases_of([{}], format="raga")


OTHER = "Cy Roth is ill at home."
TWO_CONTEXTS: dict[str, dict[str, Any]] = {
    "langchain": {**WHO, "source_documents": PAGES, "context": [{"page_content": OTHER}], **SAID},
    "rag": {**WHO, "documents": TEXTS, "context": OTHER, **SAID},
    "rag, by another name": {**WHO, "context": TEXTS, "contexts": [OTHER], **SAID},
    "ragas": {**RAGAS, "contexts": [*TEXTS, OTHER]},
    "ragas, by another name": {**RAGAS, "documents": [OTHER]},
}


@pytest.mark.parametrize("name", TWO_CONTEXTS)
def test_two_contexts_of_one_record_are_refused_where_they_differ(name: str) -> None:
    record = TWO_CONTEXTS[name]
    one, other = [each for each in record if "context" in each or "documents" in each]
    with pytest.raises(DataError, match=r"' and '\w+' differ, and each may be the context; .*--map query=…,context="):
        cases_of([record])
    query = "user_input" if "user_input" in record else "question"
    said = "response" if "response" in record else "answer"
    both = [f"query={query}", f"context={one}", f"context={other}", f"response={said}"]
    texts = [document.text for document in cases_of([record], map=both).cases[0].documents]
    assert {*TEXTS, OTHER} <= {*texts}


def test_contexts_that_say_the_same_are_one() -> None:
    joined = "\n\n".join(f"[{number}] {text}" for number, text in enumerate(TEXTS, 1))
    for same in (TEXTS, PAGES, joined, ["a.txt", "b.txt"], [], "", None):
        record = {**ASKED, "source_documents": PAGES, "context": same, "result": "Anna called."}
        assert cases_of([record]).cases == (CASE,)
    # What stands around the documents was read too.
    (case,) = cases_of([{**record, "context": f"A note: {joined}"}]).cases
    assert [document.text for document in case.documents] == [f"A note: {joined}"]


def test_of_a_document_with_several_texts_none_is_dropped() -> None:
    for document in ({"text": "", "content": OTHER}, {"text": OTHER, "content": "Cy Roth is ill"}):
        assert cases_of([{**ASKED, "context": [document], "response": "x"}]).cases[0].documents[0].text == OTHER
    several = {**ASKED, "context": [{"text": "A short one.", "content": OTHER}], "response": "x"}
    with pytest.raises(DataError, match="document 1 has several texts, 'text', 'content'; name the one that the model"):
        cases_of([several])
    (case,) = cases_of([several], map="query=query,context=context,context.text=content,response=response").cases
    assert case.documents[0].text == OTHER


def test_a_mapping_goes_before_a_format() -> None:
    answers = {"result": "Anna called.", "response": "Bo called.", "sent": "Cy called."}
    both = {**ASKED, "source_documents": PAGES, **answers}
    for name, answer in answers.items():
        found = cases_of([both], map=f"response={name}")
        assert (found.format, found.cases[0].response) == ("langchain", answer)
    same = {**both, "response": "Anna called."}
    assert cases_of([same]).cases == (CASE,)
    record = {**RAGAS, "model_answer": "Bo."}
    (case,) = cases_of([record], map="response=model_answer").cases
    assert (case.response, case.query) == ("Bo.", "Who called?")
    found = cases_of([record], map="response=")
    assert (found.cases[0].response, found.format, found.references) == (None, "ragas", ("Anna.",))
    own = {"q": {"text": "Who called?"}, "hits": PAGES, "a": "Anna called.", "score": 3}
    assert cases_of([own], map="query=q.text,context=hits,response=a").cases == (CASE,)
    texts = cases_of([own], map={"query": "q.text", "context": "hits[].page_content", "response": "a"})
    assert texts.cases == (UNNAMED,)


UNKNOWN = {"query": "Who?", "context": "a", "respnse": "b"}
AWAY = "--map query=prompt,context=…,response=model_answer and replace each … with a path"


CALLS = [{"id": "c1", "name": "send_mail", "args": {"body": "Anna called."}}]
USED = [
    {"type": "text", "text": "Sent."},
    {"type": "tool_use", "id": "c1", "name": "send_mail", "input": {"body": "Anna"}},
]


@pytest.mark.parametrize(
    "record",
    [
        {"input": "Who?", "context": PAGES, "answer": {"content": "Sent.", "type": "ai", "tool_calls": CALLS}},
        {"input": "Who?", "context": PAGES, "answer": {"type": "ai", "data": {"content": "", "tool_calls": CALLS}}},
        {"input": "Who?", "context": PAGES, "answer": {"content": USED, "type": "ai"}},
        {**ASKED, "documents": TEXTS, "response": {"role": "assistant", "content": "Sent.", "tool_calls": CALLS}},
        {**ASKED, "retriever": {"documents": [{"content": "Anna called."}]}, "llm": {"replies": [
            {"role": "assistant", "content": [{"text": "Sent."}, {"tool_call": {"tool_name": "send_mail"}}]}]}},
    ],
)  # fmt: skip
def test_an_answer_that_calls_a_tool_is_refused_where_there_are_no_messages(record: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="the answer calls a tool, which is not measured here; give the whole chat"):
        cases_of([record])


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"prompt": "Who?", "passages": ["a"], "completion": "b"}, "--map query=prompt,context=passages,response=comp"),
        (UNKNOWN, "unknown field 'respnse'; known: id, context, query, resp"),
        (UNKNOWN, "--map query=query,context=context,response=respnse"),
        ({**ASKED, "context": "a", "ms": 3}, "to read only these fields, give --map query=query,context=context"),
        ({"messages": MESSAGES, "respone": "Anna.", "model": "m"}, "unknown field 'respone'"),
        ({"utterance": "Who?"}, "name the fields with --map query=…,context=…,response=…"),
        ({"query": "Who?", "contexts": "a"}, "give --map query=query,context=contexts"),
        ({"prompt": "Who?", "model_answer": "Anna.", "ms": 3}, AWAY),
        ({"messages": MESSAGES[:2], "query": "Who?", "ts": 3}, "give --map messages=messages,query="),
    ],
)
def test_an_unknown_field_names_the_map_that_mends_it(record: dict[str, Any], problem: str) -> None:
    with pytest.raises(DataError) as caught:
        cases_of([record])
    said = str(caught.value)
    assert (problem in said, "\n" in said) == (True, False)
    if "--map" in problem and "…" not in problem:
        assert cases_of([record], map=said.partition("give --map ")[2]).cases


NESTED = [{"doc_id": "crm/7", "body": "Anna called."}, {"doc_id": "crm/8", "body": "Bo slept."}]
HITS = [{"t": "Anna called.", "score": 1}, {"t": "Bo slept.", "score": 0}]
BOTH = ["Anna called.", "Bo slept."]
PROPOSED: dict[str, dict[str, Any]] = {
    "query=question,context=retrieved_docs,response=answer":
        {"question": "Who?", "retrieved_docs": BOTH, "answer": "Anna.", "ts": 3},
    "query=user.question,context=rag.chunks,response=output.text":
        {"trace": "t1", "user": {"question": "Who?"}, "rag": {"chunks": NESTED}, "output": {"text": "Anna."}},
    "query=userQuestion,context=rag.hits[].t,response=final answer,reference=expected_output": {
        "userQuestion": "Who?", "rag": {"hits": HITS}, "expected_output": "Anna called.", "final answer": "Anna.",
        "answer_time": "09:00",
    },
    "query=input.query,context=docs.items,response=choices[0].output": {
        "input": {"query": "Who?"}, "docs": {"items": [{"passage": "Anna called.", "doc_id": "a"}]},
        "choices": [{"output": "Anna."}], "prompt_template": "Answer.", "system_prompt": "Be brief.",
    },
    "query=query,context=context":
        {"query": "Who?", "context": dict(zip(("a.txt", "b.txt"), BOTH, strict=True)), "latency_ms": 3},
    "query=query,context=docs,response=response":
        {"query": "Who?", "context": "", "docs": BOTH[:1], "response": "Anna.", "ts": 1},
}  # fmt: skip


@pytest.mark.parametrize("mending", PROPOSED)
def test_the_map_that_is_proposed_drops_nothing(mending: str) -> None:
    record = PROPOSED[mending]
    with pytest.raises(DataError) as caught:
        cases_of([record])
    (proposed,) = shlex.split(str(caught.value).partition("give --map ")[2])
    assert proposed == mending
    (case,) = cases_of([record], map=proposed).cases
    assert (case.query, case.documents[0].text) == ("Who?", "Anna called.")
    assert (case.response is None) == ("response" not in mending)
    if "chunks" in mending:
        assert [document.name for document in case.documents] == ["crm/7", "crm/8"]


@given(record=st.recursive(st.text() | st.integers(), lambda one: st.dictionaries(st.text(), one) | st.lists(one)))
def test_whatever_a_record_holds_its_error_is_one_line(record: Any) -> None:
    with pytest.raises(DataError) as caught:
        cases_of([{"unknown": record}])
    assert "\n" not in str(caught.value)


def test_columns_of_a_table_that_are_no_fields_are_left_out_and_named(tmp_path: Path) -> None:
    frame = pd.DataFrame([{"query": "Who?", "context": "Anna sang.", "response": None, "latency": 3, "Unnamed: 0": 0}])
    found = cases_of(frame)
    assert found.cases == (Case("1", (Document("context", "Anna sang."),), "Who?"),)
    assert found.notes == ("data: columns left out: 'latency'",)
    with pytest.raises(DataError, match=r"data frame, row 1: unknown field 'respnse'; .*,response=respnse"):
        cases_of(frame.rename(columns={"response": "respnse"}).fillna("b"))
    # A file without a heading says nothing of its texts.
    path = tmp_path / "x.csv"
    path.write_text("Anna Berg lives at 3 Elm Street in Graz\nBo lives there too\n")
    with pytest.raises(DataError) as caught:
        cases_of(path)
    assert "Berg" not in str(caught.value)


def test_cases_are_cases() -> None:
    assert cases_of([CASE]).cases == (CASE,)
    assert cases_of(CASE).cases == (CASE,)
    with pytest.raises(DataError, match="id '1' was already used in record 1"):
        cases_of([CASE, CASE])


DEEP = {
    "evt": "e-17", "turn": {"asked": "Where is it?"}, "outcome": {"said": "In Graz."},
    "lookup": {"hits": [
        {"ref": "crm/1", "piece": {"body": "Anna Ek lives in Graz, at 4 Mill Lane."}},
        {"ref": "crm/2", "piece": {"body": "Bo Lind lives in Bergen, at 8 Quay Road."}},
    ]},
}  # fmt: skip


def test_the_proposed_context_is_the_long_text_and_the_paths_of_texts_are_listed() -> None:
    with pytest.raises(DataError) as refused:
        cases_of([DEEP])
    message, texts = str(refused.value), "evt, turn.asked, outcome.said, lookup.hits[].ref, lookup.hits[].piece.body"
    assert "context=lookup.hits,context.text=piece.body,context.name=ref" in message
    assert message.endswith(f"the texts are at {texts}")
    with pytest.raises(DataError, match="with --map cases=talks,query=…,context=…,response=… and replace"):
        cases_of([{"exported": "2026", "talks": [{"who": "a", "txt": "b"}, {"who": "c", "txt": "d"}]}])


def test_what_a_mapping_reads_is_said_in_lengths_and_what_answers_have_from_nowhere() -> None:
    record = {"q": "Who?", "docs": [{"ref": "d-1", "body": "Anna Ek, on 555-0134-77, waits for a call today."}]}
    log = [{**record, "a": a} for a in ("Anna, on 555 0134 77.", "Call 555-9999.", "Ask bo@example.org.", "2 of 3.")]
    right = cases_of(log, map="query=q,context=docs[].body,response=a").notes
    said = "data: --map reads queries of 4 characters; documents of 48, 1 a case; responses of 7 to 21"
    assert right == (said, f"data: 2 responses have {NOWHERE}")
    wrong = cases_of(log, map="query=q,context=docs[].ref,response=a").notes
    assert wrong[0].endswith("so short a text may be an id: check that context is the retrieved text")
    assert wrong[1].startswith("data: 3 responses have")
    assert cases_of([{"query": "Who?", "context": "Anna.", "response": "Anna."}]).notes == ()
