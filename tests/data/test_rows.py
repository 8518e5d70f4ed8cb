"""Rows of every kind of file and object, and what is said of those that cannot be read."""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import make_dataclass
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakmeter.data import opened, rows
from leakmeter.data.rows import read_rows, with_class_names
from leakmeter.errors import DataError

RECORDS = [{"query": "Who?", "context": "Anna\nsang."}, {"query": "What?", "context": 'Bo, "ate".'}]


def fields_in(source: Any, **more: Any) -> list[dict[str, object]]:
    return [row.fields for row in read_rows(source, **more)]


def zstd(content: bytes) -> bytes:
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, "zstd") as stream:
        stream.write(content)
    return bytes(out.getvalue())


def contents() -> dict[str, bytes]:
    """The records as each kind of file."""
    frame, table = pd.DataFrame(RECORDS), io.BytesIO()
    pq.write_table(pa.Table.from_pylist(RECORDS), table)
    return {
        "jsonl": "\n".join(map(json.dumps, RECORDS)).encode(),
        "json": json.dumps(RECORDS, indent=1).encode(),
        "data.json": json.dumps({"version": "1", "data": RECORDS}).encode(),
        "columns.json": json.dumps(frame.to_dict("list")).encode(),
        "pandas.json": frame.to_json().encode(),
        "csv": frame.to_csv(index=False).encode(),
        "semicolons.csv": frame.to_csv(index=False, sep=";").encode(),
        "tsv": frame.to_csv(index=False, sep="\t").encode(),
        "parquet": table.getvalue(),
    }


PACK: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".zst": zstd}


@pytest.mark.parametrize("packed", PACK)
def test_every_kind_of_file_is_read(tmp_path: Path, packed: str) -> None:
    for kind, content in contents().items():
        path = tmp_path / f"x.{kind}{packed}"
        path.write_bytes(PACK[packed](content))
        assert fields_in(path) == fields_in(str(path)) == RECORDS, kind


def piped(content: bytes, *, terminal: bool = False) -> Any:
    """Standard input."""
    return SimpleNamespace(buffer=io.BytesIO(content), isatty=lambda: terminal)


@pytest.mark.parametrize("packed", PACK)
def test_what_has_no_suffix_is_known_by_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: str) -> None:
    for kind, unpacked in contents().items():
        if kind == "semicolons.csv":
            continue
        content = PACK[packed](unpacked)
        monkeypatch.setattr(sys, "stdin", piped(content))
        found = list(read_rows("-"))
        assert found[0].where.startswith("standard input, ")
        (tmp_path / "export").write_bytes(content)
        assert [row.fields for row in found] == fields_in(tmp_path / "export") == RECORDS, kind


@pytest.mark.parametrize(("name", "place"), [("x.jsonl", "line 3"), ("x.csv", "line 4"), ("x.json", "record 2")])
def test_a_row_knows_its_number_and_where_it_stands(tmp_path: Path, name: str, place: str) -> None:
    content = {"x.jsonl": '{"a": 1}\n\n{"a": 2}', "x.csv": 'a\n"one\ntwo"\nthree', "x.json": '[{"a": 1}, {"a": 2}]'}
    (tmp_path / name).write_text(content[name])
    *_, row = read_rows(tmp_path / name)
    assert row.where == f"{tmp_path / name}, {place}"
    # Lines of JSON are known by their line, as a person counts them in an editor; records by how many they are.
    assert row.number == (3 if name == "x.jsonl" else 2)


def test_lines_in_a_file_called_json_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(contents()["jsonl"])
    assert fields_in(path) == RECORDS
    path.write_text('{"a": 1}\n{bad\n{"a": 2}')
    first, second, third = read_rows(path)
    assert (first.fields, third.fields) == ({"a": 1}, {"a": 2})
    with pytest.raises(DataError, match="line 2 is not JSON"):
        _ = second.fields


