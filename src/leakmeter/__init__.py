"""leakmeter: what a language model lets through of the text it was given, in nats.

Names are loaded on first use, so that `import leakmeter` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leakmeter.api.audit import audit
    from leakmeter.api.decode import decode
    from leakmeter.api.frontier import frontier
    from leakmeter.api.icl import IclInfluence, icl
    from leakmeter.api.influence import influence
    from leakmeter.api.loading import load_backend, load_run
    from leakmeter.api.pii import PiiFindings, pii
    from leakmeter.api.redact_plan import redact_plan
    from leakmeter.api.run import Run
    from leakmeter.api.susceptibility import (
        FisherSusceptibilities,
        Susceptibilities,
        fisher_susceptibility,
        susceptibility,
    )
    from leakmeter.errors import LeakmeterError
    from leakmeter.instruments.decoding.result import DecodeResult
    from leakmeter.instruments.icl.result import IclResult
    from leakmeter.instruments.influence.result import InfluenceResult
    from leakmeter.instruments.pii.result import PiiResult
    from leakmeter.instruments.redaction.result import RedactPlanResult
    from leakmeter.instruments.susceptibility.fisher.result import FisherResult
    from leakmeter.instruments.susceptibility.result import SusceptibilityResult

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
    "RedactPlanResult",
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
    "redact_plan",
    "susceptibility",
]

_HOME = {
    "DecodeResult": "leakmeter.instruments.decoding.result",
    "FisherResult": "leakmeter.instruments.susceptibility.fisher.result",
    "FisherSusceptibilities": "leakmeter.api.susceptibility",
    "IclInfluence": "leakmeter.api.icl",
    "IclResult": "leakmeter.instruments.icl.result",
    "InfluenceResult": "leakmeter.instruments.influence.result",
    "LeakmeterError": "leakmeter.errors",
    "PiiFindings": "leakmeter.api.pii",
    "PiiResult": "leakmeter.instruments.pii.result",
    "RedactPlanResult": "leakmeter.instruments.redaction.result",
    "Run": "leakmeter.api.run",
    "Susceptibilities": "leakmeter.api.susceptibility",
    "SusceptibilityResult": "leakmeter.instruments.susceptibility.result",
    "audit": "leakmeter.api.audit",
    "decode": "leakmeter.api.decode",
    "fisher_susceptibility": "leakmeter.api.susceptibility",
    "frontier": "leakmeter.api.frontier",
    "icl": "leakmeter.api.icl",
    "influence": "leakmeter.api.influence",
    "load_backend": "leakmeter.api.loading",
    "load_run": "leakmeter.api.loading",
    "pii": "leakmeter.api.pii",
    "redact_plan": "leakmeter.api.redact_plan",
    "susceptibility": "leakmeter.api.susceptibility",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'leakmeter' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
