"""In-context exemplars: what can be compared between runs, and bounded by a gate."""

from __future__ import annotations

import math
from typing import Final

from leakmeter.core.measurement import NATS
from leakmeter.core.places import NOISE, Quantities, at
from leakmeter.core.quantity import SHARE_OF_CASES, Quantity, RunQuantity
from leakmeter.instruments.icl.summary import summary

ICL: Final[Quantities] = (
    Quantity(
        "icl",
        NATS,
        "What the answer to a query owes to the exemplar that it owes most.",
        at("loss_nats", null=math.inf),
        floor=NOISE,
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
        lambda cases: summary(cases)["macro_f1"],
        worse="less",
    ),
)
