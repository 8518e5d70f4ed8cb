"""Exports: the same bytes for the same numbers and texts, and no texts where they were asked to be left out."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from helpers.made_runs import CASES, HOSTILE, SPEC, readings_of, rows_of, written
from leakmeter.core.measure import TOKEN_ID
from leakmeter.engine.storage import export
from leakmeter.engine.storage.export import Redacted, write
from leakmeter.errors import StoreError

FILES = ["cases.jsonl", "measurements.parquet", "spec.json"]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_everything_is_there_to_the_last_digit(tmp_path: Path) -> None:
    run = written(tmp_path / "runs")
    write(run, tmp_path / "out")
    write(run, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    for row, (_, item, sample, piece, statistic, position, value, unit) in zip(found, rows_of(run), strict=True):
        assert (row["item"], row["piece"], row["statistic"], row["unit"]) == (item, piece, statistic, unit)
        assert (int(row["sample"]), int(row["position"])) == (sample, position)
        assert float(row["value"]) == value or (math.isnan(value) and math.isnan(float(row["value"])))
    assert sorted(contents(tmp_path / "out")) == FILES
    rows = pq.read_table(tmp_path / "out" / "measurements.parquet").to_pylist()
    assert repr([tuple(row.values()) for row in rows]) == repr([row[1:] for row in rows_of(run)])
    lines = (tmp_path / "out" / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["context"] for line in lines] == [case["context"] for case in CASES]
    assert not any("cost" in json.loads(line) for line in lines)
    told = json.loads((tmp_path / "out" / "spec.json").read_text(encoding="utf-8"))
    assert told["id"] == SPEC.id
    assert sorted(told) == ["cases", "id", "measure", "model", "params", "prompts", "version"]
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700


def test_how_a_run_was_made_does_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut into other parts, timed otherwise, on other versions, by another command: the same bytes."""
    # Groups of rows do not follow parts.
    monkeypatch.setattr(export, "_ROWS_A_GROUP", 5)
    explained = replace(SPEC, environment={}, command=None, problems=())
    runs = [
        written(tmp_path / "a"), written(tmp_path / "b", together=True, seconds=9.75),
        written(tmp_path / "c", explained, seconds=0.5),
    ]  # fmt: skip
    for run in runs:
        write(run, run.parent / "out")
        write(run, run.parent / "out.csv")
    first, *others = (contents(run.parent / "out") for run in runs)
    file = pq.ParquetFile(tmp_path / "a" / "out" / "measurements.parquet")
    assert {file.metadata.row_group(i).num_rows for i in range(file.num_row_groups - 1)} == {5}
    assert others == [first, first]
    assert len({(run.parent / "out.csv").read_bytes() for run in runs}) == 1


def test_a_redacted_export_has_no_texts(tmp_path: Path) -> None:
    run = written(tmp_path / "runs")
    form = Redacted(b"k" * 32)
    assert "kkk" not in repr(form)
    write(run, tmp_path / "out", form)
    write(run, tmp_path / "out.csv", form)
    everything = b"".join([*contents(tmp_path / "out").values(), (tmp_path / "out.csv").read_bytes()])
    for text in ("Anna", "Graz", "DROP", "Wer", "Bo ate", "sentence", "toy", SPEC.id):
        assert text.encode() not in everything, text
    told = json.loads((tmp_path / "out" / "spec.json").read_text(encoding="utf-8"))
    params, prompts = told["params"], told["prompts"]
    assert ("seed" in params, params["temperature"], len(params["unit"])) == (False, 0.5, 32)
    assert (prompts["samples"], prompts["template"]) == (2, None)
    cases = [json.loads(line) for line in (tmp_path / "out" / "cases.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [sorted(case) for case in cases] == [["id", "texts_hmac"]] * 2
    found = pq.read_table(tmp_path / "out" / "measurements.parquet").to_pandas()
    assert set(found["item"]) == {case["id"] for case in cases}
    assert TOKEN_ID not in set(found["unit"])
    kept = [r for case in (HOSTILE, "b") for r in readings_of(case) if r.unit != TOKEN_ID]
    np.testing.assert_array_equal(found["value"], np.concatenate([r.values for r in kept]))
    # Pieces are told apart, and the whole response stays nobody's.
    assert found["piece"].nunique() == 2
    write(run, tmp_path / "again", form)
    assert contents(tmp_path / "again") == contents(tmp_path / "out")
    write(run, tmp_path / "other", Redacted(b"l" * 32))
    assert not set(pq.read_table(tmp_path / "other" / "measurements.parquet")["item"].to_pylist()) & set(found["item"])


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    run = written(tmp_path / "runs")
    full = tmp_path / "full"
    full.mkdir()
    (full / "x").write_text("x", encoding="utf-8")
    (tmp_path / "dir.csv").mkdir()
    for out, reason in (
        (full, "exists already; give the name of a new directory"),
        (full / "x", "exists already"),
        (tmp_path / "dir.csv", "is a directory; give the name of a file"),
        (tmp_path / "nowhere" / "out", "is in a directory that does not exist"),
        (full / "x" / "out.csv", "is in a directory that does not exist"),
    ):
        with pytest.raises(StoreError, match=reason):
            write(run, out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dir.csv", "full", "runs"]
    empty = tmp_path / "empty"
    empty.mkdir()
    write(run, empty)
    assert sorted(contents(empty)) == FILES


def test_a_damaged_or_unfinished_run_leaves_nothing(tmp_path: Path) -> None:
    run = written(tmp_path / "runs")
    part = run / "measurements-00001.parquet"
    part.write_bytes(part.read_bytes()[:-9])
    unfinished, said = written(tmp_path / "others", parts=1), "is damaged: measurements-00001.parquet, all of it: "
    lacking = written(tmp_path / "third")
    (lacking / "measurements-00001.parquet").unlink()
    missing = "is damaged: measurements-00001.parquet, all of it: is missing"
    for path, reason in ((run, said), (unfinished, "holds no complete run"), (lacking, missing)):
        for out in (tmp_path / "out", tmp_path / "out.csv"):
            with pytest.raises(StoreError, match=reason):
                write(path, out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["others", "runs", "third"]
