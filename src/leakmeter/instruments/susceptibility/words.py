"""What susceptibility says, in sentences and rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from leakmeter.report.scale import nats_text
from leakmeter.report.shade import Case
from leakmeter.report.words import interval_text

Summary = Mapping[str, Any]

CAVEAT: Final = (
    "Susceptibility is that to these contexts, as often as each comes. It says how much an answer depends on which of "
    "them was given, and not whether the answer is right, nor whether a context is believed or merely in the way."
)
INTERVALS: Final = (
    "In brackets: 95\u00a0% interval; of a query for contexts that might have been drawn in the place of these, of a "
    "mean over queries."
)
_LEVELS_AT_MOST: Final = 12


def reading(cases: Sequence[Case]) -> str:
    """What a value means, with the ceiling of these queries."""
    ceiling = max(case["ceiling_nats"] for case in cases)
    return (
        "0\u00a0nats: the model is deaf to the contexts; its answer tells nothing of which one it was given. "
        "ln\u00a02 = 0.69\u00a0nats: the answer tells as much as one fair yes or no about which context it was. "
        f"More than {nats_text(ceiling)}\u00a0nats cannot be told: that says which of the contexts it was, every time."
    )


def headline(summary: Summary, cases: Sequence[Case]) -> str:
    """The mean over queries."""
    return f"Susceptibility {mean_text(summary)}\u00a0nats, the mean of {_queries(summary['n'])}, {_behind(cases)}."


def meaning(summary: Summary, cases: Sequence[Case]) -> str:
    """What that is, in words."""
    ceiling = max(case["ceiling_nats"] for case in cases)
    low, high = (summary["quantiles_nats"][level] for level in ("0.05", "0.95"))
    share = summary["mean_nats"] / ceiling if ceiling else 0.0
    said = (
        f"That is what an answer tells, on average, of which context it was given behind: {100 * share:.1f}\u00a0% of "
        f"the {nats_text(ceiling)}\u00a0nats that there are to tell. Nine queries in ten lie between {nats_text(low)} "
        f"and {nats_text(high)}."
    )
    from_bare = summary["mean_from_bare_nats"]
    if from_bare is None:
        return said
    return (
        f"{said} Against the same queries without any context the answers move by {nats_text(from_bare)}\u00a0nats: "
        "the rest is what all contexts do alike."
    )


def noise(summary: Summary, cases: Sequence[Case]) -> str:
    """What the numbers can be told from."""
    highest = max(math.inf if case["noise_floor_nats"] is None else case["noise_floor_nats"] for case in cases)
    n_below = round(summary["share_below_noise_floor"] * summary["n"])
    said = f"the same computed in other ways differs by {nats_text(highest)}\u00a0nats at most; "
    return f"{said}{n_below or 'no'} {'queries lie' if n_below > 1 else 'query lies'} below that of its own"


def verdict(case: Case) -> str:
    """One sentence: how susceptible a query is."""
    if case["below_noise_floor"]:
        return f"The {case['n_contexts']:,} contexts move this answer by nothing that could be measured."
    said = f"This query has a susceptibility of {nats_text(case['susceptibility_nats'])}\u00a0nats"
    return f"{said} {interval_text(case)}".rstrip() + f", behind {case['n_contexts']:,} contexts."


def told(case: Case) -> str:
    """What one query's answer tells of its contexts, and what they share."""
    out = []
    if case["share_of_ceiling"] is not None:
        out.append(
            f"So much its answer tells, on average, of which context it was given behind: "
            f"{100 * case['share_of_ceiling']:.1f}\u00a0% of the {nats_text(case['ceiling_nats'])}\u00a0nats that "
            "there are to tell."
        )
    from_bare, shared = case["from_bare_nats"], case["mixture_from_bare_nats"]
    if from_bare is not None and shared is not None:
        out.append(
            f"Against the query alone the contexts move it by {nats_text(from_bare)}\u00a0nats; "
            f"{nats_text(shared)} of these all of them do together."
        )
    out.append(
        f"Entropy of the answer: {nats_text(case['bare_entropy_nats'])}\u00a0nats without a context, "
        f"{nats_text(case['mixture_entropy_nats'])} behind any one of them."
    )
    return " ".join(out)


def memorisation(counts: Mapping[str, Any] | None) -> str | None:
    """How often the model keeps to what it knew; None where that was not asked.

    Args:
        counts: of a query or of a summary.
    """
    if counts is None:
        return None
    n_knows = int(counts["knows"]) if "knows" in counts else counts["n_knows"]
    of = f" of {counts['n']:,} queries" if "n" in counts else ""
    if not n_knows:
        given = f"to none{of} the right answer is given" if of else "the right answer is not given"
        return f"Memorisation: {given} without a context, so that there is no ratio."
    kept = f"{counts['n_original']:,} original, {counts['n_context']:,} of the context, {counts['n_neither']:,} neither"
    if counts["ratio"] is None:
        return f"Memorisation: no answer is the original or the context’s ({kept}); there is no ratio."
    low, high = (f"{100 * end:.0f}" for end in counts["ratio_interval"])
    which = f" in the {n_knows:,}{of} that are answered right without a context" if of else ""
    return (
        f"Memorisation ratio {100 * counts['ratio']:.0f}\u00a0% [{low}, {high}]: greedy answers behind contexts that "
        f"state another{which} are {kept}."
    )


def by_susceptibility(cases: Sequence[Case]) -> list[Case]:
    """The queries, most susceptible first; ties in their order."""
    return sorted(cases, key=lambda case: -case["susceptibility_nats"])


def by_persuasion(case: Case) -> list[Case]:
    """The contexts of a query, most persuasive first."""
    return sorted(case["contexts"], key=lambda context: context["rank"])


def factor_rows(summary: Summary) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each factor's levels, with its name; factors of one level, or of too many to be read, are left out."""
    for name, levels in summary["factors"].items():
        if 1 < len(levels) <= _LEVELS_AT_MOST:
            for level in levels:
                yield name, level


def mean_text(row: Mapping[str, Any]) -> str:
    """Mean and interval of a row of a summary."""
    return f"{nats_text(row['mean_nats'])} {interval_text(row)}".rstrip()


def settings(cases: Sequence[Case]) -> dict[str, str]:
    """How queries were measured, by the words shown beside them."""
    first, kinds = cases[0], {bool(case["answers"]) for case in cases}
    what = " or ".join(
        name for kind, name in ((False, "any next token"), (True, "its own and the rest")) if kind in kinds
    )
    return {
        "Model": first["model"],
        "Weights (SHA-256)": first["weights_sha256"] or "not recorded",
        "Number type": first["dtype"],
        "Estimator": first["estimator"],
        "Prompt template": first["template"],
        "Separator": repr(first["separator"]),
        "Answers of a query": what,
        "Temperature": f"{first['temperature']:g}",
    }


def _queries(n: int) -> str:
    return "one query" if n == 1 else f"{n:,} queries"


def _behind(cases: Sequence[Case]) -> str:
    numbers = sorted({case["n_contexts"] for case in cases})
    if len(numbers) == 1:
        return f"each behind {numbers[0]:,} contexts"
    return f"behind {numbers[0]:,} to {numbers[-1]:,} contexts"
