"""Threads of torch sleep soon while they wait, unless the user says how they wait."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = "import {first}, os; import leakmeter.backends, leakmeter.models; print(os.environ.get('GOMP_SPINCOUNT'))"


@pytest.mark.parametrize(
    ("first", "given", "expected"),
    [
        ("sys", {}, "3000"),
        ("sys", {"GOMP_SPINCOUNT": "7"}, "7"),
        ("sys", {"OMP_WAIT_POLICY": "active"}, "None"),
        ("torch", {}, "None"),
    ],
)
def test_threads_sleep_soon(first: str, given: dict[str, str], expected: str) -> None:
    env = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    program = PROGRAM.format(first=first)
    done = subprocess.run([sys.executable, "-c", program], env={**env, **given}, capture_output=True, check=True)
    assert done.stdout.decode().strip() == expected
