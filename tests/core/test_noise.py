"""The noise floor is the largest of the differences that two kinds of neighbourhoods make."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.measure_items import make_item
from helpers.naive import random_prompt
from leakmeter.core.noise import neighbourhood_noise
from leakmeter.core.prompt import CONTEXT
from leakmeter.core.reductions import Stretch, TargetLogProbs
from leakmeter.core.request import Scores

N_TOKENS = 6


@pytest.mark.parametrize(("among_others", "token_by_token"), [(0.5, 0.125), (0.125, 0.5)])
def test_the_larger_difference_counts(among_others: float, token_by_token: float) -> None:
    item = make_item(random_prompt(np.random.default_rng(0), 20, (3, 4)), None)
    scores = np.random.default_rng(1).normal(size=(2, N_TOKENS))
    trial = neighbourhood_noise(item, tuple(range(N_TOKENS)), TargetLogProbs(), scores)
    requests, found = next(trial), None
    # What runs beside the prompt differs from it in the context alone.
    frames = {tuple(piece for piece in request.prompts[-1].pieces if piece.role != CONTEXT) for request in requests}
    assert frames == {tuple(piece for piece in item.prompt.pieces if piece.role != CONTEXT)}
    while found is None:
        moved = token_by_token if isinstance(requests[0].reduction, Stretch) else among_others
        rows = requests[0].reduction.rows(len(requests[0].response))
        try:
            requests = trial.send([Scores(scores[:, rows.start : rows.stop] + moved) for _ in requests])
        except StopIteration as ended:
            found = ended.value
    # The bare prompt and the full one differ alike, and their differences add up.
    np.testing.assert_allclose(found, np.full(N_TOKENS, 1.0), rtol=1e-12)
