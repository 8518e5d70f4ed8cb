"""What ICL influence says in sentences, and the probabilities beside them; texts of cases stay apart from our words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from leakmeter.report import scale
from leakmeter.report.blocks import Phrase, Untrusted
from leakmeter.report.scale import nats_text, percent
from leakmeter.report.shade import Case
from leakmeter.report.words import infinite, interval_text

Summary = Mapping[str, Any]

READING: Final = (
    "0\u00a0nats: leaving an exemplar out changes nothing. 0.7\u00a0nats: some answer becomes twice or half as likely, "
    "so that whoever is given it changes their odds that the exemplar was in the prompt by a factor of 2; at "
    "2.3\u00a0nats by 10, at 4.6 by 100."
)
INTERVALS: Final = "±: standard deviation over queries; in brackets: 95\u00a0% interval of the mean or share."
CAVEAT: Final = (
    "A data-dependent loss: what an answer that is drawn from these probabilities can tell of these exemplars. It is "
    "no guarantee, says nothing of other queries, and does not hold for the likeliest answer, which has no finite loss."
)
_SPACES: Final = {"labels": "the labels, renormalised", "vocabulary": "the whole vocabulary"}
LABELS_SHOWN: Final = 6


@dataclass(frozen=True, slots=True)
class LabelRow:
    """A label of one query: how likely it is, and without one of the exemplars."""

    label: str
    probability: float
    without: float | None
    """None where it cannot be told from the change, since the model gives none with the exemplar."""
    signed_nats: float
    """log A(S, x)(y) − log A(S∖i, x)(y)."""
    is_prediction: bool
    is_gold: bool


def probability(share: float | None) -> str:
    """A probability in percent, three digits at most; never rounded to 0 or to 100."""
    if share is None:
        return scale.NOT_MEASURED
    if 0 < share < 1e-4:
        return "<\u00a00.01\u00a0%"
    if 0.9995 <= share < 1:
        return ">\u00a099.9\u00a0%"
    return f"{100 * share:.{2 if share < 0.01 else 1}f}\u00a0%"


def headline(summary: Summary, cases: Sequence[Case]) -> str:
    """ICLInf as the paper prints it, with its interval."""
    n, shots = summary["n"], max(len(case["exemplars"]) for case in cases)
    which = "the same for all" if summary["exemplars"] else "drawn for each"
    mean = _mean(summary, with_std=True)
    return f"ICLInf {mean}, over {n:,} queries with {shots} exemplar{'s' if shots > 1 else ''}, {which}."


def meaning(summary: Summary) -> str:
    """What that is, in words."""
    mean = summary["mean_nats"]
    said = "Of each query it counts the exemplar without which some answer’s probability changes most. "
    if mean is None:
        return said + "Some query has an answer that is possible with an exemplar and impossible without: ∞."
    said += (
        f"On average that is by {nats_text(mean)}\u00a0nats: whoever is given that answer multiplies or divides their "
        f"odds that the exemplar was there by {_factor(mean)}."
    )
    high = summary["quantiles_nats"]["0.95"]
    return said if high is None else f"{said} One query in twenty has {nats_text(high)}\u00a0nats or more."


def accuracy(summary: Summary) -> str:
    """How many answers are right."""
    n = summary["n_with_label"]
    if not n:
        return "The queries have no labels: how many answers are right is not known."
    low, high = (f"{100 * end:.0f}" for end in summary["accuracy_interval"])
    of = "" if n == summary["n"] else f" of the {n:,} with a label"
    return (
        f"The likeliest answer is right in {100 * summary['accuracy']:.1f}\u00a0%{of} [{low}, {high}]; "
        f"macro-F1 {summary['macro_f1']:.2f}."
    )


def noise(summary: Summary, cases: Sequence[Case]) -> str:
    """What the numbers can be told from."""
    highest = max(case["noise_floor_nats"] for case in cases)
    n_below = round(summary["share_below_noise_floor"] * summary["n"])
    which = "query has" if n_below < 2 else "queries have"
    return (
        f"Noise: the same computed in other ways differs by {nats_text(highest)}\u00a0nats at most; "
        f"{n_below or 'no'} {which} a loss below that of its own."
    )


def vocabulary(cases: Sequence[Case]) -> str | None:
    """What the whole vocabulary hides: the loss over likely tokens and over labels; None over labels."""
    if cases[0]["space"] != "vocabulary":
        return None
    likely = _mean_of([_worst(case, lambda one: one["vocabulary"]["plausible"]["loss_nats"]) for case in cases])
    labels = _mean_of([_worst(case, lambda one: one["worst_label_nats"]) for case in cases])
    return (
        f"The maximum is over all tokens, also those that are all but impossible. Over tokens with a probability of "
        f"1e-6 or more, with or without the exemplar, the mean is {nats_text(likely)}\u00a0nats; over the labels alone "
        f"{nats_text(labels)}."
    )


def settings(case: Case) -> dict[str, str]:
    """How a query was measured, by the words shown beside it."""
    return {
        "Model": case["model"],
        "Weights (SHA-256)": case["weights_sha256"] or "not recorded",
        "Number type": case["dtype"],
        "Prompt template": case["template"],
        "Probabilities": f"over {_SPACES[case['space']]}",
        "Label scoring": case["label_scoring"],
        "Calibration": "none" if case["calibration"] is None else _calibration(case),
        "Temperature": f"{case['temperature']:g}",
    }


def verdict(case: Case) -> Phrase:
    """One sentence: how far the answer to one query moves."""
    worst = worst_exemplar(case)
    if worst["below_noise_floor"]:
        return "Leaving any one exemplar out moves this answer by nothing that could be measured."
    moved = (
        f"Leaving one exemplar out moves this answer by {nats_text(infinite(case['loss_nats']))}\u00a0nats: without "
    )
    return moved, Untrusted(worst["name"]), ", “", changed(worst), "” changes most."


def posterior(case: Case) -> Phrase:
    """One sentence: what someone who sees the answer can conclude about the exemplar."""
    sure = case["posterior"]
    if sure is None:
        return "No posterior is shown: the change is ", Untrusted(str(case["posterior_note"])), "."
    answered = changed(worst_exemplar(case))
    if sure < 0.5:
        return (
            "“",
            answered,
            "” is likelier without that exemplar: from even odds, whoever is given that answer would give "
            f"{percent(sure)} to the exemplar having been there.",
        )
    said = f"” is {percent(sure)} sure that the exemplar was there."
    return "From even odds, whoever is given the answer “", answered, said


def answer(case: Case) -> Phrase:
    """What was answered, what is right, and how likely it is that a label is answered at all."""
    likely = f" ({probability(max(case['label_probabilities']))})"
    mass = f" Before renormalising, all labels have {probability(case['label_mass'])} together."
    said = Untrusted(case["prediction"])
    if case["gold"] is None:
        return said, f"{likely}; the right label is not known.{mass}"
    if case["is_right"]:
        return said, f"{likely}, which is right.{mass}"
    return said, f"{likely}; right is ", Untrusted(case["gold"]), f".{mass}"


def worst_exemplar(case: Case) -> Case:
    """The exemplar with the largest loss."""
    found: Case = next(one for one in case["exemplars"] if one["name"] == case["worst_exemplar"])
    return found


def changed(exemplar: Case, at_most: int | None = None) -> Untrusted:
    """The label or token whose probability changes most without an exemplar."""
    told = exemplar["vocabulary"]
    text = exemplar["worst_label"] if told is None else told["farthest"]["token"].replace("\n", "↵")
    return Untrusted(text, at_most)


def label_rows(case: Case) -> list[LabelRow]:
    """The labels with and without the worst exemplar.

    Of many labels the first `LABELS_SHOWN` are those that matter: the prediction, the right one, the one that changes
    most, then the likeliest; these and the others likeliest first.
    """
    worst = worst_exemplar(case)
    rows = []
    of_labels = zip(case["labels"], case["label_probabilities"], worst["signed_nats"], strict=True)
    for label, share, signed in of_labels:
        # An infinite change is one to or from 0: where there is a probability with the exemplar, there is none without.
        nats = signed if signed is not None else math.inf if share else -math.inf
        without = min(1.0, math.exp(math.log(share) - nats)) if share else None
        rows.append(LabelRow(label, share, without, nats, label == case["prediction"], label == case["gold"]))
    must = (case["prediction"], case["gold"], worst["worst_label"])
    ranked = sorted(rows, key=lambda row: (row.label not in must, -row.probability))
    first, others = ranked[:LABELS_SHOWN], ranked[LABELS_SHOWN:]
    return [*sorted(first, key=lambda row: -row.probability), *sorted(others, key=lambda row: -row.probability)]


def by_loss(cases: Sequence[Case]) -> list[Case]:
    """The queries, largest loss first; ties in their order."""
    return sorted(cases, key=lambda case: -infinite(case["loss_nats"]))


def by_own_label(cases: Sequence[Case]) -> dict[str, float]:
    """Mean loss of the exemplars that have each label, nats; labels that no exemplar has are left out."""
    found: dict[str, list[float]] = {}
    for case in cases:
        for one in case["exemplars"]:
            found.setdefault(one["label"], []).append(infinite(one["loss_nats"]))
    return {label: _mean_of(losses) for label, losses in found.items() if label is not None}


def mean_text(row: Mapping[str, Any]) -> str:
    """Mean and interval of a row of a summary."""
    return _mean(row, with_std=False)


def _mean(row: Mapping[str, Any], *, with_std: bool) -> str:
    if row["mean_nats"] is None:
        return "∞"
    said = nats_text(row["mean_nats"])
    if with_std:
        said += f" ± {nats_text(row['std_nats'])}\u00a0nats"
    return f"{said} {interval_text(row)}".rstrip()


def _mean_of(losses: Sequence[float]) -> float:
    return sum(losses) / len(losses)


def _worst(case: Case, loss: Callable[[Case], float | None]) -> float:
    return max(infinite(loss(one)) for one in case["exemplars"])


def _factor(nats: float) -> str:
    times = math.exp(min(nats, 700.0))
    return f"{times:.2f}" if times < 10 else f"{times:.0f}" if times < 1e5 else f"{times:.0e}"


def _calibration(case: Case) -> str:
    which = "each set’s own baseline" if case["calibration_baseline"] == "own" else "one baseline for all sets"
    return f"{case['calibration']}, {which}, ε = {case['calibration_epsilon']:g}"
