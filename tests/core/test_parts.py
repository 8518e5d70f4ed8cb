"""Rounds cut into parts of a bounded number of rows: the same answers, whatever the bound."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from leakmeter.backends.toy import Toy
from leakmeter.core.drive import drive, in_parts
from leakmeter.core.plan import Chunk
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.reductions import MixtureLogProbs, NextTokenSample, TargetLogProbs
from leakmeter.core.request import Request, Scores, Trial
from leakmeter.instruments.susceptibility.math import ContextMixture
from leakmeter.privacy.decoding import Decoding, TargetLogProbsWithLoss

N_VOCAB = 13


def prompts(n: int, first: int = 0) -> tuple[Prompt, ...]:
    return tuple(Prompt((Piece("p", "context", (1, 2, (first + i) % N_VOCAB, 5)),)) for i in range(n))


RESPONSE = (3, 4, 6)
ROW_BY_ROW = Request(prompts(7), RESPONSE, TargetLogProbs())
BY_PAIRS = Request(prompts(6, first=3), RESPONSE, MixtureLogProbs(1.5))
RECEIPTS = Request(prompts(5, first=5), RESPONSE, TargetLogProbsWithLoss(Decoding(), 0, 2))
ALL_TOGETHER = Request(prompts(4, first=7), (), ContextMixture((0.5, 0.25, 0.25), (1, 1, 1)))
ASKED = [ROW_BY_ROW, BY_PAIRS, ALL_TOGETHER, RECEIPTS]


def asks(requests: list[Request]) -> Trial[list[Scores]]:
    return (yield requests)


def driven(requests: list[Request], most_rows: int | None) -> tuple[list[Scores], Any, list[Chunk]]:
    backend, chunks = Toy(N_VOCAB), list[Chunk]()
    backend.most_rows = most_rows  # type: ignore[attr-defined]
    (found,), cost = drive(backend, [asks(requests)], on_plan=chunks.append)
    return found, cost, chunks


@given(most_rows=st.integers(1, 70))
def test_answers_do_not_depend_on_the_parts(most_rows: int) -> None:
    whole, cost_of_whole, _ = driven(ASKED, None)
    found, cost, chunks = driven(ASKED, most_rows)
    for one, other in zip(found, whole, strict=True):
        np.testing.assert_allclose(one.values, other.values, rtol=0, atol=1e-12)
    assert (cost.n_prompts, cost.n_full_pass_tokens) == (cost_of_whole.n_prompts, cost_of_whole.n_full_pass_tokens)
    # What cannot be cut: a prompt's rows, with the first prompt's where they are compared; all prompts of a mixture.
    least = max(2 * len(RESPONSE), len(ALL_TOGETHER.prompts))
    for chunk in chunks:
        assert sum(slots.size for slots in chunk.slots) <= max(most_rows, least)
    assert (len(chunks) == 1) == (most_rows >= 7 * 3 + 6 * 3 + 4 + 5 * 2)


def test_what_fits_is_one_part_and_so_is_what_goes_on_in_the_next_round() -> None:
    assert in_parts(ASKED, None) == in_parts(ASKED, 1000) == [list(enumerate(ASKED))]
    drawing = [*ASKED, Request(prompts(1), (), NextTokenSample(0.5))]
    assert in_parts(drawing, 1) == [list(enumerate(drawing))]
