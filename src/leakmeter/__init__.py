"""leakmeter: what a language model lets through of the text it was given, in nats.

Names are loaded on first use, so that `import leakmeter` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leakmeter.api import decode, influence, load_backend, load_run
    from leakmeter.errors import LeakmeterError
    from leakmeter.redaction import redact_plan
    from leakmeter.results.decode import DecodeResult
    from leakmeter.results.influence import InfluenceResult
    from leakmeter.results.redact_plan import RedactPlanResult
    from leakmeter.sweeps import frontier

__all__ = [
    "DecodeResult",
    "InfluenceResult",
    "LeakmeterError",
    "RedactPlanResult",
    "decode",
    "frontier",
    "influence",
    "load_backend",
    "load_run",
    "redact_plan",
]

_HOME = {
    "DecodeResult": "leakmeter.results.decode",
    "InfluenceResult": "leakmeter.results.influence",
    "LeakmeterError": "leakmeter.errors",
    "RedactPlanResult": "leakmeter.results.redact_plan",
    "decode": "leakmeter.api",
    "frontier": "leakmeter.sweeps",
    "influence": "leakmeter.api",
    "load_backend": "leakmeter.api",
    "load_run": "leakmeter.api",
    "redact_plan": "leakmeter.redaction",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'leakmeter' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
