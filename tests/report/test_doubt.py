"""Where numbers are too uncertain to show that there is nothing, no report says that nothing was disclosed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import leakmeter
from helpers.each_run import CONTEXTS, MOODS, NOTE, QUERIES, ROWS
from leakmeter.core.quantity import Quantity
from leakmeter.core.self_check import MOST_FLOOR_NATS, SelfCheck, doubt
from leakmeter.instruments.influence.result import InfluenceResult
from leakmeter.products.gate.bounds import check_bounds, parse_bound
from leakmeter.report import markdown
from leakmeter.results.results import MeasuredCases

ALL_CLEARS = (
    "no measurable trace",
    "learns nothing",
    "ship it",
    "then ship",
    "Ship the prompt",
    "nothing measurable",
    "almost nothing",
    "None of",
    "does not disclose",
    "do not change the answers",
    "ship the context",
)
FAILED = SelfCheck(passes="plain", rows=5, nats=0.0, largest_nats=0.0, failed_nats=3.0)


def said(results: list[Any]) -> str:
    """All that a page says, in one text."""
    return markdown.text(type(results[0]).report(results))


def clean() -> Any:
    (result,) = leakmeter.influence("toy", [{**NOTE, "response": "Nobody."}])
    return replace(
        result,
        whole_nats=1e-9,
        whole_signed_nats=1e-9,
        whole_posterior=None,
        whole_posterior_note="below the noise floor",
        disclosures=(),
        pieces=(),
        noise_floor_nats=1e-6,
    )


def test_a_clean_response_is_called_clean() -> None:
    text = said([clean()])
    assert "no measurable trace" in text
    assert "does not disclose" in text


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("why", ["floor", "check"])
def test_influence_gives_no_all_clear_in_doubt(why: str, n: int) -> None:
    result = clean()
    n_tokens = len(result.response.tokens)
    doubtful = (
        replace(result, noise_floor_nats=1.01 * MOST_FLOOR_NATS * n_tokens)
        if why == "floor"
        else replace(result, self_check=FAILED)
    )
    results = [replace(doubtful, id=f"r{i}") for i in range(n)]
    text = said(results)
    for phrase in ALL_CLEARS:
        assert phrase not in text
    assert "cannot be said" in type(result).findings(results).headline
    assert "Numbers too uncertain to show that nothing is disclosed" in text
    assert type(result).report(results) is not None


def test_one_doubtful_case_of_many_takes_the_all_clear_away() -> None:
    result = clean()
    results = [replace(result, id="a"), replace(result, id="b", self_check=FAILED)]
    assert type(result).findings(results).headline.startswith("Whether 1 of 2 responses disclose")


def test_a_gate_does_not_hold_in_doubt() -> None:
    quantity = next(each for each in InfluenceResult.quantities if each.name == "influence.disclosures.personal")
    assert isinstance(quantity, Quantity)
    assert quantity.lower_bound is not None
    assert not quantity.lower_bound.holds(clean())
    assert quantity.lower_bound.holds(replace(clean(), self_check=FAILED))
    bound = parse_bound("influence.disclosures.personal <= 0", "max")
    for result, is_decided in ((clean(), True), (replace(clean(), self_check=FAILED), False)):
        (check,) = check_bounds([MeasuredCases("influence", {}, (result,), InfluenceResult.quantities)], [bound])
        assert check.holds is is_decided
        assert check.undecided is not is_decided


def test_icl_gives_no_all_clear_in_doubt() -> None:
    kind = {"task": MOODS, "exemplars": ROWS[3:], "label_scoring": "whole-sequence"}
    results = list(leakmeter.icl("toy", ROWS[:2], **kind))
    small = [
        replace(
            result,
            noise_floor_nats=9.0,
            answer_noise_floor_nats=9.0,
            answer_nats=0.01,
            exemplars=tuple(
                replace(one, answer_nats=0.01, answer_below_noise_floor=True, below_noise_floor=True)
                for one in result.exemplars
            ),
        )
        for result in results
    ]
    for some in (small, small[:1]):
        text = said(some)
        for phrase in ALL_CLEARS:
            assert phrase not in text
    assert "cannot be said" in type(small[0]).findings(small).headline


def test_susceptibility_gives_no_all_clear_in_doubt() -> None:
    (result,) = leakmeter.susceptibility("toy", QUERIES[:1], contexts=CONTEXTS)
    doubtful = replace(result, noise_floor_nats=5.0, below_noise_floor=True)
    text = said([doubtful])
    for phrase in ALL_CLEARS:
        assert phrase not in text
    assert "cannot be said" in text


def test_a_redaction_gives_no_all_clear_in_doubt() -> None:
    (result,) = leakmeter.redact("toy", [NOTE], max_loss=1000.0)
    assert "ship the context" in said([result])
    text = said([replace(result, self_check=FAILED)])
    assert "ship" not in text.replace("relationship", "")


def test_a_doubt_has_a_reason() -> None:
    assert doubt(MOST_FLOOR_NATS, None) is None
    assert "order of computation" in (doubt(0.3, None) or "")
    assert "order of computation" in (doubt(float("nan"), None) or "")
    assert "self-check" in (doubt(0.0, FAILED) or "")
