"""Statistics of many cases against computations by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from leakmeter.backends.toy import Toy
from leakmeter.core.case import Case, Document
from leakmeter.core.drive import drive
from leakmeter.core.measurement import NATS, Measurement
from leakmeter.errors import UsageError
from leakmeter.instruments.decoding.measure import Decode
from leakmeter.instruments.influence.measure import Influence
from leakmeter.stats.stats import bootstrap_interval_of_mean
from leakmeter.studies.expected import (
    by_position,
    early_and_late,
    estimate,
    nats_by_piece,
    whole_by_token,
    whole_context_nats,
)
from leakmeter.text.build import PromptSettings, prepare


def measurement(statistic: str, values: list[float], piece: str = "", sample: int = 0) -> Measurement:
    return Measurement("one", sample, piece, statistic, NATS, np.asarray(values))


def test_an_estimate_by_hand() -> None:
    found = estimate([1.0, 2.0, 6.0], seed=3)
    assert found.mean == 3.0
    assert found.n == 3
    assert found.interval == bootstrap_interval_of_mean([1.0, 2.0, 6.0], seed=3)
    assert found.quantiles == pytest.approx((1.1, 1.5, 2.0, 4.0, 5.6))
    one = estimate([2.0], seed=0)
    assert one.mean == 2.0
    assert all(math.isnan(edge) for edge in one.interval)
    with pytest.raises(UsageError, match="no measurements"):
        estimate([], seed=0)


def test_whole_context_is_the_mean_over_responses_of_sums_of_absolute_values() -> None:
    measurements = [
        measurement("whole", [1.0, -2.0]),
        measurement("whole", [0.5], sample=1),
        measurement("log_prob", [9.0]),
    ]
    assert whole_context_nats(measurements) == (3.0 + 0.5) / 2
    with pytest.raises(UsageError, match="measure 'decode' or 'influence'"):
        whole_context_nats([measurement("token", [1.0])])


def test_pieces_are_in_order_and_summed_without_sign() -> None:
    measurements = [
        *(measurement("without_this", values, piece) for piece, values in (("b", [1.0, -1.0]), ("a", [0.25, 0.0]))),
        *(measurement("without_this", values, piece, 1) for piece, values in (("b", [4.0]), ("a", [-0.75]))),
        measurement("only_this", [9.0], "b"),
    ]
    assert nats_by_piece(measurements) == [3.0, 0.5]
    with pytest.raises(UsageError, match="no pieces"):
        nats_by_piece([measurement("loss", [1.0])])


def test_positions_rest_on_those_who_reach_them() -> None:
    found = by_position([[1.0, 2.0, 9.0], [3.0], [5.0, 4.0]], seed=0)
    assert [(at.mean, at.n) for at in found] == [(3.0, 3), (3.0, 2), (9.0, 1)]
    with pytest.raises(UsageError, match="no measurements"):
        by_position([], seed=0)


def test_halves_by_hand() -> None:
    found = early_and_late([[4.0, 2.0, 100.0, 1.0, 0.0], [2.0, 1.0], [7.0]], seed=0)
    assert (found["early"].mean, found["late"].mean) == ((3.0 + 2.0) / 2, (0.5 + 1.0) / 2)
    assert found["early_less_late"].mean == (2.5 + 1.0) / 2
    assert found["early_less_late"].n == 2
    assert early_and_late([[1.0]], seed=0) == {}


def test_the_loss_that_comes_with_generation_is_the_influence_of_the_whole_context() -> None:
    """Decode's reading and a second scoring of the same response give one τ."""
    toy = Toy()
    documents = (Document("note", "Anna Ek sang in Graz. Bo ate."),)
    decode = Decode(temperature=0.8, cid_lambda=1.5, max_new_tokens=9, seed=4)
    drawn = prepare(Case("one", documents, "Who?"), toy.tokenizer, PromptSettings(), window=None, n_reserved=9).item
    (measurements,), _ = drive(toy, [decode.trial(drawn)])
    (token,) = [r.values.astype(int).tolist() for r in measurements if r.statistic == "token"]
    from dataclasses import replace

    given = replace(drawn, response=tuple(token))
    (again,), _ = drive(toy, [Influence(temperature=0.8, cid_lambda=1.5).trial(given)])
    assert whole_context_nats(measurements) == pytest.approx(whole_context_nats(again), abs=1e-12)
    assert whole_by_token(measurements)[0] == pytest.approx(whole_by_token(again)[0], abs=1e-12)
