"""`leakmeter runs`: what was measured here, whether it is still what was written, and taking it elsewhere."""

from __future__ import annotations

from cyclopts import App

from leakmeter.cli.runs_compare import compare
from leakmeter.cli.runs_export import export
from leakmeter.cli.runs_list import list_runs
from leakmeter.cli.runs_show import show
from leakmeter.cli.runs_verify import verify

app = App(
    name="runs",
    help="""List runs, show one, compare two, check that they are what was written, and take them elsewhere.

    A run is a directory under runs, or under --runs. It is given by its path, its name, or as much of the name as tells
    it from others. Nothing here loads a model.""",
)
app.command(list_runs, name="list")
app.command(show)
app.command(compare)
app.command(verify)
app.command(export)
