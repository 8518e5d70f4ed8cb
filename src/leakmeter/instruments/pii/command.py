"""`leakmeter pii`: does a model know people's data, and what it takes to find out."""

from __future__ import annotations

from cyclopts import App

from leakmeter.instruments.pii.check_command import check
from leakmeter.instruments.pii.extract_command import extract
from leakmeter.instruments.pii.plant_command import plant
from leakmeter.instruments.pii.probe_command import probe
from leakmeter.instruments.pii.tune_command import tune

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
