"""Words and sentences that reports of several instruments share, and what a measure found in many cases: one sentence,
their summary, and the figures that a paper would have."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from leakmeter.core.case import unmarked_context, unmeasured_text
from leakmeter.core.plain import visible
from leakmeter.core.self_check import SelfCheck
from leakmeter.report.blocks import Chart
from leakmeter.report.scale import NOT_MEASURED, nats_in, nats_text, percent
from leakmeter.stats.aggregates import aggregate, interval_of_aggregate

NO_GUARANTEE: Final = (
    "Not a guarantee: a lower-bound estimate of the ex-post privacy loss of this context for this output. It does not "
    "cover other outputs the model could have given."
)
GIVEN_RESPONSE: Final = (
    "{responses} given, not drawn from the scoring model: for another model the numbers would be different."
)
_NUMBER: Final = re.compile(r"\d[\d.e-]*")
_POSTERIOR_NOTES: Final = {"below the noise floor": "<\u00a0noise", "below the placebo": "<\u00a0placebo"}


# Results are `Any` here: their classes are above this package.
def is_of_system_prompts(results: Sequence[Any]) -> bool:
    return all(_unmarked(result) == unmarked_context(()) for result in results)


def scope(results: Sequence[Any]) -> str:
    """How a headline begins, with a space at its end, where earlier answers of chats were not measured, or nothing of a
    chat was marked as retrieved; else empty."""
    n = sum(result.unmeasured_answers or 0 for result in results)
    earlier = f"{unmeasured_text(n)}. " if n else ""
    unmarked = [name for result in results if (name := _unmarked(result)) is not None]
    if not unmarked:
        return earlier
    where = "Only" if len(unmarked) == len(results) else f"In {len(unmarked):,} of {len(results):,} cases, only"
    return f"{earlier}{where} {' or '.join(sorted({*unmarked}))} was measured. "


def _unmarked(result: Any) -> str | None:
    if result.unmarked_query_tokens is None:
        return None
    return unmarked_context(document.name for document in result.documents)


def given(results: Sequence[Any], noun: str = "response") -> list[str]:
    """Of which responses another model would have other numbers; empty where all were drawn."""
    n = sum(not result.response.sampled for result in results)
    responses = f"The {noun} was" if len(results) == 1 else f"{n:,} of {len(results):,} {noun}s were"
    return [GIVEN_RESPONSE.format(responses=responses)] if n else []


def posterior_cell(numbers: Any, prefix: str = "") -> str:
    """A posterior, or the baseline that the signed sum is not above; `prefix` is of the names of both."""
    sure: float | None = getattr(numbers, f"{prefix}posterior")
    if sure is not None:
        return percent(sure)
    return _POSTERIOR_NOTES.get(getattr(numbers, f"{prefix}posterior_note"), NOT_MEASURED)


def model_facts(result: Any) -> dict[str, str]:
    return {
        "Model": result.model,
        "Weights (SHA-256)": result.weights_sha256 or "not recorded",
        "Number type": result.dtype,
        **_self_check(result),
    }


def _self_check(result: Any) -> dict[str, str]:
    """How the case was computed, and how far the run's numbers were from plain passes; nothing where nobody looked."""
    check: SelfCheck | None = result.self_check
    if check is None:
        return {}
    found = "nothing was recomputed"
    if check.rows:
        apart = f"{nats_text(check.nats)}\u00a0nats on average, {nats_text(check.largest_nats)} at most"
        found = f"{check.rows:,} tokens recomputed by plain passes differ by {apart}"
    if check.rounding_nats is not None:
        found += f"; rounding moves a token by {nats_text(check.rounding_nats)}\u00a0nats on average"
    return {"Self-check": f"{found}; this was computed by {check.passes} passes"}


def cost(results: Sequence[Any]) -> str:
    costs = [result.cost for result in results]
    run = sum(case_cost.tree_tokens for case_cost in costs)
    naive = sum(case_cost.naive_tokens for case_cost in costs)
    seconds = sum(case_cost.seconds for case_cost in costs)
    spared = f"{saved(run, naive)} saved against {naive:,} of full prompts"
    return f"{run:,} tree tokens in {seconds:.1f}\u00a0s, {spared}{cost_of_checks(results)}"


