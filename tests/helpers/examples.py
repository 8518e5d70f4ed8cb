"""How many examples a property is tried with: a quarter where long tests are left out."""

from __future__ import annotations

import os

QUICK = "LEAKMETER_QUICK_TESTS"
"""Environment variable that is set where long tests are left out."""


def examples(n: int) -> int:
    """The number of examples of a property that `make test-all` tries with `n`."""
    return max(10, n // 4) if QUICK in os.environ else n
