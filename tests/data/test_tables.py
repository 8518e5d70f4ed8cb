"""Cells of tables: times, decimals, bytes, ids that became floats, lists as NumPy prints them, and equal names."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leakmeter.data.cases import cases_of
from leakmeter.data.mapping import parsed_json
from leakmeter.data.rows import read_rows
from leakmeter.errors import DataError

MOMENT = datetime(2026, 11, 2, 8, 30, tzinfo=UTC)
OTHERS: dict[str, Any] = {
    "at": MOMENT, "day": date(2026, 11, 2), "hour": time(8, 30), "took": timedelta(seconds=90), "cost": Decimal("0.10"),
    "raw": b"\xff\xfe", "trace": UUID(int=7), "nested": {"at": [MOMENT]}, "object": object(),
    "stamp": np.datetime64("2026-11-02T08:30"), "none": pd.NaT, "span": np.timedelta64("NaT"),
}  # fmt: skip
LOGGED: dict[str, Any] = {"question": "Who called?", "contexts": ["Anna Ek called."], "answer": "Anna Ek."}
MAP = "query=question,context=contexts,response=answer"


def sources(tmp_path: Path) -> dict[str, Any]:
    row = {**LOGGED, **OTHERS}
    writable = {name: value for name, value in row.items() if name not in ("object", "trace", "stamp", "span", "none")}
    pq.write_table(table := pa.Table.from_pylist([writable]), tmp_path / "log.parquet")
    return {"dicts": [row], "frame": pd.DataFrame([row]), "table": table, "file": tmp_path / "log.parquet"}


@pytest.mark.parametrize("kind", ["dicts", "frame", "table", "file"])
@pytest.mark.parametrize("mapping", [None, MAP])
def test_columns_of_any_type_are_passed_over_where_nothing_reads_them(
    kind: str, mapping: str | None, tmp_path: Path
) -> None:
    (case,) = cases_of(sources(tmp_path)[kind], map=mapping, needs_response=True).cases
    assert (case.query, case.response, case.documents[0].text) == ("Who called?", "Anna Ek.", "Anna Ek called.")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("at", "2026-11-02T08:30:00+00:00"), ("day", "2026-11-02"), ("hour", "08:30:00"), ("took", "0:01:30"),
        ("cost", "0.10"), ("trace", str(UUID(int=7))), ("stamp", "2026-11-02T08:30"),
    ],
)  # fmt: skip
def test_what_is_mapped_has_the_text_that_is_documented(name: str, text: str) -> None:
    row = {**LOGGED, **OTHERS}
    (case,) = cases_of([row], map=f"query={name},context=contexts,response=answer").cases
    assert case.query == text
    assert next(read_rows([row])).fields["nested"] == {"at": ["2026-11-02T08:30:00+00:00"]}
    assert next(read_rows([{"a": b"Anna \xc3\xa4"}])).fields["a"] == "Anna ä"


@pytest.mark.parametrize(
    ("mapping", "problem"),
    [
        ("query=raw,context=contexts,response=answer", "'query' is bytes that are not UTF-8, expected text"),
        ("query=object,context=contexts,response=answer", "'query' is an object of type object, expected text"),
        ("query=question,context=raw,response=answer", "'context' is bytes that are not UTF-8, expected text"),
        ("query=question,context=object,response=answer", "'context' is an object of type object, expected text"),
        ("query=question,context=contexts,response=raw", "'response' is bytes that are not UTF-8, expected text"),
    ],
)
def test_what_cannot_be_read_is_an_error_where_it_is_used(mapping: str, problem: str) -> None:
    with pytest.raises(DataError) as caught:
        cases_of([{**LOGGED, **OTHERS}], map=mapping)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("cell", "texts"),
    [
        ("['Anna Ek called.' 'Soup at noon.']", ["Anna Ek called.", "Soup at noon."]),
        ("['Anna Ek called.'\n \"It's noon.\"\n 'Bo slept.']", ["Anna Ek called.", "It's noon.", "Bo slept."]),
        ("['Say \"a\" \"b\".' 'c']", ['Say "a" "b".', "c"]),
        ("['Anna Ek called.']", ["Anna Ek called."]),
        ("['Say \"a\" \"b\".', 'c']", ['Say "a" "b".', "c"]),
        ("[Note] they say 'a' 'b'", ["[Note] they say 'a' 'b'"]),
    ],
)
def test_lists_as_numpy_prints_them_are_several_documents(cell: str, texts: list[str], tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    pd.DataFrame([{"question": "Who?", "contexts": cell, "answer": "Anna."}]).to_csv(path, index=False)
    for mapping in (None, MAP):
        (case,) = cases_of(path, map=mapping).cases
        assert [document.text for document in case.documents] == texts


def test_an_array_of_a_parquet_file_that_became_csv_is_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    for n in (3, 1200):
        notes = np.asarray([f"Note {number} is long enough." for number in range(n)], dtype=object)
        pd.DataFrame([{"question": "Who?", "contexts": notes, "answer": "Anna."}]).to_csv(path, index=False)
        if n == 3:
            assert len(cases_of(path).cases[0].documents) == 3
            continue
        for mapping in (None, MAP):
            with pytest.raises(DataError, match=r"'context' is a list that NumPy shortened with '\.\.\.', expected"):
                cases_of(path, map=mapping)
    path.write_text("question,contexts,answer\nWho?,\"['a', 'b' 'c']\",Anna.\n")
    with pytest.raises(DataError, match="'context' is a list in which a comma is missing between two elements"):
        cases_of(path)


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    names, row = ["context", "context", "query", "response"], ["Anna Ek called.", "Soup at noon.", "Who?", "Anna."]
    table = pa.table([[cell] for cell in row], names=names)
    pq.write_table(table, tmp_path / "log.parquet")
    (tmp_path / "log.csv").write_text(f"{','.join(names)}\n{','.join(row)}\n")
    frame = pd.DataFrame([row], columns=names)
    for source in (frame, table, tmp_path / "log.parquet", tmp_path / "log.csv"):
        with pytest.raises(DataError, match="two columns 'context'; give each a name of its own"):
            cases_of(source)


def test_two_columns_that_say_the_same_are_one(tmp_path: Path) -> None:
    # As `to_csv` writes a frame of Phoenix, whose index is a column too.
    rows = ['a,"Anna Ek called.",Who?,Anna.,a', 'b,"Bo Ek called.",Who?,Bo.,b']
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["id,context,query,response,id", *rows]))
    assert [(case.id, case.response) for case in cases_of(path).cases] == [("a", "Anna."), ("b", "Bo.")]
    path.write_text("\n".join(["id,context,query,response,id", *rows, 'c,"Cy Ek called.",Who?,Cy.,d']))
    with pytest.raises(DataError, match="two columns 'id'; give each a name of its own"):
        cases_of(path)


def test_a_name_twice_in_an_object_of_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"query": "Who?", "context": "Anna.", "context": "Bo.", "response": "Anna."}\n')
    with pytest.raises(DataError, match="line 1: an object has 'context' twice; give each value a name of its own"):
        cases_of(path)
    with pytest.raises(DataError, match="an object has 'text' twice"):
        parsed_json('[{"a": {"text": "x", "text": "y"}}]', "here")
    # A text is not repeated.
    with pytest.raises(DataError, match="names that are texts"):
        parsed_json(json.dumps({"Anna " * 20: 1})[:-1] + f", {json.dumps('Anna ' * 20)}: 2}}", "here")


def test_ids_that_became_floats_are_whole_numbers(tmp_path: Path) -> None:
    frame = pd.DataFrame([{"id": 7, "query": "Who?", "context": "Anna.", "response": "Anna."}] * 2)
    frame["id"] = [7.0, float("nan")]
    frame.to_parquet(tmp_path / "log.parquet")
    (tmp_path / "log.jsonl").write_text(frame.head(1).to_json(orient="records", lines=True))
    for source in (frame, tmp_path / "log.parquet", tmp_path / "log.jsonl"):
        assert cases_of(source).cases[0].id == "7"
    frame.to_csv(tmp_path / "log.csv", index=False)
    assert [case.id for case in cases_of(tmp_path / "log.csv").cases] == ["7", "2"]
    (tmp_path / "log.csv").write_text("id,query,context,response\n1.0,Who?,Anna.,Anna.\n1.1,Who?,Bo.,Bo.\n")
    assert [case.id for case in cases_of(tmp_path / "log.csv").cases] == ["1", "1.1"]
    (tmp_path / "log.csv").write_text("id,query,context,response\n1.0,Who?,Anna.,Anna.\n1,Who?,Bo.,Bo.\n")
    assert "id '1' was already used in line 2" in cases_of(tmp_path / "log.csv", skip_bad=True).problems[0]
    # JSON says whether it is a text.
    (tmp_path / "log.jsonl").write_text('{"id": "7.0", "query": "Who?", "context": "Anna.", "response": "Anna."}\n')
    assert cases_of(tmp_path / "log.jsonl").cases[0].id == "7.0"
    with pytest.raises(DataError, match="'id' has to be text or a whole number"):
        cases_of([{"id": 7.5, "query": "Who?", "context": "Anna.", "response": "Anna."}])


@pytest.mark.parametrize("other", ["context_2", "Context 2", "documents", "contexts"])
def test_a_column_that_may_be_context_too_is_not_left_out(other: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    for text in ("", "Anna Ek called at nine.", "a.pdf"):
        path.write_text(f"query,context,{other},response\nWho?,Anna Ek called at nine.,{text},Anna.\n")
        assert [document.text for document in cases_of(path).cases[0].documents] == ["Anna Ek called at nine."]
    rows = ["Who?,Anna Ek called at nine.,,Anna.", "Who?,Anna Ek called at nine.,Bo Lind is ill.,Anna."]
    path.write_text("\n".join([f"query,context,{other},response", *rows]))
    found = cases_of(path, skip_bad=True)
    assert len(found.cases) == 1
    assert f"line 3: 'context' and '{other}' differ, and each may be the context" in found.problems[0]


def test_a_column_that_may_be_the_answer_too_is_not_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    for said, is_same in (("Anna.", True), ("Bo.", False)):
        path.write_text(f"query,context,response,answer\nWho?,Anna Ek called.,Anna.,{said}\n")
        if is_same:
            assert cases_of(path).cases[0].response == "Anna."
            continue
        with pytest.raises(DataError, match="'response' and 'answer' differ, and each may be the answer"):
            cases_of(path)
        assert cases_of(path, map="response=answer").cases[0].response == "Bo."
