"""A command over three cases, read again when it is given again, and gone on with as if it had been killed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def resumed(cli: Callable[..., Any], words: Sequence[object]) -> tuple[Path, list[dict[str, Any]]]:
    """The run of a command on three cases, the only one under 'runs', and what it printed of each case."""
    first = cli(*words, "--json")
    assert first.code == 0, first.err
    (run,) = Path("runs").iterdir()
    stamps = {path.name: path.stat().st_mtime_ns for path in run.glob("measurements-*")}
    assert cli(*words, "--json").out == first.out
    assert {path.name: path.stat().st_mtime_ns for path in run.glob("measurements-*")} == stamps
    # As if it had been killed after its first case.
    for name in ("spec.json", "measurements-00001.parquet", "measurements-00002.parquet", "cases-00002.json"):
        (run / name).unlink()
    again = cli(*words, "--json")
    cases, before = ([json.loads(line) for line in ended.out.splitlines()] for ended in (again, first))
    for case in (*cases, *before):
        case["cost"].pop("seconds")
    assert cases == before
    assert (run / "measurements-00000.parquet").stat().st_mtime_ns == stamps["measurements-00000.parquet"]
    return run, cases
