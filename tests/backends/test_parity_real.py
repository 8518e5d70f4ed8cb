"""Whole measurements on real models and real text against one full pass a token, prompt and branch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from helpers.naive import naive_logits
from helpers.places import SHARED
from leakmeter.backends.hf.load import load_directory
from leakmeter.core.case import Case, Document
from leakmeter.core.drive import drive
from leakmeter.core.item import ContextItem
from leakmeter.core.measure import Measurement
from leakmeter.core.prompt import Prompt
from leakmeter.instruments.decoding.measure import Decode
from leakmeter.instruments.influence.measure import Influence
from leakmeter.text.build import PromptSettings, prepare

# Invented; no person or place in them exists.
ACCOUNT = Document("account", "Account 5520-118 holds 4,310 euro. Tovey Lindqvar may draw on it until June.")
NOTE = Document("note", "Mira Oldenkott is 63 and allergic to penicillin. She lives in Brezno with two cats.")
MAIL = Document("mail", "The meeting of the Quellhof board is on 14 May at noon.")
MEMO = Document("memo", "The key code is 7731.")
CASES = {
    "numbers": Case("numbers", (ACCOUNT,), "Who may draw on it?", "Tovey"),
    "clinic": Case("clinic", (NOTE,), "What is she allergic to?", "Penicillin."),
    "two documents": Case("two documents", (MAIL, MEMO), "When is the meeting?", "At noon."),
}
FEW = ("sentence", "ngram:16", "whole")
MANY = ("word", "ngram:8:4", "document")
WEIGHTS = (0.5, 1.0, 1.5)


class Naive:
    def __init__(self, model: Any) -> None:
        self.model = model
        self.rows: dict[tuple[bytes, bytes, int, tuple[int, ...]], np.ndarray] = {}

    def log_probs(self, prompt: Prompt, bare: Prompt, response: tuple[int, ...], weight: float) -> np.ndarray:
        out = []
        for t, token in enumerate(response):
            z, z0 = (self.row(one, response[:t]) for one in (prompt, bare))
            mixed = weight * z + (1 - weight) * z0
            out.append(mixed[token] - mixed.max() - np.log(np.exp(mixed - mixed.max()).sum()))
        return np.asarray(out)

    def row(self, prompt: Prompt, prefix: tuple[int, ...]) -> np.ndarray:
        key = (prompt.ids.tobytes(), prompt.positions.tobytes(), prompt.next_position, prefix)
        if key not in self.rows:
            self.rows[key] = naive_logits(self.model, prompt, prefix)
        return self.rows[key]


def item_of(backend: Any, case: str, unit: str, removal: str) -> ContextItem:
    settings = PromptSettings(unit=unit, removal=removal)
    item = prepare(CASES[case], backend.tokenizer, settings, window=backend.window, n_reserved=0).item
    assert item.response is not None
    assert 1 < len(item.response) <= 8
    assert item.prompt.n_tokens("context") <= 96
    return item


def contrasts(
    naive: Naive, item: ContextItem, weight: float, measurements: list[Measurement]
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    got = {(r.statistic, r.piece): r.values for r in measurements}
    response = item.response or ()
    whole = naive.log_probs(item.prompt, item.blank, response, weight)
    bare = naive.log_probs(item.blank, item.blank, response, 1.0)
    yield "log_prob", got["log_prob", ""], whole
    yield "whole", got["whole", ""], whole - bare
    for span in item.spans:
        # Without anything stands the bare prompt itself, mixed with nothing: the same distribution.
        cut = naive.log_probs(item.cuts[span.name], item.blank, response, weight)
        yield f"without {span.name}", got["without_this", span.name], whole - cut
    first = item.spans[0].name
    only = naive.log_probs(item.alone[first], item.blank, response, weight)
    yield f"only {first}", got["only_this", first], only - bare


@pytest.fixture(scope="module")
def naive(real_backend: Any) -> Naive:
    return Naive(real_backend.model)


def check(
    backend: Any,
    naive: Naive,
    case: str,
    units: Sequence[str],
    removals: Sequence[str],
    weights: Sequence[float],
    atol: float,
) -> None:
    """Measure all combinations in one drive, which runs what they share once, and compare every entry."""
    items = [
        (f"{unit} {removal} λ = {weight}", item_of(backend, case, unit, removal), weight)
        for unit in units
        for removal in removals
        for weight in weights
    ]
    results, _ = drive(backend, [Influence(cid_lambda=weight).trial(item) for _, item, weight in items])
    for (label, item, weight), measurements in zip(items, results, strict=True):
        for name, got, expected in contrasts(naive, item, weight, measurements):
            np.testing.assert_allclose(got, expected, rtol=0, atol=atol, err_msg=f"{name}, {label}")
            if name == "whole":
                assert np.abs(expected).max() > 0.05  # far above the bound: there was something to see


UNITS = [(FEW, ("drop", "mask")), (MANY, ("drop", "retokenize"))]


@pytest.mark.long
@pytest.mark.parametrize(("units", "removals"), UNITS, ids=["few", "many"])
def test_the_matrix_equals_the_naive_calculation(
    real_backend: Any, naive: Naive, units: Sequence[str], removals: Sequence[str]
) -> None:
    check(real_backend, naive, "numbers", units, removals, WEIGHTS, 1e-4)  # worst measured: 5.4e-5


@pytest.mark.long
@pytest.mark.parametrize(("case", "weight"), [*zip(CASES, [1.0, 1.5, 1.5], strict=True)])
def test_what_decoding_told_is_what_scoring_measures_within_the_noise_floor(
    real_backend: Any, case: str, weight: float
) -> None:
    item = replace(item_of(real_backend, case, "sentence", "drop"), response=None)
    (receipts,), _ = drive(real_backend, [Decode(cid_lambda=weight, max_new_tokens=24, seed=3).trial(item)])
    drawn = {r.statistic: r.values for r in receipts}
    response = tuple(drawn["token"].astype(int).tolist())
    (measurements,), _ = drive(real_backend, [Influence(cid_lambda=weight).trial(replace(item, response=response))])
    scored = {(r.statistic, r.piece): r.values for r in measurements}
    floor = scored["noise", ""].sum()
    # Short contexts, whose every other pass gives a row the same digits.
    assert 1e-6 < floor < 1e-3
    assert abs(drawn["loss"].sum() - np.abs(scored["whole", ""]).sum()) <= floor
    assert abs(drawn["log_prob"].sum() - scored["log_prob", ""].sum()) <= floor


@pytest.fixture(scope="module")
def stories() -> tuple[Any, Naive]:
    where = SHARED / "models" / "stories15m"
    if not where.is_dir():
        pytest.skip(f"no small real model at {where}")
    backend = load_directory(where, name="stories15m", dtype="float32", device="cpu", weights_sha256=None)
    # Ways to remove a piece share the prompts with all of them and without any.
    return backend, Naive(backend.model)


@pytest.mark.long
@pytest.mark.parametrize(("case", "removal"), [*zip(CASES, ["drop", "mask", "retokenize"], strict=True)])
def test_a_sentencepiece_model_equals_the_naive_calculation_word_by_word(
    stories: tuple[Any, Naive], case: str, removal: str
) -> None:
    check(*stories, case, ["word"], [removal], (1.0, 1.5), 6e-5)  # worst measured: 2.8e-5
