"""Trials in lockstep: each gets its own answers, rounds are merged or cut into parts, and failures come out."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakmeter.backends.toy import Toy
from leakmeter.core.backend import Backend, Capabilities
from leakmeter.core.drive import drive, in_parts
from leakmeter.core.prompt import CONTEXT, QUERY, Piece, Prompt
from leakmeter.core.reductions import MixtureLogProbs, NextTokenSample, TargetLogProbs
from leakmeter.core.request import DrawRequest, Request, Responses, Scores, Trial, ask
from leakmeter.core.tree import Chunk
from leakmeter.engine.loading import load_backend
from leakmeter.errors import CapabilityError, ScoreError, UsageError
from leakmeter.instruments.susceptibility.math import ContextMixture
from leakmeter.privacy.decoding import Decoding, TargetLogProbsWithLoss

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
    trials = [one_by_one(start, n) for start, n in zip(starts, lengths, strict=True)]
    results, cost = drive(Toy(N_VOCAB), trials, on_plan=rounds.append)
    for start, n, result in zip(starts, lengths, results, strict=True):
        np.testing.assert_allclose(result, alone(start, n), rtol=0, atol=1e-14)  # measured: 0
    # The first trial and the last ask for the same.
    assert [len(chunk.requests) for chunk in rounds] == [3, 2, 2, 1, 1]
    assert cost.n_prompts == sum(lengths[:3])
    fed = [len(start) + i for start, n in zip(starts[:3], lengths[:3], strict=True) for i in range(n)]
    assert cost.n_full_pass_tokens == sum(fed)
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


class Counting(Backend):
    """A back end that remembers nothing, counts what it is asked, and answers with each request's number."""

    name, dtype, tokenizer = "counting", "float64", Toy(2).tokenizer
    n_tokens_run = 100  # work of an earlier drive, not ours

    def score(self, chunk: Chunk) -> list[Scores]:
        self.n_tokens_run += chunk.n_tree_tokens
        return [Scores(np.full((1, 1), float(i))) for i in range(len(chunk.requests))]


def test_answers_are_dealt_out_by_trial_and_request() -> None:
    def asks(n: int) -> Generator[list[Request], list[Scores], list[float]]:
        if n > 3:
            return []  # nothing to ask
        answers = yield [Request((prompt_of(i + 1),), (n,), TargetLogProbs()) for i in range(n)]
        return [float(scores.values[0, 0]) for scores in answers]

    backend = Counting()
    results, cost = drive(backend, [asks(2), asks(0), asks(4), asks(3)])
    assert results == [[0.0, 1.0], [], [], [2.0, 3.0, 4.0]]
    assert cost.n_tokens_run == 3
    assert backend.n_tokens_run == 103
    results, cost = drive(backend, [])
    assert (results, cost.n_prompts, cost.n_tokens_run, cost.n_full_pass_tokens) == ([], 0, 0, 0)


class Drawing(Counting):
    """A back end that draws whole responses, each of the one token that its seed names."""

    capabilities = Capabilities(draws_responses=True)

    def draw(self, requests: Sequence[DrawRequest]) -> list[Responses]:
        return [Responses(tuple((seed,) for seed in one.seeds)) for one in requests]


def test_each_response_that_is_drawn_whole_is_a_prompt_scored() -> None:
    def draws(*seeds: int) -> Trial[list[tuple[int, ...]]]:
        (answer,) = yield from ask([DrawRequest(prompt_of(1, 2, 3), 1.0, 1, seeds, frozenset())])
        return list(answer.drawn)

    results, cost = drive(Drawing(), [draws(4, 5), draws(6)])
    assert results == [[(4,), (5,)], [(6,)]]
    assert (cost.n_prompts, cost.n_drawn, cost.n_full_pass_tokens) == (3, 3, 3 * 3)
    with pytest.raises(CapabilityError, match="'counting' draws no whole responses"):
        drive(Counting(), [draws(4)])


def test_a_reduction_or_a_model_that_merely_looks_like_one_is_refused() -> None:
    class Looks:
        name, score, rows, reduce = "looks", None, None, None

    looks: Any = Looks()
    with pytest.raises(UsageError, match=r"reduction is a Looks; its class has to inherit leakmeter\.core\.request"):
        Request((prompt_of(1),), (1,), looks)
    with pytest.raises(UsageError, match=r"model is a Looks; .* whose class inherits leakmeter\.core\.backend"):
        load_backend(looks)


