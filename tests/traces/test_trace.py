"""Which calls of a trace answered somebody, what was retrieved for them, and which calls nobody saw."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from leakmeter.traces import LoggedAnswer, Reason, Refused
from leakmeter.traces.span import Span
from leakmeter.traces.trace import outcome_of

A, B, C = "Anna sang at nine.", "Bo ate soup at noon.", "Cid left the ward on Monday."


def call(id_: str, start: float | None, prompt: str, answer: str = "It is so.", **more: Any) -> Span:
    span = Span("t", id_, f"log, {id_}", "llm", start=start, end=start and start + 0.5, **more)
    span.messages = [["system", "Be brief."], ["user", prompt]]
    span.answers = [[answer, "stop"]]
    return span


def search(id_: str, start: float | None, *texts: str, kind: Any = "retriever", parent: str | None = None) -> Span:
    documents = [[text.split()[0].lower(), text] for text in texts]
    return Span("t", id_, "log", kind, parent, start, start and start + 0.1, documents=documents)


def outcome(*spans: Span, leave_out: bool = False) -> list[LoggedAnswer | Refused]:
    forth, back = outcome_of(spans, "x", leave_out=leave_out), outcome_of(spans[::-1], "x", leave_out=leave_out)
    key = {"key": lambda one: one.span_id}
    assert sorted(forth.found, **key) == sorted(back.found, **key)
    return forth.found


def ids(answer: LoggedAnswer | Refused) -> list[str]:
    assert isinstance(answer, LoggedAnswer)
    return [document.id for document in answer.documents]


def test_a_rewritten_question_is_a_hidden_call() -> None:
    (answer,) = outcome(call("1", 1, "Rewrite: who?"), search("2", 2, A), call("3", 3, f"{A} Who?"))
    assert isinstance(answer, LoggedAnswer)
    assert (answer.span_id, answer.n_hidden_calls, ids(answer)) == ("3", 1, ["anna"])


def test_tools_and_calls_within_retrievals_are_hidden() -> None:
    spans = [
        search("1", 1, A),
        call("2", 1.5, "Guess a passage.", parent_id="1"),
        Span("t", "3", "log", "tool", start=2),
        call("4", 3, f"{A} Who?"),
        Span("t", "5", "log", "tool", start=4),
    ]
    (answer,) = outcome(*spans)
    assert isinstance(answer, LoggedAnswer)
    assert answer.n_hidden_calls == 2
    assert outcome_of(spans, "x").n_hidden == 1


def test_a_call_that_wraps_another_is_the_same_call() -> None:
    outer = call("1", 1, f"{A} Who?")
    inner = replace(call("2", 1.1, f"{A} Who?"), parent_id="1")
    (answer,) = outcome(search("0", 0.5, A), outer, inner)
    assert isinstance(answer, LoggedAnswer)
    assert (answer.span_id, answer.n_hidden_calls) == ("2", 0)


def test_a_failed_call_that_was_tried_again_hides_nothing() -> None:
    failed = call("2", 2, f"{A} Who?", failed=True)
    (answer,) = outcome(search("1", 1, A), failed, call("3", 3, f"{A} Who?"))
    assert isinstance(answer, LoggedAnswer)
    assert (answer.span_id, answer.n_hidden_calls) == ("3", 0)
    (refused,) = outcome(search("1", 1, A), failed)
    assert isinstance(refused, Refused)
    assert refused.reason is Reason.FAILED


def test_a_conversation_in_one_trace() -> None:
    first = call("2", 2, f"{A} Who?", "Anna.")
    second = call("4", 4, f"{B} And then?", "Soup.")
    second.messages[1:1] = [["user", "Who?"], ["assistant", "Anna."]]
    one, two = outcome(search("1", 1, A), first, search("3", 3, B), second)
    assert (ids(one), ids(two)) == (["anna"], ["bo"])
    assert isinstance(two, LoggedAnswer)
    assert two.n_hidden_calls == 0
    assert two.earlier == (1, 2)
    assert [document.id for document in two.absent] == ["anna"]


def test_a_document_of_an_earlier_answer_that_is_still_in_the_prompt() -> None:
    first = call("2", 2, f"{A} Who?", "Anna.")
    second = call("4", 4, f"{A} {B} And then?", "Soup.")
    _, two = outcome(search("1", 1, A), first, search("3", 3, B), second)
    assert ids(two) == ["anna", "bo"]


def test_a_reranker_may_drop_documents() -> None:
    spans = [search("1", 1, A, B, C), search("2", 2, C, A, kind="reranker"), call("3", 3, f"{C} {A} Who?")]
    (answer,) = outcome(*spans)
    assert isinstance(answer, LoggedAnswer)
    assert set(ids(answer)) == {"anna", "cid"}
    assert [document.id for document in answer.absent] == ["bo"]
    # What the reranker kept must be there.
    (refused,) = outcome(*spans[:2], call("3", 3, f"{A} Who?"))
    assert isinstance(refused, Refused)
    assert refused.reason is Reason.DOCUMENT_NOT_FOUND


def test_what_a_retriever_within_another_found_need_not_be_there() -> None:
    outer, inner = search("1", 1, A), search("2", 1.05, A, B, parent="1")
    (answer,) = outcome(outer, inner, call("3", 3, f"{A} Who?"))
    assert ids(answer) == ["anna"]


def test_without_a_reranker_each_document_must_be_there_unless_told_otherwise() -> None:
    spans = [search("1", 1, A, B), call("3", 3, f"{A} Who?")]
    (refused,) = outcome(*spans)
    assert isinstance(refused, Refused)
    assert refused.reason is Reason.DOCUMENT_NOT_FOUND
    (answer,) = outcome(*spans, leave_out=True)
    assert isinstance(answer, LoggedAnswer)
    assert [document.id for document in answer.absent] == ["bo"]


def test_a_later_call_without_documents_is_refused_and_counted() -> None:
    one, two = outcome(search("1", 1, A), call("2", 2, f"{A} Who?"), call("3", 3, "Say it in French: Anna."))
    assert ids(one) == ["anna"]
    assert isinstance(two, Refused)
    assert two.reason is Reason.DOCUMENT_NOT_FOUND


def test_a_trace_without_retrieval_is_refused_once() -> None:
    (refused,) = outcome(call("1", 1, "Hello."), call("2", 2, "Who?"))
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.span_id) == (Reason.NO_DOCUMENTS, "2")
    assert outcome(search("1", 1, A)) == []


def test_a_text_that_was_changed_is_refused_wherever_it_is() -> None:
    long = " ".join([A, B, C])
    found = outcome(search("1", 1, long), call("2", 2, f"{A} {B} Who?"), call("3", 3, f"{long} Who?"))
    assert isinstance(found[0], Refused)
    assert found[0].reason is Reason.DOCUMENT_CHANGED
    assert isinstance(found[1], LoggedAnswer)
    assert found[1].n_hidden_calls == 1


def test_spans_without_times_are_taken_as_they_stand() -> None:
    (answer,) = outcome_of([search("1", None, A), call("2", None, f"{A} Who?")], "x").found
    assert ids(answer) == ["anna"]


def test_a_span_that_was_exported_twice_is_one() -> None:
    one = call("2", 2, f"{A} Who?")
    assert len(outcome(search("1", 1, A), one, one)) == 1


@pytest.mark.parametrize(("parents", "n_answers"), [({"1": "1"}, 1), ({"1": "2", "2": "1"}, 1), ({"2": "gone"}, 1)])
def test_parents_that_make_no_tree(parents: dict[str, str], n_answers: int) -> None:
    spans = [search("1", 1, A), call("2", 2, f"{A} Who?")]
    for span in spans:
        span.parent_id = parents.get(span.span_id)
    found = outcome_of(spans, "x")
    assert (len(found.found), found.n_hidden) == (n_answers, 1 - n_answers)
