"""What a measure may ask: prompts that share one response, and what to keep of their logits.

A reduction says which rows it needs and how they are reduced where they are: rows of the whole vocabulary stay on the
device (the reductions themselves stand in `core/reductions`). Row t predicts response token t:

    sequence   prompt tokens ...... p_n | y_0   y_1   y_2
    row                              0     1     2     3
    predicts                        y_0   y_1   y_2   (what would come next)

It may ask as well how the next token's distribution moves with the vectors that a model reads:

    vectors of a place   η          input embeddings of some tokens, or the residual states that enter a layer
    logits               z(η)       of the token after the prompt, p = softmax z
    information          I = Jᵀ F J,   J = ∂z/∂η,   F = diag(p) − p pᵀ

A direction v of the logits is carried back to the place: u = Jᵀ v. With directions for which v vᵀ is F on average, or
adds up to it, uᵀ Σ u is tr(I Σ) (Liu et al., "Efficiently Computing Susceptibility to Context in Language Models",
Eq. 9). What travels is one such number a direction and Σ, never u.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar, overload

import numpy as np

from leakmeter.core.prompt import CONTEXT, QUERY, Prompt
from leakmeter.errors import CapabilityError, UsageError
from leakmeter.stats.arrays import FloatArray, IntArray

Sigma = Literal["identity", "embedding", "empirical"]
NEUTRAL: Final = -1
"""Token id of a slot: each back end puts a token there that says little, the same at every place."""


@dataclass(frozen=True, slots=True)
class VectorPlace:
    """Whose vectors vary."""

    kind: Literal["query", "slot", "layer"]
    """query: input embeddings of the query's tokens. slot: those of neutral tokens in a context's place. layer: the
    residual states at the query's tokens."""
    layer: int = 0
    """Number of the layer that the residual states enter, from 0; the first has the input embeddings."""

    @classmethod
    def parse(cls, text: str) -> VectorPlace:
        """'query', 'slot' or 'layer:3'."""
        if text == "query":
            return cls("query")
        if text == "slot":
            return cls("slot")
        match = re.fullmatch(r"layer:([0-9]{1,4})", text)
        if match is None:
            raise UsageError(f"place is '{text}'; it has to be query, slot or layer:N, such as layer:10")
        return cls("layer", int(match[1]))

    def check(self, n_layers: int, model: str) -> None:
        if self.kind == "layer" and self.layer >= n_layers:
            raise CapabilityError(f"place is layer:{self.layer}, and '{model}' has layers 0 to {n_layers - 1}")

    @property
    def role(self) -> str:
        return CONTEXT if self.kind == "slot" else QUERY


@dataclass(frozen=True, slots=True)
class TopTokens:
    """√p_a (e_a − p) of the k likeliest tokens a: their terms of the trace, which add up to less than all of it."""

    k: int

    @property
    def n_exact(self) -> int:
        """Numbers that add up."""
        return self.k

    @property
    def n_probes(self) -> int:
        """Numbers whose mean is added to these."""
        return 0

    @property
    def n_passes(self) -> int:
        return self.k


@dataclass(frozen=True, slots=True)
class FisherProbes:
    """Random v with E v vᵀ = F over the whole vocabulary; of some dimensions, where asked, what is there exactly.

    With n_range > 0 as many probes of their own span a subspace of the place, in which I is found exactly; the others
    see the rest. Both together say tr(I Σ) without bias, whatever the subspace (Meyer et al. 2021, "Hutch++", here with
    F as what is drawn from).
    """

    n_probes: int
    seed: int
    key: str
    """Probes depend on the seed, on this and on their number alone."""
    first: int = 0
    """Number of the first of them."""
    n_range: int = 0

    @property
    def n_exact(self) -> int:
        """Numbers that add up, or fewer where the place has fewer dimensions."""
        return self.n_range

    @property
    def n_passes(self) -> int:
        """Backward passes; what a subspace does to the logits is found by going back through one of them."""
        return self.n_probes + 2 * self.n_range


@dataclass(frozen=True, slots=True)
class GradientRequest:
    """Directions of the logits after one prompt, and what their gradients are weighed with."""

    prompt: Prompt
    """Without gaps in its positions; a slot is a piece of neutral tokens with the role of a context."""
    place: VectorPlace
    directions: TopTokens | FisherProbes
    sigmas: tuple[Sigma, ...]
    """What Σ and μ, covariance and mean of the change Δ of the vectors, are those of. identity: Σ = 1, μ = 0.
    embedding: any token of the vocabulary in the place of each, drawn uniformly and independently. empirical: what the
    contexts do."""
    contexts: tuple[Prompt, ...] = ()
    """The prompt behind each context, its query of the same tokens."""
    weights: tuple[float, ...] = ()
    """Of each context, adding up to 1."""

    @property
    def varied(self) -> IntArray:
        """Indices of the tokens whose vectors vary, (position,)."""
        return tokens_of(self.prompt, self.place.role)

    @property
    def runs_contexts(self) -> bool:
        """Whether the contexts are put through the model: their input embeddings are known without."""
        return "empirical" in self.sigmas and self.place.kind == "layer"

    @property
    def n_tokens(self) -> int:
        """Tokens of its own that go through the layers, forward or backward, which takes about as long."""
        return len(self.prompt.ids) * (1 + self.directions.n_passes)


