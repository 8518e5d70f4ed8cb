"""Cases with references: the user's own, a published data set's, and those a program holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leakmeter.core.case import Case, Document
from leakmeter.data.cases import load_referenced
from leakmeter.data.named import DatasetRecord
from leakmeter.errors import DataError

GOOD = {"context": "Anna sang.", "query": "Who?", "reference": "Anna."}


def test_cases_and_references_belong_together(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    lines = [GOOD, {**GOOD, "reference": "Bo.", "id": "two"}]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    first = DatasetRecord(Case("1", (Document("context", "Anna sang."),), "Who?"), "Anna.")
    loaded = load_referenced(str(path))
    assert loaded.records[0] == first
    assert [(record.case.id, record.reference) for record in loaded.records] == [("1", "Anna."), ("two", "Bo.")]
    assert (loaded.template, loaded.max_context_tokens) == (None, None)
    assert load_referenced(str(path), n=1).records == (first,)
    assert load_referenced(str(path), n=9).records == loaded.records
    assert load_referenced(lines).records == loaded.records


def test_a_published_data_set_brings_its_prompt(tmp_path: Path) -> None:
    path = tmp_path / "a=b.json"
    path.write_text(json.dumps([{"question": "Q?", "context": "C.", "long_answer": "A."}]), encoding="utf-8")
    loaded = load_referenced(f"pubmedqa={path}")
    assert (loaded.template, loaded.max_context_tokens) == ("document", 2048)
    assert loaded.records[0].reference == "A."
    # An equals sign in a path is no data set.
    with pytest.raises(DataError, match="has no 'reference'"):
        load_referenced(str(path))


@pytest.mark.parametrize(
    ("cases", "told"),
    [
        ([], "the data holds no case; expected"),
        ([GOOD, {**GOOD, "id": 1}], "record 2: id '1' was already used in record 1"),
        ([{**GOOD, "reference": None}], "case '1' of these has no 'reference'"),
        ([GOOD, {**GOOD, "reference": 5}], "record 2: 'reference' is a number"),
        ([{**GOOD, "response": "Anna"}], "name it 'reference'"),
        # That is how LangChain calls a response.
        ([{**GOOD, "answer": "Anna"}], "name it 'reference'"),
        ([{**GOOD, "mood": "good"}], "record 1: unknown field 'mood'"),
    ],
)
def test_what_cannot_be_used_is_told(cases: list[dict[str, Any]], told: str) -> None:
    with pytest.raises(DataError, match=told):
        load_referenced(cases)
