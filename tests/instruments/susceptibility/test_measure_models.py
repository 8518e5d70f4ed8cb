"""Susceptibility on models of real architectures against one full pass for each context and token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from helpers import naive
from helpers import tiny_models as tiny
from helpers.places import SAMPLES
from helpers.query_items import ANSWERS, ByHand, query_item, readings_of
from leakmeter.backends.hf.outline import size_of
from leakmeter.core.drive import drive
from leakmeter.core.forecast import planning_backend, predict
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.instruments.susceptibility.case import QueryCase, load_contexts, load_queries
from leakmeter.instruments.susceptibility.measure import Susceptibility
from leakmeter.instruments.susceptibility.prompts import QuerySettings, prepare_query

# By path: the folder of the back ends' tests is not on the path of these.

SETS: dict[str, Any] = {"vocabulary": (), "answers": ANSWERS}
sets = pytest.mark.parametrize("answers", SETS.values(), ids=SETS)


def by_hand(model: Any, measure: Susceptibility, item: Any) -> ByHand:
    def logits(ids: Sequence[int]) -> np.ndarray:
        found: np.ndarray = naive.naive_logits(model, Prompt((Piece("all", "frame", tuple(ids)),)), ())
        return found

    return ByHand(logits, measure, item)


@sets
@pytest.mark.parametrize("kind", ["llama", "gpt2", "gpt_neo"])
def test_statistics_equal_full_passes(kind: str, answers: Any) -> None:
    item = query_item(tiny.N_VOCAB, seed=3, lengths=(9, 4, 7, 1, 5, 6), answers=answers)
    measure = Susceptibility()
    got = readings_of(tiny.tiny_backend(kind), measure, item)
    for name, values in by_hand(tiny.tiny_model(kind), measure, item).series().items():
        # Worst measured: 8e-7.
        np.testing.assert_allclose(got[name], values, rtol=0, atol=2e-5, err_msg=name)
    assert got["noise"][0] < 2e-5
    assert got["susceptibility"][0] > 1e-3


@sets
@pytest.mark.parametrize("settings", [{}, {"share_prefixes": False}], ids=["shared", "full passes"])
def test_what_is_taken_is_what_was_predicted(answers: Any, settings: dict[str, Any]) -> None:
    item = query_item(tiny.N_VOCAB, seed=3, lengths=(9, 4, 7), answers=answers)
    backend = tiny.tiny_backend(**settings)
    prediction = predict(
        planning_backend(backend, size_of(backend.model, backend.limits)), Susceptibility().trial(item)
    )
    _, taken = drive(backend, [Susceptibility().trial(item)])
    assert (prediction.n_tokens_run, prediction.n_prompts) == (taken.n_tokens_run, taken.n_prompts)


@pytest.mark.long
@pytest.mark.parametrize("number", [0, 2])
def test_a_real_model_against_full_passes(real_backend: Any, number: int) -> None:
    """An open query of the sample, and a closed one with answers."""
    query, contexts = load_queries(SAMPLES / "queries.jsonl")[number], load_contexts(SAMPLES / "contexts.jsonl")
    case = QueryCase("q", query, contexts[::4])
    item = prepare_query(case, real_backend.tokenizer, QuerySettings(), window=None, n_reserved=0).item
    got = readings_of(real_backend, Susceptibility(), item)
    for name, values in by_hand(real_backend.model, Susceptibility(), item).series().items():
        # Worst measured: 2e-9.
        np.testing.assert_allclose(got[name], values, rtol=0, atol=1e-3, err_msg=name)
    assert got["noise"][0] < 1e-3 < got["susceptibility"][0]


def test_queries_scored_together_have_the_numbers_of_each_alone() -> None:
    backend = tiny.tiny_backend()
    items = [query_item(tiny.N_VOCAB, seed=i, id_=str(i), lengths=(9, 4, 7)) for i in range(4)]
    together, _ = drive(backend, [Susceptibility().trial(item) for item in items])
    for item, measurements in zip(items, together, strict=True):
        alone = readings_of(backend, Susceptibility(), item)
        for measurement in measurements:
            np.testing.assert_allclose(measurement.values, alone[measurement.statistic], rtol=0, atol=2e-5)
