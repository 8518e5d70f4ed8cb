"""From measurements to the object that `leakmeter icl --json` prints, and to what many objects say, by hand."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from leakmeter.core.measure import LABEL, NATS, TOKEN_ID, Measurement
from leakmeter.core.plain import to_json
from leakmeter.errors import UsageError
from leakmeter.instruments.icl.result import IclResult, IclSummary, MovedToken, Vocabulary, summary
from leakmeter.stats.stats import interval_of_mean, interval_of_share

LABELS = ["World", "Fine Art", "Art"]
SHOWN = ["Article: Snow fell.\nAnswer: World", "Article: A show.\nAnswer: Fine Art", "Article: Oil.\nAnswer: Art"]
PARAMS = {
    "space": "labels", "label_scoring": "first-token", "calibration": None, "calibration_baseline": "own",
    "calibration_epsilon": 1e-4, "temperature": 1.0,
}  # fmt: skip
IN_VOCABULARY = PARAMS | {"space": "vocabulary"}


def texts(*, n: int = 3, **more: Any) -> dict[str, Any]:
    context = "\n\n".join(SHOWN[:n])
    spans = [
        {
            "name": f"e{i + 1}", "kind": "unit", "ranges": ((context.index(text), context.index(text) + len(text)),),
            "pieces": (f"e{i + 1}",), "document": f"x{i + 1}", "n_tokens": 10 + i, "repeats": (), "entity": None,
        }
        for i, text in enumerate(SHOWN[:n])
    ]  # fmt: skip
    return {
        "id": "q1", "model": "toy", "weights_sha256": None, "dtype": "float64", "unit": "exemplar", "removal": "drop",
        "template": "plain", "query": "A train left.", "context": context, "documents": [], "truncated_tokens": 0,
        "sampled": True, "labels": LABELS, "spans": spans,
        "responses": [],
        "cost": {"requests": 6, "tree_tokens": 90, "naive_tokens": 300, "seconds": 0.1, "out_of_memory_retries": 0},
    } | more  # fmt: skip


def measurement(statistic: str, *values: float, piece: str = "", unit: str = NATS) -> Measurement:
    return Measurement("q1", 0, piece, statistic, unit, np.asarray(values, dtype=np.float64))


def measurements(
    losses: tuple[tuple[float, ...], ...] = ((0.5, -0.25, 0.0), (-2.0, 1.0, 0.5), (0.01, 0.0, -0.02)),
    *,
    prediction: int = 0,
    gold: int | None = 0,
    mass: float = 0.5,
    noise: float = 0.05,
) -> list[Measurement]:
    out = [measurement("label_loss", *loss, piece=f"e{i}") for i, loss in enumerate(losses, 1)]
    out += [measurement("label_log_prob", *np.log([0.7, 0.2, 0.1])), measurement("label_mass", math.log(mass))]
    out += [measurement("noise", noise), measurement("prediction", prediction, unit=LABEL)]
    return out + ([] if gold is None else [measurement("gold", gold, unit=LABEL)])


def of_vocabulary(losses: tuple[float, ...]) -> list[Measurement]:
    out = []
    for i, loss in enumerate(losses, 1):
        for j, (kind, most) in enumerate((("farthest", loss), ("plausible", loss / 2))):
            out.append(measurement(f"{kind}_token", 2 * i + j, piece=f"e{i}", unit=TOKEN_ID))
            out.append(measurement(f"{kind}_log_prob", -40.0, piece=f"e{i}"))
            out.append(measurement(f"{kind}_log_prob_without", -40.0 - most, piece=f"e{i}"))
    return [*out, measurement("farthest_noise", 0.125), measurement("plausible_noise", 0.25)]


def result_of(texts: dict[str, Any], measurements: list[Measurement], params: dict[str, Any] = PARAMS) -> IclResult:
    """The result of a query; it is read again as it is written."""
    (made,) = IclResult.from_run([(texts, measurements)], params)
    assert IclResult.from_dict(json.loads(made.to_json())) == made
    return made


def case(
    id_: str = "q1", losses: tuple[float, ...] = (1.0, 2.0, 3.0), *, prediction: int = 0, gold: int | None = 0
) -> IclResult:
    """A query of losses that the first label makes."""
    rows = tuple((loss, 0.0, -loss / 2) for loss in losses)
    return result_of(texts(n=len(losses), id=id_), measurements(rows, prediction=prediction, gold=gold))


def test_the_case() -> None:
    made = result_of(texts(), measurements(), PARAMS)
    assert (made.loss_nats, made.worst_exemplar) == (2.0, "x2")
    # "World" is likelier without x2: no evidence that x2 was there.
    assert made.worst.signed_nats[0] == -2.0
    assert (made.prediction, made.gold, made.is_right) == ("World", "World", True)
    assert (*made.label_probabilities, made.label_mass) == pytest.approx((0.7, 0.2, 0.1, 0.5))
    assert (made.space, made.calibration, made.labels) == ("labels", None, tuple(LABELS))
    assert (made.query, made.warnings, made.noise_floor_nats) == ("A train left.", (), 0.05)
    _, two, _ = made.exemplars
    assert [(e.id, e.position, e.rank) for e in made.exemplars] == [("x1", 1, 2), ("x2", 2, 1), ("x3", 3, 3)]
    assert [e.text for e in made.exemplars] == SHOWN
    # Of two labels that the text ends with, the longer.
    assert [e.label for e in made.exemplars] == LABELS
    assert (two.worst_label, two.worst_label_nats, two.vocabulary) == ("World", 2.0, None)
    assert two.signed_nats == (-2.0, 1.0, 0.5)
    assert [e.below_noise_floor for e in made.exemplars] == [False, False, True]
    frame = made.to_frame()
    assert list(frame["loss_nats"]) == [0.5, 2.0, 0.02]
    assert list(frame["signed_nats: Fine Art"]) == [-0.25, 1.0, 0.0]
    # Without a label a query is neither right nor wrong.
    made = result_of(texts(), measurements(gold=None), PARAMS)
    assert (made.gold, made.is_right) == (None, None)
    total = summary([made])
    assert (total.n_with_label, total.accuracy, total.macro_f1) == (0, None, None)


def test_the_answer_comes_first_and_is_the_likeliest_where_none_was_given() -> None:
    made = result_of(texts(), measurements(), PARAMS)
    assert (made.answer, made.answer_given) == ("World", False)
    # "World" moves by 0.5, -2 and 0.01.
    assert (made.answer_nats, made.answer_exemplar, made.revealed.id) == (2.0, "x2", "x2")
    assert [e.answer_signed_nats for e in made.exemplars] == [0.5, -2.0, 0.01]
    assert [e.answer_below_noise_floor for e in made.exemplars] == [False, False, True]
    given = result_of(texts(), [*measurements(), measurement("answer", 2, unit=LABEL)], PARAMS)
    assert (given.answer, given.answer_given, given.prediction, given.is_right) == ("Art", True, "World", True)
    assert (given.answer_nats, given.answer_exemplar, given.loss_nats) == (0.5, "x2", 2.0)
    assert [e.answer_nats for e in given.exemplars] == [0.0, 0.5, 0.02]
    told = summary([made, given], seed=3)
    assert (told.answers.n_given, told.answers.mean_nats, told.answers.max_nats) == (1, 1.25, 2.0)
    assert told.answers.interval_nats is None
    assert told.exemplars is not None
    assert [one.answers.mean_nats for one in told.exemplars] == pytest.approx([0.25, 1.25, 0.015])
    assert told.exemplars[2].answers.share_below_noise_floor == 1.0
    # Over the vocabulary, the answer is still one of the labels, and held against the noise of their losses.
    words = {str(i): "w" for i in range(2, 8)}
    whole = result_of(texts(words=words), [*measurements(), *of_vocabulary((4.0, 1.0, 0.125))], IN_VOCABULARY)
    assert (whole.answer_nats, whole.answer_noise_floor_nats, whole.noise_floor_nats) == (2.0, 0.05, 0.125)


@pytest.mark.parametrize(
    ("answer", "note"),
    [(None, "the answer is the likeliest label, not drawn"), (0, "the answer was given, not drawn")],
)
@pytest.mark.parametrize("space", ["labels", "vocabulary"])
def test_no_posterior_follows_of_a_label_that_was_not_drawn(answer: int | None, note: str, space: str) -> None:
    """Where the likeliest label is the same with an exemplar and without it, it says nothing of the exemplar, however
    far its probability moves."""
    given = [] if answer is None else [measurement("answer", answer, unit=LABEL)]
    of_tokens = of_vocabulary((4.0, 1.0, 0.125)) if space == "vocabulary" else []
    words = {str(i): "w" for i in range(2, 8)}
    made = result_of(texts(words=words), [*measurements(), *given, *of_tokens], PARAMS | {"space": space})
    assert [e.answer_signed_nats for e in made.exemplars] == [0.5, -2.0, 0.01]
    for prefix in ("answer_", "worst_"):
        assert [getattr(e, f"{prefix}posterior") for e in made.exemplars] == [None] * 3
        assert [getattr(e, f"{prefix}posterior_note") for e in made.exemplars] == [note, note, "below the noise floor"]
    frame = made.to_frame()
    assert frame["answer_posterior"].isna().all()
    assert frame["worst_posterior"].isna().all()


def test_the_vocabulary_beside_the_labels() -> None:
    words = {"2": " snow", "3": " fell", "4": " show", "5": "\n", "6": "<|im_end|>", "7": "x"}
    made = result_of(texts(words=words), [*measurements(), *of_vocabulary((4.0, 1.0, 0.125))], IN_VOCABULARY)
    assert (made.loss_nats, made.worst_exemplar, made.noise_floor_nats) == (4.0, "x1", 0.125)
    one, _, three = made.exemplars
    names = ("token", "token_id", "log_prob_nats", "log_prob_without_nats", "loss_nats")
    assert one.vocabulary == Vocabulary(
        farthest=MovedToken(**dict(zip(names, (" snow", 2, -40.0, -44.0, 4.0), strict=True))),
        plausible=MovedToken(**dict(zip(names, (" fell", 3, -40.0, -42.0, 2.0), strict=True))),
    )
    assert (one.loss_nats, one.worst_label, one.worst_label_nats) == (4.0, "World", 0.5)
    assert (three.vocabulary.farthest.token, three.below_noise_floor) == ("<|im_end|>", True)


def test_an_infinite_loss_is_written_as_such_and_its_sign_is_kept() -> None:
    made = result_of(texts(), measurements(((0.5, 0.0, 0.0), (0.1, -math.inf, 0.0), (3.0, 0.0, 0.0))))
    assert (made.loss_nats, made.worst_exemplar) == (math.inf, "x2")
    assert made.exemplars[1].signed_nats == (0.1, -math.inf, 0.0)
    assert [e.rank for e in made.exemplars] == [3, 1, 2]
    written = json.loads(made.to_json())
    assert (written["loss_nats"], written["exemplars"][1]["signed_nats"][1]) == ("Infinity", "-Infinity")
    total = summary([made, case("q2")])
    assert (total.mean_nats, total.std_nats, total.interval_nats) == (math.inf, None, None)
    assert set(total.quantiles_nats.values()) == {None}
    assert [one.mean_nats for one in total.positions[:2]] == [0.75, math.inf]
    assert total.exemplars is not None
    assert total.exemplars[1].max_nats == math.inf
    assert total.to_dict()["mean_nats"] == "Infinity"
    assert IclSummary.from_dict(json.loads(to_json(total))) == total


def test_what_narrows_a_result_is_said() -> None:
    for scoring, what in (("first-token", "first tokens of the labels"), ("whole-sequence", "labels")):
        (said,) = result_of(texts(), measurements(mass=0.02), PARAMS | {"label_scoring": scoring}).warnings
        assert said.startswith(f"The model gives all {what} together a probability of only 0.02, and other answers the")
    spans = [{**span, "repeats": ("e2",)} for span in texts()["spans"]]
    (said,) = result_of(texts(spans=spans), measurements()).warnings
    assert "removing one leaves the others" in said


def test_the_mean_is_that_of_each_query_s_largest_loss() -> None:
    cases = [case("a", (1.0, 2.0)), case("b", (5.0, 0.5)), case("c", (0.25, 0.125)), case("d", (0.0, 3.0))]
    total = summary(cases, seed=4)
    losses = [2.0, 5.0, 0.25, 3.0]
    assert total.n == 4
    assert total.mean_nats == pytest.approx(np.mean(losses))
    assert total.std_nats == pytest.approx(math.sqrt(sum((x - np.mean(losses)) ** 2 for x in losses) / 4))
    assert total.interval_nats is None
    cases_of_many = [case(str(number), (float(number), 0.5)) for number in range(1, 10)]
    many = summary(cases_of_many, seed=4)
    assert many.interval_nats is not None
    assert many.interval_nats == interval_of_mean(range(1, 10), seed=4)
    assert many.answers.interval_nats is not None
    assert many.answers.interval_nats == interval_of_mean([one.answer_nats for one in cases_of_many], seed=4)
    assert total.quantiles_nats["0.5"] == 2.5
    assert [(p.position, p.n, p.mean_nats) for p in total.positions] == [(1, 4, 1.5625), (2, 4, 1.40625)]
    assert many.positions[0].interval_nats == many.interval_nats
    assert many.positions[1].interval_nats is None  # all are 0.5
    assert total.share_below_noise_floor == 0.0
    assert (total.median_tree_tokens, total.median_naive_tokens) == (90.0, 300.0)
    # The first label's losses are those of the exemplars, the third's half of them; the second has none.
    assert [label.mean_nats for label in total.labels] == pytest.approx([1.484375, 0.0, 0.7421875])
    # Few queries have a mean and no interval, and fewer exemplars reach fewer positions.
    total = summary([case("a", (1.0, 2.0))])
    assert (total.mean_nats, total.std_nats, total.interval_nats) == (2.0, 0.0, None)
    total = summary([case("a", (1.0, 2.0, 3.0)), case("b", (5.0,))])
    assert [(p.n, p.mean_nats) for p in total.positions] == [(2, 3.0), (1, 2.0), (1, 3.0)]
    assert total.exemplars is None


def test_accuracy_and_macro_f1_by_hand() -> None:
    answered = [(0, 0), (0, 0), (1, 0), (0, 1), (1, 1), (0, None)]  # prediction, right label
    cases = [case(str(i), prediction=said, gold=right) for i, (said, right) in enumerate(answered)]
    total = summary(cases)
    assert (total.n, total.n_with_label, total.accuracy) == (6, 5, pytest.approx(3 / 5))
    assert total.accuracy_interval == interval_of_share(3, 5)
    # World: 2 right of 3 predicted and 3 asked. Fine Art: 1 of 2 and 2. Art occurs nowhere, and is left out.
    assert total.macro_f1 == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert [label.f1 for label in total.labels] == [pytest.approx(2 / 3), 0.5, None]
    assert [(label.n_right_label, label.n_predicted) for label in total.labels] == [(3, 4), (2, 2), (0, 0)]
    # A label that is predicted and never right counts with nought.
    wrong = summary([*cases, case("9", prediction=2, gold=0)])
    assert wrong.labels[2].f1 == 0.0
    assert wrong.macro_f1 == pytest.approx((4 / 7 + 1 / 2 + 0) / 3)


def test_fixed_exemplars_are_compared_over_queries() -> None:
    total = summary([case("a", (1.0, 2.0)), case("b", (5.0, 0.5)), case("c", (0.25, 3.0)), case("d", (4.0, 3.0))])
    one, two = total.exemplars
    assert (one.id, one.label, one.mean_nats, one.max_nats, one.worst_query) == ("x1", "World", 2.5625, 5.0, "b")
    assert (one.worst_share, two.worst_share) == (0.5, 0.5)
    assert one.worst_share_interval == interval_of_share(2, 4)
    other = case("e", (1.0, 1.0))
    first, second = other.exemplars
    other = replace(other, exemplars=(replace(first, text="Article: Else.\nAnswer: Art"), second))
    assert summary([case("a", (1.0, 2.0)), other]).exemplars is None


def test_what_cannot_be_summed_up() -> None:
    with pytest.raises(UsageError, match="there are no queries"):
        summary([])
    with pytest.raises(UsageError, match="case 'b' has other labels than case 'a'"):
        summary([case("a"), replace(case("b"), labels=("x",))])
