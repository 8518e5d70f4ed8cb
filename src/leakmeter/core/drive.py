"""Advance many trials together: gather their requests, plan, score, hand back, until all have returned."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from leakmeter.core.backend import Backend, DifferentiableBackend, check_differentiates
from leakmeter.core.chunk import Chunk, n_full_pass_tokens
from leakmeter.core.gradient import GradientRequest
from leakmeter.core.parts import in_parts, joined
from leakmeter.core.plan import plan, plan_contexts
from leakmeter.core.request import Asked, Gradients, Request, Scores, Trial

T = TypeVar("T")


@dataclass(slots=True)
class Cost:
    """What the work took, in prompts scored and tokens run."""

    n_prompts: int = 0
    """Prompts scored, with repeats."""
    n_tokens_run: int = 0
    """Tokens put through the model: the distinct ones of each round's prefix tree, less what was still in memory."""
    n_full_pass_tokens: int = 0
    """Tokens that one full pass for each prompt would have run."""
    n_gradient_tokens: int = 0
    """Of these, how many were to go forward or backward for gradients."""


def drive(
    backend: Backend, trials: Sequence[Trial[T]], *, on_plan: Callable[[Chunk], None] | None = None
) -> tuple[list[T], Cost]:
    """Run trials to their ends, round by round; returns their results in order, and the cost.

    Args:
        backend: answers the requests; one that has room for so many rows (`most_rows`) gets a round's in parts.
        trials: generators that yield lists of requests and are sent lists of scores.
        on_plan: called with each chunk of a round before it is scored.
    """
    results: dict[int, T] = {}
    cost = Cost()
    waiting: dict[int, Sequence[Asked]] = {}
    for index, trial in enumerate(trials):
        _advance(index, trial, None, waiting, results)
    for number in itertools.count():
        if not waiting:
            break
        asked = dict(waiting)
        wanted = [request for requests in asked.values() for request in requests]
        scored = [request for request in wanted if isinstance(request, Request)]
        n_before = backend.n_tokens_run
        answers = iter(_scored(backend, scored, number, on_plan))
        gradients = iter(_differentiate(backend, [one for one in wanted if isinstance(one, GradientRequest)], cost))
        cost.n_prompts += sum(len(request.prompts) for request in scored)
        cost.n_tokens_run += backend.n_tokens_run - n_before
        cost.n_full_pass_tokens += n_full_pass_tokens(scored)
        waiting.clear()
        for index, requests in asked.items():
            answer = [next(answers) if isinstance(request, Request) else next(gradients) for request in requests]
            _advance(index, trials[index], answer, waiting, results)
    return [results[index] for index in range(len(trials))], cost


def _scored(
    backend: Backend, requests: Sequence[Request], number: int, on_plan: Callable[[Chunk], None] | None
) -> list[Scores]:
    """Answers to the round's requests for scores."""
    answers: list[tuple[int, Scores]] = []
    for part in in_parts(requests, getattr(backend, "most_rows", None)) if requests else []:
        chunk = plan([request for _, request in part], number)
        if on_plan is not None:
            on_plan(chunk)
        answers += zip((index for index, _ in part), backend.score(chunk), strict=True)
    return joined(answers, requests)


def _differentiate(backend: Backend, requests: Sequence[GradientRequest], cost: Cost) -> list[Gradients]:
    """Answers to the round's requests for gradients."""
    if not requests:
        return []
    check_differentiates(backend, backend.name)
    contexts = plan_contexts(requests)
    n_tokens = sum(request.n_tokens for request in requests) + contexts.n_full_pass_tokens
    cost.n_prompts += len(requests) + len(contexts.requests)
    cost.n_full_pass_tokens += n_tokens
    cost.n_gradient_tokens += n_tokens
    return cast(DifferentiableBackend, backend).differentiate(requests, contexts)


def _advance(
    index: int,
    trial: Trial[T],
    answer: list[Scores] | None,
    waiting: dict[int, Sequence[Asked]],
    results: dict[int, T],
) -> None:
    try:
        waiting[index] = next(trial) if answer is None else trial.send(answer)
    except StopIteration as end:
        results[index] = end.value
