"""Threads of torch sleep soon while they wait, unless the user says how they wait."""

from __future__ import annotations

import os
import subprocess
import sys
from types import ModuleType

import pytest

from leakmeter.core.spinning import limit_spinning

NAMES = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


@pytest.mark.parametrize(
    ("has_torch", "given", "expected"),
    [
        (False, {}, "3000"),
        (False, {"GOMP_SPINCOUNT": "7"}, "7"),
        (False, {"OMP_WAIT_POLICY": "active"}, None),
        (True, {}, None),
    ],
)
def test_threads_sleep_soon(
    has_torch: bool, given: dict[str, str], expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", dict(given))
    monkeypatch.setattr(sys, "modules", {"torch": ModuleType("torch")} if has_torch else {})
    limit_spinning()
    assert os.environ.get("GOMP_SPINCOUNT") == expected


def test_it_is_set_before_torch_is_loaded() -> None:
    program = "import os; import leakmeter.backends, leakmeter.models; print(os.environ.get('GOMP_SPINCOUNT'))"
    env = {name: value for name, value in os.environ.items() if name not in NAMES}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, check=True)
    assert done.stdout.decode().strip() == "3000"
