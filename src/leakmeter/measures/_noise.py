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
    context = [i for i, piece in enumerate(item.prompt.pieces) if piece.role == CONTEXT and piece.ids]
    for part in (4, 2):
        at = context[len(context) // part]
        longer = (*response, response[-1])
        # A longer sequence that differs at one token makes the prompt of interest fork there; a second one, differing
        # a little later, is padded beside it.
        neighbours = [_differing(item.prompt, at, token) for token in (0, -1)]
        crowd = [Request((neighbours[0],), longer, want), Request((neighbours[1],), response, want)]
        scores = yield [*(_with_first(prompts, r) for r in crowd), Request(tuple(prompts), response, want)]
        spread = np.maximum(spread, np.abs(scores[-1].values[-1] - alone))
    return spread


def _with_first(prompts: Sequence[Prompt], request: Request) -> Request:
    return replace(request, prompts=(*prompts[:-1], *request.prompts))


def _differing(prompt: Prompt, piece: int, token: int) -> Prompt:
    old = prompt.pieces[piece]
    ids = list(old.ids)
    ids[token] = prompt.pieces[0].ids[0] if ids[token] != prompt.pieces[0].ids[0] else ids[token] + 1
    return Prompt((*prompt.pieces[:piece], replace(old, ids=tuple(ids)), *prompt.pieces[piece + 1 :]))
