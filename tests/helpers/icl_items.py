"""Few-shot items built by hand, and ICL influence by enumeration: full prompts, one pass each, nothing shared."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from helpers.naive import log_softmax
from leakmeter.core.drive import drive
from leakmeter.core.item import Span
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.instruments.icl.measure import ExemplarItem, Icl

Series = dict[tuple[str, str], np.ndarray]
Logits = Callable[[Sequence[int]], np.ndarray]
"""Token ids to the logits of what comes next, (vocab,)."""

LABELS = {
    "first-token": ((3,), (11, 5), (7,)),
    # Two begin with the same token.
    "whole-sequence": ((3,), (11, 5), (11, 6, 2)),
}
WORDS = ("news", "sport", "trade")


def icl_item(
    n_vocab: int,
    *,
    seed: int = 0,
    lengths: Sequence[int] = (4, 1, 6),
    labels: Sequence[tuple[int, ...]] = LABELS["first-token"],
    gold: int | None = 1,
    id_: str = "hand",
    instruction: Sequence[int] = (1, 2, 3),
) -> ExemplarItem:
    """An item of random exemplars of these many tokens, before a random query."""
    rng = np.random.default_rng(seed)

    def ids(n: int) -> tuple[int, ...]:
        return tuple(int(i) for i in rng.integers(0, n_vocab, size=n))

    opening = Piece("opening", "frame", tuple(instruction))
    exemplars = [Piece(f"e{i}", "context", ids(n)) for i, n in enumerate(lengths, 1)]
    heading, answer = Piece("heading", "frame", (4, 9)), Piece("answer", "frame", (8, 6))

    def prompt(query: tuple[int, ...]) -> Prompt:
        asked = (Piece("query", "query", query),) if query else ()
        return Prompt((opening, *exemplars, heading, *asked, answer))

    def sets(query: tuple[int, ...]) -> dict[str, Prompt]:
        whole = prompt(query)
        return {"": whole, **{piece.name: whole.without(piece.name) for piece in exemplars}}

    cuts = sets(ids(5))
    whole = cuts.pop("")
    words = WORDS[: len(labels)] if len(labels) <= len(WORDS) else tuple(f"label {i}" for i in range(len(labels)))
    starts = np.cumsum([0, *(n + 2 for n in lengths)])
    return ExemplarItem(
        id=id_,
        prompt=whole,
        spans=tuple(
            Span(piece.name, "unit", ((int(a), int(a) + len(piece.ids)),), (piece.name,), f"x{i}", len(piece.ids))
            for i, (piece, a) in enumerate(zip(exemplars, starts, strict=False))
        ),
        cuts=cuts,
        alone={piece.name: whole.only(piece.name) for piece in exemplars},
        blank=whole.blank(),
        placebos=(),
        response=None,
        labels=words,
        label_ids=tuple(labels),
        gold=gold,
        content_free={"blank": sets(()), "n/a": sets((10, 2))},
    )


def readings_of(backend: object, measure: Icl, item: ExemplarItem) -> Series:
    """(statistic, piece) to values."""
    (measurements,), _ = drive(backend, [measure.trial(item)])  # type: ignore[arg-type]
    series = {(r.statistic, r.piece): r.values for r in measurements}
    assert len(series) == len(measurements)
    assert {(r.item, r.sample) for r in measurements} == {(item.id, 0)}
    return series


class ByHand:
    """log A(S, x) of a prompt, label by label and token by token, by one full pass for each token."""

    def __init__(self, logits: Logits, measure: Icl, item: ExemplarItem) -> None:
        self.logits, self.measure, self.item = logits, measure, item
        self._known: dict[tuple[int, ...], list[float]] = {}

    def next_token(self, ids: Sequence[int]) -> list[float]:
        """log softmax(z / T) of what comes next, entry by entry."""
        key = tuple(ids)
        if key not in self._known:
            self._known[key] = log_softmax(z / self.measure.temperature for z in self.logits(ids))
        return self._known[key]

    def label(self, ids: Sequence[int], label: tuple[int, ...]) -> float:
        taken = label if self.measure.label_scoring == "whole-sequence" else label[:1]
        return math.fsum(self.next_token([*ids, *taken[:i]])[token] for i, token in enumerate(taken))

    def probabilities(self, prompt: Prompt) -> list[float]:
        """Of the labels, which alone have any."""
        p = [math.exp(self.label(prompt.ids.tolist(), label)) for label in self.item.label_ids]
        return [one / math.fsum(p) for one in p]

    def log_probs(self, name: str = "") -> np.ndarray:
        """log A without an exemplar, calibrated if asked: (label,)."""
        p = self.probabilities(self.item.cuts[name] if name else self.item.prompt)
        kinds = {None: (), "blank": ("blank",), "n/a": ("n/a",), "average": ("blank", "n/a")}[self.measure.calibration]
        if kinds:
            key = name if self.measure.calibration_baseline == "own" else ""
            each = [self.probabilities(self.item.content_free[kind][key]) for kind in kinds]
            content_free = [math.fsum(column) / len(each) for column in zip(*each, strict=True)]
            weighted = [a / (b + self.measure.calibration_epsilon) for a, b in zip(p, content_free, strict=True)]
            p = [one / math.fsum(weighted) for one in weighted]
        return np.log(p)

    def loss(self, name: str) -> np.ndarray:
        """log A(S, x)(y) − log A(S∖i, x)(y): (label,)."""
        return self.log_probs() - self.log_probs(name)

    def farthest(self, name: str, least: float = 0.0) -> tuple[int, float, float]:
        """The token with the largest |log p₀ − log p| of those that one gives `least` or more, and both log p."""
        p0, p = self.next_token(self.item.prompt.ids.tolist()), self.next_token(self.item.cuts[name].ids.tolist())
        allowed = [v for v in range(len(p)) if max(math.exp(p0[v]), math.exp(p[v])) >= least]
        token = max(allowed, key=lambda v: abs(p0[v] - p[v]))
        return token, p0[token], p[token]
