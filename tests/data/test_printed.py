"""Lists and records in cells, as NumPy and pandas print them: read as several, or refused, and never merged."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from leakmeter.data.cases import cases_of
from leakmeter.data.foreign import Unread
from leakmeter.data.mapping import parsed_cell
from leakmeter.errors import DataError

CALL, SOUP = "Anna Ek called\nat nine.", "Soup isn't at noon."
RECORDS = [{"id": "hr/a", "text": CALL, "score": np.float64(0.5)}, {"id": "hr/b", "text": SOUP, "score": None}]
WITH_VECTORS = [{**record, "vector": np.arange(2000.0)} for record in RECORDS]
LONG = [f"Note {number} is long enough." for number in range(1200)]
MAP = "query=question,context=documents,response=answer"


def array(values: list[Any]) -> Any:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def cases_of_cell(cell: object, tmp_path: Path, mapping: str | None) -> Any:
    path = tmp_path / "log.csv"
    pd.DataFrame([{"question": "Who?", "documents": cell, "answer": "Anna."}]).to_csv(path, index=False)
    return cases_of(path, map=mapping).cases


@pytest.mark.parametrize("mapping", [None, MAP])
@pytest.mark.parametrize(
    "cell",
    [
        array([CALL, SOUP]), repr(array([CALL, SOUP])), np.array([CALL, SOUP]), repr(np.array([CALL, SOUP])),
        array(RECORDS), repr(array(RECORDS)), RECORDS, WITH_VECTORS, array(WITH_VECTORS),
        [{"text": CALL, "tags": array(["a", "b"])}, {"text": SOUP, "tags": array([])}],
        [{"text": CALL, "at": pd.Timestamp("2026-11-02"), "by": pd.NA}, {"text": SOUP, "at": pd.NaT, "by": np.nan}],
    ],
)  # fmt: skip
def test_what_to_csv_prints_is_read_as_several(cell: object, mapping: str | None, tmp_path: Path) -> None:
    (case,) = cases_of_cell(cell, tmp_path, mapping)
    assert [document.text for document in case.documents] == [CALL, SOUP]


@pytest.mark.parametrize("mapping", [None, MAP])
@pytest.mark.parametrize(
    ("cell", "kind"),
    [
        (array(LONG), "a list that NumPy shortened with '...'"),
        (repr(array(LONG)), "a list that NumPy shortened with '...'"),
        (array([{"text": text} for text in LONG]), "a list that NumPy shortened with '...'"),
        ("['a', 'b' 'c']", "a list in which a comma is missing between two elements"),
        ("[{'text': 'a'}, {'text': 'b'} {'text': 'c'}]", "a list in which a comma is missing between two elements"),
        ("[{'text': 'a', 'of': <object at 0x7f>}]", "a list with a part that cannot be read"),
        (str(pd.Series([CALL * 9, SOUP])), "a list that pandas shortened"),
        (str(pd.array([CALL, SOUP])), "a list that pandas shortened"),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_line(cell: object, kind: str, mapping: str | None, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        cases_of_cell(cell, tmp_path, mapping)
    assert f"'context' is {kind}, expected text; write the table as JSON lines or Parquet" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_lists_within_lists_are_read() -> None:
    assert parsed_cell(str(array([array(["a", "b"]), array(["c"])]))) == [["a", "b"], ["c"]]
    assert parsed_cell("[array(['a', 'b'], dtype=object)]") == [["a", "b"]]
    assert parsed_cell("[{'text': 'a', 'at': datetime.date(2026, 11, 2)}]")[0]["text"] == "a"  # type: ignore[index]
    assert parsed_cell("{'of': array(['a'], dtype='<U1'), 'n': -1}") == {"of": ["a"], "n": -1}


@pytest.mark.parametrize(
    "cell", ["[1 2 3]", "[...]", "[see 1 ... 2]", "[Note] he said 'a' 'b'", "{'a', 'b'}", "array of 'a' 'b'", "['a"]
)
def test_a_text_stays_one(cell: str) -> None:
    assert parsed_cell(cell) is cell


@pytest.mark.parametrize(
    "cell",
    [
        '[{"text": "Anna Ek called.", "text": "Soup at noon."}]',
        "[{'text': 'Anna Ek called.', 'text': 'Soup at noon.'}]",
        "array([{'text': 'Anna Ek called.', 'text': 'Soup at noon.'}], dtype=object)",
    ],
)
def test_a_name_twice_in_a_cell_is_refused(cell: str, tmp_path: Path) -> None:
    for mapping in (None, MAP):
        with pytest.raises(DataError, match=r"an object that has 'text' twice, expected text; give each value a name"):
            cases_of_cell(cell, tmp_path, mapping)
    # A text is not repeated, and what nobody reads is no error.
    with pytest.raises(DataError, match=r"'context' is an object that has a name twice"):
        cases_of_cell('{"Anna Ek": "a", "Anna Ek": "b"}', tmp_path, None)
    (case,) = cases_of_cell('[{"text": "Anna Ek called.", "of": {"a": 1, "a": 2}}]', tmp_path, None)
    assert case.documents[0].text == "Anna Ek called."


@pytest.mark.parametrize(
    "cell", ["['" + "\\'" * 500_000, '["""' + "\n" * 500_000, "[" + "'a' " * 60_000 + "]", "array(" * 100_000]
)
def test_a_hostile_cell_takes_no_more_than_its_length(cell: str) -> None:
    began = time.process_time()
    held = parsed_cell(cell)
    assert held is cell or isinstance(held, list | Unread)
    assert time.process_time() - began < 10.0
