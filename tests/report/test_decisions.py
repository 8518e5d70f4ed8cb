"""What reports advise is what the documentation's decision tables say."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from helpers.places import DOCS
from leakmeter.instruments.generation import words as generation
from leakmeter.instruments.icl import report, selection_report
from leakmeter.instruments.pii import words as pii
from leakmeter.instruments.susceptibility import report as susceptibility
from leakmeter.instruments.susceptibility.fisher import report as fisher

TABLES = (
    ("tutorials/provider.md", pii.DECISIONS),
    ("tutorials/auditor.md", generation.DECISIONS),
    ("tutorials/exemplars.md", tuple(report.EXEMPLARS.values())),
    ("tutorials/exemplars.md", tuple(selection_report.SELECTION.values())),
    ("susceptibility.md", susceptibility.DECISIONS),
    ("susceptibility.md", fisher.DECISIONS),
)


@pytest.mark.parametrize(("page", "rows"), TABLES)
def test_each_row_stands_in_the_documentation(page: str, rows: Sequence[tuple[str, str]]) -> None:
    told = (DOCS / page).read_text(encoding="utf-8").replace("`", "")
    assert "\n".join(f"| {found} | {what} |" for found, what in rows).replace("`", "") in told
