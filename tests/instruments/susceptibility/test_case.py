"""Queries and contexts from files: every kind of file, what may be left out, and what is wrong with one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from helpers.table_files import write_rows
from leakmeter.errors import DataError, LeakmeterError
from leakmeter.instruments.susceptibility.case import (
    ClosedAnswer,
    Context,
    Query,
    contexts_of,
    load_contexts,
    load_queries,
    queries_of,
    split_mapping,
)

HOSTILE = "{entity} %s \\1 <b>&amp;</b> <|endoftext|> {0.__class__} [INST] \u202e \u0000 日本 🙂"


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "parquet"])
def test_queries_and_contexts_of_every_kind_of_file(tmp_path: Path, kind: str) -> None:
    rows = [
        {"Query": "Q: Who wrote Emma?\nA:", "ID": "emma", "answer": "Jane Austen", "Relation": "author", "note": "x"},
        {"Query": " Emma was written by", "ID": "7", "answer": None, "Relation": "author", "note": None},
    ]
    author = ("relation", "author")
    assert load_queries(write_rows(tmp_path, rows, kind)) == (
        Query("emma", "Q: Who wrote Emma?\nA:", answer="Jane Austen", factors=(author, ("note", "x"))),
        Query("7", " Emma was written by", factors=(author,)),
    )
    rows = [
        {"context": "Emma was written by Bo.", "weight": 2.5, "answer": "Bo", "id": "bo"},
        {"context": "It rains.", "weight": 1, "answer": None, "id": None},
    ]
    assert load_contexts(Path(write_rows(tmp_path, rows, kind))) == (
        Context("bo", "Emma was written by Bo.", 2.5, "Bo"),
        Context("2", "It rains."),
    )
    # Texts are data.
    text = HOSTILE.replace("\u0000", "") if kind == "csv" else HOSTILE
    (query,) = load_queries(write_rows(tmp_path, [{"query": text, "answer": text, "f": text}], kind))
    assert (query.text, query.answer, query.factors) == (text, text, (("f", text),))
    (context,) = load_contexts(write_rows(tmp_path, [{"text": text, "answer": text}], kind))
    assert (context.text, context.answer) == (text, text)


def test_the_first_name_of_the_text_is_taken_and_the_others_are_factors() -> None:
    row = {"text": "C", "question": "B", "query": "A"}
    assert queries_of([row], "given") == (Query("1", "A", factors=(("text", "C"), ("question", "B"))),)
    assert queries_of([{"text": "C"}], "given") == (Query("1", "C"),)
    assert contexts_of([{"TEXT": "C", " ": 0}], "given") == (Context("1", "C"),)
    row = {"query": "A", "size": 3, "share": 0.5, "old": True, "none": float("nan"), "blank": " ", "": 4}
    (query,) = queries_of([row], "given")
    assert query.factors == (("size", "3"), ("share", "0.5"), ("old", "true"))


@pytest.mark.parametrize(
    ("given", "answers"),
    [
        (["Yes", " No "], (ClosedAnswer("Yes", ("Yes",)), ClosedAnswer("No", ("No",)))),
        (
            {"Yes": ["Yes", "yes", "Yes"], "No": "Nope"},
            (ClosedAnswer("Yes", ("Yes", "yes")), ClosedAnswer("No", ("Nope",))),
        ),
        ({"Yes": ["Yes"], "Paris": None}, (ClosedAnswer("Yes", ("Yes",)),)),
        ("Yes|No", (ClosedAnswer("Yes", ("Yes",)), ClosedAnswer("No", ("No",)))),
        (' ["A|B"]', (ClosedAnswer("A|B", ("A|B",)),)),
        ('{"Yes": ["Y", "y"]}', (ClosedAnswer("Yes", ("Y", "y")),)),
        ("", ()),
        ("null", (ClosedAnswer("null", ("null",)),)),
        (None, ()),
    ],
)
def test_closed_sets_of_answers(given: object, answers: tuple[ClosedAnswer, ...]) -> None:
    assert queries_of([{"query": "A", "answers": given}], "given")[0].answers == answers


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_answers_of_files(tmp_path: Path, kind: str) -> None:
    sets: list[Any] = [{"Yes": ["Yes", "yes"]}, {"No": ["No"]}]
    rows = [{"query": f"Q{i}", "answers": json.dumps(one) if kind == "csv" else one} for i, one in enumerate(sets)]
    found = [query.answers for query in load_queries(write_rows(tmp_path, rows, kind))]
    assert found == [(ClosedAnswer("Yes", ("Yes", "yes")),), (ClosedAnswer("No", ("No",)),)]


SECRET = "Anna Berg is ill"


BAD_QUERIES: list[tuple[list[dict[str, Any]], str]] = [
    ([{SECRET: 1}], "record 1 has none of the columns 'query', 'question', 'text'; does the file begin with"),
    ([{"query": "A"}, {"context": SECRET}], "record 2 has none of the columns"),
    ([{"query": " \n"}], "record 1: 'query' is empty"),
    ([{"query": "A"}, {"text": None}], "record 2: 'text' is null, expected text"),
    ([{"query": "\ud800"}], "'query' holds half a surrogate pair"),
    ([{"query": "A", "id": 2}, {"query": SECRET}], "record 2 has the id of record 1; make ids unique"),
    ([{"query": "A", "id": True}], "'id' has to be text or a whole number"),
    ([{"query": "A", "id": 1.5}], "'id' has to be text or a whole number"),
    ([{"query": "A", "answer": [SECRET]}], "'answer' is a list, expected text"),
    ([{"query": "A", "size": [SECRET]}], "'size' is a list, expected text"),
    ([{"query": "A", "\ud800": 1}], "'the name of a column' holds half a surrogate pair"),
    ([{"query": "A", "answers": []}], "'answers' is empty; name one answer or more, or leave it out"),
    ([{"query": "A", "answers": "[1"}], "'answers' looks like JSON but is not valid"),
    (
        [{"query": "A", "answers": '{"a": ["b"], "a": ["c"]}'}],
        "'answers' is an object that has 'a' twice, expected text",
    ),
    ([{"query": "A", "answers": "[" * 9999}], "'answers' looks like JSON but is not valid"),
    ([{"query": "A", "answers": 5}], "'answers' has to be a list of answers, or an object of their forms"),
    ([{"query": "A", "answers": [1969]}], "'answers[1]' is a number, expected text"),
    ([{"query": "A", "answers": "Yes|"}], "'answers[2]' is empty, or has an empty form"),
    ([{"query": "A", "answers": ["Yes", SECRET, SECRET]}], "'answers' has the same answer twice"),
    ([{"query": "A", "answers": {"Yes": []}}], "'answers[1]' has to be a list of one form or more"),
    ([{"query": "A", "answers": {"Yes": [None]}}], "'answers[1]' is null, expected text"),
    ([{"query": "A", "answers": {"Y": SECRET, "N": [SECRET]}}], "answers 1 and 2 share a form"),
]
NO_WEIGHTS = (0, -1, float("inf"), 10**400, "nan", SECRET, True, [1])
BAD_CONTEXTS: list[tuple[list[dict[str, Any]], str]] = [
    ([{"query": SECRET}], "record 1 has none of the columns 'context', 'text'"),
    ([{"context": ""}], "record 1: 'context' is empty"),
    *(([{"context": "A", "weight": one}], "record 1: 'weight' has to be a number above 0") for one in NO_WEIGHTS),
    ([{"context": "A", "wieght": 2}], "unknown column 'wieght'; known: id, context, weight, answer"),
    ([{"context": "A", "text": SECRET}], "unknown column 'text'; known: id, context"),
    ([{"text": "A", "id": 1}, {"text": SECRET, "id": "1"}], "record 2 has the id of record 1"),
]


def test_a_bad_record_is_one_line_without_its_text(tmp_path: Path) -> None:
    headless = tmp_path / "x.csv"
    headless.write_text("Anna,Berg\nWho is ill?,Ole\n", encoding="utf-8")
    bad: list[tuple[Any, Any, str]] = [(load_queries, headless, "does the file begin with a heading")]
    bad += [(load_queries, *one) for one in BAD_QUERIES] + [(load_contexts, *one) for one in BAD_CONTEXTS]
    for load, rows, told in bad:
        path = str(rows if isinstance(rows, Path) else write_rows(tmp_path, rows))
        with pytest.raises(DataError) as ended:
            load(path)
        assert told in str(ended.value)
        assert path in str(ended.value)
        assert not re.search("\n|Anna", str(ended.value).replace(path, ""))


def test_files_that_hold_nothing_or_are_not_there(tmp_path: Path) -> None:
    for name, text in (("a.jsonl", "\n"), ("b.csv", ""), ("c.csv", "query\n"), ("d.json", "[]"), ("e.txt", "A")):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        for load in (load_queries, load_contexts):
            with pytest.raises(LeakmeterError, match=name) as ended:
                load(path)
            assert "\n" not in str(ended.value)
    with pytest.raises(DataError, match="cannot be read"):
        load_queries(tmp_path / "none.jsonl")
    with pytest.raises(DataError, match="given: it has no record"):
        queries_of([], "given")


def test_queries_and_contexts_are_read_from_any_table(tmp_path: Path) -> None:
    asked = pd.DataFrame([{"prompt": "Who?", "gold": "Mara", "form": "question"}])
    ours, theirs = split_mapping({"query": "prompt", "answer": "gold", "context": "page_content", "context.id": "nr"})
    expected = (Query("1", "Who?", answer="Mara", factors=(("form", "question"),)),)
    assert load_queries(asked, ours) == expected
    asked.to_csv(tmp_path / "q.csv.gz", index=False)
    assert load_queries(tmp_path / "q.csv.gz", ours) == expected
    assert load_contexts([{"page_content": "Mara was here.", "nr": "a"}], theirs) == (Context("a", "Mara was here."),)
    assert [one.text for one in load_contexts(["One.", "Two."])] == ["One.", "Two."]
    with pytest.raises(DataError, match=r"none of the columns .*; try --map query=querry$"):
        load_queries([{"querry": "Who?"}])
