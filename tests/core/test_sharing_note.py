"""A model whose states cannot be forked says at the start of a run how many tokens more it takes."""

from __future__ import annotations

import pytest

import leakmeter
from helpers.tiny_models import tiny_model, tiny_tokenizer

CASE = {"context": ["a patient writes.", "the clinic writes back."], "query": "who writes?", "response": "the clinic"}


def notes_of(kind: str, capsys: pytest.CaptureFixture[str]) -> tuple[list[str], int]:
    result = leakmeter.influence(
        (tiny_model(kind), tiny_tokenizer()), **CASE, template="plain", unit="document", cache=False
    )
    return [line for line in capsys.readouterr().err.splitlines() if "forked" in line], result.cost.tree_tokens


def test_it_is_said_with_the_number(capsys: pytest.CaptureFixture[str]) -> None:
    (line,), n_run = notes_of("mamba", capsys)
    none, n_shared = notes_of("llama", capsys)
    assert none == []
    assert f"{n_run:,} tokens for the case, {n_run / n_shared:.1f} times as many" in line
    assert line.endswith(f"would run {n_shared:,}")