def test_what_cannot_be_had_is_an_exception_and_the_trial_may_go_on() -> None:
    """Nothing empty stands for an answer: not to hide pieces is an exception where it was asked for."""
    pieces = (Piece("a", CONTEXT, (1, 2)), Piece("b", QUERY, (3,)))
    hidden = Request((Prompt(pieces).hiding("a"),), (1,), TargetLogProbs())

    def trial() -> Trial[str]:
        try:
            yield [hidden]
        except CapabilityError:
            (scores,) = yield [Request((Prompt(pieces),), (1,), TargetLogProbs())]
            return f"without: {scores.values.shape}"
        return "hidden"

    blind = Toy()
    blind.capabilities = Capabilities()
    assert drive(Toy(), [trial()])[0] == ["hidden"]
    assert drive(blind, [trial()])[0] == ["without: (1, 1)"]


def test_what_another_trial_asks_for_too_is_scored_once_in_however_many_parts() -> None:
    own = [Request((prompt_of(*ids),), (7, 8), TargetLogProbs()) for ids in ((1, 2, 3), (4, 5, 6))]
    others = [replace(one, prompts=(replace(one.prompts[0]),)) for one in own]

    def trial(mine: int) -> Trial[list[float]]:
        scores = yield [own[mine], others[1 - mine]]
        return [float(one.values.sum()) for one in scores]

    class Small(Toy):
        capabilities = Capabilities(hides_pieces=True, most_rows=2)

    (first, second), cost = drive(Small(), [trial(0), trial(1)])
    assert first == second[::-1]
    assert (cost.n_prompts, cost.n_tokens_run, cost.n_full_pass_tokens) == (2, 8, 8)
    # A trial by itself has what others ask for scored, too.
    (alone,), cost = drive(Small(), [trial(0)])
    assert alone == first
    assert (cost.n_prompts, cost.n_tokens_run) == (2, 8)


def prompts(n: int, first: int = 0) -> tuple[Prompt, ...]:
    return tuple(prompt_of(1, 2, (first + i) % 13, 5) for i in range(n))


RESPONSE = (3, 4, 6)
ASKED = [
    Request(prompts(7), RESPONSE, TargetLogProbs()),
    Request(prompts(6, first=3), RESPONSE, MixtureLogProbs(1.5)),
    Request(prompts(4, first=7), (), ContextMixture((0.5, 0.25, 0.25), (1, 1, 1))),
    Request(prompts(5, first=5), RESPONSE, TargetLogProbsWithLoss(Decoding(), 0, 2)),
]


def driven(requests: list[Request], most_rows: int | None) -> tuple[list[Scores], Any, list[Chunk]]:
    backend, chunks = Toy(13), list[Chunk]()
    backend.capabilities = replace(backend.capabilities, most_rows=most_rows)

    def asks() -> Trial[list[Scores]]:
        return (yield requests)

    (found,), cost = drive(backend, [asks()], on_plan=chunks.append)
    return found, cost, chunks


@given(most_rows=st.integers(1, 70))
def test_answers_do_not_depend_on_the_parts(most_rows: int) -> None:
    whole, cost_of_whole, _ = driven(ASKED, None)
    found, cost, chunks = driven(ASKED, most_rows)
    for one, other in zip(found, whole, strict=True):
        np.testing.assert_allclose(one.values, other.values, rtol=0, atol=1e-12)
    assert (cost.n_prompts, cost.n_full_pass_tokens) == (cost_of_whole.n_prompts, cost_of_whole.n_full_pass_tokens)
    # What cannot be cut: a prompt's rows, with the first prompt's where they are compared; all prompts of a mixture.
    least = max(2 * len(RESPONSE), 4)
    for chunk in chunks:
        assert sum(slots.size for slots in chunk.slots) <= max(most_rows, least)
    assert (len(chunks) == 1) == (most_rows >= 7 * 3 + 6 * 3 + 4 + 5 * 2)


def test_what_fits_is_one_part_and_so_is_what_goes_on_in_the_next_round() -> None:
    assert in_parts(ASKED, None) == in_parts(ASKED, 1000) == [list(enumerate(ASKED))]
    drawing = [*ASKED, Request(prompts(1), (), NextTokenSample(0.5))]
    assert in_parts(drawing, 1) == [list(enumerate(drawing))]
