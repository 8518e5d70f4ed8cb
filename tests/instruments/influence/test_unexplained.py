"""Answers that say what nothing of their prompt does are named on the report, whatever door the data came by."""

from __future__ import annotations

import pytest

import leakmeter
from leakmeter.instruments.influence.disclosure_report import further, headline


@pytest.mark.parametrize(
    ("response", "is_named"), [("Call 020 7946 0958.", True), ("Call Bo.", False), ("Room 4711.", False)]
)
def test_a_number_from_nowhere_is_named_and_takes_the_good_verdict(response: str, is_named: bool) -> None:
    case = leakmeter.influence("toy", context="Bo called from room 4711.", query="Who?", response=response)
    assert any("a number of four digits or more, or" in str(block) for block in further([case])) == is_named
    assert not (is_named and headline([case]).verdict == "good")


def test_a_query_that_repeats_the_documents_is_in_the_headline() -> None:
    context = "Bo Lind called from room 4711 of the harbour office."
    case = leakmeter.influence("toy", context=context, query=f"{context} Who?", response="Nobody.")
    assert "The query repeats text of the documents" in str(headline([case]))
    assert headline([case]).verdict != "good"
