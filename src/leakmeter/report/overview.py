"""Many cases in a terminal, one a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from leakmeter.core.plain import visible
from leakmeter.report.scale import nats_text
from leakmeter.report.shade import Case, excerpt

if TYPE_CHECKING:
    from rich.table import Table


def decode_overview(cases: Sequence[Case]) -> Table:
    """Nats told by the first response of each, spent and promised."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for heading in ("case", "told, nats", "spent", "promised", "response"):
        table.add_column(heading, justify="left" if heading in ("case", "response") else "right")
    for case in cases:
        epsilon = case["epsilon"]
        table.add_row(
            Text(visible(case["id"])),
            nats_text(case["private"]["whole_nats"]),
            nats_text(case["private"]["spent_nats"]),
            nats_text(None if epsilon is None else epsilon["response"]["basic_nats"]),
            Text(excerpt(case["response"]["text"], 60)),
        )
    return table


def public_overview(cases: Sequence[Case]) -> Table:
    """Promise and response of each, by number: a name may tell of the context."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for heading in ("receipt", "promised, nats", "response"):
        table.add_column(heading, justify="left" if heading == "response" else "right")
    for number, case in enumerate(cases, 1):
        table.add_row(
            str(number), nats_text(case["epsilon"]["response"]["basic_nats"]), Text(excerpt(case["text"], 60))
        )
    return table
