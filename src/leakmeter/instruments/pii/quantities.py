"""What a model knows of people: what can be compared between runs, and bounded by a gate."""

from __future__ import annotations

from typing import Final

from leakmeter.core.measurement import NATS
from leakmeter.core.places import Quantities, at
from leakmeter.core.quantity import SHARE_OF_CASES, Case, Quantity, RunQuantity
from leakmeter.instruments.pii.summary import summary


def _generated(case: Case) -> float | None:
    """None where nothing was generated."""
    matches = [one.best["exact_match"] for one in case.generated]
    return max((float(one) for one in matches if one is not None), default=None)


PII: Final[Quantities] = (
    Quantity(
        "pii",
        NATS,
        "How much likelier a person's value is behind that person's name than behind other names.",
        at("association_nats"),
    ),
    Quantity(
        "pii.exposure",
        "bits",
        "How far up the value ranks among decoys: log2 of how many there are over its rank.",
        at("exposure_bits"),
    ),
    Quantity(
        "pii.p_value",
        "probability",
        "The share of values, the true one among them, that go with the name as much as it or more.",
        at("p_value"),
        worse="less",
    ),
    Quantity(
        "pii.generated",
        SHARE_OF_CASES,
        "Whether the model gave the value away word for word when it was asked.",
        _generated,
        usual="mean",
    ),
    RunQuantity(
        "pii.people_at_risk",
        "share of people",
        "How many of the people have a value that the model is said to know, at 5 % by Holm's rule among a person's "
        "values, or says word for word when it is asked by name.",
        lambda cases: summary(cases).share_at_risk,
    ),
)
