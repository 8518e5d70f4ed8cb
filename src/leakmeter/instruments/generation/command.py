"""`leakmeter audit`: private generation from exemplars, promised against measured."""

from __future__ import annotations

from cyclopts import App

from leakmeter.instruments.generation.calibrate_command import calibrate
from leakmeter.instruments.generation.run_command import run

app = App(
    name="audit",
    help="""Generate texts from private exemplars, and hold what they tell against what was promised.

    `calibrate` says which setting keeps a promise; `run` generates, measures and judges.""",
)
app.command(calibrate)
app.command(run)
