"""Fisher susceptibility: how far contexts would move the answer to a query, from gradients, in nats."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from leakmeter.core.measure import COUNT, MOST, NATS, NATS_PER_SQUARE, Measure, Measurement, Statistic, Statistics
from leakmeter.core.needs import ItemNeeds
from leakmeter.core.prompt import CONTEXT, QUERY, Piece, Prompt
from leakmeter.core.request import (
    NEUTRAL,
    FisherProbes,
    GradientRequest,
    Gradients,
    Sigma,
    TopTokens,
    Trial,
    VectorPlace,
    ask,
    tokens_of,
)
from leakmeter.errors import UnknownNameError, UsageError, WindowError
from leakmeter.instruments.susceptibility.measure import QueryItem
from leakmeter.overriding import override
from leakmeter.stats.fisher import estimated, probes_needed

FisherMethod = Literal["deflated", "sketch", "top-k"]


class FisherStatistics(Statistics):
    fisher = Statistic("fisher", NATS, "½ (tr(I Σ) + μᵀ I μ) of a Σ", per="sigma", over="number")
    spread = Statistic("spread", NATS, "½ tr(I Σ), its first term", per="sigma", over="number")
    drift = Statistic("drift", NATS, "½ μᵀ I μ, its second term", per="sigma", over="number")
    standard_error = Statistic(
        "standard_error", NATS, "of fisher, for other random directions", per="sigma", over="number", undefined=True
    )
    trace = Statistic("trace", NATS_PER_SQUARE, "tr I, of Σ = 1 alone", per="sigma", over="number", optional=True)
    entropy = Statistic("entropy", NATS, "of the next token's distribution", over="number")
    n_probes = Statistic("n_probes", COUNT, "random directions that were taken", over="number", below=MOST)
    n_query_tokens = Statistic("n_query_tokens", COUNT, "tokens of the query", over="number", below=MOST)
    top_mass = Statistic(
        "top_mass", NATS, "log of the probability of the likeliest tokens, of top-k alone", over="number", optional=True
    )


@dataclass(frozen=True, kw_only=True)
class Fisher(Measure):
    """½ (tr(I Σ) + μᵀ I μ), nats: about how far changes Δ of a query's vectors move the next token's distribution.

    Liu et al., "Efficiently Computing Susceptibility to Context in Language Models", Eq. 9. I is the Fisher information
    of the next token about the vectors η of a place; Σ and μ are covariance and mean of Δ. To second order, the first
    term is the mutual information between context and answer, and the second the divergence of the answer without
    context from the mixture over contexts; both together are the expected divergence from the answer without context.
    The paper has the query's input embeddings for η, Σ = 1 and μ = 0, so that its value (Eq. 10) is in units of
    squared embeddings and ranks queries of one model; and keeps the k likeliest answers (Eq. 11).

    Methods, all over the whole vocabulary but the last. `sketch`: random directions v with E v vᵀ = F. `deflated`:
    I found exactly in a subspace that random directions span, and by others outside of it; a probe costs one backward
    pass, a dimension of the subspace two. `top-k`: Eq. 11, which leaves out the other tokens' part. SmolLM2-135M, eight
    short queries, relative error (root mean square) after 24 passes: sketch 11 % (56 % for a single probe), deflated
    with 8 and 8, 5 %; after 48 passes 7.5 and 1.5 %. The 16 likeliest tokens held 26 to 68 % of the trace.
    """

    statistics: ClassVar = FisherStatistics

    method: FisherMethod = "deflated"
    """deflated, sketch or top-k."""
    sigma: tuple[Sigma, ...] = ("identity",)
    """Choice of Σ and μ: identity, as in the paper; embedding, from replacing each token by any token of the
    vocabulary; empirical, from what the contexts do. Several are computed in the same passes."""
    place: str = "query"
    """Vectors that vary: query, the input embeddings of the query's tokens; slot, those of neutral tokens where a
    context would stand; layer:N, the states that enter a layer, from 0, at the query's tokens."""
    probes: int = 8
    """Number of random directions to average over. With a relative error, as many more decide how many are taken."""
    directions: int = 8
    """Number of dimensions in which a deflated estimate is exact."""
    top_k: int = 16
    """Number of answers that top-k keeps."""
    slot_tokens: int = 16
    """Number of tokens of a slot; the length of the longest context, if that is more."""
    relative_error: float | None = None
    """Take probes until the standard error is about this share of the value; None for a fixed number. The probes that
    decide are left out of the estimate: a mean over probes that go on until they agree would be too low."""
    max_probes: int = 256
    """Maximum number of probes for that."""
    seed: int = 0
    """Seed of the random directions."""

    def __post_init__(self) -> None:
        if self.method not in get_args(FisherMethod):
            raise UnknownNameError("method", str(self.method), get_args(FisherMethod))
        sigma: object = self.sigma
        if isinstance(sigma, str) or not self.sigma or len(set(self.sigma)) < len(self.sigma):
            raise UsageError(f"sigma is {sigma!r}; give one or more different names, such as ('identity',)")
        for name in self.sigma:
            if name not in get_args(Sigma):
                raise UnknownNameError("sigma", str(name), get_args(Sigma))
        for field, least in (("probes", 2), ("directions", 1), ("top_k", 1), ("slot_tokens", 1), ("max_probes", 2)):
            if getattr(self, field) < least:
                raise UsageError(f"{field.replace('_', '-')} is {getattr(self, field)}; it has to be {least} or more")
        if self.relative_error is not None and not 0 < self.relative_error < 1:
            raise UsageError(f"relative-error is {self.relative_error}; it has to be above 0 and below 1")
        place = VectorPlace.parse(self.place)
        if "empirical" in self.sigma and place.kind == "query":
            raise UsageError(
                "sigma 'empirical' is zero at place query: a context that stands before a query changes none of its "
                "input embeddings; give place slot or layer:N"
            )
        if "embedding" in self.sigma and place.kind == "layer":
            raise UsageError(
                f"sigma 'embedding' is for input embeddings, and place {self.place} has none; give identity or "
                "empirical"
            )

    @property
    def _is_adaptive(self) -> bool:
        return self.relative_error is not None and self.method != "top-k"

    @override
    def check(self, item: QueryItem) -> None:
        self._request(item, self.probes)

    @override
    def needs(self, item: QueryItem) -> ItemNeeds:
        return ItemNeeds(gradients=self._request(item, self.probes))

    @override
    def trial(self, item: QueryItem) -> Trial[list[Measurement]]:
        request = self._request(item, self.probes)
        (gradients,) = yield from ask([request])
        if self._is_adaptive:
            request = self._request(item, self._enough(gradients.values), first=self.probes)
            (gradients,) = yield from ask([request])
        return list(self._measurements(item, request, gradients))

    def _request(self, item: QueryItem, n_probes: int, first: int = 0) -> GradientRequest:
        if not item.prompt.n_tokens(QUERY):
            raise UsageError(f"case '{item.id}' has no query, which Fisher susceptibility needs")
        place = VectorPlace.parse(self.place)
        is_empirical = "empirical" in self.sigma
        if is_empirical:
            _check_contexts(item)
        n_range = self.directions if self.method == "deflated" else 0
        return GradientRequest(
            self._with_slot(item) if place.kind == "slot" else item.prompt,
            place,
            TopTokens(self.top_k)
            if self.method == "top-k"
            else FisherProbes(n_probes, self.seed, item.id, first=first, n_range=n_range),
            self.sigma,
            item.contexts.prompts if is_empirical else (),
            item.contexts.weights if is_empirical else (),
        )

    def _with_slot(self, item: QueryItem) -> Prompt:
        """The query behind neutral tokens in the place of a context."""
        behind = item.contexts.prompts
        n_tokens = max([self.slot_tokens, *(prompt.n_tokens(CONTEXT) for prompt in behind)])
        slot = Piece("slot", CONTEXT, (NEUTRAL,) * n_tokens)
        pieces = (behind[0] if behind else item.prompt).pieces
        roles = [piece.role for piece in pieces]
        at = roles.index(CONTEXT if behind else QUERY)
        padded = Prompt((*pieces[:at], slot, *(piece for piece in pieces[at:] if piece.role != CONTEXT)))
        if item.window is not None and len(padded.ids) > item.window:
            raise WindowError(
                f"case '{item.id}' has {len(padded.ids):,} tokens with a slot of {n_tokens:,}, and {item.window:,} fit "
                "the model's window; give fewer slot-tokens"
            )
        return padded

    def _enough(self, values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> int:
        """Probes for every Σ to have the relative error, estimated from the first ones."""
        assert self.relative_error is not None
        needed = max(
            probes_needed(estimated(values[:, i], self.probes), self.probes, self.relative_error)
            for i in range(len(self.sigma))
        )
        return int(min(max(2, math.ceil(min(needed, self.max_probes))), self.max_probes))

    def _measurements(self, item: QueryItem, request: GradientRequest, gradients: Gradients) -> Iterator[Measurement]:
        told, n_probes = FisherStatistics, request.directions.n_probes
        for i, sigma in enumerate(self.sigma):
            estimate = estimated(gradients.values[:, i], n_probes)
            yield told.fisher.of(item.id, estimate.value, sigma)
            yield told.spread.of(item.id, estimate.spread, sigma)
            yield told.drift.of(item.id, estimate.drift, sigma)
            yield told.standard_error.of(item.id, estimate.standard_error, sigma)
            if sigma == "identity":
                yield told.trace.of(item.id, 2.0 * estimate.value, sigma)
        yield told.entropy.of(item.id, gradients.entropy)
        yield told.n_probes.of(item.id, n_probes)
        yield told.n_query_tokens.of(item.id, item.prompt.n_tokens(QUERY))
        if self.method == "top-k":
            yield told.top_mass.of(item.id, gradients.log_mass)


def _check_contexts(item: QueryItem) -> None:
    if not item.contexts.prompts:
        raise UsageError(
            f"case '{item.id}' has no contexts, which sigma 'empirical' needs; give some, or another sigma"
        )
    query_ids = item.prompt.ids[tokens_of(item.prompt, QUERY)]
    if any(not np.array_equal(prompt.ids[tokens_of(prompt, QUERY)], query_ids) for prompt in item.contexts.prompts):
        raise UsageError(
            f"case '{item.id}' has different tokens after some contexts than alone and cannot be compared token by "
            "token; give another sigma"
        )
