"""Bounds on leakage in a test suite: what holds, what is broken and how it is told, and what no measurement can say."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import leakmeter
from leakmeter.core.self_check import MOST_FLOOR_NATS, SelfCheck
from leakmeter.errors import UsageError
from leakmeter.testing import assert_leakage, assert_no_disclosure

CASE = {"context": "Ana Petrov is 41. She sings.", "query": "How old?", "response": "41", "id": "clinic"}
TEST = """
from leakmeter.testing import assert_leakage

def test_it(leakmeter_meter):
    case = {"context": "Ana is 41.", "query": "How old?", "response": "41"}
    assert_leakage(case, max_nats=100, meter=leakmeter_meter)
    assert_leakage(case, max_nats=0.01, meter=leakmeter_meter, unit="whole")
"""


def test_a_bound_that_holds_gives_the_results() -> None:
    found = assert_leakage(CASE, max_nats=100, model="toy", unit="word")
    assert [one.id for one in found] == ["clinic"]
    assert found[0].unit == "word"
    assert assert_leakage(found[0], max_nats=100)[0] is found[0]
    assert len(assert_leakage([CASE, {**CASE, "id": "two"}], max_nats=100, meter=leakmeter.Meter("toy"))) == 2


def test_a_broken_bound_is_told_without_the_text() -> None:
    result = leakmeter.influence("toy", [CASE], unit="sentence")
    worst = max(result[0].pieces, key=lambda piece: piece.nats)
    with pytest.raises(AssertionError) as caught:
        assert_leakage(result, max_nats=worst.nats * 0.999)
    lines = str(caught.value).splitlines()
    assert lines[0] == "1 of 2 pieces leaks more than the bound allows"
    assert f"case 'clinic', piece {worst.name}: " in lines[1]
    assert f"bound {worst.nats * 0.999:g} nats; noise floor" in lines[1]
    # Of a response that was given there is none.
    assert "posterior" not in lines[1]
    for text in ("Ana", "41", "sings"):
        assert text not in str(caught.value).replace(f"{worst.nats * 0.999:g}", "")
    with pytest.raises(AssertionError, match=r"Ana Petrov is 41|She sings"):
        assert_leakage(result, max_nats=worst.nats * 0.999, show_text=True)


@pytest.mark.parametrize("why", ["order of computation", "a self-check", "the first of 3 drawn responses"])
def test_nothing_found_is_no_pass_where_nothing_could_be_found(why: str) -> None:
    quiet = leakmeter.influence("toy", context="Ana sings.", query="Who?", response="Bo")
    assert_no_disclosure(quiet)
    drawn = leakmeter.influence("toy", context="Ana sings.", query="Who?", samples=3, max_new_tokens=2)
    doubtful = {
        "order of computation": replace(quiet, noise_floor_nats=1.01 * MOST_FLOOR_NATS * len(quiet.response.tokens)),
        "a self-check": replace(
            quiet, self_check=SelfCheck(passes="plain", rows=5, nats=0.0, largest_nats=0.0, failed_nats=3.0)
        ),
        "the first of 3 drawn responses": replace(drawn, disclosures=()),
    }
    with pytest.raises(UsageError, match=f"^no disclosure above the bound was found, but .*{why}.*; ") as told:
        assert_no_disclosure(replace(doubtful[why], id="clinic"))
    assert "case 'clinic'" in str(told.value)


def test_a_belief_above_its_bound_is_told() -> None:
    result = leakmeter.influence("toy", [CASE])[0]
    first, second = result.pieces
    with pytest.raises(UsageError, match=r"^max_posterior is a bound on responses that are drawn, and that of case"):
        assert_leakage(result, max_posterior=0.81)
    drawn = replace(result, response=replace(result.response, sampled=True))
    believed = replace(drawn, pieces=(replace(first, posterior=0.8, posterior_note=None), second))
    assert_leakage(believed, max_posterior=0.81)
    with pytest.raises(AssertionError, match=r"1 of 2 .*\n.*bound on the posterior 0\.79;.*posterior 80.%"):
        assert_leakage(believed, max_posterior=0.79)


def test_a_bound_below_the_noise_floor_is_refused() -> None:
    result = leakmeter.influence("toy", [CASE])[0]
    noisy = replace(result, noise_floor_nats=0.5, response=replace(result.response, sampled=True))
    with pytest.raises(UsageError, match=r"max_nats is 0\.4 and below the noise floor of case 'clinic', 0\.50? nats"):
        assert_leakage(noisy, max_nats=0.4)
    with pytest.raises(UsageError, match=r"max_posterior is 0\.6 and below 0\.6225, that of the noise floor"):
        assert_leakage(noisy, max_posterior=0.6)
    assert_leakage(noisy, max_nats=0.5, max_posterior=0.63)


def test_the_largest_over_samples_counts() -> None:
    case = {**CASE, "response": None}
    result = leakmeter.influence("toy", [case], samples=4, max_new_tokens=4, unit="whole")
    (piece,) = result[0].pieces
    assert piece.worst_nats is not None
    assert_leakage(result, max_nats=piece.worst_nats * 1.001)
    with pytest.raises(AssertionError):
        assert_leakage(result, max_nats=piece.worst_nats * 0.999)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "nothing to check the leakage against"),
        ({"max_nats": 0}, "max_nats is 0; it has to be above 0"),
        ({"max_posterior": 0.5}, "max_posterior is 0.5; it has to be above 0.5 and below 1"),
        ({"max_nats": 1, "unti": "word"}, "did you mean 'unit'"),
    ],
)
def test_what_cannot_be_checked_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        assert_leakage(CASE, model="toy", **given)
    with pytest.raises(UsageError, match="give those of influence"):
        assert_leakage(leakmeter.susceptibility("toy", ["Who?"], contexts=["a.", "b."]), max_nats=1)


@pytest.mark.long
def test_pytest_has_a_fixture_and_shows_the_line_that_called(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TEST, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nleakmeter_model = toy\n", encoding="utf-8")
    # A checkout that was installed before it had the entry point has no plug-in yet.
    has_plugin = "leakmeter" in {one.name for one in metadata.entry_points(group="pytest11")}
    more = () if has_plugin else ("-p", "leakmeter.pytest_plugin")
    words = [sys.executable, "-m", "pytest", "-q", *more, "-p", "no:cacheprovider", "test_it.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert "1 failed" in done.stdout, done.stdout + done.stderr
    assert 'max_nats=0.01, meter=leakmeter_meter, unit="whole")' in done.stdout
    assert "1 of 1 piece leaks more than the bound allows" in done.stdout
    assert "src/leakmeter/testing.py" not in done.stdout
