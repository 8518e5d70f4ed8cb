"""What contexts of other cases do to a response that was not written from them.

`mixture` is what disclosures are held against: a response is explained by a control as far as the mixture of the bare
prompt and of all controls, each weighted by how well it explained the response so far, raises its tokens. Over a whole
response it is the Bayes factor log mean_k p(y | D_k) − log p(y | ∅) of a reader who does not know which context was
there, only that it was none of this case.

Each control is a case in which nothing can have been disclosed: the rule of disclosures, applied to it as if it were
the context that was read, counts false alarms (`ControlContext`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

import numpy as np

from leakmeter.core.record import Record, Unbounded
from leakmeter.stats.arrays import FloatArray
from leakmeter.stats.ranks import discoveries
from leakmeter.stats.stats import share_at_most

FALSE_SHARE: Final = 0.1
"""Of a list of spans in other words, how much may be expected to be false."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlContext(Record):
    """The context of another case, and what the rule of disclosures says of it: a false alarm, if anything."""

    case: str = field(repr=False)
    """Id of the case whose context it is."""
    nats: Unbounded
    """Σ_t log p̄(y_t | D') − log p̄(y_t | ∅) over the response."""
    disclosures: int
    """Spans that would have been called disclosures of it."""
    worst_nats: Unbounded
    """Most nats of a span of content beyond what the other controls do to it; 0 where no span stands out."""


def mixture(controls: Sequence[FloatArray], n_tokens: int) -> FloatArray:
    """What a mixture of the bare prompt and the controls does to each token, nats, (token,).

    log Σ_k w_k(t) p(y_t | D_k, y_<t) − log p(y_t | ∅, y_<t), where D_0 is no context, and w_k(t) is the posterior
    of D_k given the tokens before, from equal odds. 0 without controls.

    Args:
        controls: log p(y_t | D_k) − log p(y_t | ∅) of each, (token,), finite.
        n_tokens: of the response.

    Examples:
        >>> mixture([], 2).tolist()
        [0.0, 0.0]
        >>> mixture([np.log([3.0, 1.0])], 2).round(3).tolist()
        [0.693, 0.0]
    """
    if not controls:
        return np.zeros(n_tokens)
    rows = np.vstack([np.zeros(n_tokens), *controls])
    so_far = np.cumsum(np.pad(rows, ((0, 0), (1, 0)))[:, :-1], axis=1)
    weights = so_far - np.logaddexp.reduce(so_far, axis=0)
    mixed: FloatArray = np.logaddexp.reduce(weights + rows, axis=0)
    return mixed


@dataclass(frozen=True, slots=True, kw_only=True)
class FalseAlarms(Record):
    """How often the rule of disclosures finds something where nothing can have been disclosed."""

    pairs: int
    """Pairs of a response and a context that it was not written from."""
    alarms: int
    """Pairs of which the rule would have called some span a disclosure."""
    share: float
    share_at_most: float
    """With 95 % confidence, by Clopper and Pearson, as if pairs were independent."""

    @classmethod
    def of(cls, controls: Iterable[ControlContext]) -> Self | None:
        """None without controls."""
        alarms = [control.disclosures > 0 for control in controls]
        if not alarms:
            return None
        n, hits = len(alarms), sum(alarms)
        return cls(pairs=n, alarms=hits, share=hits / n, share_at_most=share_at_most(hits, n))


def p_values(own_nats: Sequence[float], controls: Sequence[ControlContext]) -> list[float]:
    """Of spans with so many nats of their own: the share of pairs of a response and a foreign context, the span's own
    pair among them, that have a span with as many; 1 of each without controls."""
    worst = np.sort([control.worst_nats for control in controls])
    above = len(worst) - np.searchsorted(worst, own_nats, side="left")
    return [float(p) for p in (1 + above) / (1 + len(worst))]


def told_apart(own_nats: Sequence[float], controls: Sequence[ControlContext]) -> list[bool]:
    """Which of these spans belong to a list of which at most `FALSE_SHARE` is expected to be false; all without
    controls, with which nothing can be said."""
    return discoveries(p_values(own_nats, controls), FALSE_SHARE) if controls else [True] * len(own_nats)
