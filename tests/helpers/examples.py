"""How much is tried where long tests are left out: of a property a quarter of its examples, of kinds the first few."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

QUICK = "LEAKMETER_QUICK_TESTS"
"""Environment variable that is set where long tests are left out."""


def examples(n: int) -> int:
    """The number of examples of a property that `make test-all` tries with `n`."""
    return max(10, n // 4) if QUICK in os.environ else n


def few(values: Iterable[Any], n: int = 1) -> list[Any]:
    """Values of a parameter, all but the first `n` of them for long tests; a tuple is a value for each parameter."""
    known = list(values)
    others = [one if isinstance(one, tuple) else (one,) for one in known[n:]]
    return [*known[:n], *(pytest.param(*one, marks=pytest.mark.long) for one in others)]
