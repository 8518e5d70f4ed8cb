"""Advance many trials together: gather their requests, plan, score, hand back, until all have returned.

A round with more wanted rows than a back end has room for is scored in parts.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from leakmeter.core.backend import Backend
from leakmeter.core.prompt import Prompt
from leakmeter.core.request import (
    Asked,
    DrawRequest,
    GradientRequest,
    Gradients,
    Request,
    Responses,
    Scores,
    Trial,
    goes_by_pairs,
)
from leakmeter.core.tree import Chunk, chunk_of, chunk_of_contexts, n_full_pass_tokens
from leakmeter.errors import CapabilityError

T = TypeVar("T")
NumberedRequests = list[tuple[int, Request]]
"""Requests that are scored together, each with the number of the one that it is or is a part of."""


@dataclass(slots=True)
class Cost:
    n_prompts: int = 0
    n_tokens_run: int = 0
    """Tokens put through the model: the distinct ones of each round's prefix tree, less what was still in memory."""
    n_full_pass_tokens: int = 0
    """Tokens that one full pass for each prompt would have run."""
    n_gradient_tokens: int = 0
    """Of these, how many were to go forward or backward for gradients."""
    n_drawn: int = 0
    """Responses that the back end drew whole."""


def drive(
    backend: Backend, trials: Sequence[Trial[T]], *, on_plan: Callable[[Chunk], None] | None = None
) -> tuple[list[T], Cost]:
    """Run trials to their ends, round by round; returns their results in order, and the cost. A back end with
    room for so many rows at a time gets a round in parts. `on_plan` is called with each chunk before it is scored."""
    cost, results = Cost(), list[T]()
    whole, answer = together([settled(backend, trial) for trial in trials]), list[Scores]()
    for number in itertools.count():
        try:
            requests = whole.send(answer) if number else next(whole)
        except StopIteration as end:
            results = end.value
            break
        scored = [request for request in requests if isinstance(request, Request)]
        drawn = [request for request in requests if isinstance(request, DrawRequest)]
        differentiated = [request for request in requests if isinstance(request, GradientRequest)]
        n_before = backend.n_tokens_run
        distinct, index_of = _distinct(scored)
        once = _scored(backend, distinct, number, on_plan)
        answers: dict[type, Iterator[Any]] = {
            Request: iter([once[index] for index in index_of]),
            DrawRequest: iter(_drawn(backend, drawn, cost)),
            GradientRequest: iter(_differentiate(backend, differentiated, cost)),
        }
        cost.n_prompts += sum(len(request.prompts) for request in distinct)
        cost.n_tokens_run += backend.n_tokens_run - n_before
        cost.n_full_pass_tokens += n_full_pass_tokens(distinct)
        answer = [next(answers[type(request)]) for request in requests]
    return results, cost


def together(trials: Sequence[Trial[T]]) -> Trial[list[T]]:
    """Trials as one, whose rounds ask for all that they ask for; returns their results in order."""
    results: dict[int, T] = {}
    answers: dict[int, list[Scores] | None] = dict.fromkeys(range(len(trials)))
    while True:
        waiting: dict[int, Sequence[Asked]] = {}
        for index, answer in answers.items():
            try:
                waiting[index] = next(trials[index]) if answer is None else trials[index].send(answer)
            except StopIteration as end:
                results[index] = end.value
        if not waiting:
            return [results[index] for index in range(len(trials))]
        scores = iter((yield [request for requests in waiting.values() for request in requests]))
        answers = {index: list(itertools.islice(scores, len(requests))) for index, requests in waiting.items()}


def settled(backend: Backend, trial: Trial[T]) -> Generator[Sequence[Asked], list[Scores], T]:
    """The trial, in which a `CapabilityError` is raised where it asks for what the back end cannot do: draw whole
    responses or hide pieces."""
    try:
        requests = next(trial)
        while True:
            refused = _refused(backend, requests)
            requests = trial.send((yield requests)) if refused is None else trial.throw(refused)
    except StopIteration as end:
        result: T = end.value
        return result


def _refused(backend: Backend, requests: Sequence[Asked]) -> CapabilityError | None:
    capabilities = backend.capabilities
    if not capabilities.draws_responses and any(isinstance(request, DrawRequest) for request in requests):
        return CapabilityError(f"'{backend.name}' draws no whole responses")
    prompts = (p for request in requests if isinstance(request, Request) for p in request.prompts)
    if not capabilities.hides_pieces and any(prompt.hidden for prompt in prompts):
        return CapabilityError(f"'{backend.name}' hides no piece of a prompt from the tokens behind it")
    return None


