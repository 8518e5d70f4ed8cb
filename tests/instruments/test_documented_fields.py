"""Pages of the documentation list the fields of what `--json` prints."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from helpers.docs_blocks import documented_fields
from leakmeter.core.cost import ResultCost
from leakmeter.core.record import Record, schema
from leakmeter.instruments.icl.result import IclResult, IclSummary
from leakmeter.instruments.redaction.result import RedactionResult
from leakmeter.instruments.susceptibility.fisher.result import FisherResult, FisherSummary
from leakmeter.instruments.susceptibility.result import SusceptibilityResult
from leakmeter.instruments.susceptibility.result import SusceptibilitySummary as SusceptibilitySummary

PAGES: dict[type[Record], str] = {
    IclResult: "icl",
    IclSummary: "icl",
    RedactionResult: "redaction",
    **dict.fromkeys((SusceptibilityResult, SusceptibilitySummary, FisherResult, FisherSummary), "susceptibility"),
}


def fields_of(kind: type[Record]) -> Iterator[str]:
    whole = schema(kind, "")
    for part in (whole, *whole.get("$defs", {}).values()):
        yield from part.get("properties", ())


# Told of all instruments, in docs/case.md and docs/served.md.
COMMON = {*fields_of(ResultCost), "sampled", "is_partly_read"}


@pytest.mark.parametrize("kind", PAGES)
def test_a_page_lists_every_field(kind: type[Record]) -> None:
    assert {*fields_of(kind)} - (COMMON if kind is RedactionResult else set()) <= documented_fields(PAGES[kind])
