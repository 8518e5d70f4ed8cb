"""What a gate found as JUnit XML and line by line."""

from __future__ import annotations

import math
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from leakmeter.core.quantity import Check, Counterexample, Number
from leakmeter.products.gate import gate_words as words

HELD = Check(
    "influence.p95 <= 5", 1, "influence", "What it owes.", True, Number(3.25, (2.5, math.inf), "nats", 120), 0,
    "influence.p95 is 3.25 [2.50, ∞] nats over 120 cases: at most 5, as asked.",
)  # fmt: skip
BROKEN = Check(
    "icl.accuracy >= 0.8", 2, "icl.accuracy", "How often.", False, Number(0.5, None, "share of cases", 2), 3,
    "icl.accuracy is 0.50 share of cases over 2 cases: less than 0.8.",
    (Counterexample(2, 0.0, "q\x1b2"), Counterexample(7, math.inf)),
)  # fmt: skip
CHECKS = (HELD, BROKEN)


def test_junit_has_a_test_case_for_each_claim() -> None:
    root = ElementTree.fromstring(words.to_junit(CHECKS))
    assert root.tag == "testsuites"
    (suite,) = root
    for one in (root, suite):
        assert [one.get(name) for name in ("tests", "failures", "errors")] == ["2", "1", "0"]
    held, broken = suite.findall("testcase")
    assert (held.get("name"), held.get("classname")) == ("influence.p95 <= 5", "leakmeter.run-1")
    assert (broken.get("name"), broken.get("classname")) == ("icl.accuracy >= 0.8", "leakmeter.run-2")
    assert held.find("failure") is None
    failure = broken.find("failure")
    assert failure is not None
    assert failure.get("message") == BROKEN.explained
    assert failure.text == f"{BROKEN.explained} {BROKEN.about}"
    told = [{one.get("name"): one.get("value") for one in case.iter("property")} for case in (held, broken)]
    counts = {"cases": "120", "cases without": "0"}
    assert told[0] == {"value": "3.25", "low": "2.5", "high": "inf", "unit": "nats", **counts}
    assert told[1] == {"value": "0.5", "unit": "share of cases", "cases": "2", "cases without": "3"}
    # What fails is counted among more that holds.
    root = ElementTree.fromstring(words.to_junit([HELD, BROKEN, replace(HELD, run=3)]))
    assert {(one.get("tests"), one.get("failures")) for one in (root, *root)} == {("3", "1")}
    for checks in ((), CHECKS):
        assert words.to_junit(checks) == words.to_junit(checks)
        assert words.to_junit(checks).startswith(b'<?xml version="1.0" encoding="UTF-8"?>\n')


def test_lines() -> None:
    assert words.check_lines((HELD,)) == [f"holds   {HELD.explained}"]
    assert words.check_lines(CHECKS) == [
        f"holds   run 1: {HELD.explained}",
        f"BROKEN  run 2: {BROKEN.explained} 3 without it.",
        "        worst: q␛2 (0), case 7 (∞)",
    ]


@pytest.mark.parametrize(
    ("operator", "is_within", "holds", "end"),
    [
        ("<=", True, True, "at most 5, as asked."), ("<", True, True, "below 5, as asked."),
        (">=", True, True, "at least 5, as asked."), (">", True, True, "above 5, as asked."),
        ("<=", False, False, "more than 5."), ("<", False, False, "not below 5."),
        (">=", False, False, "less than 5."), (">", False, False, "not above 5."),
        ("<=", True, False, "at most 5, but not all of its interval."),
    ],
)  # fmt: skip
def test_sentences_of_bounds(operator: str, is_within: bool, holds: bool, end: str) -> None:
    number = Number(4.0, (1.0, 9.0), "bits", 1)
    said = words.bound_sentence(
        words.found_text("a.p95", number), number, operator, 5.0, is_within=is_within, holds=holds
    )
    assert said == f"a.p95 is 4.00 [1.00, 9.00] bits over 1 case: {end}"


def test_sentences_of_numbers() -> None:
    assert words.number_text(Number(math.inf, None, "nats", 1200)) == "∞ nats over 1,200 cases"
    assert words.number_text(Number(math.nan, None, "nats", 2)) == "– nats over 2 cases"
    few = Number(4.0, None, "nats", 2, extremes=(3.0, 5.0))
    assert words.value_text(few) == "4.00 (3.00 to 5.00)"
    assert words.number_text(few) == "4.00 (3.00 to 5.00) nats over 2 cases, too few for an interval"
    said = words.regression_sentence("a", Number(1.0, None, "nats", 2), 0.5, 2.0, 3.0, holds=True)
    assert said == (
        "a went from 2.00 to 3.00 on average, by 1.00 nats over 2 cases, with a noise floor of 0.50: "
        "no worse than chance and noise allow."
    )
    assert "noise floor" not in words.regression_sentence("a", Number(1.0, None, "nats", 2), 0.0, 2.0, 3.0, holds=False)


def test_settings_and_hostile_words() -> None:
    assert words.setting_line("model.dtype", "float32", None) == "model.dtype: float32, then none"
    assert words.setting_line("params.clip", 1.0, 2.5) == "params.clip: 1, then 2.5"
    assert words.setting_line("params.seed", "not shown", "not shown") == "params.seed: other values, not shown"
    line = words.setting_line("\x1b[2Ja", "[red]" + "x" * 1000, {"y": "\n\x07"})
    assert {"\x1b", "\x07", "\n"}.isdisjoint(line)
    assert "[red]" in line
    assert len(line) < 200
