"""Tokens of a response that are run one at a time, in one prefix tree, against a round for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from helpers.examples import few
from helpers.naive import random_prompt
from helpers.tiny_models import FORKED_AT_ENDS, N_VOCAB, TURN, tiny_backend
from leakmeter.backends.hf import HfBackend
from leakmeter.backends.hf.forward import Forward
from leakmeter.backends.hf.states import PassSegment
from leakmeter.backends.toy import Toy
from leakmeter.core.drive import drive
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.reductions import MixtureLogProbs, PartialRows, TargetLogProbs
from leakmeter.core.request import Request, Trial
from leakmeter.core.tree import chunk_of
from leakmeter.stats.arrays import FloatArray

PROMPT: Prompt = random_prompt(np.random.default_rng(0), N_VOCAB, (6, 5, 9), frame=4, query=5)
PROMPTS = (PROMPT.blank(), PROMPT)
RESPONSE = (5, 90, 90, 41, 7, 3, 11)
N_SINGLE = 3
KINDS = ("llama-sdpa", *(f"{kind}-eager" for kind in ("llama", *FORKED_AT_ENDS, "gpt2", "gemma3", "bloom")))
NEAR = 5e-5
"""Nats, as in `test_recurrent_states`."""


def in_one_round(request: Request) -> Trial[FloatArray]:
    (scores,) = yield [request]
    return scores.values


def in_rounds(
    reduction: TargetLogProbs | MixtureLogProbs, n_single: int, prompts: tuple[Prompt, ...] = PROMPTS
) -> Trial[FloatArray]:
    """A round up to the prompt's end, one for each single token, and one for the rest."""
    n, parts = len(RESPONSE), []
    bounds = [*range(min(n_single + 2, n)), n]
    for first, last in pairwise(bounds):
        (scores,) = yield [Request(prompts, RESPONSE[:last], PartialRows(reduction, first, last))]
        parts.append(scores.values)
    return np.concatenate(parts, axis=-1)


def values(backend: Any, trial: Trial[FloatArray]) -> FloatArray:
    ((found,), _) = drive(backend, [trial])
    return found


@pytest.mark.parametrize("reduction", [TargetLogProbs(), MixtureLogProbs(1.5)], ids=["own", "mixed"])
@pytest.mark.parametrize("kind", few(KINDS, 3))
def test_scores_are_those_of_a_round_for_each(kind: str, reduction: Any) -> None:
    backend, in_full = (tiny_backend(*kind.split("-"), share_prefixes=shares) for shares in (True, False))
    for n_single in (1, N_SINGLE, len(RESPONSE) + 4):
        request = Request(PROMPTS, RESPONSE, reduction, n_single)
        slow = values(in_full, in_rounds(reduction, n_single))
        # The same passes, whose numbers may depend on where in memory they are: by a few of the steps between numbers
        # of that size in float32, each 9.5e-7.
        np.testing.assert_allclose(values(in_full, in_one_round(request)), slow, rtol=0, atol=4e-6)
        np.testing.assert_allclose(values(backend, in_one_round(request)), slow, rtol=0, atol=NEAR)


