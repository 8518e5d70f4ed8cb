"""A model whose states cannot be forked says at the start of a run how many tokens more it takes."""

from __future__ import annotations

from typing import Any

import pytest

import leakmeter
from helpers.tiny_models import backend_of, fresh_model, tiny_model, tiny_tokenizer

CASE = {"context": ["a patient writes.", "the clinic writes back."], "query": "who writes?", "response": "the clinic"}


def notes_of(kind: str, capsys: pytest.CaptureFixture[str]) -> tuple[list[str], int]:
    result = leakmeter.influence(
        (tiny_model(kind), tiny_tokenizer()), **CASE, template="plain", unit="document", cache=False
    )
    return [line for line in capsys.readouterr().err.splitlines() if "forked" in line], result.cost.tree_tokens


def test_it_is_said_where_it_is_so_and_how_many(capsys: pytest.CaptureFixture[str]) -> None:
    (line,), n_run = notes_of("mamba", capsys)
    none, n_shared = notes_of("llama", capsys)
    assert none == []
    assert n_run > n_shared
    times = f"{n_run / n_shared:.1f} times as many as the {n_shared:,} of a model whose states can be forked"
    assert line.endswith(f"each sequence is run in full: about {n_run:,} tokens for the first case, {times}")


def test_it_is_counted_without_the_model(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    backend = backend_of(fresh_model("mamba"))
    n_before = backend.n_tokens_run
    measured = list[int]()
    score = type(backend).score

    def watched(self: Any, chunk: Any) -> Any:
        measured.append(len(capsys.readouterr().err))
        return score(self, chunk)

    monkeypatch.setattr(type(backend), "score", watched)
    result = leakmeter.influence(backend, **CASE, template="plain", unit="document")
    # It stands before the first pass, and no pass was made for it.
    assert measured[0] > 0
    assert backend.n_tokens_run - n_before == result.cost.tree_tokens


@pytest.mark.parametrize("measure", ["decode", "generate"])
def test_of_what_is_still_to_be_drawn_it_is_the_most(measure: str, capsys: pytest.CaptureFixture[str]) -> None:
    backend = backend_of(fresh_model("mamba"))
    asked = {name: text for name, text in CASE.items() if name != "response"}
    if measure == "decode":
        leakmeter.decode(backend, **asked, cid_lambda=1.5, max_new_tokens=3, template="plain")
    else:
        leakmeter.generate(
            backend, ["a patient.", "a clinic."], instruction="Write.", subset_size=2, epsilon=8.0, samples=1,
            max_new_tokens=3, seed=5,
        )  # fmt: skip
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "forked" in line]
    assert "is run in full: at most " in line
    assert "tokens for the first case, " in line
