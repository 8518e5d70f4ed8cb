"""Runs that an earlier revision measured are still read.

Those of `older_of_each`, one of each measure, have the numbers that it read of them (`older_of_each.json`). Those of
`older` were measured through a server which gives the 20 likeliest tokens of a row, at T ≠ 1. Their numbers are
middles of intervals, and they keep how far each may be off. That is not read any more; nothing may be said of them
that only exact numbers could show. What that revision said of them is here.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import leakmeter
from helpers.command_line import Ended
from helpers.places import TESTS
from helpers.report_snapshots import printed
from leakmeter.instruments.influence.result import InfluenceResult
from leakmeter.instruments.influence.sentences import verdict
from leakmeter.instruments.redaction.result import RedactionResult

OLDER = TESTS / "golden" / "older"
INFLUENCE, REDACT, HIDE = "influence-b624846a572605cb", "redact-f746e2363a6205b8", "redact-bb23acc4737881a9"
WHOLE = {INFLUENCE: (5.04, 12.69), REDACT: (5.04, 12.69), HIDE: (2.64, 6.91)}
LEFT = {REDACT: (2.35, 0.0), HIDE: (1.14, 0.0)}
Cli = Callable[..., Ended]


OF_EACH = TESTS / "golden" / "older_of_each"
NUMBERS = json.loads(OF_EACH.with_suffix(".json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", NUMBERS)
def test_a_run_of_each_measure_has_the_numbers_that_it_had(name: str, cli: Cli) -> None:
    shutil.copytree(OF_EACH / name, Path("runs") / name)
    found = leakmeter.load_run(Path("runs") / name)
    for case, numbers in zip(found, NUMBERS[name], strict=True):
        told = case.to_dict()
        assert {field: told[field] for field in numbers} == pytest.approx(numbers, abs=1e-8)
    for words in (
        ("runs", "show", f"runs/{name}"),
        ("runs", "verify", f"runs/{name}"),
        ("report", f"runs/{name}", "--html", "page.html", "--markdown", "page.md"),
        ("runs", "query", "select run, count(*) from measurements group by run"),
    ):
        ended = cli(*words)
        assert ended.code == 0, (words, ended.err)
    assert Path("page.html").stat().st_size > 10_000
    name_of_number = found[0].quantities[0].name
    ends = [cli("gate", f"runs/{name}", "--max", f"{name_of_number}{of} <= 1e9").code for of in ("", ".max")]
    # It is a number of the whole run, or one of each case.
    assert min(ends) in (0, 1)


@pytest.fixture
def runs(cli: Cli) -> Path:
    assert cli
    path = Path("runs")
    shutil.copytree(OLDER, path)
    return path


@pytest.mark.parametrize("name", WHOLE)
def test_numbers_are_what_they_were_and_the_case_says_what_is_not_read(runs: Path, name: str) -> None:
    found = leakmeter.load_run(runs / name)
    assert [case.id for case in found] == ["one", "two"]
    assert [case.whole_nats for case in found] == pytest.approx(WHOLE[name], abs=0.006)
    if name in LEFT:
        assert [case.left_nats for case in found] == pytest.approx(LEFT[name], abs=0.006)
    for case in found:
        assert case.is_partly_read is True
        assert sum("midpoint of an interval" in warning for warning in case.warnings) == 1
        assert case.noise_floor_nats > 0.1  # the server's own noise is 0: it is all of the interval
        assert type(case).from_dict(case.to_dict()) == case
    said = " ".join(printed(type(found[0]).report(list(found)), width=200).split())
    assert "Numbers too uncertain to show that nothing is disclosed" in said or name != INFLUENCE
    assert "ship the redacted context" not in said
    # A number that can be compared is known from below only.
    assert not np.isfinite(found.to_frame()[name.partition("-")[0]]).any()


def test_what_is_below_the_noise_is_not_called_nothing(runs: Path) -> None:
    case = leakmeter.load_run(runs / INFLUENCE)[0].to_dict()
    noise = case["whole_nats"] + 0.1
    quiet = {**case, "whole_posterior": None, "noise_floor_nats": noise, "noise_floor_per_token_nats": noise}
    assert "cannot be said: another version of leakmeter measured it" in verdict(InfluenceResult.from_dict(quiet))


def test_a_limit_counts_as_reached_with_all_that_a_number_may_be_off(runs: Path) -> None:
    (one, _) = leakmeter.load_run(runs / REDACT)
    assert isinstance(one, RedactionResult)
    assert one.reached is (one.left_nats + one.noise_floor_nats <= 3.0) is True
    assert [case.reached for case in leakmeter.load_run(runs / HIDE)] == [True, False]


def test_the_program_shows_reports_queries_and_verifies_them(cli: Cli, runs: Path) -> None:
    for name in WHOLE:
        for words in (("verify",), ("show",)):
            ended = cli("runs", *words, runs / name)
            assert ended.code == 0, ended.err
        ended = cli("report", runs / name, "--html", f"{name}.html")
        assert ended.code == 0, ended.err
        assert "midpoint of an interval" in Path(f"{name}.html").read_text(encoding="utf-8")
    ended = cli("runs", "query", "select run, count(*) as n from measurements group by run order by run", "--json")
    assert ended.code == 0, ended.err
    assert len([json.loads(line) for line in ended.out.splitlines()]) == 3


@pytest.mark.parametrize(
    ("name", "option", "bound", "code"),
    [
        # Both ends are below, but what this version does not read may say otherwise.
        (INFLUENCE, "--max", "influence.max <= 100", 2),
        (INFLUENCE, "--max", "influence.max <= 11", 1),
        (INFLUENCE, "--max", "influence.per_token.max <= 100", 2),
        (INFLUENCE, "--max", "influence.worst_piece.max <= 100", 2),
        (INFLUENCE, "--max", "influence.disclosures.personal <= 0", 1),
        (INFLUENCE, "--max", "influence.disclosures <= 9", 2),
        (INFLUENCE, "--max", "influence.worst_disclosure <= 9", 2),
        # Between the lower end and the middle nothing is shown to reach a limit.
        (INFLUENCE, "--min", "influence.max >= 12", 2),
        (INFLUENCE, "--min", "influence.max >= 11", 0),
        (REDACT, "--max", "redact.max <= 3", 2),
        (REDACT, "--max", "redact.cut.max <= 1", 0),
        (REDACT, "--min", "redact.reached >= 1", 0),
    ],
)
def test_the_gate_holds_nothing_that_was_not_shown(
    cli: Cli, runs: Path, name: str, option: str, bound: str, code: int
) -> None:
    ended = cli("gate", runs / name, option, bound)
    assert ended.code == code, ended.out
    assert {0: "holds", 1: "BROKEN", 2: "UNDECIDED"}[code] in ended.out