def passes(backend: HfBackend, requests: Sequence[Request], monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """First and last new token of each row of each pass."""
    made: list[tuple[int, int]] = []
    usual = Forward.passed

    def passed(self: Forward, segments: Sequence[PassSegment], *others: Any) -> list[torch.Tensor]:
        for segment in segments:
            made.extend((start.n_tokens, start.n_tokens + segment.n_new) for start in segment.starts)
        # None of these passes has anything beside a token that is alone.
        assert len(made) == len(set(made))
        return usual(self, segments, *others)

    monkeypatch.setattr(Forward, "passed", passed)
    backend.score(chunk_of(requests))
    return made


@pytest.mark.parametrize("kind", ["llama", "lfm2"])
def test_each_has_a_pass_of_its_own_which_runs_no_token_twice(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = tiny_backend(kind, "sdpa")
    n_before = backend.n_tokens_run
    n, n_fed = len(PROMPT.ids), len(RESPONSE) - 1
    request = Request((PROMPT,), RESPONSE, TargetLogProbs(), N_SINGLE)
    made = passes(backend, [request], monkeypatch)
    assert made == [(0, n), (n, n + 1), (n + 1, n + 2), (n + 2, n + 3), (n + 3, n + n_fed)]
    assert backend.n_tokens_run - n_before == n + n_fed


def test_another_response_that_goes_on_from_it_is_cut_there_too(monkeypatch: pytest.MonkeyPatch) -> None:
    n = len(PROMPT.ids)
    longer = Request((PROMPT,), (*RESPONSE, 8, 9), TargetLogProbs())
    requests = [longer, Request((PROMPT,), RESPONSE[:2], TargetLogProbs(), N_SINGLE)]
    (branch,) = chunk_of(requests).branches
    assert branch.ends == (n,)
    assert passes(tiny_backend(), requests, monkeypatch) == [(0, n), (n, n + len(RESPONSE) + 1)]


@pytest.mark.parametrize("kind", few(["llama-sdpa", "lfm2-sdpa", "gpt2-eager"]))
def test_a_response_that_goes_another_way_behind_them_begins_with_the_longest_states(kind: str) -> None:
    """As where an agent kept in a memory what it had told another: states of the first pass are shorter than that."""
    backend, in_full = (tiny_backend(*kind.split("-"), share_prefixes=shares) for shares in (True, False))
    other = (*RESPONSE[: N_SINGLE + 2], 8, 9)
    requests = [Request((PROMPT,), response, TargetLogProbs(), N_SINGLE) for response in (RESPONSE, other)]
    found, slow = (each.score(chunk_of(requests)) for each in (backend, in_full))
    for one, expected in zip(found, slow, strict=True):
        np.testing.assert_allclose(one.values, expected.values, rtol=0, atol=NEAR)


def test_tokens_alone_are_told_from_those_that_are_not() -> None:
    together, alone = (Request(PROMPTS, RESPONSE, TargetLogProbs(), n) for n in (0, N_SINGLE))
    assert [branch.ends for branch in chunk_of([together]).branches] == [(), ()]
    asked: list[list[Request]] = []
    backend = Toy()
    score = backend.score
    backend.score = lambda chunk: (asked.append([*chunk.requests]), score(chunk))[1]  # type: ignore[method-assign]

    def trial() -> Trial[list[FloatArray]]:
        answers = yield [together, alone, together]
        return [scores.values for scores in answers]

    ((found,), _) = drive(backend, [trial()])
    assert asked == [[together, alone]]
    for of_request in found[1:]:
        np.testing.assert_array_equal(of_request, found[0])


@pytest.mark.parametrize("share_prefixes", [True, False])
@pytest.mark.parametrize("n_before", [0, 1, 2, 3, 4])
def test_a_pass_that_ends_before_the_turn_has_the_rotations_of_short_sequences(
    n_before: int, share_prefixes: bool
) -> None:
    """As a response does that is drawn across the turn; the rest has those of the whole sequence."""
    ids = tuple(range(3, 3 + TURN - n_before))
    prompts = (Prompt((Piece("open", "frame", ids[:4]), Piece("query", "query", ids[4:]))),)
    backend = tiny_backend("llama_longrope", share_prefixes=share_prefixes)
    assert backend.forward.side_of is not None
    slow = values(backend, in_rounds(TargetLogProbs(), N_SINGLE, prompts))
    alone, together = (
        values(backend, in_one_round(Request(prompts, RESPONSE, TargetLogProbs(), n))) for n in (N_SINGLE, 0)
    )
    np.testing.assert_allclose(alone, slow, rtol=0, atol=NEAR)
    apart = np.abs(alone - together)[0] > 1e-3
    assert apart.tolist() == [row <= n_before for row in range(N_SINGLE + 1)] + [False] * (len(RESPONSE) - N_SINGLE - 1)
