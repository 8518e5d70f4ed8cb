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
from leakmeter.errors import StoreError, UsageError
from leakmeter.storage import rundir
from leakmeter.storage.rundir import RunDirectory

CASES = [
    {"id": f"c{i}", "context": f"Anna sang {i} songs. Bo ate.", "query": "Who?", "response": "Anna"} for i in range(7)
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "cases.jsonl"
    path.write_text("\n".join(map(json.dumps, CASES)), encoding="utf-8")
    return path


Call = Callable[..., Ended]


@pytest.fixture
def measure(data: Path, cli: Call) -> Call:
    """A command that measures the cases into a directory beside them."""

    def measuring(out: str, *more: str) -> Ended:
        return cli("influence", "--data", data, "--model", "toy", "--out", data.parent / out, *more)

    return measuring


def only_run(root: Path) -> Path:
    (path,) = root.iterdir()
    return path


def exported(cli: Call, path: Path, folder: Path) -> list[bytes]:
    assert cli("runs", "export", path, "--out", folder).code == 0
    return [file.read_bytes() for file in sorted(folder.iterdir())]


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


def test_slices_put_together_are_the_run_of_one_process(data: Path, measure: Call, cli: Call) -> None:
    assert measure("whole").code == 0
    for part in ("2/3", "3/3"):
        ended = measure("slices", "--part", part)
        assert ended.code == 0
        assert "leakmeter runs complete" in ended.err
    path = only_run(data.parent / "slices")
    missing = cli("runs", "complete", str(path))
    assert missing.code == 2
    assert "2 of 7 parts are missing; run the command again with --part 1/3" in missing.err
    listed = cli("runs", "list", "--runs", str(data.parent / "slices"))
    assert "unfinished" in listed.out
    assert measure("slices", "--part", "1/3").code == 0
    assert cli("runs", "verify", str(path)).out.startswith("unfinished")
    assert cli("runs", "complete", str(path)).code == 0
    assert cli("runs", "complete", str(path)).code == 0
    assert cli("runs", "verify", str(path)).out.startswith("whole")
    assert sorted(file.name for file in path.iterdir() if not file.name.startswith(("cases", "measure"))) == [
        ".lock",
        "spec.json",
    ]
    whole = only_run(data.parent / "whole")
    assert path.name == whole.name
    assert exported(cli, path, data.parent / "a") == exported(cli, whole, data.parent / "b")


def test_slices_of_several_directories(data: Path, measure: Call) -> None:
    for part in (1, 2):
        assert measure(f"node{part}", "--part", f"{part}/2").code == 0
    first, second = (only_run(data.parent / f"node{part}") for part in (1, 2))
    shutil.copytree(second, data.parent / "again" / second.name)
    with pytest.raises(StoreError, match="part 3 of the run is in"):
        complete([first, second, data.parent / "again" / second.name])
    # What was copied until then stays, and is told as the same part twice.
    for number in (3, 4, 5, 6):
        for file in first.glob(f"*{number:05}*"):
            file.unlink()
    assert complete([first, second]).is_complete
    with pytest.raises(StoreError, match="is complete"):
        complete([first, second])


def test_other_slices_overlap_and_some_things_slices_have_not(data: Path, measure: Call) -> None:
    for more, said in ((("--part", "1/2", "--html", "x.html"), "a slice has no page"), (("--part", "9/8"), "give I/N")):
        ended = measure("runs", *more)
        assert ended.code == 2
        assert said in ended.err
        assert not (data.parent / "runs").exists()
    assert measure("runs", "--part", "1/2").code == 0
    other = measure("runs", "--part", "1/3")
    assert other.code == 2
    assert "was begun in 2 slices" in other.err
    # Without --part, what is left is measured here.
    assert measure("runs").code == 0
    assert not RunDirectory(only_run(data.parent / "runs")).sliced


def test_a_run_of_other_options_is_another_run(data: Path, measure: Call) -> None:
    assert measure("one", "--part", "1/2").code == 0
    assert measure("two", "--part", "2/2", "--unit", "word").code == 0
    with pytest.raises(StoreError, match="these are different runs"):
        complete([only_run(data.parent / name) for name in ("one", "two")])
    with pytest.raises(StoreError, match="holds no slices"):
        complete([data.parent])


def test_who_writes_what(measure: Call, cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices beside each other; the same twice, or a whole run beside one, is refused."""
    assert measure("runs", "--part", "1/3").code == 0
    spec, n_parts, of = RunDirectory(only_run(tmp_path / "runs"))._read_sliced()
    root = tmp_path / "runs"
    run = root / spec.id
    with RunDirectory(run).opened_slice(spec, 1, of, n_parts), RunDirectory(run).opened_slice(spec, 2, of, n_parts):
        same = measure("runs", "--part", "2/3")
        assert same.code == 2
        assert "part 2/3 of run" in same.err
        whole = measure("runs")
        assert whole.code == 2
        assert "a slice of run" in whole.err
        assert measure("runs", "--part", "3/3").code == 0
        assert cli("runs", "complete", str(only_run(root))).code == 2
    monkeypatch.setattr(rundir, "_SLICES_BEGIN_SECONDS", 0.0)
    with RunDirectory(root / spec.id).opened(spec):
        assert measure("runs", "--part", "2/3").code == 2


def test_a_damaged_note_of_the_slices_is_told(data: Path, measure: Call, cli: Call) -> None:
    assert measure("runs", "--part", "1/2").code == 0
    path = only_run(data.parent / "runs")
    told = json.loads((path / "sliced.json").read_text())
    for damaged in ("{}", "[]", "{", json.dumps({**told, "version": "9"})):
        (path / "sliced.json").write_text(damaged)
        assert cli("runs", "complete", str(path)).code == 2
        assert measure("runs", "--part", "2/2").code == 2
    assert oct((path / "sliced.json").stat().st_mode)[-3:] == "600"


@pytest.mark.long
def test_processes_at_once(data: Path) -> None:
    words = [*PROGRAM, "influence", "--data", str(data), "--model", "toy", "--out", "runs", "--part"]
    started = [subprocess.Popen([*words, f"{i}/7"], cwd=data.parent, stderr=subprocess.DEVNULL) for i in range(1, 8)]
    assert [one.wait() for one in started] == [0] * 7
    assert complete([only_run(data.parent / "runs")]).is_complete
