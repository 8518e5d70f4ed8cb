"""leakmeter: what a language model lets through of the text it was given, in nats.

Names are loaded on first use, so that `import leakmeter` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leakmeter.errors import LeakmeterError
    from leakmeter.instruments.decoding.api import decode, frontier
    from leakmeter.instruments.decoding.result import DecodeResult
    from leakmeter.instruments.generation.api import audit
    from leakmeter.instruments.icl.api import IclInfluence, icl
    from leakmeter.instruments.icl.result import IclResult
    from leakmeter.instruments.influence.api import influence
    from leakmeter.instruments.influence.result import InfluenceResult
    from leakmeter.instruments.pii.api import PiiFindings, pii
    from leakmeter.instruments.pii.result import PiiResult
    from leakmeter.instruments.redaction.api import redaction
    from leakmeter.instruments.redaction.result import RedactionResult
    from leakmeter.instruments.susceptibility.api import (
        FisherSusceptibilities,
        Susceptibilities,
        fisher_susceptibility,
        susceptibility,
    )
    from leakmeter.instruments.susceptibility.fisher.result import FisherResult
    from leakmeter.instruments.susceptibility.result import SusceptibilityResult
    from leakmeter.runs.loading import load_backend, load_run
    from leakmeter.runs.run import Run

__all__ = [
    "DecodeResult",
    "FisherResult",
    "FisherSusceptibilities",
    "IclInfluence",
    "IclResult",
    "InfluenceResult",
    "LeakmeterError",
    "PiiFindings",
    "PiiResult",
    "RedactionResult",
    "Run",
    "Susceptibilities",
    "SusceptibilityResult",
    "audit",
    "decode",
    "fisher_susceptibility",
    "frontier",
    "icl",
    "influence",
    "load_backend",
    "load_run",
    "pii",
    "redaction",
    "susceptibility",
]

_HOME = {
    "DecodeResult": "leakmeter.instruments.decoding.result",
    "FisherResult": "leakmeter.instruments.susceptibility.fisher.result",
    "FisherSusceptibilities": "leakmeter.instruments.susceptibility.api",
    "IclInfluence": "leakmeter.instruments.icl.api",
    "IclResult": "leakmeter.instruments.icl.result",
    "InfluenceResult": "leakmeter.instruments.influence.result",
    "LeakmeterError": "leakmeter.errors",
    "PiiFindings": "leakmeter.instruments.pii.api",
    "PiiResult": "leakmeter.instruments.pii.result",
    "RedactionResult": "leakmeter.instruments.redaction.result",
    "Run": "leakmeter.runs.run",
    "Susceptibilities": "leakmeter.instruments.susceptibility.api",
    "SusceptibilityResult": "leakmeter.instruments.susceptibility.result",
    "audit": "leakmeter.instruments.generation.api",
    "decode": "leakmeter.instruments.decoding.api",
    "fisher_susceptibility": "leakmeter.instruments.susceptibility.api",
    "frontier": "leakmeter.instruments.decoding.api",
    "icl": "leakmeter.instruments.icl.api",
    "influence": "leakmeter.instruments.influence.api",
    "load_backend": "leakmeter.runs.loading",
    "load_run": "leakmeter.runs.loading",
    "pii": "leakmeter.instruments.pii.api",
    "redaction": "leakmeter.instruments.redaction.api",
    "susceptibility": "leakmeter.instruments.susceptibility.api",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'leakmeter' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
