"""ICL influence on the toy model against full prompts, one for each exemplar that is left out; and its properties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from helpers import tiny_models as tiny
from helpers.icl_items import LABELS, ByHand, Series, icl_item, readings_of
from helpers.naive import naive_logits
from leakmeter.backends.toy import Toy
from leakmeter.core.counting import CountingBackend, count
from leakmeter.core.drive import drive
from leakmeter.core.measure import LABEL, NATS, TOKEN_ID
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.tree import Chunk
from leakmeter.errors import ScoreError, UnknownNameError, UsageError
from leakmeter.instruments.icl.math import FARTHEST, PLAUSIBLE
from leakmeter.instruments.icl.measure import ExemplarItem, Icl

N_VOCAB = 29
CALIBRATIONS = [(None, "own"), *product(("blank", "n/a", "average"), ("own", "shared"))]


def toy() -> Toy:
    return Toy(N_VOCAB, seed=11)


def by_hand(measure: Icl, item: ExemplarItem, model: Toy | None = None) -> ByHand:
    used = model or toy()

    def logits(ids: Sequence[int]) -> np.ndarray:
        return used.logits(np.asarray(ids), np.arange(len(ids)))

    return ByHand(logits, measure, item)


def chunks_of(measure: Icl, *items: ExemplarItem) -> list[Chunk]:
    chunks: list[Chunk] = []
    drive(toy(), [measure.trial(item) for item in items], on_plan=chunks.append)
    return chunks


def lists(got: Series, but: str = "none of it") -> dict[tuple[str, str], list[float]]:
    return {key: values.tolist() for key, values in got.items() if but not in key[0]}


@pytest.mark.parametrize("temperature", [0.7, 1.0])
@pytest.mark.parametrize(("calibration", "baseline"), CALIBRATIONS)
@pytest.mark.parametrize("scoring", LABELS)
def test_every_label_and_exemplar_equals_the_naive_calculation(
    scoring: Any, calibration: Any, baseline: Any, temperature: float
) -> None:
    item = icl_item(N_VOCAB, labels=LABELS[scoring])
    measure = Icl(
        space="labels", label_scoring=scoring, calibration=calibration, calibration_baseline=baseline,
        calibration_epsilon=0.01, temperature=temperature,
    )  # fmt: skip
    got, hand = readings_of(toy(), measure, item), by_hand(measure, item)
    for name in ("e1", "e2", "e3"):
        # Worst measured: 2.7e-15.
        np.testing.assert_allclose(got["label_loss", name], hand.loss(name), rtol=0, atol=2e-14)
    np.testing.assert_allclose(got["label_log_prob", ""], hand.log_probs(), rtol=0, atol=2e-14)
    assert got["prediction", ""].tolist() == [float(np.argmax(hand.log_probs()))]
    assert got["gold", ""].tolist() == [1.0]
    # The toy has no neighbours.
    assert got["noise", ""].tolist() == [0.0]


@pytest.mark.parametrize("temperature", [0.7, 1.0])
@pytest.mark.parametrize("scoring", LABELS)
def test_the_whole_vocabulary_equals_the_naive_calculation(scoring: Any, temperature: float) -> None:
    item = icl_item(N_VOCAB, labels=LABELS[scoring])
    measure = Icl(space="vocabulary", label_scoring=scoring, temperature=temperature)
    got, hand = readings_of(toy(), measure, item), by_hand(measure, item)
    for name in item.cuts:
        for kind, least in (("farthest", 0.0), ("plausible", PLAUSIBLE)):
            token, whole, without = hand.farthest(name, least)
            assert got[f"{kind}_token", name].tolist() == [token]
            np.testing.assert_allclose(got[f"{kind}_log_prob", name], whole, rtol=0, atol=2e-14)
            np.testing.assert_allclose(got[f"{kind}_log_prob_without", name], without, rtol=0, atol=2e-14)
        np.testing.assert_allclose(got["label_loss", name], hand.loss(name), rtol=0, atol=2e-14)
    assert got["farthest_noise", ""].tolist() == got["plausible_noise", ""].tolist() == [0.0]
    # Labels are measured in the same pass.
    labels = readings_of(toy(), Icl(space="labels", label_scoring=scoring, temperature=temperature), item)
    assert lists(labels).items() <= lists(got).items()


def test_every_reading_says_what_it_is() -> None:
    (measurements,), _ = drive(toy(), [Icl(space="vocabulary").trial(icl_item(N_VOCAB))])
    units = {measurement.statistic: measurement.unit for measurement in measurements}
    assert units == {
        **{name: TOKEN_ID if name.endswith("token") else NATS for name in FARTHEST},
        **dict.fromkeys(("label_loss", "label_log_prob", "label_mass", "noise"), NATS),
        **dict.fromkeys(("farthest_noise", "plausible_noise"), NATS),
        **dict.fromkeys(("prediction", "gold"), LABEL),
    }
    assert {r.piece for r in measurements if r.statistic == "label_loss"} == {"e1", "e2", "e3"}
    assert not any(r.unit == TOKEN_ID for r in drive(toy(), [Icl().trial(icl_item(N_VOCAB))])[0][0])


def test_the_mass_is_what_the_labels_have_before_they_are_renormalised() -> None:
    item, measure = icl_item(N_VOCAB), Icl(calibration="blank")
    p = by_hand(measure, item).next_token(item.prompt.ids.tolist())
    got = readings_of(toy(), measure, item)["label_mass", ""]
    np.testing.assert_allclose(got, np.log(sum(np.exp(p[ids[0]]) for ids in LABELS["first-token"])), rtol=1e-12)


def test_one_exemplar_is_measured_against_none_and_an_unknown_label_has_no_reading() -> None:
    item = icl_item(N_VOCAB, lengths=(5,), gold=None)
    assert item.cuts["e1"] == item.blank
    got = readings_of(toy(), Icl(), item)
    np.testing.assert_allclose(got["label_loss", "e1"], by_hand(Icl(), item).loss("e1"), rtol=0, atol=2e-14)
    assert ("gold", "") not in got


def test_company_and_order_of_trials_change_nothing() -> None:
    items = [icl_item(N_VOCAB, seed=i, id_=str(i), lengths=n) for i, n in enumerate([(3, 4), (1,), (2, 2, 2)])]
    measure = Icl(space="vocabulary")
    together, _ = drive(toy(), [measure.trial(item) for item in items])
    for item, measurements in zip(items, together, strict=True):
        alone = lists(readings_of(toy(), measure, item))
        assert {(r.statistic, r.piece): r.values.tolist() for r in measurements} == alone


def test_prompts_are_asked_once_and_three_of_them_again() -> None:
    item = icl_item(N_VOCAB)
    first, again = chunks_of(Icl(), item)
    assert [len(request.prompts) for request in first.requests] == [4, 1, 1, 1]
    assert [len(request.prompts) for request in again.requests] == [3]
    # What keeps the states of three prompts adds no token.
    (whole, *_), tree = first.requests, first.n_tree_tokens
    assert {len(request.response) for request in first.requests[1:]} == {1}
    assert tree == sum(branch.n_tail for branch in first.branches) < sum(len(prompt.ids) for prompt in whole.prompts)
    for baseline, n in (("own", 3 * 4), ("shared", 4 + 2)):
        calibrated, _ = chunks_of(Icl(calibration="average", calibration_baseline=baseline), item)  # type: ignore[arg-type]
        assert len(calibrated.requests[0].prompts) == n
    # Rows that are kept for one space serve the other.
    for one, two in zip((first, again), chunks_of(Icl(space="vocabulary"), item), strict=True):
        assert [branch.ids.tolist() for branch in one.branches] == [branch.ids.tolist() for branch in two.branches]
        assert [branch.row_slots.tolist() for branch in one.branches] == [
            branch.row_slots.tolist() for branch in two.branches
        ]


class Drifting(Toy):
    """Says two tokens a little likelier with every round."""

    tokens: tuple[int, ...] = ()
    drift = 0.0

    def score(self, chunk: Chunk) -> Any:
        self.drift = 1e-3 * chunk.round
        return super().score(chunk)

    def logits(self, ids: Any, positions: Any) -> Any:
        found = super().logits(ids, positions)
        found[list(self.tokens)] += self.drift
        return found


@pytest.mark.parametrize("calibration", [None, "n/a"])
@pytest.mark.parametrize(("scoring", "n_tokens"), [("first-token", 1), ("whole-sequence", 3)])
def test_known_noise_grows_with_the_tokens_of_a_label(scoring: Any, n_tokens: int, calibration: Any) -> None:
    item = replace(icl_item(N_VOCAB, labels=LABELS[scoring]), model_noise_nats=1e-3)
    got = readings_of(toy(), Icl(space="labels", label_scoring=scoring, calibration=calibration), item)
    # Two log-probabilities; those that calibrate twice more; what renormalises doubles it.
    expected = 2 * 1e-3 * n_tokens * (3 if calibration else 1) * 2
    np.testing.assert_allclose(got["noise", ""], [expected], rtol=1e-12)


def test_the_noise_is_twice_what_a_second_run_makes_to_a_log_probability() -> None:
    item = icl_item(N_VOCAB)
    still = readings_of(toy(), Icl(space="vocabulary"), item)
    model = Drifting(N_VOCAB, seed=11)
    model.tokens = (3, int(still["farthest_token", "e1"][0]))
    got = readings_of(model, Icl(space="vocabulary"), item)
    assert lists(got, but="noise") == lists(still, but="noise")
    differs = [
        by_hand(Icl(), changed, model).log_probs() - by_hand(Icl(), changed).log_probs()
        for changed in (item, *(replace(item, prompt=item.cuts[name]) for name in ("e1", "e3")))
    ]
    np.testing.assert_allclose(got["noise", ""], [2 * np.abs(differs).max()], rtol=1e-9)
    # Of the token itself: 1e-3, less what it takes from all others.
    assert 1e-3 < got["farthest_noise", ""][0] < 2e-3


def test_labels_that_scores_cannot_tell_apart_are_named() -> None:
    first, whole, either = Icl(), Icl(label_scoring="whole-sequence"), "'(news|sport)'.*'(news|sport)'"
    for measure, labels, told in (
        (first, LABELS["whole-sequence"], "labels 'sport' and 'trade' begin with the same token.*whole-sequence"),
        (whole, ((11, 5, 2), (3,), (11, 5)), "label 'news' begins with the tokens of label 'trade'"),
        (first, ((3,), (3,)), either),
        (whole, ((3,), (3,)), either),
    ):
        with pytest.raises(UsageError, match=told):
            next(measure.trial(icl_item(N_VOCAB, labels=labels)))


def test_what_has_no_exemplars_is_no_such_case() -> None:
    other = replace(icl_item(N_VOCAB), spans=())
    for refused in (Icl().check, lambda item: next(Icl().trial(item))):
        with pytest.raises(UsageError, match="case 'hand' has no exemplars"):
            refused(other)


def test_labels_that_a_model_rules_out() -> None:
    class Silent(Toy):
        """Never says the labels it is not to say."""

        silent: tuple[int, ...] = ()

        def logits(self, ids: Any, positions: Any) -> Any:
            found = super().logits(ids, positions)
            found[list(self.silent)] = -np.inf
            return found

    model = Silent(N_VOCAB)
    model.silent = (3,)
    got = readings_of(model, Icl(), icl_item(N_VOCAB))
    # Impossible with and without an exemplar: nothing is told by it.
    assert all(got["label_loss", name][0] == 0 and np.isfinite(got["label_loss", name]).all() for name in ("e1", "e2"))
    assert np.isfinite(got["noise", ""]).all()
    model.silent = (3, 11, 7)
    with pytest.raises(ScoreError, match="case 'hand': the model gives none of the labels any probability"):
        readings_of(model, Icl(), icl_item(N_VOCAB))


@pytest.mark.parametrize(
    ("given_", "error", "message"),
    [
        ({"space": "label"}, UnknownNameError, "no space named 'label'; did you mean 'labels'"),
        ({"label_scoring": "first"}, UnknownNameError, "no label scoring named 'first'; did you mean 'first-token'"),
        ({"calibration": "none"}, UnknownNameError, "no calibration named 'none'; known: 'average', 'blank', 'n/a'"),
        ({"calibration_baseline": "x"}, UnknownNameError, "no calibration baseline named 'x'; known: 'own', 'shared'"),
        ({"temperature": 0.0}, UsageError, "temperature is 0.0; it has to be above 0"),
        ({"temperature": float("nan")}, UsageError, "temperature is nan"),
        ({"calibration_epsilon": 0.0}, UsageError, "calibration-epsilon is 0.0; it has to be above 0"),
        ({"calibration": "blank", "space": "vocabulary"}, UsageError, "calibration is for labels; leave it out"),
    ],
)
def test_parameters_without_meaning_are_refused(given_: dict[str, Any], error: type[UsageError], message: str) -> None:
    with pytest.raises(error, match=message):
        Icl(**given_)


MEASURES = {
    "labels": Icl(), "sequences": Icl(label_scoring="whole-sequence", temperature=0.8),
    "vocabulary": Icl(space="vocabulary"), "calibrated": Icl(calibration="average"),
    "calibrated by one": Icl(label_scoring="whole-sequence", calibration="blank", calibration_baseline="shared"),
}  # fmt: skip


@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
def test_a_model_with_layers_gives_what_full_passes_do_and_takes_what_was_predicted(measure: Icl) -> None:
    def logits(ids: Sequence[int]) -> Any:
        return naive_logits(tiny.tiny_model("llama"), Prompt((Piece("all", "frame", tuple(ids)),)), ())

    item = icl_item(tiny.N_VOCAB, seed=3, lengths=(9, 4, 7), labels=LABELS[measure.label_scoring])
    backend, hand = tiny.tiny_backend(), ByHand(logits, measure, item)
    got = readings_of(backend, measure, item)
    for name in item.cuts:
        # Worst measured: 1.4e-5 (whole sequences), of losses up to 12 nats.
        np.testing.assert_allclose(got["label_loss", name], hand.loss(name), rtol=0, atol=5e-5)
        if measure.space == "vocabulary":
            token, whole, without = hand.farthest(name)
            loss = abs(got["farthest_log_prob", name] - got["farthest_log_prob_without", name])
            assert loss == pytest.approx(abs(whole - without), abs=5e-5)
            assert got["farthest_token", name] == token
    assert max(np.abs(got["label_loss", name]).max() for name in item.cuts) > 0.3
    assert got["noise", ""][0] < 5e-5
    prediction = count(CountingBackend(backend), [measure.trial(item)])
    _, taken = drive(backend, [measure.trial(item)])
    assert (prediction.n_tokens_run, prediction.n_prompts) == (taken.n_tokens_run, taken.n_prompts)
    assert not prediction.is_upper_bound