def cost_of_checks(results: Sequence[Any]) -> str:
    """Behind the tokens of a run, what its self-checks ran beside them; empty where there were none. Of a few short
    prompts they are many."""
    n_tokens = _n_check_tokens(results)
    run = sum(result.cost.tree_tokens for result in results)
    return f"; self-checks ran {n_tokens:,} more ({100 * n_tokens / run:.1f}\u00a0%)" if n_tokens and run else ""


def cost_of_checks_so_far(result: Any) -> str:
    """Behind the tokens of a case, what self-checks of its run had run by then."""
    n_tokens = _n_check_tokens([result])
    return f"; self-checks of the run so far ran {n_tokens:,} more" if n_tokens else ""


def _n_check_tokens(results: Sequence[Any]) -> int:
    # Each case has those of all before it.
    checks: Iterator[SelfCheck] = (result.self_check for result in results if result.self_check is not None)
    return max((check.tokens or 0 for check in checks), default=0)


def warnings(results: Sequence[Any], noun: str = "queries") -> list[str]:
    """The results' warnings; those that differ only in numbers are one, with their count."""
    by_text: dict[str, list[str]] = {}
    for result in results:
        for warning in result.warnings:
            by_text.setdefault(_NUMBER.sub("", warning), []).append(warning)
    n = len(results)
    return [
        visible(alike[0] if n == 1 else f"In {len(alike):,} of {n:,} {noun}, the first: {alike[0]}")
        for alike in by_text.values()
    ]


def span_of(numbers: Iterable[int]) -> str:
    """'16', or '9 to 16' where they differ."""
    ordered = sorted(numbers)
    return f"{ordered[0]:,}" if ordered[0] == ordered[-1] else f"{ordered[0]:,} to {ordered[-1]:,}"


def saved(n_tokens: int, n_naive_tokens: int) -> str:
    """Share of the tokens of a naive run that are not run."""
    return f"{100 * (1 - n_tokens / n_naive_tokens):.0f}\u00a0%"


def about_seconds(seconds: float) -> str:
    """A predicted time, with the digits that a prediction has: "about 12 s", "about 4 min", "about 2.5 h"."""
    if seconds < 1:
        return "under 1 s"
    if seconds < 100:
        return f"about {seconds:.0f} s"
    if seconds < 100 * 60:
        return f"about {seconds / 60:.{1 if seconds < 600 else 0}f} min"
    return f"about {seconds / 3600:.{1 if seconds < 36_000 else 0}f} h"


@dataclass(frozen=True, slots=True)
class Findings:
    """Of the cases of a run."""

    headline: str = ""
    """One sentence, or several, as the page of the measure has it; empty where the measure says none."""
    summary: Mapping[str, Any] | None = None
    """One object of all cases together, where the measure has one; units stand in the names."""
    figures: Mapping[str, Chart] = field(default_factory=dict)
    """By names that are fit for files."""


def mean_text(values: Sequence[float], clusters: Sequence[Hashable]) -> str:
    """Mean, with its 95 % interval over the cases, or what the values are where it has none; `clusters` are what each
    value is alike within, such as conversations (see `core.quantity.clusters_of`)."""
    interval = interval_of_aggregate(values, "mean", seed=0, clusters=clusters)
    instead = "" if interval is not None else instead_of_interval(values, len(set(clusters)))
    return f"{nats_in(aggregate(values, 'mean'), interval)}\u00a0nats{instead}"


def instead_of_interval(values: Sequence[float], n: int) -> str:
    """' (3.1 to 41: 4 are too few for an interval)' of the values behind a mean that has no interval; of one it is
    empty. `n` of them say something of their own."""
    least, most = min(values), max(values)
    if len(values) == 1 or not (math.isfinite(least) and math.isfinite(most)):
        return ""
    if least == most:
        return " (all are equal: no interval)"
    return f" ({nats_text(least)} to {nats_text(most)}: {n} are too few for an interval)"
