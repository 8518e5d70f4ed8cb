"""Requests of a round in parts, so that what a back end holds of their rows at a time is bounded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from leakmeter.core.prompt import Prompt
from leakmeter.core.request import Request, Scores, goes_by_pairs

Part = list[tuple[int, Request]]
"""Requests that are scored together, each with the number of the one that it is or is a part of."""


def in_parts(requests: Sequence[Request], most_rows: int | None) -> list[Part]:
    """Cut requests into parts of so many wanted rows at most.

    A request with more prompts than that is cut along them, where what is kept of a prompt needs no other than the
    first. Where it needs all, the request is a part of its own, whatever it takes; and where a request goes on in the
    next round, all are one part, since states are handed on from one chunk to the next: such rounds have few rows.

    Args:
        requests: of a round.
        most_rows: None for no bound.
    """
    whole = [list(enumerate(requests))]
    if most_rows is None or any(request.reduction.continues for request in requests):
        return whole
    if sum(map(_n_rows, requests)) <= most_rows:
        return whole
    parts: list[Part] = [[]]
    used = 0
    for number, request in enumerate(requests):
        for piece in _pieces(request, most_rows):
            if parts[-1] and used + _n_rows(piece) > most_rows:
                parts.append([])
                used = 0
            parts[-1].append((number, piece))
            used += _n_rows(piece)
    return parts


def joined(answers: Sequence[tuple[int, Scores]], requests: Sequence[Request]) -> list[Scores]:
    """Scores of the requests out of those of their pieces, in order."""
    found: list[list[Scores]] = [[] for _ in requests]
    for number, scores in answers:
        found[number].append(scores)
    return [_one(scores, request) for scores, request in zip(found, requests, strict=True)]


def _one(scores: Sequence[Scores], request: Request) -> Scores:
    if len(scores) == 1:
        return scores[0]
    n_repeated = 1 if request.reduction.rows_together else 0
    first, *others = (one.values for one in scores)
    return Scores(np.concatenate([first, *(values[n_repeated:] for values in others)]))


def _pieces(request: Request, most_rows: int) -> Iterator[Request]:
    n_each = len(request.reduction.rows(len(request.response)))
    if _n_rows(request) <= most_rows or (request.reduction.rows_together and not goes_by_pairs(request.reduction)):
        yield request
        return
    prompts, lead = request.prompts, (request.prompts[:1] if request.reduction.rows_together else ())
    at_once = max(1, most_rows // max(n_each, 1) - len(lead))
    rest = prompts[len(lead) :]
    for start in range(0, len(rest), at_once):
        some: tuple[Prompt, ...] = (*lead, *rest[start : start + at_once])
        yield replace(request, prompts=some)


def _n_rows(request: Request) -> int:
    return len(request.prompts) * len(request.reduction.rows(len(request.response)))
