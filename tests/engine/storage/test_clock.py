"""The clock may go where it will: runs are what they were measured to be."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import pytest

import leakmeter
from leakmeter.engine.storage import export

ASKED = {"query": "Who?", "response": "Anna"}
CASES = [{"id": f"c{i}", "context": f"Anna sang {i} songs. Bo ate.", **ASKED} for i in range(3)]


def exported(run: leakmeter.Run, folder: Path) -> dict[str, bytes]:
    export.write(run.path, folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("step", [-3600.0, 1e7])
def test_a_clock_that_goes_back_changes_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: float) -> None:
    steady = leakmeter.influence("toy", CASES, out=tmp_path / "steady")
    now = itertools.count(1_700_000_000.0, step)
    monkeypatch.setattr(time, "time", lambda: next(now))
    monkeypatch.setattr(time, "time_ns", lambda: int(next(now)) * 10**9)
    run = leakmeter.influence("toy", CASES, out=tmp_path / "jumping")
    assert run.path.name == steady.path.name
    assert leakmeter.verify_run(run).state == "whole"
    assert exported(run, tmp_path / "a") == exported(steady, tmp_path / "b")
    again = leakmeter.influence("toy", CASES, out=tmp_path / "jumping")
    assert [one.whole_nats for one in again] == [one.whole_nats for one in steady]
