"""How much a score moves when nothing but its neighbours changes: the floor below which a reading is no finding.

Floating-point sums depend on how work is cut: a sequence run in one piece, forked from another after some tokens, or
padded beside others gives logits that differ in their last digits. The same request is scored in such company on
purpose; influence is measured between sequences that were cut differently in just this way.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace

import numpy as np

from leakmeter.types.item import Item
from leakmeter.types.prompt import CONTEXT, Prompt
from leakmeter.types.request import FloatArray, Request, Scores, Want


def neighbourhood_noise(
    item: Item, response: tuple[int, ...], want: Want, prompts: Sequence[Prompt], alone: FloatArray
) -> Generator[list[Request], list[Scores], FloatArray]:
    """Largest difference, in nats, of each response token's log-probability between neighbourhoods: (response,).

    Args:
        item: the case.
        response: its token ids.
        want: what is measured.
        prompts: what is scored; the prompt of interest last.
        alone: its scores as the measure got them, (response,).
    """
    spread = np.zeros(len(response))
    places = _context_tokens(item.prompt)
    for part in (4, 2):
        first, second = len(places) // part, min(len(places) // part + 1, len(places) - 1)
        # A longer sequence that differs at one token makes the prompt of interest fork there; one that differs from
        # that one a token later forks beside it, and the two are padded into one batch where batches are made.
        longer = _differing(item.prompt, places[first])
        beside = _differing(longer, places[second])
        crowd = [Request((longer,), (*response, response[-1]), want), Request((beside,), response, want)]
        scores = yield [*(_with_first(prompts, r) for r in crowd), Request(tuple(prompts), response, want)]
        spread = np.maximum(spread, np.abs(scores[-1].values[-1] - alone))
    return spread


def _with_first(prompts: Sequence[Prompt], request: Request) -> Request:
    return replace(request, prompts=(*prompts[:-1], *request.prompts))


def _context_tokens(prompt: Prompt) -> list[tuple[int, int]]:
    """Every context token, as piece and place in the piece."""
    return [(i, j) for i, piece in enumerate(prompt.pieces) if piece.role == CONTEXT for j in range(len(piece.ids))]


def _differing(prompt: Prompt, place: tuple[int, int]) -> Prompt:
    """The prompt with another token at one place."""
    piece, token = place
    old = prompt.pieces[piece]
    ids = list(old.ids)
    # Any other id serves; these two are in every vocabulary.
    ids[token] = 1 if ids[token] != 1 else 2
    return Prompt((*prompt.pieces[:piece], replace(old, ids=tuple(ids)), *prompt.pieces[piece + 1 :]))
