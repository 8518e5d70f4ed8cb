"""Runs that version 0.1 wrote, one of each measure: read, shown, asked and gated as ever, with the numbers they had.

`fixtures/runs_of_0.1.json` has what that version itself said of them. Their models are the toy, and one of two layers
with random weights.
"""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import leakmeter
from helpers.places import TESTS
from leakmeter.report import markdown

NUMBER = re.compile(r"[\d.,]+")
FIXTURES = TESTS / "fixtures"
SAID = json.loads((FIXTURES / "runs_of_0.1.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the runs, so that nothing is written beside the fixture."""
    return Path(shutil.copytree(FIXTURES / "runs_of_0.1", tmp_path_factory.mktemp("early") / "runs"))


@pytest.mark.parametrize("name", SAID)
def test_numbers_are_what_they_were(name: str, runs: Path) -> None:
    run, said = leakmeter.load_run(runs / name), SAID[name]
    numbers = {
        key: "Infinity" if number.value == math.inf else number.value for key, number in run.quantities().items()
    }
    # A quantity was renamed; bounds by its old name hold (below).
    assert {key: numbers[key.replace("decode.promised", "decode.bound")] for key in said["quantities"]} == said[
        "quantities"
    ]
    assert (run.measure, [result.id for result in run]) == (said["measure"], said["cases"])
    # Words may change; numbers do not.
    # All that version said stands in the report, which says more today; but chance, which is a share now.
    reported = NUMBER.findall(markdown.text(run.report()))
    assert all(number in reported for number in NUMBER.findall(said["headline"].partition("By chance")[0]))
    assert (run.outdated is None) == (run.spec["model"]["name"] == "toy")
    assert ("Measured by leakmeter 0.1" in run.render_page()) == (run.outdated is not None)


@pytest.mark.parametrize("name", SAID)
def test_every_command_reads_them(name: str, runs: Path, cli: Callable[..., Any], tmp_path: Path) -> None:
    path = runs / name
    quantities = SAID[name]["quantities"]
    quantity = next((key for key in quantities if "promised" in key), next(iter(quantities)))
    commands = [
        ("runs", "show", path),
        ("runs", "verify", path),
        ("runs", "compare", path, path),
        ("runs", "export", path, "--out", tmp_path / "export"),
        ("query", "--runs", path, "select count(*) from measurements"),
        ("report", path, "--html", tmp_path / "page.html"),
        ("gate", path, "--max", f"{quantity} <= {quantities[quantity]}"),
    ]
    for words in commands:
        done = cli(*words)
        assert done.code == 0, (words, done.err)
