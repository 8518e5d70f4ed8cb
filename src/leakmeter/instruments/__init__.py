"""Instruments: a folder each, with the same floor plan. Here is what programs import of them, loaded on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leakmeter.instruments.decoding.command import decode, frontier
    from leakmeter.instruments.decoding.result import DecodeResult
    from leakmeter.instruments.generation.command import calibrate, generate
    from leakmeter.instruments.generation.result import PrivateGenerationResult
    from leakmeter.instruments.icl.command import icl, icl_responses, icl_select
    from leakmeter.instruments.icl.result import IclResult
    from leakmeter.instruments.influence.command import influence
    from leakmeter.instruments.influence.result import InfluenceResult
    from leakmeter.instruments.pii.command import pii, pii_check, pii_extract, pii_insert, pii_tune
    from leakmeter.instruments.pii.result import PiiResult
    from leakmeter.instruments.redaction.command import redact
    from leakmeter.instruments.redaction.result import RedactionResult
    from leakmeter.instruments.susceptibility.command import fisher_susceptibility, susceptibility
    from leakmeter.instruments.susceptibility.fisher.result import FisherResult
    from leakmeter.instruments.susceptibility.result import SusceptibilityResult

__all__ = [
    "DecodeResult",
    "FisherResult",
    "IclResult",
    "InfluenceResult",
    "PiiResult",
    "PrivateGenerationResult",
    "RedactionResult",
    "SusceptibilityResult",
    "calibrate",
    "decode",
    "fisher_susceptibility",
    "frontier",
    "generate",
    "icl",
    "icl_responses",
    "icl_select",
    "influence",
    "pii",
    "pii_check",
    "pii_extract",
    "pii_insert",
    "pii_tune",
    "redact",
    "susceptibility",
]

HOME = {
    "DecodeResult": "leakmeter.instruments.decoding.result",
    "FisherResult": "leakmeter.instruments.susceptibility.fisher.result",
    "IclResult": "leakmeter.instruments.icl.result",
    "InfluenceResult": "leakmeter.instruments.influence.result",
    "PiiResult": "leakmeter.instruments.pii.result",
    "PrivateGenerationResult": "leakmeter.instruments.generation.result",
    "RedactionResult": "leakmeter.instruments.redaction.result",
    "SusceptibilityResult": "leakmeter.instruments.susceptibility.result",
    "calibrate": "leakmeter.instruments.generation.command",
    "decode": "leakmeter.instruments.decoding.command",
    "fisher_susceptibility": "leakmeter.instruments.susceptibility.command",
    "frontier": "leakmeter.instruments.decoding.command",
    "generate": "leakmeter.instruments.generation.command",
    "icl": "leakmeter.instruments.icl.command",
    **dict.fromkeys(("icl_responses", "icl_select"), "leakmeter.instruments.icl.command"),
    "influence": "leakmeter.instruments.influence.command",
    "pii": "leakmeter.instruments.pii.command",
    **dict.fromkeys(("pii_check", "pii_extract", "pii_insert", "pii_tune"), "leakmeter.instruments.pii.command"),
    "redact": "leakmeter.instruments.redaction.command",
    "susceptibility": "leakmeter.instruments.susceptibility.command",
}
"""Module of each name."""


def __getattr__(name: str) -> Any:
    if name not in HOME:
        raise AttributeError(f"module 'leakmeter.instruments' has no attribute '{name}'")
    return getattr(importlib.import_module(HOME[name]), name)
