"""What tests of servers share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from leakmeter.backends.served import connection
from leakmeter.backends.served.backend import ServedBackend
from leakmeter.backends.served.load import load_served


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ServedBackend]:
    """A model behind a server to a back end that loses its patience at once."""
    for name in ("LEAKMETER_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(connection, "_FIRST_WAIT", 0.02)

    def load(model: str, **options: Any) -> ServedBackend:
        given = {"tokenizer": "toy", "notify": lambda line: None, "seconds": 5.0, "patience": 0.2, **options}
        return load_served(model, **given)

    return load
