"""Trials in lockstep: each gets its own answers, rounds are merged, and failures come out."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import numpy as np
import pytest

from leakmeter.backends.toy import Toy
from leakmeter.core.backend import Backend
from leakmeter.core.drive import drive
from leakmeter.core.plan import Chunk
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.reductions import TargetLogProbs
from leakmeter.core.request import DrawRequest, Request, Responses, Scores, Trial
from leakmeter.errors import ScoreError

N_VOCAB = 11


def prompt_of(*ids: int) -> Prompt:
    return Prompt((Piece("all", "frame", ids),))


def one_by_one(start: tuple[int, ...], n_rounds: int) -> Trial[list[float]]:
    """Asks for one token a round, extending its prompt by a token that depends on the answer."""
    ids, out = start, []
    for _ in range(n_rounds):
        (scores,) = yield [Request((prompt_of(*ids),), (1,), TargetLogProbs())]
        out.append(float(scores.values[0, 0]))
        ids = (*ids, int(-1000 * out[-1]) % N_VOCAB)
    return out


def alone(start: tuple[int, ...], n_rounds: int) -> list[float]:
    toy = Toy(N_VOCAB)
    ids, out = start, []
    for _ in range(n_rounds):
        logits = toy.logits(np.asarray(ids), np.arange(len(ids)))
        out.append(float(logits[1] - logits.max() - np.log(np.exp(logits - logits.max()).sum())))
        ids = (*ids, int(-1000 * out[-1]) % N_VOCAB)
    return out


def test_trials_of_different_lengths_get_their_own_answers() -> None:
    starts = [(1, 2, 3), (4,), (1, 2, 5), (1, 2, 3)]
    lengths = [3, 1, 5, 2]
    rounds: list[Chunk] = []
    results, cost = drive(
        Toy(N_VOCAB), [one_by_one(s, n) for s, n in zip(starts, lengths, strict=True)], on_plan=rounds.append
    )
    for start, n, result in zip(starts, lengths, results, strict=True):
        np.testing.assert_allclose(result, alone(start, n), rtol=0, atol=1e-14)  # measured: 0
    assert [len(chunk.requests) for chunk in rounds] == [4, 3, 2, 1, 1]
    assert cost.n_prompts == sum(lengths)
    assert cost.n_full_pass_tokens == sum(
        len(start) + i for start, n in zip(starts, lengths, strict=True) for i in range(n)
    )
    assert rounds[0].n_tree_tokens == 5  # 1 2 3, 5, 4


def test_what_a_trial_or_the_back_end_raises_comes_out_as_it_is() -> None:
    def fails() -> Trial[None]:
        yield [Request((prompt_of(1),), (1,), TargetLogProbs())]
        raise ZeroDivisionError("in the measure")

    with pytest.raises(ZeroDivisionError, match="in the measure"):
        drive(Toy(N_VOCAB), [one_by_one((1,), 3), fails()])
    toy = Toy(N_VOCAB)
    toy._last = toy._last.copy()
    toy._last[2] = np.nan
    with pytest.raises(ScoreError, match="NaN"):
        drive(toy, [one_by_one((2,), 3)])


class Counting:
    """A back end that remembers nothing, counts what it is asked, and answers with each request's number."""

    name, weights_sha256, dtype, window, tokenizer = "counting", None, "float64", None, Toy(2).tokenizer

    def __init__(self) -> None:
        self.n_tokens_run = 100  # work of an earlier drive, not ours
        self.identity: dict[str, str | None] = {}
        self.n_halvings = 0

    def score(self, chunk: Chunk) -> list[Scores]:
        self.n_tokens_run += chunk.n_tree_tokens
        return [Scores(np.full((1, 1), float(i))) for i in range(len(chunk.requests))]


def test_answers_are_dealt_out_by_trial_and_request() -> None:
    def asks(n: int) -> Generator[list[Request], list[Scores], list[float]]:
        if n > 3:
            return []  # nothing to ask
        answers = yield [Request((prompt_of(i + 1),), (1,), TargetLogProbs()) for i in range(n)]
        return [float(scores.values[0, 0]) for scores in answers]

    backend = Counting()
    assert isinstance(backend, Backend)
    results, cost = drive(backend, [asks(2), asks(0), asks(4), asks(3)])
    assert results == [[0.0, 1.0], [], [], [2.0, 3.0, 4.0]]
    assert cost.n_tokens_run == 3
    assert backend.n_tokens_run == 103
    results, cost = drive(backend, [])
    assert (results, cost.n_prompts, cost.n_tokens_run, cost.n_full_pass_tokens) == ([], 0, 0, 0)


class Drawing(Counting):
    """A back end that draws whole responses, each of the one token that its seed names."""

    draws_responses = True

    def draw(self, requests: list[DrawRequest]) -> list[Responses]:
        return [Responses(np.empty(0), drawn=tuple((seed,) for seed in one.seeds)) for one in requests]


def test_each_response_that_is_drawn_whole_is_a_prompt_scored() -> None:
    def draws(*seeds: int) -> Generator[list[DrawRequest], list[Scores], list[tuple[int, ...]]]:
        (answer,) = yield [DrawRequest(prompt_of(1, 2, 3), 1.0, 1, seeds, frozenset())]
        assert isinstance(answer, Responses)
        return list(answer.drawn)

    results, cost = drive(Drawing(), [draws(4, 5), draws(6)])
    assert results == [[(4,), (5,)], [(6,)]]
    assert (cost.n_prompts, cost.n_drawn, cost.n_full_pass_tokens) == (3, 3, 3 * 3)


def test_what_another_trial_asks_for_too_is_scored_once_in_however_many_parts() -> None:
    prompts = [Prompt((Piece("a", "context", ids),)) for ids in ((1, 2, 3), (4, 5, 6))]
    own = [Request((prompt,), (7, 8), TargetLogProbs()) for prompt in prompts]
    others = [Request((replace(prompt),), (7, 8), TargetLogProbs(), is_others=True) for prompt in prompts]

    def trial(mine: int) -> Trial[list[float]]:
        scores = yield [own[mine], others[1 - mine]]
        return [float(one.values.sum()) for one in scores]

    class Small(Toy):
        most_rows = 2

    (first, second), cost = drive(Small(), [trial(0), trial(1)])
    assert first == second[::-1]
    assert (cost.n_prompts, cost.n_tokens_run, cost.n_full_pass_tokens) == (2, 8, 8)
    # A trial by itself has what others ask for scored, too.
    (alone,), cost = drive(Small(), [trial(0)])
    assert alone == first
    assert (cost.n_prompts, cost.n_tokens_run) == (1, 8)
