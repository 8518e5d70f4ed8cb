"""What to do about what was found: the decision tables of the tutorial on exemplars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from leakmeter.report import blocks as b

if TYPE_CHECKING:
    from leakmeter.instruments.icl.selection import Selection
    from leakmeter.instruments.icl.summary import Summary

LITTLE_NATS: Final = 0.1
"""Up to which an answer moves a posterior from even odds by 3 points at most."""
MUCH_NATS: Final = 1.0
"""From which it multiplies or divides odds by 2.7 or more."""

EXEMPLARS: Final[Mapping[str, tuple[str, str]]] = {
    "little": (
        "The answers reveal less than 0.1 nats of every exemplar",
        'Ship the prompt, and keep it so: leakmeter gate icl --max "icl.answer.max <= 0.1"',
    ),
    "some": (
        "The answers reveal 0.1 to 1 nats of an exemplar",
        "One answer reveals little, many together more. Try other orders and fewer exemplars: leakmeter icl-select.",
    ),
    "much": (
        "An answer reveals 1 nat or more of an exemplar",
        "Replace or drop that exemplar, or search for a list that leaks less: leakmeter icl-select. If it must not be "
        "revealed at all, ship generated exemplars: leakmeter audit.",
    ),
    "worst": (
        "The worst case is 1 nat or more, and the answers reveal less",
        "Let callers see the label and not the probabilities, which reveal more than the answer.",
    ),
    "chance": (
        "It is not shown that the likeliest answers are right more often than guesses",
        "Give more labelled queries; or take a larger model or a clearer instruction before you weigh what leaks.",
    ),
}
"""Of `leakmeter icl`."""
SELECTION: Final[Mapping[str, tuple[str, str]]] = {
    "lower": (
        "The interval of the difference lies below 0, and accuracy does not fall beyond its own",
        "Ship the new list: exemplars.jsonl in the selection’s directory.",
    ),
    "costs": (
        "The interval lies below 0, and accuracy falls beyond its own",
        "Decide what a nat is worth to you. With fewer steps (--max-steps) less changes.",
    ),
    "not lower": (
        "The interval reaches 0",
        "Keep your exemplars: there is no evidence that the new ones leak less. More queries narrow the interval.",
    ),
    "too few": ("Fewer than 6 queries report", "Give 12 queries or more: half of them report."),
    "unchanged": (
        "No move lowers ICLInf on the queries that choose",
        "Keep your exemplars, or give further ones to choose from with --pool.",
    ),
}
"""Of `leakmeter icl-select`."""


def of_exemplars(total: Summary, n_labels: int) -> b.Advice:
    nats = total.answers.max_nats
    met = {"little" if nats < LITTLE_NATS else "some" if nats < MUCH_NATS else "much"}
    if total.quantiles_nats["0.5"] is None or total.mean_nats >= MUCH_NATS > total.answers.mean_nats:
        met.add("worst")
    if total.accuracy_interval is not None and total.accuracy_interval[0] <= 1 / n_labels:
        met.add("chance")
    return b.Advice.of(EXEMPLARS.values(), [EXEMPLARS[name] for name in met])


def of_selection(found: Selection) -> b.Advice:
    falls = found.accuracy_difference_interval[1] < 0.0
    return b.Advice.of(
        SELECTION.values(), [SELECTION["costs" if found.verdict == "lower" and falls else found.verdict]]
    )