def test_one_object_is_one_row_and_objects_by_id_are_several(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for record in (
        {"query": "Who?", "context": ["a", "b"]},
        {"messages": [{"role": "user", "content": "x"}], "choices": [{"message": {"content": "y"}}]},
        # What a record holds is not taken for the records.
        {"question": "Who?", "items": [{"text": "a"}]},
    ):
        path.write_text(json.dumps(record, indent=1))
        assert fields_in(path) == [record]
    path.write_text('{"p1": {"a": 1}, "p2": {"a": 2}}')
    assert fields_in(path) == [{"id": "p1", "a": 1}, {"id": "p2", "a": 2}]
    assert fields_in(path, keys_are_ids=False) == [{"a": 1}, {"a": 2}]


Point = make_dataclass("Point", ["query", "context"])
Pair = namedtuple("Pair", ["query", "context"])


class Model(SimpleNamespace):
    """As pydantic has it: iterable over pairs, too."""

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter(vars(self).items())

    def model_dump(self) -> dict[str, Any]:
        return vars(self)


class Set:
    """A data set of the `datasets` library, as far as it is asked; it was set to give frames of pandas."""

    def __init__(self, records: list[dict[str, Any]], **features: Any) -> None:
        self.records, self.features = records, features

    def __iter__(self) -> Iterator[Any]:
        return iter([pd.DataFrame([record]) for record in self.records])

    def with_format(self, form: None) -> list[dict[str, Any]]:
        assert form is None
        return self.records


class Polars:
    """A frame of Polars, as far as it is asked."""

    columns = ("query", "context")

    def iter_rows(self, *, named: bool) -> Iterator[dict[str, Any]]:
        assert named
        return iter(RECORDS)


LAZY = SimpleNamespace(collect_schema=dict, collect=Polars)


@pytest.mark.parametrize(
    "data",
    [
        tuple(RECORDS),
        {"query": ["Who?", "What?"], "context": [record["context"] for record in RECORDS]},
        {"data": RECORDS}, *([kind(**record) for record in RECORDS] for kind in (dict, Point, Pair, Model)),
        pd.DataFrame(RECORDS), pa.Table.from_pylist(RECORDS), Polars(), LAZY, Set(RECORDS), {"train": Set(RECORDS)},
        [*read_rows(RECORDS)],
    ],
    ids=lambda data: type(data).__name__,
)  # fmt: skip
def test_every_kind_of_object_is_read(data: Any) -> None:
    assert fields_in(data) == RECORDS
    assert fields_in(row for row in read_rows(data)) == RECORDS
    if isinstance(data, list):  # one of them alone is one row
        (row,) = read_rows(data[0])
        assert row.fields == RECORDS[0]


def test_data_sets_are_tables_and_their_classes_have_names() -> None:
    names = SimpleNamespace(int2str=("neg", "pos").__getitem__)
    rated = Set([{"text": text, "label": n} for text, n in (("Good.", 1), ("Bad.", 0), ("?", -1))], label=names)
    assert [row.is_table for row in read_rows(rated)] == [True] * 3
    assert [record["label"] for record in fields_in(rated)] == [1, 0, -1]
    assert [record["label"] for record in fields_in(with_class_names(rated))] == ["pos", "neg", None]
    assert with_class_names(RECORDS) is RECORDS


def test_frames_of_polars_are_read() -> None:
    polars = pytest.importorskip("polars")
    assert fields_in(polars.DataFrame(RECORDS)) == RECORDS
    assert fields_in(polars.DataFrame(RECORDS).lazy()) == RECORDS


def test_documents_of_other_libraries_are_records_wherever_they_stand() -> None:
    ours = SimpleNamespace(page_content="Anna sang.", metadata={"source": "a"}, id=None)  # as LangChain has it
    node = SimpleNamespace(text="Bo ate.", metadata={"file_name": "a.txt"}, id_="n1")  # as LlamaIndex has it
    (row,) = read_rows({"query": "Who?", "docs": (ours, node)})
    assert row.fields["docs"] == [
        {"page_content": "Anna sang.", "metadata": {"source": "a"}},
        {"text": "Bo ate.", "metadata": {"file_name": "a.txt"}, "id_": "n1"},
    ]
    assert fields_in(ours) == row.fields["docs"][:1]  # type: ignore[index]


def test_cells_of_frames_are_plain_values() -> None:
    frame = pd.DataFrame({"context": [["a", "b"]], "n": [3], "x": [float("nan")], "when": [pd.NaT]})
    frame["context"] = [pd.Series(["a", "b"]).to_numpy()]
    (fields,) = fields_in(frame)
    assert fields == {"context": ["a", "b"], "n": 3, "x": None, "when": None}
    assert type(fields["n"]) is int


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


def test_a_text_is_a_row_only_where_a_field_is_named_for_it() -> None:
    assert fields_in(["a", "b"], text_field="text") == [{"text": "a"}, {"text": "b"}]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (3, "an object of type int is not data; give a path, a table, or records"),
        (b"{}", "an object of type bytes is not data"),
        (["a"], "the data, record 1 is not a JSON object, or another record"),
        ([{"a": CIRCLE}], "the data, record 1 is nested more than 64 deep"),
        ("Anna sang.\nBo ate.", "the data are one text of several lines; give a path, or records"),
        ({"train": Set(RECORDS), "test": Set(RECORDS)}, "the data are several splits (train, test); give one of them"),
        ([{}] * 4, "the data has more than 3 rows; 3 are read at most, split it"),
        ("-", "standard input is a terminal; pipe the data in, or give a file"),
        ("x.csv", "the heading has two columns 'answer'; give each a name of its own"),
    ],
)
def test_what_is_no_data_is_said(data: Any, problem: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_text("answer,,,answer\na,b,c,d\n")
    monkeypatch.setattr(rows, "_MOST_ROWS", 3)
    monkeypatch.setattr(sys, "stdin", piped(b"", terminal=True))
    with pytest.raises(DataError, match=re.escape(problem)):
        fields_in(data)


@pytest.mark.parametrize(("packed", "cut"), [(".gz", 10), (".gz", -6), (".zst", 10), (".zst", -6)])
def test_a_file_that_was_cut_short_is_one_line(tmp_path: Path, packed: str, cut: int) -> None:
    path = tmp_path / f"x.jsonl{packed}"
    path.write_bytes(PACK[packed](contents()["jsonl"] * 50)[:cut])
    with pytest.raises(DataError, match=r"cannot be decompressed: .*; is it incomplete or damaged\?"):
        fields_in(path)


@pytest.mark.parametrize("packed", [".gz", ".zst"])
@pytest.mark.parametrize("kind", ["jsonl", "csv", "json", "parquet"])
def test_too_much_unpacked_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, packed: str) -> None:
    path = tmp_path / f"x.{kind}{packed}"
    path.write_bytes(PACK[packed](b" " * 3_000_000))
    assert path.stat().st_size < 10_000
    held = opening(monkeypatch, most=1_000_000)
    with pytest.raises(DataError, match="has more than 1,000,000 bytes"):
        fields_in(path)
    assert held[0].n_bytes == 1_000_001


