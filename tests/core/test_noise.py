"""The noise floor is the largest of the differences that two kinds of neighbourhoods make."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.measure_items import make_item
from helpers.naive import random_prompt
from leakmeter.core.noise import neighbourhood_noise, token_by_token
from leakmeter.core.reductions import Stretch, TargetLogProbs
from leakmeter.core.request import Scores

N_TOKENS = 6


@pytest.mark.parametrize(("among_others", "token_by_token"), [(0.5, 0.125), (0.125, 0.5)])
def test_the_larger_difference_counts(among_others: float, token_by_token: float) -> None:
    item = make_item(random_prompt(np.random.default_rng(0), 20, (3, 4)), None)
    scores = np.random.default_rng(1).normal(size=(2, N_TOKENS))
    trial = neighbourhood_noise(item, tuple(range(N_TOKENS)), TargetLogProbs(), scores)
    requests, found = next(trial), None
    while found is None:
        moved = token_by_token if isinstance(requests[0].reduction, Stretch) else among_others
        rows = requests[0].reduction.rows(len(requests[0].response))
        try:
            requests = trial.send([Scores(scores[:, rows.start : rows.stop] + moved) for _ in requests])
        except StopIteration as ended:
            found = ended.value
    # The bare prompt and the full one differ alike, and their differences add up.
    np.testing.assert_allclose(found, np.full(N_TOKENS, 1.0), rtol=1e-12)


@pytest.mark.parametrize("n", [1, 3, 4, 5, 9])
def test_the_first_four_tokens_are_run_one_at_a_time_and_the_others_at_once(n: int) -> None:
    item = make_item(random_prompt(np.random.default_rng(0), 20, (3, 4)), None)
    scores = np.random.default_rng(1).normal(size=(2, n))
    trial = token_by_token(item, tuple(range(n)), TargetLogProbs())
    asked, found = [], None
    (request,) = next(trial)
    while found is None:
        rows = request.reduction.rows(len(request.response))
        asked.append((rows.start, rows.stop))
        try:
            (request,) = trial.send([Scores(scores[:, rows.start : rows.stop])])
        except StopIteration as ended:
            found = ended.value
    np.testing.assert_array_equal(found, scores)
    assert asked == [(0, 1), (1, 2), (2, 3), (3, 4), (4, n)][: min(n, 5)]


@pytest.mark.parametrize(("begun", "part"), [(False, 0.25), (True, 0.75)])
def test_neighbours_part_early_in_the_context_and_late_where_its_states_are_at_hand(begun: bool, part: float) -> None:
    n_context = 40
    item = make_item(random_prompt(np.random.default_rng(0), 20, (n_context // 2,) * 2), (5, 6))
    scores = np.zeros((2, 2))
    crowd = next(neighbourhood_noise(item, (5, 6), TargetLogProbs(), scores, scores if begun else None))
    first = int(np.flatnonzero([piece.role == "context" for piece in item.prompt.pieces for _ in piece.ids])[0])
    longer, beside, asked = (request.prompts[-1].ids for request in crowd)
    np.testing.assert_array_equal(asked, item.prompt.ids)
    # The one differs at one token, the other at the next too.
    where = first + int(part * n_context)
    assert np.flatnonzero(longer != asked).tolist() == [where]
    assert np.flatnonzero(beside != asked).tolist() == [where, where + 1]
