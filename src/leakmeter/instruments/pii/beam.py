"""Beam search: the likeliest continuations of several prompts that a bounded look ahead finds.

The rules are those of `generate(num_beams=width, do_sample=False, early_stopping=False)` in transformers 5, so that
results are those of others. A score is not a likelihood: it is divided by the length.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import dataclass, field

from leakmeter.core.prompt import Prompt
from leakmeter.core.reductions import Top
from leakmeter.core.request import Request, Scores


@dataclass(frozen=True, slots=True)
class Beam:
    """A continuation."""

    tokens: tuple[int, ...]
    """Token ids, without the stop token."""
    log_prob: float
    """Of the tokens and of the stop token where there is one, nats."""
    score: float
    """The same over the number of these tokens: what beams are ordered by."""
    finished: bool
    """Whether a stop token ended it, rather than the limit of tokens."""


def beam_search(
    prompts: Sequence[Prompt], *, width: int, max_new_tokens: int, stop_ids: Collection[int]
) -> Generator[list[Request], list[Scores], list[list[Beam]]]:
    """Continue each prompt by beam search; all advance together, and a width of 1 is greedy.

    In each round the max(2, 1 + number of stop tokens) · width likeliest continuations by one token of the live beams
    are looked at. Those among the first `width` that end in a stop token are finished, and the first `width` of those
    that do not live on. A prompt is done when `width` beams are finished and the likeliest live one, if it ended here,
    would be no better than the worst of them, which is no proof that none would become better (`early_stopping=False`);
    or after `max_new_tokens`, the stop token included, when live beams count as they are.

    Ties go to the better beam and then to the lowest id. Beams of probability 0 are left out, so that there may be
    fewer than `width` a prompt; the best is first. Longer beams are preferred to what their likelihoods say.
    """
    stops = frozenset(stop_ids)
    searches = [_Search(width, stops) for _ in prompts]
    reduction = candidates(width, stops)
    live = list(zip(prompts, searches, strict=True))
    for n_tokens in range(1, max_new_tokens + 1):
        # One request a beam: beams share their prompt's states, and each round runs one new token of each.
        scores = iter((yield [Request((prompt,), ids, reduction) for prompt, search in live for ids, _ in search.live]))
        for _, search in live:
            search.advance(scores, reduction.k, is_last=n_tokens == max_new_tokens)
        live = [(prompt, search) for prompt, search in live if search.live]
        if not live:
            break
    return [search.ended for search in searches]


def candidates(width: int, stop_ids: Collection[int]) -> Top:
    """What a search keeps of each row."""
    return Top(max(2, 1 + len(frozenset(stop_ids))) * width)


@dataclass(slots=True)
class _Search:
    width: int
    stops: frozenset[int]
    live: list[tuple[tuple[int, ...], float]] = field(default_factory=lambda: [((), 0.0)])
    """Tokens and log-probability of each beam, the likeliest first; none once the search is done."""
    ended: list[Beam] = field(default_factory=list)
    """The best so far, in order."""

    def advance(self, scores: Iterator[Scores], n_candidates: int, *, is_last: bool) -> None:
        candidates = [
            ((*ids, int(token)), total + float(log_prob))
            for ids, total in self.live
            for token, log_prob in next(scores).values[0, 0]
            if log_prob > -float("inf")
        ]
        # Stable, as both sorts are: ties go to what came first.
        candidates = sorted(candidates, key=lambda candidate: -candidate[1])[:n_candidates]
        for ids, total in candidates[: self.width]:
            finished = ids[-1] in self.stops
            if finished or is_last:
                self.ended.append(Beam(ids[:-1] if finished else ids, total, total / len(ids), finished))
        self.ended = sorted(self.ended, key=lambda beam: -beam.score)[: self.width]
        self.live = [(ids, total) for ids, total in candidates if ids[-1] not in self.stops][: self.width]
        if len(self.ended) == self.width and self.live:
            ids, total = self.live[0]
            is_last = is_last or total / len(ids) <= self.ended[-1].score
        if is_last:
            self.live = []
