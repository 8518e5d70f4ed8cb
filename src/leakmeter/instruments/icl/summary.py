"""What many queries say together of the exemplars before them: ICLInf, accuracy, positions, labels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from leakmeter.errors import UsageError
from leakmeter.stats import stats

_LEVELS: Final = (0.05, 0.25, 0.5, 0.75, 0.95)
Cases = Sequence[Mapping[str, Any]]


def summary(cases: Cases, *, seed: int = 0) -> dict[str, Any]:
    """Case objects of queries to one object; units stand in the names.

    `mean_nats` is ICLInf (Li et al., Eq. 4); `std_nats` beside it the standard deviation over the queries, which
    divides by their number (the paper prints mean ± std and does not say by what it divides). Intervals are 95 %:
    percentile bootstrap over queries, Wilson's for shares; null for one query. Where a loss is infinite, what is made
    of it is null.

    `accuracy` and `macro_f1` are over the queries whose label is known. The latter is the mean F1 of the labels that
    occur among them, as right label or as prediction; one that is predicted and never right has an F1 of 0, one that
    does not occur has none.

    `positions` and `labels` hold losses before the maximum over exemplars and over labels. `exemplars` does where all
    queries have the same ones, and is null otherwise.

    Args:
        cases: one or more, with the same labels; see `instruments.icl.result.case_object`.
        seed: of the bootstrap.

    Raises:
        UsageError: no cases, or other labels than those of the first.
    """
    if not cases:
        raise UsageError("there are no queries to sum up; give at least one")
    labels = cases[0]["labels"]
    for case in cases:
        if case["labels"] != labels:
            raise UsageError(f"case '{case['id']}' has other labels than case '{cases[0]['id']}'; sum them up apart")
    losses = [or_infinite(case["loss_nats"]) for case in cases]
    n_below = sum(loss <= case["noise_floor_nats"] for loss, case in zip(losses, cases, strict=True))
    return {
        "n": len(cases),
        **_of_losses(losses, seed),
        "quantiles_nats": {f"{level:g}": value for level, value in zip(_LEVELS, _quantiles(losses), strict=True)},
        "share_below_noise_floor": n_below / len(cases),
        **_right(cases, labels),
        "positions": _positions(cases, seed),
        "labels": _labels(cases, labels, seed),
        "exemplars": _exemplars(cases, seed),
        "median_tree_tokens": float(np.median([case["cost"]["tree_tokens"] for case in cases])),
        "median_naive_tokens": float(np.median([case["cost"]["naive_tokens"] for case in cases])),
    }


def or_infinite(nats: float | None) -> float:
    """A loss of a case object as a number."""
    return math.inf if nats is None else nats


def _of_losses(losses: Sequence[float], seed: int) -> dict[str, Any]:
    """Mean, standard deviation and interval of the mean; null where a loss is infinite."""
    if not np.isfinite(losses).all():
        return {"mean_nats": None, "std_nats": None, "interval_nats": None}
    interval = stats.bootstrap_interval_of_mean(losses, seed=seed) if len(losses) > 1 else None
    return {
        "mean_nats": stats.mean(losses),
        "std_nats": float(np.std(losses)),
        "interval_nats": None if interval is None else list(interval),
    }


def _quantiles(losses: Sequence[float]) -> list[float | None]:
    return [*stats.quantiles(losses, _LEVELS)] if np.isfinite(losses).all() else [None] * len(_LEVELS)


def _right(cases: Cases, labels: Sequence[str]) -> dict[str, Any]:
    known = [case for case in cases if case["gold"] is not None]
    if not known:
        return {"n_with_label": 0, "accuracy": None, "accuracy_interval": None, "macro_f1": None}
    n_right = sum(case["is_right"] for case in known)
    f1 = [value for label in labels if (value := _f1(known, label)) is not None]
    return {
        "n_with_label": len(known),
        "accuracy": n_right / len(known),
        "accuracy_interval": list(stats.interval_of_share(n_right, len(known))),
        "macro_f1": stats.mean(f1),
    }


def _f1(known: Cases, label: str) -> float | None:
    """2 TP / (2 TP + FP + FN) of a label; None where it does not occur."""
    n_both = sum(case["gold"] == label == case["prediction"] for case in known)
    n_either = sum((case["gold"] == label) + (case["prediction"] == label) for case in known)
    return 2.0 * n_both / n_either if n_either else None


def _positions(cases: Cases, seed: int) -> list[dict[str, Any]]:
    """The loss of the exemplar at each position, over the queries that have one there."""
    out = []
    for i in range(max(len(case["exemplars"]) for case in cases)):
        losses = [or_infinite(case["exemplars"][i]["loss_nats"]) for case in cases if i < len(case["exemplars"])]
        out.append({"position": i + 1, "n": len(losses), **_of_losses(losses, seed)})
    return out


def _labels(cases: Cases, labels: Sequence[str], seed: int) -> list[dict[str, Any]]:
    """|log A(S, x)(y) − log A(S∖i, x)(y)| of each label y, mean over a query's exemplars, and how it is answered."""
    out = []
    for number, label in enumerate(labels):
        losses = [
            stats.mean([abs(or_infinite(exemplar["signed_nats"][number])) for exemplar in case["exemplars"]])
            for case in cases
        ]
        known = [case for case in cases if case["gold"] is not None]
        out.append(
            {
                "label": label,
                **_of_losses(losses, seed),
                "n_right_label": sum(case["gold"] == label for case in known),
                "n_predicted": sum(case["prediction"] == label for case in cases),
                "f1": _f1(known, label),
            }
        )
    return out


def _exemplars(cases: Cases, seed: int) -> list[dict[str, Any]] | None:
    """Each exemplar's loss over the queries, and the share of queries in which no other has a larger one."""
    shown = [[(one["name"], one["id"], one["text"]) for one in case["exemplars"]] for case in cases]
    if any(other != shown[0] for other in shown):
        return None
    out = []
    for i, exemplar in enumerate(cases[0]["exemplars"]):
        losses = [or_infinite(case["exemplars"][i]["loss_nats"]) for case in cases]
        worst = max(losses)
        n_worst = sum(case["worst_exemplar"] == exemplar["name"] for case in cases)
        out.append(
            {
                **{name: exemplar[name] for name in ("name", "position", "id", "text", "label", "n_tokens")},
                **_of_losses(losses, seed),
                "max_nats": worst if math.isfinite(worst) else None,
                "worst_query": cases[losses.index(worst)]["id"],
                "worst_share": n_worst / len(cases),
                "worst_share_interval": list(stats.interval_of_share(n_worst, len(cases))),
            }
        )
    return out
