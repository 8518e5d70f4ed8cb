"""From measurements to the object that `--json` prints, by hand-written numbers."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from leakmeter.core.measure import NATS, TOKEN_ID, Measurement
from leakmeter.instruments.influence.findings import is_finding
from leakmeter.instruments.influence.result import InfluenceResult, SampledResponse
from leakmeter.results.result import Response
from leakmeter.stats.stats import GIVEN, UNDEFINED, interval_of_mean

CONTEXT = "Ana is 41. She is 41."
PARAMS = {"temperature": 0.8, "cid_lambda": 1.5, "samples": 1, "max_new_tokens": 50, "seed": 3}


def span(name: str, *ranges: tuple[int, int], kind: str = "unit", repeats: tuple[str, ...] = ()) -> dict[str, Any]:
    said = {"name": name, "kind": kind, "ranges": ranges, "pieces": (name,), "document": "note", "n_tokens": 5}
    return {**said, "repeats": repeats}


def texts(**more: Any) -> dict[str, Any]:
    return {
        "id": "ana", "model": "toy", "weights_sha256": None, "dtype": "float64", "unit": "sentence", "removal": "drop",
        "template": "plain", "query": "How old?", "context": CONTEXT, "truncated_tokens": 0, "sampled": False,
        "documents": [{"name": "note", "start": 0, "end": len(CONTEXT)}],
        "responses": [{"text": "She is 41", "tokens": ["She", " is", " 41"]}],
        "spans": [span("s1", (0, 10), repeats=("s2",)), span("s2", (11, 21), repeats=("s1",))],
        "cost": {"requests": 9, "tree_tokens": 90, "naive_tokens": 300, "seconds": 0.1, "out_of_memory_retries": 0},
    } | more  # fmt: skip


def test_sums_signs_and_matrix(case: InfluenceResult) -> None:
    s1, s2 = case.pieces
    assert (s1.per_token_nats, s1.signed_per_token_nats) == ((0.25, 0.75, 1.0), (0.25, -0.75, 1.0))
    assert (s1.nats, s1.signed_nats, s1.alone_nats) == (2.0, 0.5, 4.0)
    assert (s1.text, s1.start, s1.end, s1.spans) == ("Ana is 41.", 0, 10, ((0, 10),))
    assert (s1.kind, s1.document, s1.n_tokens) == ("unit", "note", 5)
    assert (s2.nats, s2.signed_nats, s2.text) == (0.03125, -0.03125, "She is 41.")
    # A reading equal to the noise floor is no finding.
    assert [piece.below_noise_floor for piece in case.pieces] == [False, True]
    np.testing.assert_array_equal(case.matrix, [[0.25, 0.75, 1.0], [0.0, 0.0, 0.03125]])
    assert (case.whole_nats, case.whole_signed_nats) == (2.75, 2.25)
    assert case.whole_per_token_nats == (0.5, 0.25, 2.0)
    assert case.whole_signed_per_token_nats == (0.5, -0.25, 2.0)
    assert (case.noise_floor_nats, case.noise_floor_per_token_nats) == (0.03125, 0.015625)
    assert case.placebo_nats == (0.25 + 0.75) / 2
    # A piece is held against an irrelevant one, by sums with signs.
    assert case.placebo_signed_nats == 0.75
    # The response was given: the sum is above its baselines, and no posterior follows.
    assert (case.whole_posterior, case.whole_posterior_note) == (None, GIVEN)
    assert case.pieces[0].posterior_note == "below the placebo"
    # One response has no spread.
    assert case.samples == ()
    assert case.whole_mean_nats is case.whole_interval_nats is case.whole_worst_nats is None
    assert all(piece.mean_nats is piece.interval_nats is piece.worst_nats is None for piece in case.pieces)
    assert case.response == Response(text="She is 41", tokens=("She", " is", " 41"), sampled=False, seed=None)
    assert result_of(texts(), [r for r in READINGS if r.statistic != "placebo"]).placebo_nats is None


def test_pieces_that_repeat_a_value_are_warned_of_and_one_with_all_its_mentions_is_not() -> None:
    (repeated,) = result_of(texts(), READINGS).warnings
    assert "--group" in repeated
    alone = texts(spans=[span("s1", (0, 10)), span("s2", (11, 21))])
    assert result_of(alone, READINGS).warnings == ()
    value = span("value '41'", (7, 9), (18, 20), kind="value")
    more = [measurement("without_this", [1, 1, 1], value["name"]), measurement("only_this", [0] * 3, value["name"])]
    case = result_of(texts(spans=[*texts()["spans"], value]), [*READINGS, *more])
    last = case.pieces[-1]
    assert (last.kind, last.text, last.start, last.end) == ("value", "41 … 41", 7, 20)
    assert last.spans == ((7, 9), (18, 20))
    assert case.warnings == ()


def test_the_keys_that_others_read_and_its_frame(case: InfluenceResult) -> None:
    told = json.loads(case.to_json())
    assert {"schema", "id", "model", "unit", "response", "pieces", "whole_nats", "noise_floor_nats"} <= told.keys()
    assert {"text", "tokens"} <= told["response"].keys()
    for piece in told["pieces"]:
        assert {"name", "text", "start", "end", "nats", "per_token_nats"} <= piece.keys()
    assert told == case.to_dict()  # plain numbers, strings and lists throughout
    assert InfluenceResult.from_dict(told) == case
    frame = case.to_frame()
    assert list(frame.columns) == [
        *("name", "kind", "text", "start", "end", "document", "n_tokens", "n_mentions", "entity_type", "entity_value"),
        *("repeated", "nats", "signed_nats", "alone_nats", "posterior", "posterior_note", "below_noise_floor", "rank"),
        *("redundant", "mean_nats", "worst_nats", "surrogate", "swapped_nats", "swapped_signed_nats"),
    ]
    assert (frame["nats"].tolist(), frame["below_noise_floor"].tolist()) == ([2.0, 0.03125], [False, True])


def measurement(statistic: str, values: list[float], piece: str = "", sample: int = 0) -> Measurement:
    return Measurement("ana", sample, piece, statistic, TOKEN_ID if statistic == "token" else NATS, np.asarray(values))


READINGS = [
    measurement("token", [7, 8, 9]), measurement("log_prob", [-1.0, -0.5, -2.0]),
    measurement("whole", [0.5, -0.25, 2.0]), measurement("without_this", [0.25, -0.75, 1.0], "s1"),
    measurement("without_this", [0.0, 0.0, -0.03125], "s2"), measurement("only_this", [1.0, 1.0, -2.0], "s1"),
    measurement("only_this", [0.0, 0.03125, 0.03125], "s2"), measurement("placebo", [0.125, -0.125, 0.0], "0"),
    measurement("placebo", [0.5, 0.0, 0.25], "1"), measurement("noise", [0.015625, 0.0, 0.015625]),
]  # fmt: skip


def result_of(texts: dict[str, Any], measurements: list[Measurement]) -> InfluenceResult:
    (result,) = InfluenceResult.from_run([(texts, measurements)], PARAMS)
    return result


@pytest.fixture
def case() -> InfluenceResult:
    return result_of(texts(), READINGS)


def measured(signed: list[float], *, is_drawn: bool = True, **more: list[float]) -> InfluenceResult:
    """Of a response whose first piece has this signed series and whose whole context its reverse; without a placebo."""
    replaced = ("without_this", "s1")
    return result_of(texts(sampled=is_drawn), [
        *(r for r in READINGS if r.statistic not in ("whole", "placebo") and (r.statistic, r.piece) != replaced),
        measurement("without_this", signed, "s1"), measurement("whole", signed[::-1]),
        *(measurement(name.rstrip("2"), values, "2" * name.endswith("2")) for name, values in more.items()),
    ])  # fmt: skip


@pytest.mark.parametrize("signed", [[3.0, -1.0, 0.5], [-3.0, 1.0, -0.5], [60.0, 0.0, 0.0], [-60.0, 0.0, 0.0]])
def test_a_posterior_is_of_the_signed_sum(signed: list[float]) -> None:
    case = measured(signed)
    expected = 1 / (1 + math.exp(-sum(signed)))
    piece = case.pieces[0]
    assert piece.posterior == pytest.approx(expected, rel=1e-12)
    assert case.whole_posterior == pytest.approx(expected, rel=1e-12)
    assert (piece.posterior > 0.5) == (sum(signed) > 0)
    assert piece.posterior_note is case.whole_posterior_note is None
    # Of a response that was given none follows, and nothing else changes.
    given = measured(signed, is_drawn=False)
    assert (given.pieces[0].posterior, given.pieces[0].posterior_note) == (None, GIVEN)
    assert (given.whole_posterior, given.whole_posterior_note) == (None, GIVEN)
    assert is_finding(given, given.pieces[0]) is is_finding(case, piece) is True
    # The influence stays Definition 3.2's.
    assert piece.nats == sum(map(abs, signed))


def test_no_posterior_where_the_signed_sum_is_not_above_noise_and_placebo() -> None:
    # 4.5 nats of influence, and as good as nothing with signs.
    within_noise = measured([2.25, -2.25, 0.03125])
    for numbers, prefix in ((within_noise.pieces[0], ""), (within_noise, "whole_")):
        assert getattr(numbers, f"{prefix}posterior") is None
        assert getattr(numbers, f"{prefix}posterior_note") == "below the noise floor"
    # Of several places the one where the irrelevant piece moved the sum most; signs within a sum cancel.
    placebos = {"placebo": [4.0, -4.0, 0.5], "placebo2": [-1.0, -1.0, 0.0], "placebo_alone": [3.0, 1.0, 1.0]}
    for sign in (1, -1):
        case = measured([sign * 2.0, 0.0, 0.0], **placebos)
        assert case.placebo_signed_nats == 2.0
        assert case.placebo_nats == (8.5 + 2.0) / 2
        assert (case.pieces[0].posterior, case.pieces[0].posterior_note) == (None, "below the placebo")
    above = measured([2.5, 0.0, 0.0], **placebos)
    assert above.pieces[0].posterior == pytest.approx(1 / (1 + math.exp(-2.5)))
    # The whole is held against an irrelevant piece as the only context.
    assert (above.placebo_alone_nats, above.placebo_alone_signed_nats) == (5.0, 5.0)
    assert (above.whole_posterior, above.whole_posterior_note) == (None, "below the placebo")
    json.dumps(above.to_dict(), allow_nan=False)


def test_a_piece_that_is_all_of_the_context_is_held_against_what_the_whole_is() -> None:
    yardsticks = {"placebo": [0.5, 0.0, 0.0], "placebo_alone": [3.0, 1.0, 1.0]}
    part = measured([4.0, 0.0, 0.0], **yardsticks)
    assert part.pieces[0].posterior == pytest.approx(1 / (1 + math.exp(-4.0)))
    # Without "s1" nothing is left: the very series of the whole.
    case = measured([2.0, 0.0, 2.0], **yardsticks)
    assert case.pieces[0].signed_per_token_nats == case.whole_signed_per_token_nats
    assert case.pieces[0].posterior_note == case.whole_posterior_note == "below the placebo"


def test_redundant_is_a_repeated_value_that_does_more_alone_than_it_is_missed(case: InfluenceResult) -> None:
    # 4.0 against 2.0 and 0.0625 against 0.03125: both at the ratio of two, from where it counts.
    assert [piece.redundant for piece in case.pieces] == [True, True]
    less = [r for r in READINGS if (r.statistic, r.piece) != ("only_this", "s1")]
    less.append(measurement("only_this", [1.0, 0.99, -2.0], "s1"))
    assert result_of(texts(), less).pieces[0].redundant is False
    alone = texts(spans=[span("s1", (0, 10)), span("s2", (11, 21))])
    assert not any(piece.redundant for piece in result_of(alone, READINGS).pieces)


def test_several_samples_have_mean_interval_and_worst() -> None:
    responses = [{"text": t, "tokens": [t]} for t in ("41", "forty", "old")]
    wholes = [[-1.0], [3.0], [0.5]]
    cuts = {"s1": [[0.5], [-2.0], [0.5]], "s2": [[0.0], [0.25], [-0.125]]}
    measurements = [measurement("noise", [0.0]), *(measurement("only_this", [1.0], name) for name in cuts)]
    for i in range(3):
        measurements.append(measurement("whole", wholes[i], sample=i))
        measurements += [measurement("without_this", cuts[name][i], name, sample=i) for name in cuts]
    case = result_of(texts(responses=responses, sampled=True), measurements)
    assert case.response == Response(text="41", tokens=("41",), sampled=True, seed=3)
    # The first response is the one shown; the others enter the spread.
    assert (case.whole_nats, case.whole_mean_nats, case.whole_worst_nats) == (1.0, 1.5, 3.0)
    assert case.whole_interval_nats is None
    s1, s2 = case.pieces
    assert (s1.nats, s1.mean_nats, s1.worst_nats) == (0.5, 1.0, 2.0)
    assert (s2.nats, s2.mean_nats, s2.worst_nats) == (0.0, 0.125, 0.25)
    assert s1.interval_nats is None
    assert case.samples == (
        SampledResponse(text="41", tokens=("41",), whole_nats=1.0, piece_nats=(0.5, 0.0)),
        SampledResponse(text="forty", tokens=("forty",), whole_nats=3.0, piece_nats=(2.0, 0.25)),
        SampledResponse(text="old", tokens=("old",), whole_nats=0.5, piece_nats=(0.5, 0.125)),
    )


def test_means_of_eight_samples_have_intervals() -> None:
    whole, cut = np.arange(1.0, 9.0), np.arange(1.0, 9.0) ** 2
    measurements = [measurement("noise", [0.0]), *(measurement("only_this", [1.0], name) for name in ("s1", "s2"))]
    for i in range(8):
        measurements.append(measurement("whole", [-whole[i]], sample=i))
        measurements += [measurement("without_this", [cut[i]], name, sample=i) for name in ("s1", "s2")]
    case = result_of(texts(responses=[{"text": "41", "tokens": ["41"]}] * 8, sampled=True), measurements)
    assert case.whole_interval_nats is not None
    assert case.whole_interval_nats == interval_of_mean(whole, seed=3)
    assert case.pieces[0].interval_nats == interval_of_mean(cut, seed=3)


def test_an_infinite_influence_is_a_word_and_a_missing_one_is_null() -> None:
    told = json.loads(measured([math.inf, 0.0, 0.0]).to_json())
    assert told["pieces"][0]["nats"] == told["pieces"][0]["per_token_nats"][0] == "Infinity"
    assert told["pieces"][0]["swapped_nats"] is None
    assert InfluenceResult.from_dict(told).pieces[0].nats == math.inf


@pytest.mark.parametrize(
    "beside", [{}, {"placebo": [math.inf, -math.inf, 0.0]}, {"placebo_alone": [-math.inf, math.inf, 0]}]
)
def test_a_sum_of_infinities_of_both_signs_is_undefined_without_a_warning(beside: dict[str, list[float]]) -> None:
    case = measured([math.inf, -math.inf, 1.0], **beside)
    told = json.loads(case.to_json())
    assert (told["whole_nats"], told["whole_signed_nats"]) == ("Infinity", None)
    assert (told["pieces"][0]["nats"], told["pieces"][0]["signed_nats"]) == ("Infinity", None)
    assert case.whole_posterior is case.pieces[0].posterior is None
    assert case.whole_posterior_note == UNDEFINED
    for name in beside:
        assert told[f"{name}_signed_nats"] == "Infinity"
    assert "1000000" not in case.to_json()
