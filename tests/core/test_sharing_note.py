"""A model whose states cannot be forked says so at the start of a run, and of its first case how many tokens more it
takes."""

from __future__ import annotations

from typing import Any

import pytest

import leakmeter
from helpers.tiny_models import backend_of, fresh_model, tiny_backend, tiny_model, tiny_tokenizer
from leakmeter.core.case import Case, Document
from leakmeter.core.loaded import LoadedCases, Plan
from leakmeter.engine.prediction import Predictor, forecast
from leakmeter.instruments.influence.measure import Influence
from leakmeter.text.build import PromptSettings

CASE = {"context": ["a patient writes.", "the clinic writes back."], "query": "who writes?", "response": "the clinic"}


def notes_of(kind: str, capsys: pytest.CaptureFixture[str]) -> tuple[list[str], int]:
    result = leakmeter.influence(
        (tiny_model(kind), tiny_tokenizer()), **CASE, template="plain", unit="document", cache=False
    )
    return [line for line in capsys.readouterr().err.splitlines() if "forked" in line], result.cost.tree_tokens


def test_it_is_said_where_it_is_so_and_how_many(capsys: pytest.CaptureFixture[str]) -> None:
    (start, line), n_run = notes_of("mamba", capsys)
    none, n_shared = notes_of("llama", capsys)
    assert none == []
    assert n_run > n_shared
    assert start.endswith(
        "each sequence is run in full; how many tokens more that takes is said once the first case is measured"
    )
    times = f"{n_run / n_shared:.1f} times as many as the {n_shared:,} of a model whose states can be forked"
    assert line.endswith(f": {n_run:,} tokens for the first case, {times}")


def test_it_stands_before_the_first_pass_and_takes_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = backend_of(fresh_model("mamba"))
    n_before = backend.n_tokens_run
    said = list[str]()
    score = type(backend).score

    def watched(self: Any, chunk: Any) -> Any:
        said.append(capsys.readouterr().err)
        return score(self, chunk)

    monkeypatch.setattr(type(backend), "score", watched)
    cases = [Case(f"case {i}", (Document("a", CASE["context"][0]),), "who?", "the clinic") for i in range(3)]
    results = leakmeter.influence(backend, cases, template="plain", unit="document")
    assert "cannot be forked" in said[0]
    assert backend.n_tokens_run - n_before == sum(result.cost.tree_tokens for result in results)
    # It is said once, before the second case is measured.
    said.append(capsys.readouterr().err)
    with_number = [text for text in said if "times as many as the" in text]
    assert len(with_number) == 1
    assert with_number[0] != said[-1]
    assert f": {results[0].cost.tree_tokens:,} tokens for the first case, " in with_number[0]


@pytest.mark.parametrize("measure", ["decode", "generate"])
def test_what_is_drawn_counts_as_it_was_drawn(measure: str, capsys: pytest.CaptureFixture[str]) -> None:
    backend = backend_of(fresh_model("mamba"))
    asked = {name: text for name, text in CASE.items() if name != "response"}
    n_before = backend.n_tokens_run
    if measure == "decode":
        leakmeter.decode(backend, **asked, cid_lambda=1.5, max_new_tokens=3, template="plain")
    else:
        leakmeter.generate(
            backend, ["a patient.", "a clinic."], instruction="Write.", subset_size=2, epsilon=8.0, samples=1,
            max_new_tokens=3, seed=5,
        )  # fmt: skip
    *_, line = [line for line in capsys.readouterr().err.splitlines() if "forked" in line]
    assert f": {backend.n_tokens_run - n_before:,} tokens for the first case, " in line
    assert "times as many as the" in line


@pytest.mark.parametrize(("response", "most"), [("the clinic", "about"), (None, "at most")])
def test_a_dry_run_counts_it_without_the_model(response: str | None, most: str) -> None:
    case = Case("one", (Document("a", CASE["context"][0]),), "who?", response)
    settings = PromptSettings(unit="sentence", template="plain")
    plan = Plan("influence", Influence(max_new_tokens=3), settings, LoadedCases((case,)))
    forking = forecast(Predictor(tiny_backend()), plan)[1]
    predicted, kept = forecast(Predictor(backend_of(fresh_model("mamba"))), plan)
    assert forking.notes == ()
    (note,) = kept.notes
    assert f"is run in full: {most} {predicted.tree_tokens:,} tokens for the first case, " in note
    assert "times as many as the" in note