def test_a_packed_file_is_read_as_it_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"a": "' + b"x" * 1000 + b'"}\n', 1) * 5000)
    held = opening(monkeypatch)
    given = read_rows(path)
    for _ in range(10):
        next(given)
    assert held[0].n_bytes < 100_000
    assert sum(1 for _ in given) == 4990


def opening(monkeypatch: pytest.MonkeyPatch, **limit: int) -> list[opened.Opened]:
    """What will have been opened, with a limit of its own."""
    held: list[opened.Opened] = []

    def opens(*given: Any, **more: Any) -> opened.Opened:
        held.append(opened.open_data(*given, **limit, **more))
        return held[-1]

    monkeypatch.setattr(rows, "open_data", opens)
    return held


@given(content=st.binary(max_size=200))
def test_any_bytes_are_rows_or_an_error_of_one_line(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "x"
    path.write_bytes(content)
    said = ""
    try:
        for row in read_rows(path):
            _ = row.fields
    except DataError as error:
        said = str(error)
    assert "\n" not in said


@pytest.mark.parametrize("name", ["x.jsonl", "x.csv"])
def test_a_byte_that_is_no_utf8_is_named_wherever_it_stands(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    for before, start in product((0, 8190, 20_000), (b"", b"\xef\xbb\xbf")):
        path.write_bytes(start + b'{"a": "' + b"x" * before + b"\xff" + b'"}\n' * 3)
        offset = path.read_bytes().index(b"\xff")
        with pytest.raises(DataError, match=f"is not UTF-8: byte 0xff at offset {offset:,};"):
            fields_in(path)
