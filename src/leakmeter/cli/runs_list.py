"""`leakmeter runs list`: the runs under a directory, and what lies beside them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from leakmeter.commands import output
from leakmeter.commands.options import Flag

if TYPE_CHECKING:
    from leakmeter.runs.catalogue import Entry

_WIDEST: Final = 60


def list_runs(*, runs: Path = Path("runs"), json: Flag = False) -> None:
    """List runs, complete or not, and the directories of studies beside them.

    Parameters
    ----------
    runs
        Directory of runs.
    json
        Write one JSON object a directory instead of a table.
    """
    from leakmeter.runs.catalogue import entries

    found = entries(runs)
    if json:
        for entry in found:
            output.print_json(asdict(entry))
        return
    if not found:
        output.tell(f"no runs under '{runs}'")
        return
    from rich.table import Table
    from rich.text import Text

    from leakmeter.report.shade import excerpt

    table = Table(box=None, pad_edge=False)
    # A name is there to be copied: other columns give way to it.
    table.add_column("name", overflow="fold", min_width=min(_WIDEST, max(len(entry.name) for entry in found)))
    for heading in ("state", "model"):
        table.add_column(heading)
    for heading in ("cases", "finished"):
        table.add_column(heading, justify="right")
    for entry in found:
        state = f"{entry.state}, outdated" if entry.outdated else entry.state or entry.kind
        cells = (entry.name, state, entry.model, _cases(entry), (entry.finished or "")[:10])
        table.add_row(*(Text(excerpt(str(cell or ""), _WIDEST)) for cell in cells))
    output.console().print(table)
    for note in dict.fromkeys(entry.outdated for entry in found if entry.outdated):
        output.tell(f"outdated: {note}")


def _cases(entry: Entry) -> str:
    if entry.n_cases_finished is None:
        return ""
    if entry.n_cases == entry.n_cases_finished:
        return f"{entry.n_cases:,}"
    return f"{entry.n_cases_finished:,} of {'?' if entry.n_cases is None else f'{entry.n_cases:,}'}"
