"""Every response that a measure can draw, with the exact probability of each: fractions of the weights it draws by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from helpers.exact_bounds import whole
from leakmeter.core.drive import drive
from leakmeter.core.request import Trial
from leakmeter.core.tree import Chunk
from leakmeter.stats import exact_draw

Tokens = tuple[int, ...]


class Forced:
    """Stands where tokens are drawn: says the tokens that it is told, and keeps the weights that they were drawn by."""

    def __init__(self, tokens: Tokens, n_vocab: int) -> None:
        self.tokens, self.n_vocab = tokens, n_vocab
        self.masked: list[tuple[int, ...]] = []
        self.weights: list[list[int]] = []

    def draw(self, weights: Any, bits: Any) -> Any:
        """The next of the tokens, for every row; the last row is that of the response."""
        masked, row = self.masked[len(self.weights)], whole(np.asarray(weights)[-1])
        # A rule meets a vocabulary without the tokens that are ruled out; bounded decoding gives them no weight.
        is_short = len(row) < self.n_vocab
        kept = [v for v in range(self.n_vocab) if not (is_short and v in masked)]
        self.weights.append([dict(zip(kept, row, strict=True)).get(v, 0) for v in range(self.n_vocab)])
        likeliest = kept[max(range(len(row)), key=row.__getitem__)]
        token = self.tokens[len(self.weights) - 1] if len(self.weights) <= len(self.tokens) else likeliest
        return np.full((len(weights), 1), kept.index(token))

    def seen(self, chunk: Chunk) -> None:
        """Note what a round rules out."""
        self.masked += [request.reduction.masked for request in chunk.requests if hasattr(request.reduction, "masked")]


def distribution(
    backend: Any,
    trial: Callable[[], Trial[Any]],
    *,
    n_vocab: int,
    stops: Sequence[int],
    longest: int,
    monkeypatch: pytest.MonkeyPatch,
) -> dict[Tokens, Fraction]:
    """Each response of at most so many tokens that can be drawn, and its probability; trials are of one response."""

    def next_weights(tokens: Tokens) -> list[int]:
        forced = Forced(tokens, n_vocab)
        monkeypatch.setattr(exact_draw, "draw", forced.draw)
        drive(backend, [trial()], on_plan=forced.seen)
        assert len(forced.weights) > len(tokens)
        return forced.weights[len(tokens)]

    found: dict[Tokens, Fraction] = {}
    open_: list[tuple[Tokens, Fraction]] = [((), Fraction(1))]
    while open_:
        tokens, probability = open_.pop()
        weights = next_weights(tokens)
        for token, weight in enumerate(weights):
            if not weight:
                continue
            longer, its = (*tokens, token), probability * Fraction(weight, sum(weights))
            if token in stops or len(longer) == longest:
                found[longer] = its
            else:
                open_.append((longer, its))
    return found
