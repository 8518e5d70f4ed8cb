"""Queries behind contexts built by hand, and their susceptibility by enumeration: full prompts, one pass each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from helpers.naive import log_softmax
from leakmeter.core.drive import drive
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.instruments.susceptibility.measure import ContextSet, QueryItem, Susceptibility

Series = dict[str, np.ndarray]
Logits = Callable[[Sequence[int]], np.ndarray]
"""Token ids to the logits of what comes next, (vocab,)."""
ANSWERS = (((3,), (11, 5)), ((11, 6, 2), (7,)))
"""Two answers of two forms each; forms of different answers begin with the same token."""


def query_item(
    n_vocab: int,
    *,
    seed: int = 0,
    lengths: Sequence[int] = (4, 1, 6, 3, 5),
    weights: Sequence[float] | None = None,
    answers: tuple[tuple[tuple[int, ...], ...], ...] = (),
    id_: str = "hand",
    stop_ids: frozenset[int] = frozenset(),
) -> QueryItem:
    """An item of random contexts of these many tokens, before a random query."""
    rng = np.random.default_rng(seed)

    def ids(n: int) -> tuple[int, ...]:
        return tuple(int(i) for i in rng.integers(0, n_vocab, size=n))

    start, separator = Piece("start", "frame", (1,)), Piece("separator", "frame", (2,))
    query = Piece("query", "query", ids(5))
    bare = Prompt((start, query))
    raw = [1.0] * len(lengths) if weights is None else list(weights)
    contexts = ContextSet(
        prompts=tuple(Prompt((start, Piece("context", "context", ids(n)), separator, query)) for n in lengths),
        weights=tuple(weight / math.fsum(raw) for weight in raw), answers=answers,
    )  # fmt: skip
    return QueryItem(id=id_, prompt=bare, response=None, stop_ids=stop_ids, contexts=contexts)


def readings_of(backend: object, measure: Susceptibility, item: QueryItem) -> Series:
    """Statistic to values, of all that is no response."""
    (measurements,), _ = drive(backend, [measure.trial(item)])  # type: ignore[arg-type]
    series = {r.statistic: r.values for r in measurements if r.statistic != "token"}
    assert len(series) == sum(r.statistic != "token" for r in measurements)
    assert {(r.item, r.piece) for r in measurements} == {(item.id, "")}
    return series


class ByHand:
    """What contexts do to a query, sum by sum, by one full pass for each token."""

    def __init__(self, logits: Logits, measure: Susceptibility, item: QueryItem) -> None:
        assert item.contexts is not None
        self.logits, self.measure, self.item, self.contexts = logits, measure, item, item.contexts
        self.bare = self.outcomes(item.prompt)
        self.behind = [self.outcomes(prompt) for prompt in item.contexts.prompts]
        self.weights = list(item.contexts.weights)

    def next_token(self, ids: Sequence[int]) -> list[float]:
        """softmax(z / T) of what comes next."""
        return [math.exp(p) for p in log_softmax(z / self.measure.temperature for z in self.logits(ids))]

    def outcomes(self, prompt: Prompt) -> list[float]:
        """Probability of each token, or of each answer and the rest."""
        ids = prompt.ids.tolist()
        if not self.contexts.answers:
            return self.next_token(ids)
        p = [math.fsum(self.form(ids, form) for form in forms) for forms in self.contexts.answers]
        return [*p, 1 - math.fsum(p)]

    def form(self, ids: Sequence[int], form: Sequence[int]) -> float:
        return math.prod(self.next_token([*ids, *form[:i]])[token] for i, token in enumerate(form))

    @staticmethod
    def kl(p: Sequence[float], q: Sequence[float]) -> float:
        """KL(p ‖ q), nats."""
        return math.fsum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a > 0)

    @staticmethod
    def entropy(p: Sequence[float]) -> float:
        """Nats."""
        return -math.fsum(a * math.log(a) for a in p if a > 0)

    def kept(self, left_out: int | None) -> list[tuple[float, list[float]]]:
        """Weights and outcomes of all contexts or of all but one."""
        kept = [(w, p) for i, (w, p) in enumerate(zip(self.weights, self.behind, strict=True)) if i != left_out]
        total = math.fsum(w for w, _ in kept)
        return [(w / total, p) for w, p in kept]

    def mixture(self, left_out: int | None = None) -> list[float]:
        """p̂."""
        return [math.fsum(w * p[v] for w, p in self.kept(left_out)) for v in range(len(self.bare))]

    def susceptibility(self, left_out: int | None = None) -> float:
        mixture = self.mixture(left_out)
        return math.fsum(w * self.kl(p, mixture) for w, p in self.kept(left_out))

    def series(self) -> Series:
        """Every statistic but the noise."""
        mixture = self.mixture()
        from_bare = [self.kl(p, self.bare) for p in self.behind]
        one = {
            "susceptibility": self.susceptibility(),
            "from_bare": math.fsum(w * nats for w, nats in zip(self.weights, from_bare, strict=True)),
            "mixture_from_bare": self.kl(mixture, self.bare),
            "mixture_entropy": self.entropy(mixture),
            "bare_entropy": self.entropy(self.bare),
            "ceiling": self.entropy(self.weights),
        }
        return {
            "persuasion": np.asarray([self.kl(p, mixture) for p in self.behind]),
            "persuasion_from_bare": np.asarray(from_bare),
            "susceptibility_without": np.asarray([self.susceptibility(i) for i in range(len(self.behind))]),
            **{name: np.asarray([value]) for name, value in one.items()},
        }
