"""What a measure may ask: prompts that share one response, and what to keep of their logits.

A reduction says which rows it needs and how they are reduced where they are: rows of the whole vocabulary stay on the
device (the reductions themselves stand in `core/reductions`). Row t predicts response token t:

    sequence   prompt tokens ...... p_n | y_0   y_1   y_2
    row                              0     1     2     3
    predicts                        y_0   y_1   y_2   (what would come next)
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from leakmeter.core.gradient import GradientRequest
from leakmeter.core.prompt import IntArray, Prompt

FloatArray = npt.NDArray[np.float64]


@runtime_checkable
class Reduction(Protocol):
    """What to keep of the logits: a pure function of rows, written once against the array API."""

    @property
    def rows_together(self) -> bool:
        """Whether the rows of all the request's prompts are needed at once.

        A reduction of which that is so may say by `against_first` that what it keeps of a prompt needs that prompt's
        rows and the first one's alone; others are not asked for it.
        """

    @property
    def continues(self) -> bool:
        """Whether the next round is likely to extend the same sequences, so that their states are worth keeping."""

    def rows(self, n_response: int) -> range:
        """Indices of the wanted rows for a response of `n_response` tokens."""

    def reduce(self, rows: Any, targets: Any) -> Any:
        """Logits (prompt, row, vocab) and the row's response token (row,) to an array (prompt, row, ...)."""


Needs = Literal["targets", "labels", "top", "rows"]
"""Of a row: the log-probability of its response token, those of a few tokens, the likeliest tokens, or all of it."""


def needs(reduction: Reduction) -> Needs:
    """What a reduction is made of: whole rows, unless it says by `needs` that less will do."""
    needed: Needs = getattr(reduction, "needs", "rows")
    return needed


def bounded_by_top(reduction: Reduction) -> bool:
    """Whether the likeliest tokens of rows, and the response's, bound what a reduction that needs whole rows keeps."""
    return bool(getattr(reduction, "bounded_by_top", False))


def bare_first(reduction: Reduction) -> bool:
    """Whether a guarantee needs the first prompt's rows to be what they are whatever the other prompts say."""
    return bool(getattr(reduction, "bare_first", False))


def goes_by_pairs(reduction: Reduction) -> bool:
    """Whether a reduction of rows together needs, of a prompt, its rows and the first prompt's alone."""
    return reduction.rows_together and bool(getattr(reduction, "against_first", False))


@dataclass(frozen=True, slots=True)
class Request:
    """Prompts scored against one response; their rows are reduced together where the reduction needs it."""

    prompts: tuple[Prompt, ...]
    response: tuple[int, ...]
    reduction: Reduction
    interval_noise_nats: float | None = None
    """Where the values cannot be had, middles of intervals will do, with half their widths beside them
    (`Scores.half_width`): of log-probabilities that may be off by this much, nats. None where only the values will."""
    is_others: bool = False
    """Whether another trial asks for the same, of whose prompts it is: no cost of this one's."""

    @property
    def rows(self) -> range:
        return self.reduction.rows(len(self.response))

    @property
    def targets(self) -> IntArray:
        """The response token of each wanted row; any where the row is behind the response, (row,)."""
        return np.asarray([*self.response, 0][self.rows.start : self.rows.stop], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class DrawRequest:
    """Responses drawn whole where the model is, token by token from softmax(z / T) of the whole vocabulary."""

    prompt: Prompt
    temperature: float
    max_new_tokens: int
    seeds: tuple[int, ...]
    """One a response."""
    stop_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class Scores:
    values: FloatArray
    """What the reduction keeps: (prompt, row, ...), nats."""
    half_width: FloatArray | None = field(default=None, kw_only=True)
    """Most that each of the values may be off, nats, of their shape; None where they are what they are."""


@dataclass(frozen=True, slots=True)
class Responses(Scores):
    """The answer to a request for draws; its values are empty."""

    drawn: tuple[tuple[int, ...], ...] = ()
    """Token ids of each response, the stop token with it; none where responses are to be drawn by `NextTokenSample`."""


@dataclass(frozen=True, slots=True)
class Gradients(Scores):
    """The answer to a request for gradients; its values are (number, Σ, 2).

    The last axis holds tr(I Σ) and μᵀ I μ, nats: as numbers that add up, as many as the request's `n_exact` or fewer,
    then as one unbiased number a probe of what is left, whose mean is to be added.
    """

    entropy: float
    """Of the next token's distribution at the place as it is, nats."""
    log_mass: float
    """Log of the probability of the tokens whose directions were taken, nats; 0 where it was all of them."""


Asked = Request | GradientRequest | DrawRequest
T = TypeVar("T")
Trial = Generator[Sequence[Asked], list[Scores], T]
"""A measure at work on one item: yields requests, is sent their answers (`Gradients` to a request for gradients,
`Responses` to requests for draws, which no others stand beside), returns what it found. A back end that cannot hide
pieces answers a round in which some are hidden with scores that are empty, all of them."""
