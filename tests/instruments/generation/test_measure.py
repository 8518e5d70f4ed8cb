"""Private generation against one by hand; mistakes that are caught; seeds, stops and texts that are given."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from helpers.generation_items import ByHand, Mistaken, Series, batch, readings_of, tokens_of
from leakmeter.backends.toy import Toy
from leakmeter.core.counting import CountingBackend, count
from leakmeter.core.drive import drive
from leakmeter.core.item import ContextItem
from leakmeter.core.sampling import bits_of, uniforms_of
from leakmeter.errors import UsageError
from leakmeter.instruments.decoding.measure import Decode
from leakmeter.instruments.generation import measure
from leakmeter.instruments.generation.measure import PrivateGeneration
from leakmeter.privacy.clipped_logits import Aggregation
from leakmeter.privacy.mechanism import BoundedCid, ClippedLogitAggregation
from leakmeter.privacy.rdp import ORDERS, bound, guarantee
from leakmeter.stats import logspace
from leakmeter.stats.exact_draw import draw

N_VOCAB = 11
TOY = Toy(N_VOCAB, seed=5)
SPANS = [(3, 4, 5), (6,), (7, 7, 3, 8)]
ITEM = batch(SPANS)
SMALL: dict[str, Any] = {"clip": 2.0, "temperature": 0.4, "sequences": 3, "max_new_tokens": 5, "seed": 9}


def drawn(item: ContextItem = ITEM, **more: Any) -> Series:
    return readings_of(TOY, PrivateGeneration(**{**SMALL, **more}), item)


@pytest.mark.parametrize("least", [0, 2])
def test_every_number_is_that_of_algorithm_1_by_hand(least: int) -> None:
    # Without a seed there is no guarantee, and the distribution is inverted at numbers that everybody knows.
    series = drawn(batch(SPANS, stop_ids=(9, 10)), min_new_tokens=least, seed=None)
    for number, written in enumerate(tokens_of(series)):
        uniforms = uniforms_of(0, "hand", number, 5)
        for t, token in enumerate(written):
            hand = ByHand(TOY, ITEM, 2.0, 0.4, masked=(9, 10) if t < least else ())
            p = hand.log_probs(written[:t])
            # The token stands where the distribution passes the draw.
            below = math.fsum(math.exp(p[v]) for v in p if v < token)
            assert below <= uniforms[t] <= below + math.exp(p[token]) + 1e-12
            assert series[number, "log_prob", ""][t] == pytest.approx(p[token], abs=1e-12)
            for name in ("e1", "e2", "e3"):
                for statistic, order in (("renyi_2", 2), ("renyi_14", 14), ("max_divergence", math.inf)):
                    expected = hand.divergence(written[:t], name, order)
                    assert series[number, statistic, name][t] == pytest.approx(expected, rel=1e-9, abs=1e-13)
        assert not {9, 10}.intersection((*written[:-1], *written[:least]))


def test_the_bound_stands_beside_it_and_its_order_is_measured() -> None:
    series, sensitivity = drawn(), Aggregation(2.0, 3, 0.4).sensitivity()
    np.testing.assert_array_equal(series[0, "promised_rdp", ""], bound(sensitivity, ORDERS))
    np.testing.assert_array_equal(series[0, "promised_order", ""], ORDERS)
    assert series[0, "promised_max_divergence", ""].tolist() == [2 * sensitivity]
    assert (0, f"renyi_{guarantee(sensitivity, 15, 1e-5).order:g}", "e1") in series
    for number, name in itertools.product(range(3), ("e1", "e2", "e3")):
        assert (series[number, "ratio", name] <= 1.0).all()
        assert set(series[number, "order", name]) <= set(ORDERS)


def test_perplexity_is_of_the_model_without_exemplars() -> None:
    series = drawn()
    for number, written in enumerate(tokens_of(series)):
        for t, token in enumerate(written):
            ids = np.asarray([0, 1, 2, *written[:t]])
            expected = logspace.log_softmax(TOY.logits(ids, np.arange(len(ids))))[token]
            assert series[number, "bare_log_prob", ""][t] == pytest.approx(expected, abs=1e-12)


def test_verbatim_runs_are_the_exemplars_own() -> None:
    series = readings_of(TOY, PrivateGeneration(seed=0), batch([(3, 4, 5, 6), (4, 5)], response=(9, 4, 5, 6, 0, 1, 3)))
    assert series[0, "verbatim", "e1"].tolist() == [0, 3, 3, 3, 0, 0, 1]
    # 0 1 stand in the frame, which anybody has.
    assert series[0, "verbatim", "e2"].tolist() == [0, 2, 2, 0, 0, 0, 0]


class Listed(Mistaken):
    """A sound rule whose bound is a list."""

    def bound(self, orders: Any) -> Any:
        return super().bound(orders).tolist()


@pytest.mark.parametrize("normalise_by", ["fixed", "present"])
def test_the_measure_s_own_rule_is_the_mechanism_of_that_name(normalise_by: Any) -> None:
    lengths: dict[str, Any] = {"sequences": 2, "max_new_tokens": 3, "seed": None}
    voting, fixed = Aggregation(3.0, 3, 0.5, normalise_by), Aggregation(3.0, 3, 0.5)
    own = drawn(clip=3.0, temperature=0.5, normalise_by=normalise_by, **lengths)
    same, listed = (
        readings_of(TOY, PrivateGeneration(mechanism=mechanism, **lengths), ITEM)
        for mechanism in (ClippedLogitAggregation(voting), Listed(fixed, fixed))
    )
    assert own.keys() == same.keys() == listed.keys()
    for key, values in own.items():
        np.testing.assert_array_equal(same[key], values)


def test_bounded_decoding_is_audited_and_says_what_decode_says() -> None:
    measure = PrivateGeneration(mechanism=BoundedCid(0.6, 0.8, 1.5), sequences=3, max_new_tokens=6, seed=4)
    series = readings_of(TOY, measure, batch([(3, 4, 5, 6, 7)]))
    # The same seed draws other tokens for another measure: decoding scores those that were drawn here.
    decode = Decode(temperature=0.8, epsilon=0.6, lambda_max=1.5)
    for number, written in enumerate(tokens_of(series)):
        (measurements,), _ = drive(TOY, [decode.trial(batch([(3, 4, 5, 6, 7)], response=written))])
        scored = {r.statistic: r.values for r in measurements}
        np.testing.assert_allclose(series[number, "log_prob", ""], scored["log_prob"], rtol=0, atol=1e-13)
        np.testing.assert_allclose(series[number, "max_divergence", "e1"], scored["max_loss"], rtol=1e-9)
        assert (series[number, "ratio", "e1"] <= 1.0 + 1e-9).all()
    assert series[0, "promised_max_divergence", ""].tolist() == [0.3]


@pytest.mark.parametrize("least", [0, 3])
def test_a_text_that_is_given_is_measured_as_if_it_had_come_out(least: int) -> None:
    series = drawn(batch(SPANS, stop_ids=(9,)), min_new_tokens=least)
    for number, written in enumerate(tokens_of(series)):
        again = drawn(batch(SPANS, stop_ids=(9,), response=written), min_new_tokens=least)
        for (_, statistic, name), values in again.items():
            of = 0 if statistic.startswith("promised") else number
            np.testing.assert_allclose(series[of, statistic, name], values, rtol=1e-12, atol=1e-15)


def test_how_many_advance_together_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    item = batch(SPANS, stop_ids=(8, 9, 10))
    whole = drawn(item, sequences=7, max_new_tokens=6)
    assert len({len(written) for written in tokens_of(whole)}) > 1
    for n in (1, 6):
        monkeypatch.setattr(measure, "_PROMPTS_TOGETHER", n)
        few = drawn(item, sequences=7, max_new_tokens=6)
        assert list(few) == list(whole)
        for key, values in whole.items():
            np.testing.assert_array_equal(few[key], values)


def test_parts_of_a_batch_have_one_guarantee_and_drawn_apart() -> None:
    whole = drawn(sequences=4, max_new_tokens=3)
    parts = [drawn(batch(SPANS, id_=id_), sequences=4, max_new_tokens=3, sequences_a_part=2) for id_ in ("p1", "p2")]
    assert [len(tokens_of(part)) for part in parts] == [2, 2]
    assert tokens_of(parts[0]) != tokens_of(parts[1])
    for part in parts:
        # Measured at the order of the guarantee of all four.
        assert {statistic for _, statistic, _ in part} == {statistic for _, statistic, _ in whole}
    assert PrivateGeneration(sequences=6, sequences_a_part=2).parts == 3
    assert PrivateGeneration(sequences=6).parts == 1
    for part_size in (0, 4, 12):
        with pytest.raises(UsageError, match=f"sequences-a-part is {part_size}; it has to divide 6 sequences"):
            PrivateGeneration(sequences=6, sequences_a_part=part_size)


@pytest.mark.parametrize("normalise_by", ["fixed", "present"])
def test_what_it_takes_can_be_predicted(normalise_by: Any) -> None:
    measure = PrivateGeneration(sequences=4, max_new_tokens=5, seed=0, normalise_by=normalise_by)
    prediction = count(CountingBackend(TOY), [measure.trial(ITEM)])
    _, cost = drive(TOY, [measure.trial(ITEM)])
    assert prediction.n_prompts == cost.n_prompts == 4 * 5 * 3 + 4
    assert prediction.is_upper_bound


def test_seeds_of_texts() -> None:
    one, two, other = (tokens_of(drawn(seed=seed)) for seed in (5, 5, 6))
    assert one == two
    assert len(set(one)) == 3
    assert one not in (other, tokens_of(drawn(batch(SPANS, id_="another"), seed=5)))
    # More sequences, or longer ones, leave what there was.
    assert [written[:3] for written in one] == tokens_of(drawn(seed=5, max_new_tokens=3))
    assert one[:2] == tokens_of(drawn(seed=5, sequences=2))


def test_without_a_seed_the_operating_system_draws() -> None:
    one, two = (PrivateGeneration(**{**SMALL, "seed": None}).seeded() for _ in range(2))
    assert (one.seed, two.seed) == (None, None)
    assert one.nonce is not None
    assert two.nonce not in (None, one.nonce)
    assert max(one.nonce, two.nonce or 0) >= 2**96
    assert one.seeded() == one
    assert PrivateGeneration(seed=5).seeded() == PrivateGeneration(seed=5)
    # Nobody can repeat it: the nonce is a name, and no seed.
    assert tokens_of(readings_of(TOY, one, ITEM)) != tokens_of(readings_of(TOY, one, ITEM))
    assert (PrivateGeneration(seed=0).seed, PrivateGeneration(nonce=0).nonce) == (0, 0)


def test_a_seed_under_another_guarantee_draws_another_text() -> None:
    first = tokens_of(drawn(sequences=6))
    for more in ({"clip": 2.0 + 1e-9}, {"temperature": 0.4 + 1e-12}, {"normalise_by": "present"}):
        assert tokens_of(drawn(sequences=6, **more)) != first
    assert tokens_of(drawn(sequences=6, delta=1e-6)) == first


def test_a_token_is_drawn_by_the_weights_of_the_distribution_that_was_measured() -> None:
    bits = bits_of(PrivateGeneration(**SMALL), ITEM)
    for number, written in enumerate(tokens_of(drawn())):
        for t, token in enumerate(written):
            log_p = ByHand(TOY, ITEM, 2.0, 0.4).log_probs(written[:t])
            weights = np.exp([[log_p[v] for v in range(N_VOCAB)]])
            assert draw(weights, bits(number, t)).tolist() == [[token]]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"clip": 0.0}, "clip is 0.0; it has to be above 0"),
        ({"temperature": -1.0}, "temperature is -1.0; it has to be above 0"),
        ({"normalise_by": "most"}, "no normalise-by named 'most'"),
        ({"sequences": 0}, "samples is 0; it has to be 1 or more"),
        ({"max_new_tokens": 0}, "max-new-tokens is 0; it has to be 1 or more"),
        ({"min_new_tokens": 9, "max_new_tokens": 8}, "max-new-tokens is 8; it has to be 9 or more"),
        ({"min_new_tokens": -1}, "min-new-tokens is -1"),
        ({"delta": 1.0}, "delta is 1.0; it has to be above 0 and below 1"),
        ({"seed": -1}, "seed is -1; it has to be 0 or more"),
        ({"nonce": -1}, "0 or more"),
        ({"mechanism": BoundedCid(1.0), "clip": 3.0}, "a mechanism has its own settings; leave out clip, temperature"),
    ],
)
def test_settings_without_a_meaning_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        PrivateGeneration(**given)


def test_items_that_cannot_be_measured_are_refused() -> None:
    with pytest.raises(UsageError, match="case 'hand' has no exemplars; give at least one"):
        drawn(batch([]))
    with pytest.raises(UsageError, match="case 'hand' has a response with a stop token among its first 2"):
        drawn(batch([(3,)], stop_ids=(9,), response=(1, 9, 2)), min_new_tokens=2)


def test_the_default_temperature_is_that_of_epsilon_10_with_50_exemplars() -> None:
    assert round(PrivateGeneration(seed=0).calibrated(10.0, 50).temperature, 1) == PrivateGeneration().temperature
