"""Private generation: what can be compared between runs, and bounded by a gate."""

from __future__ import annotations

from typing import Final

from leakmeter.core.measurement import NATS
from leakmeter.core.places import Quantities, at, most
from leakmeter.core.quantity import Case, Quantity


def _ratio(case: Case) -> float:
    """1 where it is above that by rounding alone, so that a bound of 1 says what the audit's verdict says."""
    verdict = case.verdict
    largest: float = max(row.ratio for row in (verdict.worst_token, *verdict.failures, *case.by_order))
    return min(largest, 1.0) if verdict.holds else largest


AUDIT: Final[Quantities] = (
    Quantity(
        "audit.ratio",
        "measured over bound",
        "The largest measured divergence over its bound, of a token and of all, at any order; above 1 the guarantee is "
        "broken.",
        _ratio,
        usual="max",
    ),
    Quantity(
        "audit.measured",
        NATS,
        "The largest measured divergence of an exemplar: Rényi divergence at the guarantee's order.",
        lambda case: most(one.measured_nats for one in case.exemplars),
        usual="max",
    ),
    Quantity(
        "audit.epsilon",
        NATS,
        "The guaranteed epsilon of a batch's texts, where they have a guarantee.",
        at("bounds", "guarantee", "epsilon"),
        usual="max",
    ),
    Quantity(
        "audit.verbatim",
        "share of tokens",
        "How much of a batch's texts stands in an exemplar word for word.",
        at("text_quality", "verbatim_share"),
        usual="max",
    ),
    Quantity(
        "audit.perplexity",
        "perplexity",
        "How odd a batch's texts are to the model without exemplars.",
        at("text_quality", "perplexity"),
    ),
)
