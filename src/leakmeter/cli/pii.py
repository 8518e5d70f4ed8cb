"""`leakmeter pii`: does a model know people's data, and what it takes to find out."""

from __future__ import annotations

from cyclopts import App

from leakmeter.cli.pii_check import check
from leakmeter.cli.pii_extract import extract
from leakmeter.cli.pii_plant import plant
from leakmeter.cli.pii_probe import probe
from leakmeter.cli.pii_tune import tune

app = App(
    name="pii",
    help="""Find out whether a model knows people's telephone numbers, e-mail and postal addresses.

    `probe` asks for each value, and ranks it among invented ones; `tune` makes a soft prompt that asks better, from the
    values of other people; `plant` teaches a copy of a model invented people, and `check` puts all of this to the test
    with it; `extract` finds people in documents.""",
)
app.command(probe)
app.command(tune)
app.command(plant)
app.command(check)
app.command(extract)
