"""Instruments: a folder each, with the same floor plan. Here is what programs import of them, loaded on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leakmeter.instruments.decoding.api import decode, frontier
    from leakmeter.instruments.decoding.result import DecodeResult
    from leakmeter.instruments.generation.api import audit
    from leakmeter.instruments.icl.api import IclInfluence, ResponseInfluence, icl, icl_responses
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

__all__ = [
    "DecodeResult",
    "FisherResult",
    "FisherSusceptibilities",
    "IclInfluence",
    "IclResult",
    "InfluenceResult",
    "PiiFindings",
    "PiiResult",
    "RedactionResult",
    "ResponseInfluence",
    "Susceptibilities",
    "SusceptibilityResult",
    "audit",
    "decode",
    "fisher_susceptibility",
    "frontier",
    "icl",
    "icl_responses",
    "influence",
    "pii",
    "redaction",
    "susceptibility",
]

HOME = {
    "DecodeResult": "leakmeter.instruments.decoding.result",
    "FisherResult": "leakmeter.instruments.susceptibility.fisher.result",
    "FisherSusceptibilities": "leakmeter.instruments.susceptibility.api",
    "IclInfluence": "leakmeter.instruments.icl.api",
    "IclResult": "leakmeter.instruments.icl.result",
    "InfluenceResult": "leakmeter.instruments.influence.result",
    "PiiFindings": "leakmeter.instruments.pii.api",
    "PiiResult": "leakmeter.instruments.pii.result",
    "RedactionResult": "leakmeter.instruments.redaction.result",
    "ResponseInfluence": "leakmeter.instruments.icl.api",
    "Susceptibilities": "leakmeter.instruments.susceptibility.api",
    "SusceptibilityResult": "leakmeter.instruments.susceptibility.result",
    "audit": "leakmeter.instruments.generation.api",
    "decode": "leakmeter.instruments.decoding.api",
    "fisher_susceptibility": "leakmeter.instruments.susceptibility.api",
    "frontier": "leakmeter.instruments.decoding.api",
    "icl": "leakmeter.instruments.icl.api",
    "icl_responses": "leakmeter.instruments.icl.api",
    "influence": "leakmeter.instruments.influence.api",
    "pii": "leakmeter.instruments.pii.api",
    "redaction": "leakmeter.instruments.redaction.api",
    "susceptibility": "leakmeter.instruments.susceptibility.api",
}
"""Module of each name."""


def __getattr__(name: str) -> Any:
    if name not in HOME:
        raise AttributeError(f"module 'leakmeter.instruments' has no attribute '{name}'")
    return getattr(importlib.import_module(HOME[name]), name)
