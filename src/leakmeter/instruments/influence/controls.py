"""What contexts of other cases do to a response that was not written from them.

A disclosure is held against the one context that does most to it, or against none. Where it begins and ends is decided
token by token, by whichever context raised each most (`most_of`). Held against the mixture of all, a response begins as
if each were as likely as another, and its first words of style count as its own (docs/results/controls.md).

Each control is a case in which nothing can have been disclosed: the rule of disclosures, applied to it as if it were
the context that was read, counts false alarms (`ControlContext`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

import numpy as np

from leakmeter.core.quantity import CaseResult
from leakmeter.core.record import Record, Unbounded
from leakmeter.stats.arrays import FloatArray
from leakmeter.stats.ranks import discoveries
from leakmeter.stats.stats import share_at_most

FALSE_SHARE: Final = 0.1
"""Of the responses that a list has for spans in other words, how many may be expected to be false."""
LEAST_PAIRS: Final = 19
"""Pairs of a response and a context of another case with which the smallest p value is 0.05: with fewer no list is
cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlContext(Record):
    """The context of another case, and what the rule of disclosures says of it: a false alarm, if anything."""

    case: str = field(repr=False)
    """Id of the case whose context it is."""
    nats: Unbounded
    """Signed influence of the other case's context D' on the response, nats: Σ_t log p̄(y_t | D') − log p̄(y_t | ∅)."""
    disclosures: int
    """Number of spans that the rule would have called disclosures of the other case's context."""
    worst_nats: Unbounded
    """Largest amount by which the context raises a span of content beyond what the other controls do to it, nats; 0
    where no span stands out."""


def controls_of(cases: Iterable[CaseResult]) -> list[ControlContext]:
    """Those of all cases, one after another, without those that were asked for because of what was found: they are no
    sample of what other contexts do."""
    return [control for case in cases if _is_sampled(case) for control in case.controls]


def _is_sampled(case: CaseResult) -> bool:
    return case.steps is None or case.steps.in_control_sample


def most_of(controls: Sequence[FloatArray] | FloatArray, n_tokens: int) -> FloatArray:
    """The most that a control, or no context, does to each token, nats, (token,): 0 or more; 0 without controls.

    Args:
        controls: log p(y_t | D_k) − log p(y_t | ∅) of each, (token,), finite.
        n_tokens: of the response.
    """
    most: FloatArray = np.max([np.zeros(n_tokens), *controls], axis=0)
    return most


@dataclass(frozen=True, slots=True, kw_only=True)
class FalseAlarms(Record):
    """How often the rule of disclosures finds something where nothing can have been disclosed."""

    pairs: int
    """Number of pairs of a response and a context that it was not written from."""
    alarms: int
    """Number of pairs in which the rule would have called some span a disclosure."""
    share: float
    share_at_most: float
    """Upper limit of the share, with 95 % confidence, by Clopper and Pearson, with each response as one observation:
    its pairs may all be alarms for the same words."""

    @classmethod
    def of(cls, cases: Iterable[CaseResult]) -> Self | None:
        """None without controls."""
        sampled = [case for case in cases if case.controls and _is_sampled(case)]
        alarms = [[control.disclosures > 0 for control in case.controls] for case in sampled]
        if not alarms:
            return None
        n, hits = sum(map(len, alarms)), sum(map(sum, alarms))
        shares = [sum(of_case) / len(of_case) for of_case in alarms]
        return cls(pairs=n, alarms=hits, share=hits / n, share_at_most=share_at_most(sum(shares), len(shares)))


def p_values(own_nats: Sequence[float], controls: Sequence[ControlContext]) -> list[float]:
    """Of the best spans of responses, with so many nats of their own: the share of pairs of a response and a foreign
    context, the response's own pair among them, that have a span with as many; 1 of each without controls. A pair
    counts by its best span, whatever its length: long responses have more spans that may be best."""
    worst = np.sort([control.worst_nats for control in controls])
    above = len(worst) - np.searchsorted(worst, own_nats, side="left")
    return [float(p) for p in (1 + above) / (1 + len(worst))]


@dataclass(frozen=True, slots=True)
class ListCut:
    """From how many nats on spans in other words are listed, and what that says of the list."""

    least_nats: float
    """Own nats of the weakest span that is listed; 0 where the list is not cut."""
    false_responses: float | None
    """How many responses would be listed by chance alone, if none of all disclosed anything; None where the list is not
    cut."""
    is_bounded: bool
    """Whether at most `FALSE_SHARE` of the responses that are listed is expected to be false."""

    @classmethod
    def of(cls, best_nats: Sequence[float], controls: Sequence[ControlContext]) -> Self:
        """The cut of a list.

        Every response that was searched is a hypothesis, also one that has no such span: a list of those alone that
        passed the floor would have been chosen by what it is tested for. Benjamini and Hochberg's rule cuts it. A list
        of fewer than about three responses never passes, since no p value is below one in the number of pairs: then
        what has more nats than any foreign context is listed, and how much of that chance makes is said.

        Args:
            best_nats: own nats of the best span in other words of each response; 0 of one without.
            controls: of all pairs of a response and a foreign context.
        """
        if len(controls) < LEAST_PAIRS:
            return cls(0.0, None, False)
        ps = p_values(best_nats, controls)
        kept = [nats for nats, is_kept in zip(best_nats, discoveries(ps, FALSE_SHARE), strict=True) if is_kept]
        if kept:
            return cls(min(kept), len(ps) * p_values([min(kept)], controls)[0], True)
        most = max(control.worst_nats for control in controls)
        return cls(float(np.nextafter(most, np.inf)), len(ps) / (1 + len(controls)), False)
