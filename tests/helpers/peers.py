"""Other packages, which write the files that a test reads."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import pytest


def peer(name: str) -> Any:
    """A module of another package; without it the test is skipped, but where `make test-peers` has installed it."""
    return import_module(name) if os.environ.get("LEAKMETER_PEERS") else pytest.importorskip(name)
