"""Fields by path, and what is said where a name is not there."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakmeter.data.cases import FIELDS, cases_of
from leakmeter.data.mapping import Names, listed, mapped, mapping_of, nearest, parsed_cell, renamed, suggested, value_at
from leakmeter.errors import DataError, UsageError

RECORD: dict[str, Any] = {
    "question": "Who?",
    "item": {"answer": "Anna", "scores": [1, 2]},
    "docs": [{"text": "a", "tags": [{"t": 1}]}, {"text": "b", "tags": [{"t": 2}, {"t": 3}]}],
    "cell": '[{"text": "c"}]',
    "python": "['d', \"e's\"]",
    "a.b": "with a dot",
    "Full Name": "Anna Berg",
    "matrix": [[1, 2], [3]],
}


def test_a_path_leads_to_what_stands_there() -> None:
    for path, value in {
        "question": "Who?", "item.answer": "Anna", "item.scores[1]": 2, "item.scores[-1]": 2, "docs[].text": ["a", "b"],
        "docs[0].text": "a", "docs[].tags[].t": [1, 2, 3], "docs[]": RECORD["docs"], "docs[].tags[0].t": [1, 2],
        "matrix[][]": [1, 2, 3], "matrix[0][1]": 2, "cell[].text": ["c"], "python[1]": "e's", "a.b": "with a dot",
        "Full Name": "Anna Berg",
    }.items():  # fmt: skip
        assert value_at(RECORD, path, "x") == value, path


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("questoin", "there is no 'questoin'; did you mean 'question'?; there is 'question', 'item'"),
        ("item.anwser", "there is no 'anwser'; did you mean 'answer'?; there is 'answer', 'scores'"),
        ("question.text", "the parent of 'text' is not an object"),
        ("question[]", "the part before '[]' is not a list"),
        ("docs[7]", "there is no list with an element [7]"),
        ("docs[].txet", "there is no 'txet'"),
    ],
)
def test_a_path_that_leads_nowhere_names_what_is_near(path: str, problem: str) -> None:
    with pytest.raises(DataError, match="^" + re.escape(f"x.jsonl, line 3: --map {path}: {problem}")):
        value_at(RECORD, path, "x.jsonl, line 3")


ITEMS = [
    {"type": "reasoning", "summary": []},
    {"type": "call", "results": [{"text": "Anna called."}]},
    {"type": "call", "results": [{"text": "Bo ate."}]},
    {"type": "message", "content": [{"type": "text", "text": "Anna"}, {"type": "text", "text": " did."}]},
]


def test_elements_of_a_list_are_selected_by_a_key() -> None:
    def at(path: str) -> object:
        return value_at({"output": ITEMS}, path, "x")

    assert at("output[type=call].results[].text") == ["Anna called.", "Bo ate."]
    assert at("output[type=call].results") == [*ITEMS[1]["results"], *ITEMS[2]["results"]]  # type: ignore[misc]
    assert at("output[type=call][-1].results[0].text") == "Bo ate."
    assert at("output[type=message].content[].text") == ["Anna", " did."]
    for path, why in (
        ("output[type=image].text", "no element has the type 'image'; there is 'reasoning', 'call', 'message'"),
        ("output[type=call].text", "there is no 'text'; there is 'type', 'results'"),
        ("output[0][type=call]", r"the part before '\[type=call\]' is not a list"),
    ):
        with pytest.raises(DataError, match=why):
            at(path)
    for path in ("output[type=]", "output[=call]", "[a=b=c]", "output[a.b=c]"):
        with pytest.raises(UsageError, match="is not a path"):
            at(path)


def test_a_path_to_blocks_of_one_text_joins_them() -> None:
    typed = [{"type": "text", "text": "Who"}, {"type": "text", "text": " called?"}]
    row = {"in": [{"text": "Who"}, {"text": " called?"}], "typed": typed, "docs": ["Anna called."], "output": ITEMS}
    rest = "context=docs,response=output[type=message].content[].text"
    for query in ("in[].text", "typed[].text", "typed"):
        (case,) = cases_of([row], map=f"query={query},{rest}", needs_response=True).cases
        assert (case.query, case.response) == ("Who called?", "Anna did.")
    with pytest.raises(DataError, match=r"'query' is not text; .*\(it is of type 'image'\)"):
        cases_of([{**row, "typed": [*typed, {"type": "image", "url": "x"}]}], map=f"query=typed,{rest}")
    messages = [{"type": "call", "id": 1}, {"type": "msg", "text": "Who"}, {"type": "msg", "text": " called?"}]
    for chosen, expected in ((messages, "Who called?"), (messages[:2], "Who")):
        (case,) = cases_of(
            [{"items": chosen, "docs": ["Anna called."]}],
            map="query=items[type=msg].text,context=docs,response=items[type=msg].text",
        ).cases
        assert (case.query, case.response) == (expected, expected)
    # Turns, and texts of several documents, are no one text.
    turns = [{"role": "assistant", "text": "Anna."}, {"role": "assistant", "text": "Bo."}]
    with pytest.raises(DataError, match="'response' is a list, expected text"):
        cases_of([{**row, "turns": turns}], map="query=typed,context=docs,response=turns[role=assistant].text")
    with pytest.raises(DataError, match="'query' is a list, expected text"):
        cases_of([{**row, "in": [{"text": "Who?", "id": 1}]}], map=f"query=in[].text,{rest}")


def test_names_are_given_out_once_each() -> None:
    names = Names()
    assert [names.own(name) for name in ("a", "a (2)", "a", "a", "b", "a (2)")] == [
        *("a", "a (2)", "a (3)", "a (4)", "b", "a (2) (2)"),
    ]


def test_pairs_are_read_from_texts_and_dicts() -> None:
    wanted = {"query": "question", "context": "docs[].text"}
    assert mapping_of("query=question, context=docs[].text") == wanted
    assert mapping_of(["query=question", "context=docs[].text"], FIELDS) == wanted
    assert mapping_of(wanted) == wanted
    assert mapping_of(None) == {}
    assert mapping_of("response=") == {"response": ""}


def test_what_is_no_mapping_is_said() -> None:
    for given_text, problem in {
        "question": "'question' is not FIELD=PATH",
        "qury=question": "there is no field 'qury'; did you mean 'query'? known: id, context",
        "query=a,query=b": "field 'query' is given twice",
        **{f"query={path}": f"'{path}' is not a path" for path in ("a[", "a..b", "[].", "a[x]", "a[-]", "a]b")},
    }.items():
        with pytest.raises(UsageError, match=re.escape(problem)):
            mapping_of(given_text, FIELDS)


def test_a_mapped_field_takes_the_place_of_one_of_that_name_and_an_empty_path_leaves_it_out() -> None:
    record = {"query": "q-17", "text": "Who?", "response": {"status": 200}, "id": "a"}
    assert mapped(record, {"query": "text", "response": ""}, "x") == {"query": "Who?", "id": "a"}


TEXTS = st.text(st.characters(codec="utf-8"), min_size=1)
MORE = dict.fromkeys(("id", "response", "reference"), TEXTS)
CASES = st.fixed_dictionaries({"query": TEXTS, "context": TEXTS | st.lists(TEXTS, max_size=3)}, optional=MORE)


@given(record=CASES, number=st.integers(0, 5))
def test_to_map_native_fields_to_themselves_changes_nothing(record: dict[str, Any], number: int) -> None:
    some = {name: name for name in list(record)[: number + 1]}
    assert mapped(record, some, "x") == record
    # But for the note on what the mapping reads.
    assert replace(cases_of([record], map=some), notes=()) == cases_of([record])


@given(record=st.dictionaries(st.text(), st.integers()))
def test_every_field_can_be_named_as_it_is(record: dict[str, Any]) -> None:
    for name, value in record.items():
        assert value_at(record, name, "x") == value


@given(path=st.text("ab.[]0-1 ", max_size=12))
def test_any_path_is_followed_or_refused_in_one_line(path: str) -> None:
    said = ""
    try:
        value_at({"a": [{"b": [1]}], "b": {"a": "x"}}, path, "x")
    except UsageError as error:
        said = str(error)
    assert "\n" not in said


def test_columns_are_known_by_their_other_names() -> None:
    wanted = {"query": ("question",), "response": ("answer", "model output")}
    assert renamed(["Question", "MODEL_OUTPUT", "x"], wanted) == {"query": "Question", "response": "MODEL_OUTPUT"}
    assert renamed(["query", "question"], wanted) == {}


def test_what_would_mend_it_is_suggested() -> None:
    wanted = {"query": ("question",), "context": ("passages",), "response": ("answer",)}
    assert suggested(["Question", "passage", "x"], wanted, wanted) == "--map query=Question,context=passage"
    assert suggested(["x", "y"], wanted, wanted) is None
    assert suggested(["Contact ID", "Account Owner"], {"context": ()}, {"context": ()}) is None
    assert suggested(["rag_context", "qustion"], wanted, wanted) == "--map query=qustion,context=rag_context"
    assert nearest("respnse", ["query", "response"]) == "response"
    assert nearest("zzz", ["query", "response"]) is None


def test_texts_in_the_place_of_names_are_not_repeated() -> None:
    assert listed(["a", "b"]) == "'a', 'b'"
    assert "Anna" not in listed(["Anna Berg lives at 3 Elm Street in Graz", "b"])
    assert listed([]) == "nothing"
    assert listed(str(n) for n in range(30)).endswith("and 10 more")


def test_a_cell_that_holds_no_list_stays_what_it_is() -> None:
    hostile = ("[" * 100_000, "[" + "-" * 10_000 + "1]", "__import__('os')", "[__import__('os')]")
    for cell in (*hostile, "[1", r"['\d', x]", "{not", "(1, 2)", 3, None):
        assert parsed_cell(cell) is cell
