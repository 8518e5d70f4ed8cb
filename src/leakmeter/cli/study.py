"""`leakmeter study`: factor studies, those of the papers and your own."""

from __future__ import annotations

from typing import Any

from cyclopts import App

from leakmeter.cli.study_run import run
from leakmeter.commands.options import Flag

app = App(
    name="study",
    help="""Run factor studies, those of the papers and your own: table and figure with intervals.

    `leakmeter study NAME` is short for `leakmeter study run NAME`.""",
)


def list_studies(*, json: Flag = False) -> None:
    """List the studies that ship with leakmeter, and what each asks for.

    Parameters
    ----------
    json
        Print one JSON object a study.
    """
    from rich.table import Table
    from rich.text import Text

    from leakmeter.commands import output
    from leakmeter.studies.grid import SIZES, load_study, shipped

    rows: list[dict[str, Any]] = []
    for name in shipped():
        sizes = {size: load_study(name, size) for size in SIZES}
        study = sizes["laptop"]
        cells = {size: {"cells": len(of.cells), "records": of.cells[0].n_records} for size, of in sizes.items()}
        datasets = list(dict.fromkeys(cell.dataset for cell in study.cells))
        told = {"name": name, "title": study.title, "measure": study.measure, "reproduces": study.reproduces}
        rows.append({**told, "datasets": datasets, "data": study.kind.sources(datasets), **cells})
    if json:
        for row in rows:
            output.print_json(row)
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("study", no_wrap=True)
    table.add_column("what is shown, of which data")
    for heading in SIZES:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        sizes_told = [f"{row[size]['cells']} × {row[size]['records']:,}" for size in SIZES]
        shown = Text.assemble(row["title"], "\n", (", ".join(row["datasets"]), "dim"))
        table.add_row(row["name"], shown, *sizes_told)
    console = output.console()
    console.print(table)
    console.print(
        "Sizes: cells × records of each (contexts, queries, relations or people). leakmeter study run NAME --dry-run"
    )


app.command(run)
app.command(list_studies, name="list")
app.default(run)
