"""`--memory` bounds what an instrument holds beside the model, whatever it measures: peaks of resident memory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from helpers.memory_meter import INSTRUMENTS
from helpers.places import TESTS

METER = TESTS / "helpers" / "memory_meter.py"
BUDGETS = {"64MiB": 64, "192MiB": 192}
BESIDE = 48
"""MiB beside a budget: what loading takes (20), and holes between tensors, which are found once they are made."""

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks cannot be forgotten"),
]


def too_much(folder: Path, model: str, beside: int, names: Sequence[str]) -> list[tuple[str, str, int, float]]:
    """Instruments that failed, or went beyond a budget: exit code, and MiB beside the model."""
    words = [sys.executable, str(METER), str(folder), model, ",".join(BUDGETS), *names]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    told = [
        (row["instrument"], row["budget"], row["code"], (row["peak"] - row["before"]) / 2**20)
        for row in map(json.loads, ended.stdout.splitlines())
    ]
    assert {one[:2] for one in told} == {(name, budget) for name in names for budget in BUDGETS}
    return [one for one in told if one[2] or one[3] > BUDGETS[one[1]] + beside]


@pytest.mark.long
def test_every_instrument_keeps_its_budget(tmp_path: Path) -> None:
    assert too_much(tmp_path, "small", BESIDE, [*INSTRUMENTS]) == []


@pytest.mark.long
def test_a_budget_is_kept_with_the_default_model(real_backend: Any, tmp_path: Path) -> None:
    # Its weights are 513 MiB.
    assert too_much(tmp_path, "smollm2-135m", 513 + BESIDE, ["influence", "decode"]) == []
