"""A logged answer is measured against the logged prompt without a document, and with nothing in its place."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from helpers.logged_traffic import exchanges, leakmeter, write
from helpers.measure_items import readings_of
from helpers.toy_chat import ChatByteTokenizer, ToyChat
from leakmeter.core.case import Case
from leakmeter.data.traces import (
    DocumentPlace,
    LoggedAnswer,
    LoggedDocument,
    LoggedMessage,
    Sampling,
    TraceReader,
    as_case,
)
from leakmeter.data.traces.places import Retrieved, find
from leakmeter.instruments.influence.measure import Influence
from leakmeter.text.build import PromptSettings, prepare

A, B = "Anna sang at nine.", "Bo ate soup."
TOKENIZER = ChatByteTokenizer()


def answer(*messages: tuple[str, str], texts: tuple[str, ...] = (A, B), said: str = "Anna.") -> LoggedAnswer:
    held = tuple(LoggedMessage(role, content) for role, content in messages)
    found = find([Retrieved(f"id {n}", text) for n, text in enumerate(texts)], held)
    sampling = Sampling(temperature=1.0, top_p=1.0)
    return LoggedAnswer("t", "s", None, None, "who", None, sampling, held, said, found.documents)


def prepared(one: LoggedAnswer, **settings: Any) -> Any:
    return prepare(as_case(one), TOKENIZER, PromptSettings(**settings), window=None, n_reserved=0)


def rendered(one: LoggedAnswer, *gone: LoggedDocument) -> str:
    """The logged prompt without some documents' characters."""
    told = []
    for number, message in enumerate(one.messages):
        places = sorted((p.start, p.end) for d in gone for p in d.places if p.message == number)
        edges = [0, *(edge for place in places for edge in place), len(message.content)]
        kept = "".join(message.content[a:b] for a, b in list(pairwise(edges))[::2])
        told.append({"role": message.role, "content": kept})
    return TOKENIZER.render_chat(told, answer=True)


def text_of(prompt: Any) -> str:
    return TOKENIZER.decode(prompt.ids.tolist())


ASKED = ("user", f"Notes:\n{A}\n\n{B}\nWho sang?")
CHATS = {
    "in the turn that asks": [("system", "Be brief."), ASKED],
    "in the instructions": [("system", f"Notes: {A} {B} Be brief."), ("user", "Who sang?")],
    "in both": [("system", f"Notes: {A}"), ("user", f"{B} Who sang?")],
    "in several places": [("system", f"{A} Be brief."), ("user", f"{B} {A} And again: {A}"), ("user", "Who sang?")],
    "in a conversation": [("user", "Good day."), ("assistant", "Good day."), ASKED],
    "in a tool's message": [("user", "Who sang?"), ("tool", f"{A}\n{B}")],
    "behind the question": [("user", f"Who sang? {A}"), ("tool", B)],
}


@pytest.mark.parametrize("chat", CHATS.values(), ids=CHATS)
@pytest.mark.parametrize("removal", ["drop", "retokenize"])
def test_without_a_document_the_prompt_is_the_logged_one_without_its_characters(chat: Any, removal: str) -> None:
    one = answer(*chat)
    held = prepared(one, unit="document", removal=removal)

    def is_same(prompt: Any, *gone: LoggedDocument) -> bool:
        return text_of(prompt) == rendered(one, *gone)

    assert is_same(held.item.prompt)
    assert [span.name for span in held.item.spans] == ["d1", "d2"]
    for document, span in zip(one.documents, held.item.spans, strict=True):
        assert is_same(held.item.cuts[span.name], document)
        assert is_same(held.item.alone[span.name], *(other for other in one.documents if other is not document))
    assert is_same(held.item.blank, *one.documents)


@pytest.mark.parametrize("unit", ["sentence", "word", "message", "whole", "ngram:5", "entity"])
def test_no_unit_takes_anything_but_documents(unit: str) -> None:
    one = answer(*CHATS["in several places"])
    held = prepared(one, unit=unit)
    for span in held.item.spans:
        for start, end in span.ranges:
            assert held.context[start:end].strip() in f"{A} {B}"
        assert text_of(held.item.cuts[span.name]).count("Be brief.") == 1
    assert held.context.count(A) == 3


@pytest.mark.parametrize("chat", CHATS.values(), ids=CHATS)
def test_the_influence_of_a_document_is_the_difference_of_two_plain_scores(chat: Any) -> None:
    backend, one = ToyChat(), answer(*chat)
    series = readings_of(backend, Influence(), prepared(one, unit="document").item)

    def scored(prompt: str) -> float:
        before = len(told := prompt.encode())
        ids = np.frombuffer(told + one.answer.encode(), dtype=np.uint8).astype(np.int64)
        total = 0.0
        for end in range(before, len(ids)):
            logits = backend.logits(ids[:end], np.arange(end))
            total += logits[ids[end]] - np.log(np.exp(logits).sum())
        return float(total)

    for number, document in enumerate(one.documents, 1):
        wanted = scored(rendered(one)) - scored(rendered(one, document))
        assert float(series[0, "without_this", f"d{number}"].sum()) == pytest.approx(wanted, abs=1e-9)


def test_what_a_case_says_of_an_answer() -> None:
    case = as_case(answer(*CHATS["in both"]))
    assert (case.id, case.response, case.decoding) == ("t/s", "Anna.", "sampling")
    assert all(message.fixed for message in case.messages)
    assert not case.has_only_system_context
    assert [part.text for message in case.messages for part in message.parts] == ["Notes: ", A, B, " Who sang?"]
    plain = Case("t/s", messages=tuple(replace(m, fixed=False, retrieved=()) for m in case.messages))
    assert "fixed" not in str(plain.record())
    assert "fixed" in str(case.record())
    # A place across white space is taken as it was sent.
    one = answer(("user", f"{A.replace(' ', chr(10) * 2)}  {B} Who sang?"))
    assert one.documents[0].places == (DocumentPlace(0, 0, len(A) + 3),)
    assert text_of(prepared(one, unit="document").item.cuts["d1"]).count("Anna") == 0


def test_all_invented_traffic_can_be_prepared(tmp_path: Any) -> None:
    path = write(tmp_path / "log.jsonl", [record for one in exchanges(15) for record in leakmeter(one)])
    for one in TraceReader(path):
        assert isinstance(one, LoggedAnswer)
        held = prepared(one, unit="document")
        assert len(held.item.spans) == 3
        assert text_of(held.item.blank) == rendered(one, *one.documents)
