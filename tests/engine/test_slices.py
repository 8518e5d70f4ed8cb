"""Runs measured in slices: several processes, one run."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.command_line import PROGRAM, Ended
from leakmeter.engine.slices import Slice, complete
from leakmeter.engine.storage import rundir
from leakmeter.engine.storage.rundir import RunDirectory
from leakmeter.errors import StoreError, UsageError

CASES = [
    {"id": f"c{i}", "context": f"Anna sang {i} songs. Bo ate.", "query": "Who?", "response": "Anna"} for i in range(7)
]


Call = Callable[..., Ended]


@pytest.fixture
def measure(tmp_path: Path, cli: Call) -> Call:
    data = tmp_path / "cases.jsonl"
    data.write_text("\n".join(map(json.dumps, CASES)), encoding="utf-8")
    return lambda out, *more: cli("influence", "--data", data, "--model", "toy", "--out", tmp_path / out, *more)


def only_run(root: Path) -> Path:
    (path,) = root.iterdir()
    return path


@given(st.integers(1, 50), st.integers(1, 12))
def test_slices_have_every_part_once(n_parts: int, of: int) -> None:
    if of > n_parts:
        with pytest.raises(UsageError, match=f"give N of {n_parts} at most"):
            Slice(1, of).parts(n_parts)
        return
    slices = [Slice(i, of).parts(n_parts) for i in range(1, of + 1)]
    assert list(itertools.chain(*slices)) == list(range(n_parts))
    assert {len(one) for one in slices} <= {n_parts // of, n_parts // of + 1}


def test_what_is_no_slice_is_refused() -> None:
    for text in ("0/3", "4/3", "3", "1/0", "-1/3", "1/3/4", "a/b", "1 /3", "01/3", ""):
        with pytest.raises(UsageError, match=r"give I/N, from 1/N to N/N"):
            Slice.parsed(text)


def test_slices_of_logs_that_leave_out_other_rows_are_not_put_together(
    tmp_path: Path, measure: Call, cli: Call
) -> None:
    assert measure("slices", "--part", "1/2").code == 0
    with (tmp_path / "cases.jsonl").open("a", encoding="utf-8") as file:
        file.write("\n{broken")
    assert measure("slices", "--part", "2/2", "--skip-bad").code == 0
    first, second = (tmp_path / "slices").iterdir()
    for path in (first, second):
        assert "parts are missing" in cli("runs", "complete", path).err
    assert "these are different runs" in cli("runs", "complete", first, second).err


def test_slices_put_together_are_the_run_of_one_process(tmp_path: Path, measure: Call, cli: Call) -> None:
    assert measure("whole").code == 0
    for part in ("2/3", "3/3"):
        ended = measure("slices", "--part", part)
        assert ended.code == 0
        assert "leakmeter runs complete" in ended.err
    path = only_run(tmp_path / "slices")
    missing = cli("runs", "complete", path)
    assert missing.code == 2
    assert "2 of 7 parts are missing; run the command again with --part 1/3" in missing.err
    assert "unfinished" in cli("runs", "list", "--runs", tmp_path / "slices").out
    assert measure("slices", "--part", "1/3").code == 0
    assert cli("runs", "verify", path).out.startswith("unfinished")
    assert cli("runs", "complete", path).code == 0
    assert cli("runs", "complete", path).code == 0
    assert cli("runs", "verify", path).out.startswith("whole")
    names = {file.name for file in path.iterdir() if not file.name.startswith(("cases", "measure"))}
    # The second time it was found complete.
    assert names == {".lock", ".confirmed", "spec.json"}
    whole = only_run(tmp_path / "whole")
    assert path.name == whole.name
    exported = []
    for run, folder in ((path, tmp_path / "a"), (whole, tmp_path / "b")):
        assert cli("runs", "export", run, "--out", folder).code == 0
        exported.append([file.read_bytes() for file in sorted(folder.iterdir())])
    assert exported[0] == exported[1]


def test_slices_of_several_directories(tmp_path: Path, measure: Call) -> None:
    for part in (1, 2):
        assert measure(f"node{part}", "--part", f"{part}/2").code == 0
    first, second = (only_run(tmp_path / f"node{part}") for part in (1, 2))
    shutil.copytree(second, tmp_path / "again" / second.name)
    with pytest.raises(StoreError, match="part 3 of the run is in"):
        complete([first, second, tmp_path / "again" / second.name])
    # What was copied until then stays, and is told as the same part twice.
    for number in (3, 4, 5, 6):
        for file in first.glob(f"*{number:05}*"):
            file.unlink()
    assert complete([first, second]).is_complete
    with pytest.raises(StoreError, match="is complete"):
        complete([first, second])


def test_other_slices_overlap_and_some_things_slices_have_not(tmp_path: Path, measure: Call) -> None:
    for more, said in ((("--part", "1/2", "--html", "x.html"), "a slice has no page"), (("--part", "9/8"), "give I/N")):
        ended = measure("runs", *more)
        assert ended.code == 2
        assert said in ended.err
        assert not (tmp_path / "runs").exists()
    assert measure("runs", "--part", "1/2").code == 0
    other = measure("runs", "--part", "1/3")
    assert other.code == 2
    assert "was begun in 2 slices" in other.err
    # Without --part, what is left is measured here.
    assert measure("runs").code == 0
    assert not RunDirectory(only_run(tmp_path / "runs")).sliced


def test_a_run_of_other_options_is_another_run(tmp_path: Path, measure: Call) -> None:
    assert measure("one", "--part", "1/2").code == 0
    assert measure("two", "--part", "2/2", "--unit", "word").code == 0
    with pytest.raises(StoreError, match="these are different runs"):
        complete([only_run(tmp_path / name) for name in ("one", "two")])
    with pytest.raises(StoreError, match="holds no slices"):
        complete([tmp_path])


def test_who_writes_what(measure: Call, cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert measure("runs", "--part", "1/3").code == 0
    run = only_run(tmp_path / "runs")
    spec, n_parts, of = RunDirectory(run)._read_sliced()
    with RunDirectory(run).opened_slice(spec, 1, of, n_parts), RunDirectory(run).opened_slice(spec, 2, of, n_parts):
        for more, said in ((("--part", "2/3"), "part 2/3 of run"), ((), "a slice of run")):
            refused = measure("runs", *more)
            assert refused.code == 2
            assert said in refused.err
        assert measure("runs", "--part", "3/3").code == 0
        assert cli("runs", "complete", run).code == 2
    monkeypatch.setattr(rundir, "_SLICES_BEGIN_SECONDS", 0.0)
    with RunDirectory(run).opened(spec):
        assert measure("runs", "--part", "2/3").code == 2


def test_a_damaged_note_of_the_slices_is_told(tmp_path: Path, measure: Call, cli: Call) -> None:
    assert measure("runs", "--part", "1/2").code == 0
    path = only_run(tmp_path / "runs")
    told = json.loads((path / "sliced.json").read_text())
    for damaged in ("{}", "[]", "{", json.dumps({**told, "version": "9"})):
        (path / "sliced.json").write_text(damaged)
        assert cli("runs", "complete", path).code == 2
        assert measure("runs", "--part", "2/2").code == 2
    assert oct((path / "sliced.json").stat().st_mode)[-3:] == "600"


@pytest.mark.long
@pytest.mark.usefixtures("measure")
def test_processes_at_once(tmp_path: Path) -> None:
    words = [*PROGRAM, "influence", "--data", "cases.jsonl", "--model", "toy", "--out", "runs", "--part"]
    started = [subprocess.Popen([*words, f"{i}/7"], cwd=tmp_path, stderr=subprocess.DEVNULL) for i in range(1, 8)]
    assert [one.wait() for one in started] == [0] * 7
    assert complete([only_run(tmp_path / "runs")]).is_complete
