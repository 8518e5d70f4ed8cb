"""Files of cases: what is read, and what is said of a line that cannot be."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakmeter.core.case import Case, Document
from leakmeter.data import cases, mapping
from leakmeter.data.cases import case_of, cases_of
from leakmeter.errors import DataError

GOOD = {"context": "Anna sang.", "query": "Who?", "response": "Anna"}


def write(folder: Path, *lines: Any, start: bytes = b"", end: bytes = b"\n") -> Path:
    path = folder / "cases.jsonl"
    coded = (line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
    path.write_bytes(start + end.join(coded) + end)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        cases.cases_of(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_line_is_a_case(tmp_path: Path) -> None:
    documents = ["Anna sang.", {"text": "Bo ate.", "name": "menu"}, {"text": "Cid left."}]
    path = write(tmp_path, GOOD, {"context": documents, "query": "What?", "id": "two"}, {"context": ""})
    loaded = cases.cases_of(path)
    assert loaded.problems == ()
    assert loaded.cases == (
        Case("1", (Document("context", "Anna sang."),), "Who?", "Anna"),
        Case("two", (Document("d1", "Anna sang."), Document("menu", "Bo ate."), Document("d3", "Cid left.")), "What?"),
        Case("3", (Document("context", ""),)),
    )


def test_byte_order_mark_line_ends_and_blank_lines_do_not_matter(tmp_path: Path) -> None:
    for start, end in product((b"", b"\xef\xbb\xbf"), (b"\n", b"\r\n", b"\n\n", b"\n  \t\n")):
        loaded = cases.cases_of(write(tmp_path, GOOD, {**GOOD, "id": "b"}, start=start, end=end))
        assert [(case.id, case.query) for case in loaded.cases] == [("1", "Who?"), ("b", "Who?")]


def test_characters_that_python_takes_for_line_ends_are_text(tmp_path: Path) -> None:
    for said, raw in product(map("a{}b".format, "\u2028\u2029\x85\x0b\x0c\x1c\r\0"), (True, False)):
        path = write(tmp_path, json.dumps({**GOOD, "context": said}, ensure_ascii=not raw).encode())
        assert cases.cases_of(path).cases[0].documents[0].text == said
    # A surrogate pair written in two halves is one character.
    (case,) = cases.cases_of(write(tmp_path, b'{"context": "\\ud83d\\ude42"}')).cases
    assert case.documents[0].text == "🙂"


@given(said=st.text(), query=st.text(), name=st.text())
def test_text_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, said: str, query: str, name: str) -> None:
    folder = tmp_path_factory.mktemp("data")
    value = {"context": [{"text": said, "name": name}], "query": query}
    (case,) = cases.cases_of(write(folder, json.dumps(value, ensure_ascii=False).encode())).cases
    assert (case.documents, case.query) == ((Document(name, said),), query)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"{bad", "line 2 is not JSON: Expecting property name enclosed in double quotes at character 2"),
        (b'{"context": "a"', "line 2 is not JSON: Expecting ',' delimiter at character 16"),
        (b"[" * 100_000, "line 2 is JSON nested too deep"),
        (b'{"id": ' + b"9" * 5000 + b"}", "line 2 is JSON nested too deep, or with a number too long"),
        *((of, "line 2 is not a JSON object") for of in (["a"], None)),
        ({**GOOD, "contxt": "a"}, "line 2: unknown field 'contxt'; known: id, context, query, response, decoding, ref"),
        ({"query": "Who?"}, "line 2: it has neither 'context', the retrieved texts, nor 'messages', a chat"),
        (
            {**GOOD, "messages": [{"role": "user", "content": "x"}]},
            "line 2: give either 'context' or 'messages', and not",
        ),
        ({**GOOD, "context": None}, "'context' has to be text or a list of documents"),
        ({**GOOD, "context": [5]}, "'context[0]' is a number, expected text"),
        ({**GOOD, "context": ["a", None]}, "'context[1]' is null, expected text"),
        ({**GOOD, "context": [{"name": "a"}]}, "document 1 is an object without 'text', 'page_content', 'content'"),
        ({**GOOD, "context": [{"text": 5}]}, "document 1: 'text' is a number, expected text"),
        (
            {**GOOD, "context": [{"chunk": 5, "note": "a"}]},
            "'chunk' is a number, expected text; it has 'note': name its",
        ),
        ({**GOOD, "context": [{"text": "a", "name": 1}]}, "'name' is a number, expected text"),
        ({**GOOD, "query": ["a"]}, "'query' is a list, expected text"),
        ({**GOOD, "response": True}, "'response' is a truth value, expected text"),
        ({**GOOD, "response": {}}, "'response' is an object, expected text"),
        *(({**GOOD, "id": of}, "'id' has to be text or a whole number") for of in (True, 1.5)),
        *(({**GOOD, "id": of}, "id '1' was already used in line 1") for of in ("1", 1)),
        ({**GOOD, "context": "a\ud800b"}, "'context' holds half a surrogate pair at character 1"),
        ({**GOOD, "query": "\udfff"}, "'query' holds half a surrogate pair at character 0"),
        ({**GOOD, "id": "\ud800"}, "'id' holds half a surrogate pair"),
        ({**GOOD, "context": [{"text": "a", "name": "\ud800"}]}, "'name' holds half a surrogate pair"),
        ({"messages": []}, "'messages' has to be a list of at least one"),
    ],
)
def test_a_bad_line_is_named_and_may_be_left_out(tmp_path: Path, line: Any, problem: str) -> None:
    path = write(tmp_path, GOOD, line, {**GOOD, "id": "three"})
    message = refusal(path)
    assert message.startswith(f"{path}, line 2")
    assert problem in message
    loaded = cases.cases_of(path, skip_bad=True)
    assert ([case.id for case in loaded.cases], loaded.problems) == (["1", "three"], (message,))


def test_a_file_without_a_case_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    for content in (b"", b" \r\n\t\n", b"\xef\xbb\xbf"):
        path.write_bytes(content)
        assert "holds no case; expected one JSON object a line" in refusal(path)
    with pytest.raises(DataError, match=r"no row of .* can be used; 1 of 2 have this problem: .*, line 1 is not JSON"):
        cases.cases_of(write(tmp_path, b"{", b"[]"), skip_bad=True)
    assert "cannot be read: No such file" in refusal(tmp_path / "missing.jsonl")
    assert "is a directory; give a file" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"text": 5}, "context: document 1: 'text' is a number, expected text"),
        ({"note": "a"}, "it has 'note': give its text as 'text'"),
        ({"text": "Ana sang.", "body": "Bo ran."}, "give only the one that the model read"),
    ],
)
def test_where_no_map_can_be_given_none_is_advised(document: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError) as refused:
        case_of([document], "Who?")
    assert (said in str(refused.value), "map" in str(refused.value)) == (True, False)


def test_documents_of_one_name_are_numbered_without_meeting_each_other() -> None:
    names = ["a", "a", "a (2)", "b", "a", "a (2)"]
    unique = [document.name for document in cases.unique_names([Document(name, "x") for name in names])]
    assert len(set(unique)) == len(names)
    assert (unique[:2], unique[3]) == (["a", "a (2)"], "b")


@given(taken=st.lists(st.sampled_from(["a", "a (2)", "a (3)", "b"])), name=st.sampled_from(["a", "b", "c"]))
def test_an_unused_name_is_not_taken(taken: list[str], name: str) -> None:
    out = mapping.unused(name, taken)
    assert out not in taken
    assert out.startswith(name)
    assert (out == name) == (name not in taken)


def test_cells_of_a_table_hold_lists_of_documents_as_text(tmp_path: Path) -> None:
    path = tmp_path / "cases.csv"
    path.write_text("query,docs,response\nWho?,\"['Anna sang.', 'Bo ate.']\",\nWho?,[Anna] sang.,Anna\n")
    expected = ((Document("d1", "Anna sang."), Document("d2", "Bo ate.")), (Document("context", "[Anna] sang."),))
    mapped = cases.cases_of(path, map="context=docs")
    assert tuple(case.documents for case in mapped.cases) == expected
    assert [case.response for case in mapped.cases] == [None, "Anna"]
    path.write_text(path.read_text().replace("docs", "context"))
    assert cases.cases_of(path).cases == mapped.cases


SENT = {"request": {"messages": [
    {"role": "user", "content": "Who\tcalled?"},
    {"role": "tool", "name": "\x1b[31mnotes", "content": "Anna Ek called. " * 9},
]}, "response": {"choices": [{"message": {"content": "Anna Ek."}}]}}  # fmt: skip


def test_it_is_said_how_the_texts_of_the_first_case_begin_or_how_long_they_are() -> None:
    assert cases_of([SENT, SENT], format="openai", skip_bad=True).first_case == (
        'data: first case, query: "Who called?"',
        'data: first case, context (␛[31mnotes#1): "Anna Ek called. Anna Ek called. Anna Ek called. Anna Ek call…"',
        'data: first case, response: "Anna Ek."',
    )
    assert cases_of([SENT], quiet_texts=True).first_case == (
        "data: first case, query: 11 characters",
        "data: first case, context: 144 characters",
        "data: first case, response: 8 characters",
    )
    row = {"query": "Who?", "context": ["a b", "c d", "e f", "g h"], "response": "Anna."}
    assert cases_of([row]).first_case == ()  # nothing was chosen
    mapped = cases_of([{**row, "q": "Who?"}], map="query=q,context=context,response=response").first_case
    assert mapped[1:4] == tuple(
        f'data: first case, context {n} of 4 (d{n}): "{text}"' for n, text in enumerate(row["context"][:3], 1)
    )
    assert len(mapped) == 5
