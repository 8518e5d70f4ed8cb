"""leakmeter: what a language model lets through of the text it was given, in nats.

Names are loaded on first use, so that `import leakmeter` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from leakmeter import instruments

if TYPE_CHECKING:
    from leakmeter.errors import LeakmeterError
    from leakmeter.instruments import *  # noqa: F403
    from leakmeter.meter import Meter
    from leakmeter.runs.loading import forget, load_backend, load_run
    from leakmeter.runs.results import Results
    from leakmeter.runs.run import Run

_HOME = {
    "LeakmeterError": "leakmeter.errors",
    "Meter": "leakmeter.meter",
    "Results": "leakmeter.runs.results",
    "Run": "leakmeter.runs.run",
    "forget": "leakmeter.runs.loading",
    "load_backend": "leakmeter.runs.loading",
    "load_run": "leakmeter.runs.loading",
    **instruments.HOME,
}
__all__ = [
    "LeakmeterError",
    "Meter",
    "Results",
    "Run",
    "forget",
    "load_backend",
    "load_run",
    *instruments.__all__,
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'leakmeter' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
