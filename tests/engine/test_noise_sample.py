"""Noise is measured of a sample of the cases; every other number is that of a run in which each case measures it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import leakmeter
from helpers.tiny_models import backend_of, fresh_model
from leakmeter.backends.toy import Toy
from leakmeter.core.request import Scores
from leakmeter.core.self_check import BLOCK, MEASURING_NOISE, carried, measures_noise, tolerance_nats, with_noise_of
from leakmeter.core.tree import Chunk
from leakmeter.engine import measure as engine
from leakmeter.overriding import override

NOTES = [
    {
        "id": f"c{number}",
        "context": f"The code of room {number} is {number}{number + 3}. Nora keeps it."
        + " It rained all day." * (number % 3),
        "query": "Who keeps the code?",
        "response": f"Nora keeps the code of room {number}.",
    }
    for number in range(MEASURING_NOISE + 6)
]


def measured(**options: Any) -> list[Any]:
    return list(
        leakmeter.influence(backend_of(fresh_model("llama")), NOTES, unit="sentence", template="plain", **options)
    )


def test_a_case_outside_the_sample_has_the_most_of_the_cases_before_and_costs_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sampled = measured()
    monkeypatch.setattr(engine, "measures_noise", lambda number, dtype, device: True)
    every = measured()
    most = max(case.noise_floor_per_token_nats for case in every[:MEASURING_NOISE])
    longest = max(len(note["context"]) + len(note["query"]) for note in NOTES[:MEASURING_NOISE])
    for number, (case, full) in enumerate(zip(sampled, every, strict=True)):
        floor = full.noise_floor_per_token_nats
        np.testing.assert_allclose(case.whole_per_token_nats, full.whole_per_token_nats, rtol=0, atol=floor)
        for piece, of_full in zip(case.pieces, full.pieces, strict=True):
            np.testing.assert_allclose(piece.per_token_nats, of_full.per_token_nats, rtol=0, atol=floor)
        assert [leak.text for leak in case.disclosures] == [leak.text for leak in full.disclosures]
        if number < MEASURING_NOISE:
            assert case.noise_cases is None
            assert case.noise_floor_nats == pytest.approx(full.noise_floor_nats, rel=1e-6)
            continue
        assert case.noise_cases == MEASURING_NOISE
        times = max(1.0, (len(case.context) + len(case.query)) / longest)
        assert case.noise_floor_per_token_nats == pytest.approx(times * most, rel=1e-6)
        assert case.noise_floor_nats == pytest.approx(case.noise_floor_per_token_nats * len(case.response.tokens))
        assert case.cost.tree_tokens < 0.8 * full.cost.tree_tokens


def test_a_run_that_is_read_or_gone_on_with_has_the_same_noise(tmp_path: Path) -> None:
    backend = backend_of(fresh_model("llama"))
    how: dict[str, Any] = {"unit": "sentence", "template": "plain", "out": tmp_path}
    whole = leakmeter.influence(backend, NOTES, **how)
    floors = [case.noise_floor_nats for case in whole]
    (run,) = tmp_path.glob("influence-*")
    assert [case.noise_floor_nats for case in leakmeter.load_run(run)] == floors
    for kept in run.glob("*-0001[2-5].*"):
        kept.unlink()
    assert [case.noise_floor_nats for case in leakmeter.influence(backend, NOTES, **how)] == floors


def test_where_rounding_is_coarse_every_case_measures_it() -> None:
    backend = backend_of(fresh_model("llama").to(torch.bfloat16))
    cases = leakmeter.influence(backend, NOTES, unit="sentence", template="plain")
    assert [case.noise_cases for case in cases] == [None] * len(NOTES)


def test_the_sample_is_the_first_ten_and_one_of_each_thousand() -> None:
    n = 50 * BLOCK
    taken = [number for number in range(n) if measures_noise(number, "float32", "cpu")]
    assert taken[:MEASURING_NOISE] == [*range(MEASURING_NOISE)]
    assert [number // BLOCK for number in taken[MEASURING_NOISE:]] == [10, 20, 30, 40]
    for coarse in (("bfloat16", "cpu"), ("float32", "cuda:0"), ("served", "http://127.0.0.1:1")):
        assert all(measures_noise(number, *coarse) for number in range(200))


def test_where_no_case_measured_it_rounding_is_taken_for_what_it_can_be() -> None:
    texts = {"id": "a", "dtype": "float32", "responses": [{"tokens": ["one", "two"]}]}
    ((texts_there, measurements),) = carried([(texts, [])])
    (noise,) = with_noise_of(texts_there, measurements)
    assert noise.values.tolist() == [2 * tolerance_nats("float32")] * 2


class Unsteady(Toy):
    """A toy whose log-probabilities are another where tokens are run alone: by more, the shorter the prompt."""

    @override
    def score(self, chunk: Chunk) -> list[Scores]:
        moved = [1.0 / len(request.prompts[-1].ids) if request.n_single else 0.0 for request in chunk.requests]
        return [Scores(one.values + by) for one, by in zip(super().score(chunk), moved, strict=True)]


def redacted(notes: list[dict[str, Any]], **options: Any) -> list[Any]:
    how: dict[str, Any] = {"unit": "sentence", "template": "plain", "max_new_tokens": 4, "max_loss": 1.0} | options
    return list(leakmeter.redact(Unsteady(), notes, **how))


def test_plans_of_cases_outside_the_sample_are_the_same_and_have_the_noise_of_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    notes = NOTES[: MEASURING_NOISE + 2]
    sampled = redacted(notes, out=tmp_path)
    (run,) = tmp_path.iterdir()
    assert [case.to_dict() for case in leakmeter.load_run(run)] == [case.to_dict() for case in sampled]
    monkeypatch.setattr(engine, "measures_noise", lambda number, dtype, device: True)
    every = redacted(notes)
    # Full prompt and bare one are off alike.
    per_token = [case.noise_floor_per_token_nats for case in every]
    assert all(0.0 < floor < 0.1 for floor in per_token)
    longest = max(len(note["context"]) + len(note["query"]) for note in notes[:MEASURING_NOISE])
    for number, (case, full) in enumerate(zip(sampled, every, strict=True)):
        assert case.redacted == full.redacted
        assert (case.left_nats, case.whole_nats) == (full.left_nats, full.whole_nats)
        assert [step.left_nats for step in case.steps] == [step.left_nats for step in full.steps]
        if number < MEASURING_NOISE:
            assert (case.noise_cases, case.noise_floor_nats) == (None, full.noise_floor_nats)
            continue
        assert case.noise_cases == MEASURING_NOISE
        times = max(1.0, (len(case.context) + len(case.query)) / longest)
        assert case.noise_floor_per_token_nats == pytest.approx(times * max(per_token[:MEASURING_NOISE]), rel=1e-9)
        # Neither its prompts beside others nor its single tokens were asked for.
        assert case.cost.requests == full.cost.requests - 8
    said = f"the most of a token of {MEASURING_NOISE} other cases at each token"
    pages = [case.save_html(tmp_path / "page.html").read_text(encoding="utf-8") for case in sampled[-3:]]
    assert [said in page for page in pages] == [False, True, True]


def test_a_plan_that_depends_on_noise_measures_it() -> None:
    cases = redacted(NOTES[: MEASURING_NOISE + 2], max_loss=None, disclosures=True)
    assert [case.noise_cases for case in cases] == [None] * len(cases)
    assert all(case.noise_floor_nats > 0.0 for case in cases)
