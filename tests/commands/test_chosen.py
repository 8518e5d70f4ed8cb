"""Responses that were not sampled from the whole distribution: refused to be drawn, measured with a warning."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.command_line import assert_refused, object_of

Call = Callable[..., Any]


@pytest.mark.parametrize("words", [["influence"], ["decode", "--epsilon", "1"]])
@pytest.mark.parametrize("option", [["--top-k", "50"], ["--top-p=0.9"], ["--greedy"]])
def test_choosing_among_some_tokens_is_refused_with_the_reason(cli: Call, words: list[str], option: list[str]) -> None:
    ended = cli(*words, "--model", "toy", *option)
    name = option[0].split("=")[0]
    assert_refused(ended, f"leakmeter: {name} is refused: a token that it excludes without the context")
    assert "'decoding'" in ended.err


def test_a_response_that_was_chosen_otherwise_is_measured_with_a_warning(cli: Call) -> None:
    def warnings(**more: str) -> list[str]:
        case = {"context": "Anna sang. Bo ate.", "query": "Who sang?", "response": "Anna.", **more}
        Path("cases.jsonl").write_text(json.dumps(case), encoding="utf-8")
        return list(object_of(cli("influence", "--model", "toy", "--data", "cases.jsonl", "--json"))["warnings"])

    assert warnings() == []
    assert warnings(decoding="sampling") == []
    (told,) = warnings(decoding="greedy")
    assert told.startswith("The response was chosen by greedy, but is measured as if it had been sampled")
