"""A model whose states cannot be forked says at the start of a run that it takes more tokens."""

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


def test_it_is_said_where_it_is_so(capsys: pytest.CaptureFixture[str]) -> None:
    (line,), n_run = notes_of("mamba", capsys)
    none, n_shared = notes_of("llama", capsys)
    assert none == []
    assert "each sequence is run in full, which may take several times as many tokens" in line
    assert n_run > n_shared
