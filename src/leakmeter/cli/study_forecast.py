"""What a study will take, in words: for `--dry-run`, and before it begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from leakmeter.commands import output

if TYPE_CHECKING:
    from leakmeter.studies.forecast import Forecast
    from leakmeter.studies.grid import Study


def print_forecasts(study: Study, found: Sequence[Forecast]) -> None:
    """Print a row for each cell, and their sum; what cannot be predicted is told why."""
    from rich.table import Table
    from rich.text import Text

    from leakmeter.report.words import about_seconds
    from leakmeter.studies.forecast import n_looked_at

    table = Table(box=None, pad_edge=False)
    table.add_column("cell")
    for heading in (study.kind.records, "tokens to run", "time"):
        table.add_column(heading, justify="right")
    for one in found:
        if one.problem is not None:
            output.tell(one.problem)
        tokens = "not predicted" if one.n_tokens is None else f"{one.n_tokens:,.0f}"
        time = "not predicted" if one.seconds is None else about_seconds(one.seconds)
        table.add_row(Text(one.cell.label), f"{one.n_records:,}", tokens, time)
    console = output.console()
    console.print(Text(f"{study.title}; {study.size} size; nothing was run", style="bold"))
    console.print(table)
    console.print(Text(f"all cells: {_time(found)}; from the first {n_looked_at(study)} {study.kind.records} of each"))


def summed(study: Study, found: Sequence[Forecast]) -> str:
    """What cells will take together, in one line."""
    n_records = sum(one.n_records for one in found)
    tokens = [one.n_tokens for one in found if one.n_tokens is not None]
    said = f"{sum(tokens):,.0f} tokens, {_time(found)}" if len(tokens) == len(found) else "not predicted"
    return f"{n_records:,} {study.kind.records} are left: {said}"


def _time(found: Sequence[Forecast]) -> str:
    from leakmeter.report.words import about_seconds

    seconds = [one.seconds for one in found if one.seconds is not None]
    if len(seconds) < len(found):
        return "time not predicted"
    return f"at most {about_seconds(sum(seconds))} once models are loaded"
