"""ICL influence: what can be compared between runs, and bounded by a gate."""

from __future__ import annotations

from typing import Final

from leakmeter.core.measurement import NATS
from leakmeter.core.places import NOISE, Quantities, at
from leakmeter.core.quantity import SHARE_OF_CASES, Quantity, RunQuantity
from leakmeter.instruments.icl.summary import summary

ICL: Final[Quantities] = (
    Quantity("icl", NATS, "Largest influence of an exemplar on any answer to a query.", at("loss_nats"), floor=NOISE),
    Quantity(
        "icl.answer",
        NATS,
        "What the answer to a query reveals of an exemplar, at most.",
        at("answer_nats"),
        floor=at("answer_noise_floor_nats"),
    ),
    Quantity(
        "icl.accuracy",
        SHARE_OF_CASES,
        "Whether the likeliest label is the right one, of queries whose label is known.",
        at("is_right"),
        worse="less",
        usual="mean",
    ),
    RunQuantity(
        "icl.macro_f1",
        "F1",
        "Mean F1 of the labels, over the queries whose label is known.",
        lambda results: summary(results).macro_f1,
        worse="less",
    ),
)
