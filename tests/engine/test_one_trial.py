"""A case is driven once: neither what a model can answer nor what a case takes is found out by a trial of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

import leakmeter
from helpers.tiny_models import tiny_model, tiny_tokenizer
from leakmeter.core import tree
from leakmeter.core.case import Case, Document
from leakmeter.instruments.influence.measure import Influence

CASES = [Case(str(number), (Document("a", "a patient writes."),), "who writes?", "the clinic") for number in range(3)]


@pytest.mark.parametrize("out", [None, Path("runs")])
@pytest.mark.parametrize("model", ["toy", "llama", "mamba"])
def test_one_trial_a_case(model: str, out: Path | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    trials: list[str] = []
    usual = Influence.trial
    monkeypatch.setattr(Influence, "trial", lambda measure, item: (trials.append(item.id), usual(measure, item))[1])
    given = model if model == "toy" else (tiny_model(model), tiny_tokenizer())
    trees: list[int] = []
    usual_tree = tree._lay_out
    monkeypatch.setattr(tree, "_lay_out", lambda requests, side_of: (trees.append(1), usual_tree(requests, side_of))[1])
    results = leakmeter.influence(given, CASES, template="plain", out=out, cache=False)
    # One of what is measured, and two of the noise floor: one of its prompts in other company, one with tokens that run
    # alone. The toy lays out none.
    assert len(trees) == (0 if model == "toy" else 3 * len(CASES))
    ids = [case.id for case in CASES]
    assert trials == ids
    assert [result.id for result in results] == ids
