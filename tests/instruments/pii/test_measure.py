"""Likelihoods of people's values against the naive way, and what is generated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from helpers.examples import few
from leakmeter.backends.toy import Toy
from leakmeter.core.backend import Backend
from leakmeter.core.drive import drive
from leakmeter.core.forecast import planning_backend, predict
from leakmeter.core.limits import MOST_BEAMS
from leakmeter.core.measurement import RESPONSE, Measurement
from leakmeter.core.prompt import Prompt
from leakmeter.errors import UsageError
from leakmeter.instruments.pii.item import ProbeItem
from leakmeter.instruments.pii.matching import STATISTICS
from leakmeter.instruments.pii.measure import Pii
from leakmeter.instruments.pii.probe import ProbeCase, probes_of
from leakmeter.instruments.pii.prompts import PreparedProbe, ProbeSettings, prepare_probe
from leakmeter.instruments.pii.subject import Relation, Subject
from leakmeter.stats.logspace import log_softmax

JANE = Subject(
    "7", "Jane Doe", phone="617-555-0134", email="jane.doe@mail.org", address="12 Oak St, Boston, MA 02118",
    relationships=(Relation("father", "John Doe"),), university="Stanford University",
)  # fmt: skip
CASES = {case.id: case for case in probes_of([JANE])}


def prepared(backend: Backend, case: ProbeCase, **settings: Any) -> PreparedProbe:
    return prepare_probe(
        case, backend.tokenizer, ProbeSettings(**{"decoys": 50, "prompts": 2, **settings}), window=backend.window
    )


def measured(backend: Backend, item: ProbeItem, measure: Pii | None = None) -> list[Measurement]:
    (measurements,), _ = drive(backend, [(measure or Pii((), "full")).trial(item)])
    return measurements


def of(measurements: Sequence[Measurement], statistic: str, template: int = 0, piece: str = "") -> np.ndarray:
    (found,) = [r for r in measurements if (r.statistic, r.sample, r.piece) == (statistic, template, piece)]
    return found.values


def test_what_is_generated_is_judged_and_kept_where_that_is_asked_for() -> None:
    toy = Toy()
    probe = prepared(toy, CASES["7: phone"])
    measurements = measured(toy, probe.item, Pii((1, 2), "full"))
    assert probe.item.values is not None
    for piece in ("beam 1", "beam 2"):
        for template in (0, 1):
            assert of(measurements, "generated_tokens", template, piece) <= probe.item.values.n_new_tokens
            assert of(measurements, "generated_log_likelihood", template, piece) < 0
            for statistic in STATISTICS["phone"]:
                assert of(measurements, statistic, template, piece).shape == (1,)
    assert not [measurement for measurement in measurements if measurement.statistic == RESPONSE]
    measurements = measured(toy, prepared(toy, CASES["7: phone"], keep_values=True).item, Pii((2,), "full"))
    assert len(of(measurements, RESPONSE, 1, "beam 2")) == of(measurements, "generated_tokens", 1, "beam 2")[0]


def test_widths_that_make_no_sense_are_refused() -> None:
    assert Pii(beams=(1, MOST_BEAMS)).beams == (1, MOST_BEAMS)
    for beams in ((0,), (2, 2), (MOST_BEAMS + 1,)):
        with pytest.raises(UsageError, match="width"):
            Pii(beams)


def naive(toy: Toy, before: Prompt, ids: Sequence[int]) -> float:
    """One pass a token."""
    whole = np.asarray([*before.ids, *ids])
    rows = [toy.logits(whole[:n], np.arange(n)) for n in range(len(before.ids), len(whole))]
    return float(sum(log_softmax(row[None])[0, token] for row, token in zip(rows, ids, strict=True)))


@pytest.mark.parametrize(
    "id_", few(["7: phone", "7: relationship father", "7: university", "7: email by phone and address"], 2)
)
def test_likelihoods_on_the_toy_are_those_of_one_pass_a_token(id_: str) -> None:
    toy = Toy()
    probe = prepared(toy, CASES[id_])
    measurements = measured(toy, probe.item)
    assert probe.item.values is not None
    for template, way in enumerate(probe.item.values.scored):
        expected = [naive(toy, *one) for one in way]
        np.testing.assert_allclose(of(measurements, "log_likelihood", template), expected, atol=1e-9)
        assert of(measurements, "n_tokens", template).tolist() == [len(ids) for _, ids in way]
        elsewhere = np.mean(
            [[naive(toy, *one) for one in ways[template]] for ways in probe.item.values.control_names], axis=0
        )
        np.testing.assert_allclose(of(measurements, "reference_log_likelihood", template), elsewhere, atol=1e-9)


def test_what_it_takes_is_known_before() -> None:
    toy = Toy()
    probe = prepared(toy, CASES["7: phone"])
    predicted = predict(planning_backend(toy, None), Pii((2,)).longest_trial(probe.item))
    _, taken = drive(toy, [Pii((2,)).trial(probe.item)])
    assert taken.n_tokens_run <= predicted.n_tokens_run
    full = Pii((), "full")
    without = predict(planning_backend(toy, None), full.longest_trial(probe.item))
    _, taken = drive(toy, [full.trial(probe.item)])
    assert taken.n_tokens_run == without.n_tokens_run
