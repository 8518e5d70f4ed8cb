"""`--memory` bounds what an instrument holds beside the model, whatever it measures: peaks of resident memory."""

from __future__ import annotations

import json
import subprocess
import sys
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


def peaks(folder: Path, model: str, *names: str) -> dict[tuple[str, str], dict[str, Any]]:
    """What the instruments took, by name and budget."""
    words = [sys.executable, str(METER), str(folder), model, ",".join(BUDGETS), *names]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return {(row["instrument"], row["budget"]): row for row in map(json.loads, ended.stdout.splitlines())}


def too_much(found: dict[tuple[str, str], dict[str, Any]], beside: int) -> list[tuple[str, str, int, float]]:
    """Instruments that failed, or went beyond their budget: exit code, and MiB beside the model."""
    told = [(*key, row["code"], (row["peak"] - row["before"]) / 2**20) for key, row in found.items()]
    return [one for one in told if one[2] or one[3] > BUDGETS[one[1]] + beside]


@pytest.mark.long
def test_every_instrument_keeps_its_budget(tmp_path: Path) -> None:
    found = peaks(tmp_path, "small", *INSTRUMENTS)
    assert set(found) == {(name, budget) for name in INSTRUMENTS for budget in BUDGETS}
    assert too_much(found, BESIDE) == []


@pytest.mark.long
def test_a_budget_is_kept_with_the_default_model(real_backend: Any, tmp_path: Path) -> None:
    found = peaks(tmp_path, "smollm2-135m", "influence", "decode")
    # Its weights are 513 MiB.
    assert too_much(found, 513 + BESIDE) == []