def _drawn(backend: Backend, requests: Sequence[DrawRequest], cost: Cost) -> list[Responses]:
    if not requests:
        return []
    responses = backend.draw(requests)
    n_drawn = sum(len(request.seeds) for request in requests)
    cost.n_drawn += n_drawn
    cost.n_prompts += n_drawn
    cost.n_full_pass_tokens += sum(len(request.seeds) * len(request.prompt.ids) for request in requests)
    return responses


def _scored(
    backend: Backend, requests: Sequence[Request], number: int, on_plan: Callable[[Chunk], None] | None
) -> list[Scores]:
    answers: list[tuple[int, Scores]] = []
    for part in in_parts(requests, backend.capabilities.most_rows) if requests else []:
        chunk = chunk_of([request for _, request in part], number)
        if on_plan is not None:
            on_plan(chunk)
        answers += zip((index for index, _ in part), backend.score(chunk), strict=True)
    return joined(answers, requests)


def _distinct(requests: Sequence[Request]) -> tuple[Sequence[Request], Sequence[int]]:
    """Requests without those that repeat an earlier one, such as another trial's, and the index of each one's answer: a
    chunk runs equal requests once, but parts of a round would not. What is drawn is never the same."""
    alike = Counter(map(_outline, requests))
    distinct: list[Request] = []
    seen: dict[object, int] = {}
    index_of: list[int] = []
    for request in requests:
        place = len(distinct)
        # Few requests have twins: of the others the tokens need not be looked at.
        if request.reduction.needs == "targets" and alike[_outline(request)] > 1:
            prompts = tuple((p.ids.tobytes(), p.positions.tobytes(), p.hidden_tokens) for p in request.prompts)
            place = seen.setdefault((prompts, request.response, request.reduction, request.n_single), place)
        if place == len(distinct):
            distinct.append(request)
        index_of.append(place)
    return distinct, index_of


def _outline(request: Request) -> tuple[object, ...]:
    return request.response, tuple(len(prompt.ids) for prompt in request.prompts)


def _differentiate(backend: Backend, requests: Sequence[GradientRequest], cost: Cost) -> list[Gradients]:
    if not requests:
        return []
    contexts = chunk_of_contexts(requests)
    n_tokens = sum(request.n_tokens for request in requests) + contexts.n_full_pass_tokens
    cost.n_prompts += len(requests) + len(contexts.requests)
    cost.n_full_pass_tokens += n_tokens
    cost.n_gradient_tokens += n_tokens
    return backend.differentiate(requests, contexts)


def in_parts(requests: Sequence[Request], most_rows: int | None) -> list[NumberedRequests]:
    """Cut requests into parts of so many wanted rows at most.

    A request with more prompts than that is cut along them, where what is kept of a prompt needs no other than the
    first. Where it needs all, the request is a part of its own, whatever it takes; and where a request goes on in the
    next round, all are one part, since states are handed on from one chunk to the next: such rounds have few rows.
    """
    whole = [list(enumerate(requests))]
    if most_rows is None or any(request.reduction.continues for request in requests):
        return whole
    sizes = list(map(_n_rows, requests))
    if sum(sizes) <= most_rows:
        return whole
    parts: list[NumberedRequests] = [[]]
    used = 0
    for number, (request, size) in enumerate(zip(requests, sizes, strict=True)):
        for piece in [request] if size <= most_rows else _pieces(request, most_rows):
            n_rows = size if piece is request else _n_rows(piece)
            if parts[-1] and used + n_rows > most_rows:
                parts.append([])
                used = 0
            parts[-1].append((number, piece))
            used += n_rows
    return parts


def joined(answers: Sequence[tuple[int, Scores]], requests: Sequence[Request]) -> list[Scores]:
    by_request: list[list[Scores]] = [[] for _ in requests]
    for number, scores in answers:
        by_request[number].append(scores)
    return [_joined(scores, request) for scores, request in zip(by_request, requests, strict=True)]


def _joined(scores: Sequence[Scores], request: Request) -> Scores:
    if len(scores) == 1:
        return scores[0]
    n_repeated = 1 if request.reduction.rows_together else 0
    first, *others = scores
    return Scores(np.concatenate([first.values, *(part.values[n_repeated:] for part in others)]))


def _pieces(request: Request, most_rows: int) -> Iterator[Request]:
    n_each = len(request.rows)
    if request.reduction.rows_together and not goes_by_pairs(request.reduction):
        yield request
        return
    prompts, lead = request.prompts, (request.prompts[:1] if request.reduction.rows_together else ())
    at_once = max(1, most_rows // max(n_each, 1) - len(lead))
    rest = prompts[len(lead) :]
    for start in range(0, len(rest), at_once):
        some: tuple[Prompt, ...] = (*lead, *rest[start : start + at_once])
        yield replace(request, prompts=some)


def _n_rows(request: Request) -> int:
    return len(request.prompts) * len(request.rows)
