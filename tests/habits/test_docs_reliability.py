"""Every promise of the page on what goes wrong has its test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from helpers.places import DOCS, TESTS

PAGE = (DOCS / "reliability.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.split("## Promised", 1)[1].split("## Not promised")[0].splitlines() if "`" in line]
ATTACKS = [line for line in PAGE.split("\n## Attacks", 1)[1].splitlines() if re.match(r"\| (?!tried|---)", line)]


def test_every_line_has_a_test() -> None:
    assert len(ROWS) > 20
    assert all(re.search(r"`[\w/]+:test_\w+`", row.rsplit(" | ", 1)[1]) for row in ROWS)
    assert "## Not promised" in PAGE


@pytest.mark.parametrize("row", ATTACKS)
def test_every_attack_says_what_came_of_it_and_has_a_test(row: str) -> None:
    tried, came, tests = row.strip("| ").split(" | ")
    assert tried
    assert re.match(r"held|fell", came)
    assert re.search(r"`[\w/]+:test_\w+`", tests)


@pytest.mark.parametrize("named", sorted(set(re.findall(r"`([\w/]+:test_\w+)`", PAGE))))
def test_named_tests_exist(named: str) -> None:
    place, name = named.split(":")
    source = Path(TESTS, f"{place}.py").read_text(encoding="utf-8")
    assert f"def {name}(" in source
