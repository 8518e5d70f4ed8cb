"""Data sets by name, from local files of each kind; records chosen the same way each time."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.places import SHARED
from helpers.table_files import write_rows
from leakmeter.data import named
from leakmeter.data.named import chosen_numbers
from leakmeter.errors import DataError, UnknownNameError

ARTICLES = [{"id": f"a{i}", "article": f"Ferry {i} sank.\nNobody.", "highlights": f"Ferry {i}, sunk"} for i in range(5)]


@pytest.mark.parametrize("kind", ["json", "jsonl", "csv", "parquet"])
def test_articles_come_from_files_of_each_kind(tmp_path: Path, kind: str) -> None:
    records = named.find("cnn_dm").load(write_rows(tmp_path, ARTICLES, kind))
    told = [(one.case.id, one.case.documents[0].text, one.reference, one.case.response) for one in records]
    assert told == [(*row.values(), None) for row in ARTICLES]


def test_pubmedqa_as_published_and_as_on_the_hub(tmp_path: Path) -> None:
    sections = ["One two.", "Three four."]
    path = tmp_path / "ori.json"
    for value in (
        {"77": {"QUESTION": "Why?", "CONTEXTS": sections, "LABELS": ["A", "B"], "LONG_ANSWER": "So."}},
        [{"pubid": 77, "question": "Why?", "context": {"contexts": sections}, "long_answer": "So."}],
    ):
        path.write_text(json.dumps(value), encoding="utf-8")
        (record,) = named.find("pubmedqa").load(str(path))
        assert (record.case.id, record.case.query, record.reference) == ("77", "Why?", "So.")
        assert [document.text for document in record.case.documents] == ["One two.Three four."]


def test_the_choice_is_a_function_of_n_and_seed() -> None:
    assert chosen_numbers(10, 3, None) == [0, 1, 2]
    assert chosen_numbers(3, 10, 7) == chosen_numbers(3, None, None) == [0, 1, 2]
    some = chosen_numbers(1000, 40, 7)
    assert some == chosen_numbers(1000, 40, 7) != chosen_numbers(1000, 40, 8)
    assert some == sorted(set(some))
    assert len(some) == 40


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("x.json", "", "is not JSON"),
        ("x.json", "[]", "holds no record"),
        ("x.json", "[1]", "record 1 is not a JSON object"),
        ("x.jsonl", '{"article": "A b."}', "record 1 has no 'highlights'; it has 'article'"),
        ("x.jsonl", '{"article": 3, "highlights": "x"}', "'article' is a number, expected text"),
        ("x.jsonl", '{"article": " ", "highlights": "x"}', "'article' is empty"),
        ("x.jsonl", "[]", "line 1 is not a JSON object"),
        ("x.jsonl", '{"id": 1, "article": "a", "highlights": "x"}\n' * 2, "id '1' is used by two"),
        ("x.csv", "", "is empty"),
        ("x.csv", "article,highlights\n", "has a heading and no rows"),
        ("x.csv", "article,highlights\na\n", "line 2: a row of 1 cells under a heading of 2"),
        ("x.parquet", "no", "cannot be read as Parquet"),
    ],
)
def test_a_bad_file_is_one_line(tmp_path: Path, name: str, text: str, told: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=re.escape(told)) as ended:
        named.find("cnn_dm").load(str(tmp_path / name))
    assert "\n" not in str(ended.value)


def test_names() -> None:
    assert named.names() == ["cnn_dm", "pubmedqa"]
    with pytest.raises(UnknownNameError, match="no data set named 'pubmed'; did you mean 'pubmedqa'"):
        named.find("pubmed")


def test_without_the_library_or_the_hub_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: Any, **__: Any) -> None:
        raise ConnectionError("no way\nthere")

    for library, said in (
        (None, r"pip install 'leakmeter\[datasets\]', or give a local file with"),
        (SimpleNamespace(load_dataset=unreachable), r"could not be fetched from the hub \(no way\); give a local file"),
    ):
        monkeypatch.setitem(sys.modules, "datasets", library)
        with pytest.raises(DataError, match=said) as ended:
            named.find("cnn_dm").load(None)
        assert "\n" not in str(ended.value)


@pytest.mark.skipif(not (SHARED / "data").is_dir(), reason="the shared samples are not here")
def test_the_published_files_are_read() -> None:
    data = SHARED / "data"
    records = named.find("pubmedqa").load(str(data / "pubmedqa" / "ori_pqal.json"))
    assert len(records) == 1000
    assert records[0].case.id == "21645374"
    for name in ("validation_subset.jsonl", "test1000_truncated.jsonl"):
        assert len(named.find("cnn_dm").load(str(data / "cnn_dailymail" / name))) == 1000
