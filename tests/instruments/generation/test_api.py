"""`leakmeter.audit` with the toy model: guaranteed, measured, published, refused; and mistakes that are caught."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import leakmeter
from helpers.generation_items import Mistaken
from leakmeter.backends.toy import Toy
from leakmeter.core.prompt import IntArray
from leakmeter.errors import LeakmeterError
from leakmeter.instruments.generation.result import Draws, OwnMechanism, PrivateGenerationResult
from leakmeter.privacy.clipped_logits import Aggregation
from leakmeter.privacy.mechanism import BoundedCid
from leakmeter.results.results import Results

TEXTS = [f"The ferry no. {i} sails at {i} to {'Aland' if i % 2 else 'Brac'}." for i in range(7)]
NEWS = [{"label": i % 4, "text": f"News item {i}."} for i in range(24)]


def audited(exemplars: Any = TEXTS, **more: Any) -> Results[PrivateGenerationResult]:
    given = {"instruction": "Write a notice.", "samples": 2, "max_new_tokens": 4, **more}
    if not {"epsilon", "temperature", "mechanism"} & given.keys():
        given["epsilon"] = 8.0
    return leakmeter.generate(given.pop("model", "toy"), exemplars, **given)


def test_what_was_asked_for_is_guaranteed_and_kept() -> None:
    made = audited(epsilon=8.0)
    (result,) = made
    told = made.summary.guarantee
    assert told is not None
    assert 8.0 - 1e-9 < told.epsilon <= 8.0
    assert told.n_tokens == 8
    assert made.summary.holds
    assert result.subset_size == 7
    assert result.seed is None
    assert result.public.draws == Draws(random_bits="operating system")
    assert len(result.texts) == 2
    assert json.loads(result.to_json()) == result.to_dict()
    assert result.public.texts == result.texts
    assert result.public.guarantee == told
    assert "seed" not in json.dumps(result.public.to_dict())
    assert len(made.to_frame(detail=True)) == 7


def test_batches_share_no_exemplar_and_leave_out_what_fills_none(tmp_path: Path) -> None:
    made = audited(subset_size=3)
    assert [[one.id for one in result.exemplars] for result in made] == [["0", "1", "2"], ["3", "4", "5"]]
    assert made.summary.n_batches == 2
    assert made[0].texts != made[1].texts
    assert made.to_frame(detail=True)["case"].tolist() == ["batch 1"] * 3 + ["batch 2"] * 3
    page = made.save_html(tmp_path / "audit.html").read_text(encoding="utf-8")
    assert page.count("Largest losses") == 2
    assert len(audited(subset_size=3, batches=1)) == 1


def test_records_of_a_task_with_one_label() -> None:
    (result,) = audited(NEWS, task="agnews", label="Sports", instruction=None)
    assert [one.text for one in result.exemplars] == [
        f"News Type: Sports\nText: News item {i}." for i in range(1, 24, 4)
    ]
    assert result.query == "Sports"


def test_a_seed_gives_the_same_texts_and_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    one, two = (audited(seed=3)[0] for _ in range(2))
    assert one.texts == two.texts
    assert "has no guarantee unless the seed stays secret" in capsys.readouterr().err
    assert audited()[0].texts != audited()[0].texts
    assert capsys.readouterr().err == ""


def test_bounded_decoding_is_the_second_mechanism() -> None:
    made = audited(TEXTS[:1], mechanism=BoundedCid(0.5))
    assert made.summary.holds
    assert made[0].mechanism == OwnMechanism(
        name="BoundedCid", settings={"epsilon": 0.5, "temperature": 1.0, "lambda_max": 1.0}
    )
    assert made.summary.guarantee is not None
    assert made.summary.guarantee.pure_epsilon == pytest.approx(8 * 0.25)
    with pytest.raises(LeakmeterError, match="bounded decoding has one context, and 7 exemplars have a prompt"):
        audited(mechanism=BoundedCid(0.5))


class OneHot(Toy):
    """Every prompt wants one of two tokens and nothing else, by its exemplar's number and what was written last."""

    def logits(self, ids: IntArray, positions: IntArray) -> npt.NDArray[np.float64]:
        wanted = np.full(257, -40.0)
        for at in np.flatnonzero(ids[:-1] == ord("#"))[:1]:
            wanted[97 + (int(ids[at + 1]) + len(ids)) % 2] = 40.0
        return wanted


VOTING, COLD = Aggregation(10.0, 8, 4.8), Aggregation(10.0, 8, 0.5)
MISTAKES = {
    "clip forgotten": Mistaken(VOTING, VOTING, clips=False),
    "half of s": Mistaken(Aggregation(10.0, 4, 4.8), VOTING),
    "clip at 2c": Mistaken(Aggregation(20.0, 8, 4.8), VOTING),
    "temperature twice": Mistaken(Aggregation(10.0, 8, 0.5**2), COLD),
}
VOTERS = [f"#{i}" for i in range(8)]


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_users_mistake_is_caught_and_named_and_a_sound_rule_is_not(mistake: Mistaken) -> None:
    made = audited(VOTERS, model=OneHot(), mechanism=mistake)
    assert not made.summary.holds
    named = {(one.exemplar, one.token is None) for one in made.summary.failures}
    assert named == {(f"e{i}", total) for i in range(1, 9) for total in (False, True)}
    worst = next(one for one in made.summary.failures if one.token is not None)
    assert worst.sample is not None
    assert worst.token is not None
    assert str(worst.exemplar_id) in "01234567"
    assert worst.ratio > 1.05
    assert worst.token_text == made[0].samples[worst.sample].tokens[worst.token]
    sound = audited(VOTERS, model=OneHot(), clip=10.0, temperature=mistake.says.temperature)
    assert sound.summary.holds
    assert sound.summary.most.ratio > 0.25


def test_votes_of_no_exemplar_differ_and_of_equal_ones_are_missed_little() -> None:
    made = audited(["the same text"] * 4, temperature=2.0, normalise_by="present")
    assert max(one.measured_nats for one in made[0].exemplars) < 1e-20
    assert any("repeat each other" in line for line in made[0].warnings)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"exemplars": []}, "there are no exemplars; give at least one"),
        ({"exemplars": ["a", 5]}, "record 2 is not a JSON object, or another record with fields"),
        ({"epsilon": 1.0, "temperature": 2.0}, "epsilon and temperature are given together; give one of epsilon, temp"),
        ({"epsilon": None}, "the guarantee is not set; give one of epsilon, temperature, mechanism"),
        ({"mechanism": BoundedCid(1.0), "clip": 3.0}, "a mechanism has its own settings; leave out clip"),
        ({"task": "agnews", "label": "World", "exemplars": NEWS[1:2]}, "no exemplar has the label 'World'"),
        ({"task": "agnews", "label": "Sports"}, "exemplars of a task are mappings of columns to values"),
        ({"task": "agnews", "label": "Sport", "exemplars": NEWS}, "no label named 'Sport'; did you mean 'Sports'"),
    ],
)
def test_bad_input_gets_one_clear_line(given: dict[str, Any], said: str) -> None:
    with pytest.raises(LeakmeterError, match=said):
        audited(given.pop("exemplars", TEXTS), **given)
