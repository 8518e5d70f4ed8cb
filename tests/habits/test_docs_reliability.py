"""Every promise of the page on what goes wrong has its test."""

from __future__ import annotations

import re
from pathlib import Path

from helpers.places import DOCS, TESTS

PAGE = (DOCS / "reliability.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.split("## Promised", 1)[1].split("## Not promised")[0].splitlines() if "`" in line]
ATTACKS = [line for line in PAGE.split("\n## Attacks", 1)[1].splitlines() if re.match(r"\| (?!tried|---)", line)]


def test_every_line_has_a_test() -> None:
    assert len(ROWS) > 20
    assert all(re.search(r"`[\w/]+:test_\w+`", row.rsplit(" | ", 1)[1]) for row in ROWS)
    assert "## Not promised" in PAGE


def test_every_attack_says_what_came_of_it_and_has_a_test() -> None:
    for row in ATTACKS:
        tried, came, tests = row.strip("| ").split(" | ")
        assert tried, row
        assert re.match(r"held|fell", came), row
        assert re.search(r"`[\w/]+:test_\w+`", tests), row


def test_named_tests_exist() -> None:
    named = sorted(set(re.findall(r"`([\w/]+):(test_\w+)`", PAGE)))
    files = {place: Path(TESTS, f"{place}.py") for place, _ in named}
    sources = {place: path.read_text(encoding="utf-8") if path.is_file() else "" for place, path in files.items()}
    assert [f"{place}:{name}" for place, name in named if f"def {name}(" not in sources[place]] == []
