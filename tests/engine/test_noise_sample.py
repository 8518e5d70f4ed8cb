"""Noise is measured of a sample of the cases; every other number is that of a run in which each case measures it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import leakmeter
from helpers.tiny_models import backend_of, fresh_model
from leakmeter.backends.toy import Toy
from leakmeter.core.case import n_characters
from leakmeter.core.counting import CountingBackend, count
from leakmeter.core.item import Prepared, StepByStep
from leakmeter.core.noise_sample import EACH, FIRST, MEASURING_NOISE, NoiseSample
from leakmeter.core.request import Scores
from leakmeter.core.self_check import BLOCK, carried, is_checked, tolerance_nats, with_noise_of
from leakmeter.core.tree import Chunk
from leakmeter.data.cases import cases_of
from leakmeter.engine import measure as engine
from leakmeter.instruments.influence.measure import Influence
from leakmeter.overriding import override
from leakmeter.text.build import PromptSettings

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


ALL = NoiseSample(has_all=True)


def sample_of(notes: list[dict[str, Any]], seed: int = 0, dtype: str = "float32", device: str = "cpu") -> NoiseSample:
    lengths = [len(note["context"]) + len(note["query"]) for note in notes]
    return NoiseSample.of(lengths, seed=seed, dtype=dtype, device=device)


def noise_before(notes: list[dict[str, Any]], of_each: list[float], number: int) -> tuple[int, float]:
    """How many cases of the sample stand before one, and what they make of its noise."""
    before = [n for n in sorted(sample_of(notes).numbers) if n < number]
    lengths = [len(note["context"]) + len(note["query"]) for note in notes]
    times = max(1.0, lengths[number] / max(lengths[n] for n in before))
    return len(before), times * max(of_each[n] for n in before)


def measured(**options: Any) -> list[Any]:
    return list(
        leakmeter.influence(backend_of(fresh_model("llama")), NOTES, unit="sentence", template="plain", **options)
    )


def test_a_case_outside_the_sample_has_the_most_of_the_cases_before_and_costs_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sampled = measured()
    monkeypatch.setattr(engine, "noise_sample_of", lambda *_: ALL)
    every = measured()
    own = [case.noise_floor_per_token_nats for case in every]
    for number, (case, full) in enumerate(zip(sampled, every, strict=True)):
        floor = full.noise_floor_per_token_nats
        np.testing.assert_allclose(case.whole_per_token_nats, full.whole_per_token_nats, rtol=0, atol=floor)
        for piece, of_full in zip(case.pieces, full.pieces, strict=True):
            np.testing.assert_allclose(piece.per_token_nats, of_full.per_token_nats, rtol=0, atol=floor)
        assert [leak.text for leak in case.disclosures] == [leak.text for leak in full.disclosures]
        if number in sample_of(NOTES):
            assert case.noise_cases is None
            assert case.noise_floor_nats == pytest.approx(full.noise_floor_nats, rel=1e-6)
            continue
        n_before, nats = noise_before(NOTES, own, number)
        assert case.noise_cases == n_before >= FIRST
        assert case.noise_floor_per_token_nats == pytest.approx(nats, rel=1e-6)
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


def test_the_sample_is_drawn_by_the_seed_from_all_lengths() -> None:
    lengths = np.random.default_rng(1).permutation(800).tolist()
    how: dict[str, Any] = {"dtype": "float32", "device": "cpu"}
    samples = [NoiseSample.of(lengths, seed=seed, **how).numbers for seed in range(40)]
    assert NoiseSample.of(lengths, seed=3, **how).numbers == samples[3]
    assert len(set(samples)) == 40
    n_drawn = MEASURING_NOISE - FIRST
    ranks = {number: rank for rank, number in enumerate(sorted(range(FIRST, 800), key=lengths.__getitem__))}
    for sample in samples:
        assert len(sample) == MEASURING_NOISE
        assert sample >= {*range(FIRST)}
        # One of each seventh by length, the longest and the shortest among them.
        of_rank = sorted(ranks[number] for number in sample if number >= FIRST)
        assert [rank * n_drawn // (800 - FIRST) for rank in of_rank] == [*range(n_drawn)]
    # Each is as likely as another.
    assert len(set().union(*samples)) > 200


def test_few_cases_all_measure_it_and_of_very_many_one_in_a_thousand() -> None:
    how: dict[str, Any] = {"seed": 0, "dtype": "float32", "device": "cpu"}
    assert [*map(NoiseSample.of([5] * MEASURING_NOISE, **how).__contains__, range(MEASURING_NOISE))] == [True] * 10
    sample = NoiseSample.of([5] * (4 * EACH + 7), **how).numbers
    assert all(any(number in sample for number in range(at * EACH, (at + 1) * EACH)) for at in range(5))
    assert MEASURING_NOISE < len(sample) <= MEASURING_NOISE + 4


def test_of_coarse_numbers_and_accelerators_each_case_measures_it() -> None:
    for dtype, device in (("bfloat16", "cpu"), ("float16", "cpu"), ("float32", "cuda:0"), ("served", "http://[::1]")):
        sample = NoiseSample.of([5] * 200, seed=0, dtype=dtype, device=device)
        assert all(number in sample for number in range(200))


def test_what_is_held_against_plain_passes_is_of_the_sample_where_it_can_be() -> None:
    sample = NoiseSample.of([*range(10 * BLOCK)], seed=0, dtype="float32", device="cpu")
    chosen = [number for number in range(10 * BLOCK) if is_checked(number, 1, sample)]
    assert [number // BLOCK for number in chosen] == [*range(10)]
    of_sample = {number // BLOCK for number in sample.numbers}
    assert [number in sample for number in chosen] == [block in of_sample for block in range(10)]
    assert len(of_sample) > 3


def test_noise_takes_less_than_three_per_cent_of_the_passes_of_a_large_log() -> None:
    """Of a log in which nothing is found: each case takes its own prompt and the bare one, nothing shared."""
    n = 1000
    records = [
        {
            "id": f"c{number}",
            "context": [f"The code of room {number}. " * (1 + number % 9), f"It rained all day {number}. " * 12],
            "query": "Who keeps the code?",
            "response": "Nora keeps it, and she comes at nine.",
        }
        for number in range(n)
    ]
    cases = cases_of(records).cases
    sample = NoiseSample.of([*map(n_characters, cases)], seed=0, dtype="float32", device="cpu")
    toy, measure, settings = Toy(), Influence(), PromptSettings()

    def n_tokens(prepared: Prepared, *, measures_noise: bool) -> int:
        steps = StepByStep(placebo=False, controls=False)
        item = replace(prepared.item, steps=steps, measures_noise=measures_noise)
        return count(CountingBackend(toy, "prefixes"), [measure.trial(item)]).n_tokens_run

    own = [settings.prepare(case, toy, measure) for case in cases[::10]]
    passes = n / len(own) * sum(n_tokens(case, measures_noise=False) for case in own)
    measuring = [settings.prepare(cases[number], toy, measure) for number in sorted(sample.numbers)]
    assert len(measuring) >= 10
    for_noise = sum(n_tokens(case, measures_noise=True) - n_tokens(case, measures_noise=False) for case in measuring)
    assert 0 < for_noise < 0.03 * passes


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
    monkeypatch.setattr(engine, "noise_sample_of", lambda *_: ALL)
    every = redacted(notes)
    # Full prompt and bare one are off alike.
    per_token = [case.noise_floor_per_token_nats for case in every]
    assert all(0.0 < floor < 0.1 for floor in per_token)
    for number, (case, full) in enumerate(zip(sampled, every, strict=True)):
        assert case.redacted == full.redacted
        assert (case.left_nats, case.whole_nats) == (full.left_nats, full.whole_nats)
        assert [step.left_nats for step in case.steps] == [step.left_nats for step in full.steps]
        if number in sample_of(notes):
            assert (case.noise_cases, case.noise_floor_nats) == (None, full.noise_floor_nats)
            continue
        n_before, nats = noise_before(notes, per_token, number)
        assert case.noise_cases == n_before
        assert case.noise_floor_per_token_nats == pytest.approx(nats, rel=1e-9)
        # Neither its prompts beside others nor its single tokens were asked for.
        assert case.cost.requests == full.cost.requests - 8
    pages = [case.save_html(tmp_path / "page.html").read_text(encoding="utf-8") for case in sampled]
    said = [f"the most of a token of {case.noise_cases} other cases at each token" for case in sampled]
    assert [words in page for words, page in zip(said, pages, strict=True)] == [
        number not in sample_of(notes) for number in range(len(notes))
    ]


def test_a_plan_that_depends_on_noise_measures_it() -> None:
    cases = redacted(NOTES[: MEASURING_NOISE + 2], max_loss=None, disclosures=True)
    assert [case.noise_cases for case in cases] == [None] * len(cases)
    assert all(case.noise_floor_nats > 0.0 for case in cases)
