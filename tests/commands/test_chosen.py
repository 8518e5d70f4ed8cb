"""Responses that were not sampled from the whole distribution: refused to be drawn, measured with a warning."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


@pytest.mark.parametrize("words", [["influence"], ["decode", "--epsilon", "1"]])
@pytest.mark.parametrize("option", [["--top-k", "50"], ["--top-p=0.9"], ["--greedy"]])
def test_choosing_among_some_tokens_is_refused_with_the_reason(cli: Call, words: list[str], option: list[str]) -> None:
    ended = cli(*words, "--model", "toy", *option)
    assert ended.code == 2
    name = option[0].split("=")[0]
    assert ended.err.startswith(f"leakmeter: {name} is refused: a token that it excludes without the context")
    assert "'decoding'" in ended.err
    assert ended.err.count("\n") == 1


def test_a_response_that_was_chosen_otherwise_is_measured_with_a_warning(cli: Call, tmp_path: Path) -> None:
    def warnings(**more: str) -> list[str]:
        path = tmp_path / "cases.jsonl"
        case = {"context": "Anna sang. Bo ate.", "query": "Who sang?", "response": "Anna.", **more}
        path.write_text(json.dumps(case), encoding="utf-8")
        ended = cli("influence", "--model", "toy", "--data", str(path), "--json", "--out", str(tmp_path / "runs"))
        assert ended.code == 0, ended.err
        found: list[str] = json.loads(ended.out)["warnings"]
        return found

    assert warnings() == []
    assert warnings(decoding="sampling") == []
    (told,) = warnings(decoding="greedy")
    assert told.startswith("The response was chosen by greedy, but is measured as if it had been sampled")
