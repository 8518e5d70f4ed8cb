"""How much a score moves when nothing but its neighbours changes: the floor below which a measurement is no finding.

Floating-point sums depend on how work is cut: a sequence run in one piece, forked from another after some tokens, or
taken further token by token gives logits that differ in their last digits. The same request is scored in two such ways
on purpose; influence is measured between sequences that were cut as differently. Only a sample of a run's cases does so
where `Item.measures_noise` says so (`core.noise_sample`); the others have the noise of these
(`core.self_check.carried`).

Of a served model nobody here says how work is cut: a run measures once how far a log-probability moves with the way of
asking (`Item.model_noise_nats`), and `of_contrast` says what that makes to a measurement.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Final

import numpy as np

from leakmeter.core.item import ContextItem
from leakmeter.core.prompt import CONTEXT, Prompt
from leakmeter.core.reductions import MixtureLogProbs, PartialRows, TargetLogProbs
from leakmeter.core.request import Request, Scores
from leakmeter.stats.arrays import FloatArray

_SINGLE_TOKENS: Final = 3
"""Tokens of the response that are run one at a time. A product of one row or two is another routine than one of many,
which give every row the same digits: without such passes, a short context showed a floor of 0 where drawing the same
text differed by 3e-5 nats a token. What comes after sees these tokens, so that three move the response by 0.6
to 0.9 of what all would (float32 on a CPU, five texts)."""


def neighbourhood_noise(
    item: ContextItem,
    response: tuple[int, ...],
    reduction: TargetLogProbs | MixtureLogProbs,
    scores: FloatArray,
    begun: FloatArray | None = None,
) -> Generator[list[Request], list[Scores], FloatArray | None]:
    """Largest difference, in nats, that neighbourhoods make to a contrast of each response token: (response,); None
    where the run has other cases measure it. The differences of the full prompt and of the bare one are added up.
    `scores` are those of the bare prompt and the full one, (2, response); `begun` is the result of `token_by_token`, if
    there is one already."""
    if not item.measures_noise:
        return None
    if item.model_noise_nats is not None:
        return np.full(len(response), of_contrast(item.model_noise_nats, reduction))
    prompts = (item.blank, item.prompt)
    # Where tokens are many, the neighbours part late: their common start is run once.
    forked = yield from _forked(item, response, reduction, prompts, 4 if begun is None else 4 / 3)
    if begun is None:
        begun = yield from _single_tokens(item, response, reduction)
    spread: FloatArray = np.max([np.abs(other - scores).sum(axis=0) for other in (forked, begun)], axis=0)
    return spread


def of_contrast(model_nats: float, reduction: TargetLogProbs | MixtureLogProbs) -> float:
    """What noise makes at most to the difference of two log-probabilities of a token, nats.

    Both may be off, each to its side. Where a distribution is made of rows, their logits are off by λ and 1 − λ times
    the noise, divided by T, and what normalises them is off by as much again.

    Examples:
        >>> of_contrast(0.01, TargetLogProbs())
        0.02
    """
    weight = reduction.context_weight
    if weight == reduction.temperature == 1.0:
        return 2.0 * model_nats
    return 2.0 * 2.0 * (abs(weight) + abs(1.0 - weight)) / reduction.temperature * model_nats


def going_on(prompt: Prompt) -> Request:
    """The prompt's last token as a response that the next round extends, so that its states are kept."""
    *before, last = (piece for piece in prompt.pieces if piece.ids)
    shorter = Prompt((*before, replace(last, ids=last.ids[:-1])))
    return Request((shorter,), last.ids[-1:], PartialRows(TargetLogProbs(), 0, 1))


def _forked(
    item: ContextItem,
    response: tuple[int, ...],
    reduction: TargetLogProbs | MixtureLogProbs,
    prompts: tuple[Prompt, ...],
    part: float,
) -> Generator[list[Request], list[Scores], FloatArray]:
    pieces = enumerate(item.prompt.pieces)
    places = [(i, j) for i, piece in pieces if piece.role == CONTEXT for j in range(len(piece.ids))]
    first = int(len(places) / part)
    second = min(first + 1, len(places) - 1)
    # A longer sequence that differs at one token makes the prompt of interest fork there; one that differs from that
    # one a token later forks beside it, and the two are padded into one batch where batches are made.
    longer = _differing(item.prompt, places[first])
    beside = _differing(longer, places[second])
    crowd = [Request((longer,), (*response, response[-1]), reduction), Request((beside,), response, reduction)]
    crowd = [replace(request, prompts=(*prompts[:-1], *request.prompts)) for request in crowd]
    scores = yield [*crowd, Request(prompts, response, reduction)]
    return scores[-1].values


def token_by_token(
    item: ContextItem, response: tuple[int, ...], reduction: TargetLogProbs | MixtureLogProbs
) -> Generator[list[Request], list[Scores], FloatArray | None]:
    """Scores of the bare prompt and of the full one with tokens run one at a time, (2, response), for
    `neighbourhood_noise`: ahead of it, while a back end has the states of the prompt. None where it needs none."""
    if not item.measures_noise or item.model_noise_nats is not None:
        return None
    return (yield from _single_tokens(item, response, reduction))


def _single_tokens(
    item: ContextItem, response: tuple[int, ...], reduction: TargetLogProbs | MixtureLogProbs
) -> Generator[list[Request], list[Scores], FloatArray]:
    all_rows = PartialRows(reduction, 0, len(response))
    (scores,) = yield [Request((item.blank, item.prompt), response, all_rows, _SINGLE_TOKENS)]
    return scores.values


def _differing(prompt: Prompt, place: tuple[int, int]) -> Prompt:
    piece, token = place
    old = prompt.pieces[piece]
    ids = list(old.ids)
    # Any other id serves; these two are in every vocabulary.
    ids[token] = 1 if ids[token] != 1 else 2
    return Prompt((*prompt.pieces[:piece], replace(old, ids=tuple(ids)), *prompt.pieces[piece + 1 :]))
