"""Which calls of a trace answered somebody, what was retrieved for them, and which calls nobody saw."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from leakmeter.data.traces import LoggedAnswer, Reason, Refused
from leakmeter.data.traces.span import TraceSpan
from leakmeter.data.traces.trace import outcome_of

A, B, C = "Anna sang at nine.", "Bo ate soup at noon.", "Cid left the ward on Monday."


def call(id_: str, start: float | None, prompt: str, answer: str = "It is so.", **more: Any) -> TraceSpan:
    span = TraceSpan("t", id_, f"log, {id_}", "llm", start=start, end=start and start + 0.5, **more)
    span.messages = [["system", "Be brief."], ["user", prompt]]
    span.answers = [[answer, "stop"]]
    return span


def search(id_: str, start: float | None, *texts: str, kind: Any = "retriever", parent: str | None = None) -> TraceSpan:
    documents = [[text.split()[0].lower(), text] for text in texts]
    return TraceSpan("t", id_, "log", kind, parent, start, start and start + 0.1, documents=documents)


def outcome(*spans: TraceSpan, leave_out: bool = False) -> list[LoggedAnswer | Refused]:
    forth, back = outcome_of(spans, "x", leave_out=leave_out), outcome_of(spans[::-1], "x", leave_out=leave_out)
    key = {"key": lambda one: one.span_id}
    assert sorted(forth.results, **key) == sorted(back.results, **key)
    return forth.results


def answers(*spans: TraceSpan, leave_out: bool = False) -> list[LoggedAnswer]:
    found = outcome(*spans, leave_out=leave_out)
    assert all(isinstance(one, LoggedAnswer) for one in found)
    return cast("list[LoggedAnswer]", found)


def ids(answer: LoggedAnswer | Refused) -> list[str]:
    assert isinstance(answer, LoggedAnswer)
    return [document.id for document in answer.documents]


def reasons(*spans: TraceSpan) -> list[Reason | None]:
    """Why calls were refused, None for one that was not."""
    return [one.reason if isinstance(one, Refused) else None for one in outcome(*spans)]


FOUND, ASK = search("1", 1, A), call("3", 3, f"{A} Who?")
CALLS: dict[str, tuple[list[TraceSpan], str, int]] = {
    "a rewritten question": ([call("1", 1, "Rewrite: who?"), search("2", 2, A), ASK], "3", 1),
    "a call that wraps another": ([FOUND, ASK, replace(call("4", 3.1, f"{A} Who?"), parent_id="3")], "4", 0),
    "a failed call that was tried again": ([FOUND, call("2", 2, f"{A} Who?", failed=True), ASK], "3", 0),
    "tools, and a call within a retrieval": (
        [
            *(FOUND, call("2", 1.5, "Guess a passage.", parent_id="1"), TraceSpan("t", "5", "log", "tool", start=2)),
            *(ASK, TraceSpan("t", "4", "log", "tool", start=4)),
        ],
        *("3", 2),
    ),
    "a span that was exported twice": ([FOUND, ASK, ASK], "3", 0),
    "what a retriever within another found": ([FOUND, search("2", 1.05, A, B, parent="1"), ASK], "3", 0),
    "parents that are gone": ([FOUND, replace(ASK, parent_id="gone")], "3", 0),
    "a span that is its own parent": ([replace(FOUND, parent_id="1"), ASK], "3", 0),
    "parents in a circle": ([replace(FOUND, parent_id="3"), replace(ASK, parent_id="1")], "3", 0),
}


@pytest.mark.parametrize(("spans", "answered", "n_hidden"), CALLS.values(), ids=CALLS)
def test_the_call_that_answered_and_those_that_nobody_saw(spans: list[TraceSpan], answered: str, n_hidden: int) -> None:
    (answer,) = answers(*spans)
    assert (answer.span_id, answer.n_hidden_calls, ids(answer)) == (answered, n_hidden, ["anna"])


def test_spans_without_times_are_taken_as_they_stand_and_failed_or_bare_calls_refused() -> None:
    # Of a trace, calls of the model are counted, and no tools.
    hidden = {name: outcome_of(spans, "x").n_hidden for name, (spans, *_) in CALLS.items()}
    assert (hidden["tools, and a call within a retrieval"], hidden["parents in a circle"]) == (1, 0)
    (answer,) = outcome_of([search("1", None, A), call("2", None, f"{A} Who?")], "x").results
    assert ids(answer) == ["anna"]
    assert reasons(FOUND, call("2", 2, f"{A} Who?", failed=True)) == [Reason.FAILED]
    spans = FOUND, call("2", 2, f"{A} Who?"), call("3", 3, "Say it in French: Anna.")
    assert reasons(*spans) == [None, Reason.DOCUMENT_NOT_FOUND]
    assert ids(outcome(*spans)[0]) == ["anna"]


def test_a_conversation_in_one_trace() -> None:
    first = call("2", 2, f"{A} Who?", "Anna.")
    second = call("4", 4, f"{B} And then?", "Soup.")
    second.messages[1:1] = [["user", "Who?"], ["assistant", "Anna."]]
    one, two = answers(search("1", 1, A), first, search("3", 3, B), second)
    assert (ids(one), ids(two)) == (["anna"], ["bo"])
    assert (two.n_hidden_calls, two.earlier) == (0, (1, 2))
    assert [document.id for document in two.absent] == ["anna"]
    # A document of an earlier answer may still be in the prompt.
    again = call("4", 4, f"{A} {B} And then?", "Soup.")
    assert ids(outcome(search("1", 1, A), first, search("3", 3, B), again)[1]) == ["anna", "bo"]


def test_what_stands_in_a_prompt_was_read_whatever_the_clock_of_its_search_says() -> None:
    late, text = search("9", 3.005, B), f"{A} {B} Who?"
    assert ids(answers(FOUND, call("3", 3, text), late)[0]) == ["anna", "bo"]
    assert ids(answers(call("3", 3, text), late)[0]) == ["bo"]
    # Of a later search nothing is expected, and no part is looked for.
    longer = search("9", 4, f"{A} {B}", " ".join([A, B, C]))
    longer.documents.append(["empty", " "])
    assert [ids(one) for one in answers(FOUND, ASK, longer)] == [["anna"]]
    (answer,) = answers(FOUND, ASK, longer)
    assert (answer.absent, answer.n_empty_documents) == ((), 0)
    # Nor is what was read cut into its parts.
    whole = search("1", 1, f"{A} {B}")
    (answer,) = answers(whole, call("3", 3, text), search("9", 4, B), search("10", 4, f"{B} Who?"))
    assert [document.text for document in answer.documents] == [f"{A} {B}"]


def test_a_reranker_may_drop_documents() -> None:
    spans = [search("1", 1, A, B, C), search("2", 2, C, A, kind="reranker"), call("3", 3, f"{C} {A} Who?")]
    (answer,) = answers(*spans)
    assert set(ids(answer)) == {"anna", "cid"}
    assert [document.id for document in answer.absent] == ["bo"]
    # What the reranker kept must be there.
    assert reasons(*spans[:2], call("3", 3, f"{A} Who?")) == [Reason.DOCUMENT_NOT_FOUND]


def test_without_a_reranker_each_document_must_be_there_unless_told_otherwise() -> None:
    spans = [search("1", 1, A, B), call("3", 3, f"{A} Who?")]
    assert reasons(*spans) == [Reason.DOCUMENT_NOT_FOUND]
    (answer,) = answers(*spans, leave_out=True)
    assert [document.id for document in answer.absent] == ["bo"]


def test_a_trace_without_retrieval_is_refused_once() -> None:
    spans = call("1", 1, "Hello."), call("2", 2, "Who?")
    assert (reasons(*spans), outcome(*spans)[0].span_id) == ([Reason.NO_DOCUMENTS], "2")
    assert outcome(search("1", 1, A)) == []


def test_a_text_that_was_changed_is_refused_wherever_it_is() -> None:
    long = " ".join([A, B, C])
    spans = search("1", 1, long), call("2", 2, f"{A} {B} Who?"), call("3", 3, f"{long} Who?")
    assert reasons(*spans) == [Reason.DOCUMENT_CHANGED, None]
    assert outcome(*spans)[1].n_hidden_calls == 1  # type: ignore[union-attr]