def tokens_of(prompt: Prompt, role: str) -> IntArray:
    """Indices of a prompt's tokens of a role, (token,)."""
    has_role = [piece.role == role for piece in prompt.pieces for _ in piece.ids]
    return np.flatnonzero(has_role).astype(np.int64)


Needs = Literal["targets", "labels", "top", "rows"]
"""Of a row: the log-probability of its response token, those of a few tokens, the likeliest tokens, or all of it."""


class Reduction(ABC):
    """What to keep of the logits: a pure function of rows, written once against the array API."""

    __slots__ = ()

    @property
    def rows_together(self) -> bool:
        """Whether the rows of all the request's prompts are needed at once."""
        return False

    @property
    def against_first(self) -> bool:
        """Of a reduction of rows together: whether what it keeps of a prompt needs that prompt's rows and the first
        one's alone."""
        return False

    @property
    def continues(self) -> bool:
        """Whether the next round is likely to extend the same sequences, so that their states are worth keeping."""
        return False

    @property
    def needs(self) -> Needs:
        """What it is made of."""
        return "rows"

    @property
    def bare_first(self) -> bool:
        """Whether a guarantee needs the first prompt's rows to be what they are whatever the other prompts say."""
        return False

    @property
    def words(self) -> str:
        """What it keeps, as a refusal names it."""
        return "a response bounded by epsilon" if self.bare_first else words_of_mixture()

    @abstractmethod
    def rows(self, n_response: int) -> range:
        """Indices of the wanted rows for a response of `n_response` tokens."""

    @abstractmethod
    def reduce(self, rows: Any, targets: Any) -> Any:
        """Logits (prompt, row, vocab) and the row's response token (row,) to an array (prompt, row, ...)."""


def words_of_mixture(context_weight: float = 1.0, temperature: float = 1.0) -> str:
    """A distribution of λ and T, as a refusal names it."""
    if context_weight != 1.0:
        return f"λ = {context_weight:g} at T = {temperature:g}"
    return "a distribution over the whole vocabulary" if temperature == 1.0 else f"T = {temperature:g}"


def goes_by_pairs(reduction: Reduction) -> bool:
    """Whether a reduction of rows together needs, of a prompt, its rows and the first prompt's alone."""
    return reduction.rows_together and reduction.against_first


@dataclass(frozen=True, slots=True)
class Request:
    """Prompts scored against one response; their rows are reduced together where the reduction needs it."""

    prompts: tuple[Prompt, ...]
    response: tuple[int, ...]
    reduction: Reduction
    n_single: int = 0
    """Leading tokens of the response each of which goes through the model in a pass of its own, after one that ends
    with the prompt; 0 where passes may be cut anywhere. It moves last digits alone."""

    def __post_init__(self) -> None:
        if not isinstance(self.reduction, Reduction):
            raise UsageError(
                f"a request's reduction is a {type(self.reduction).__name__}; its class has to inherit "
                "leakmeter.core.request.Reduction"
            )

    @property
    def rows(self) -> range:
        return self.reduction.rows(len(self.response))

    @property
    def targets(self) -> IntArray:
        """The response token of each wanted row; any where the row is behind the response, (row,)."""
        return np.asarray([*self.response, 0][self.rows.start : self.rows.stop], dtype=np.int64)

    def ends(self, prompt: Prompt) -> tuple[int, ...]:
        """Numbers of leading tokens of the prompt and the response after which a pass has to end, before the last."""
        if not self.n_single:
            return ()
        n = len(prompt.ids)
        return tuple(range(n, min(n + self.n_single + 1, n + max(self.rows.stop - 1, 0))))


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


@dataclass(frozen=True, slots=True)
class Responses:
    """The answer to a request for draws."""

    drawn: tuple[tuple[int, ...], ...]
    """Token ids of each response, the stop token with it."""


@dataclass(frozen=True, slots=True)
class Gradients:
    """The answer to a request for gradients."""

    values: FloatArray
    """(number, Σ, 2). The last axis holds tr(I Σ) and μᵀ I μ, nats: as numbers that add up, as many as the request's
    `n_exact` or fewer, then as one unbiased number a probe of what is left, whose mean is to be added."""
    entropy: float
    """Of the next token's distribution at the place as it is, nats."""
    log_mass: float
    """Log of the probability of the tokens whose directions were taken, nats; 0 where it was all of them."""


Asked = Request | GradientRequest | DrawRequest
T = TypeVar("T")
Trial = Generator[Sequence[Asked], list[Scores], T]
"""A measure at work on one item: yields requests, is sent their answers, returns what it found.

Requests for draws stand in a round of their own. A round that asks for draws, or for pieces to be hidden, of a back end
that does not do so raises a `CapabilityError` where it was yielded; the trial may then ask for something else.
"""


@overload
def ask(requests: Sequence[Request]) -> Trial[list[Scores]]: ...
@overload
def ask(requests: Sequence[DrawRequest]) -> Trial[list[Responses]]: ...
@overload
def ask(requests: Sequence[GradientRequest]) -> Trial[list[Gradients]]: ...
def ask(requests: Sequence[Any]) -> Any:
    """A round of requests of one kind, as part of a trial; returns answers of the kind that belongs to it. Of scores, a
    plain `yield` does the same."""
    return (yield requests)
