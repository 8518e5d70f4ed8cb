"""`leakmeter pii check`: whether probing tells people whom a model was taught from people whom it was not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from leakmeter.commands import output
from leakmeter.commands.command_line import command_line
from leakmeter.commands.counting import counting
from leakmeter.commands.options import Flag
from leakmeter.instruments.pii.planting import Check
from leakmeter.instruments.pii.tune_command import ModelOptions

if TYPE_CHECKING:
    from leakmeter.instruments.pii.check import Checked

_TITLE: Final = "People planted against people held out"


def check(
    *,
    out: Path,
    asked: Annotated[Check | None, Parameter(name="*", negative="", consume_multiple=True)] = None,
    json: Flag = False,
    model: ModelOptions | None = None,
) -> None:
    """Plant invented people into a copy of a model, ask for them and for others, and say which scores tell them apart.

    Each score's AUC is the probability that one who was planted scores above one who was not: 0.5 where a score tells
    nothing. Black box by prompts, white box by a soft prompt tuned on people who were planted and are asked for nothing
    else. The same command goes on after an interruption.

    Parameters
    ----------
    out
        Directory for the copy, the people, what was measured, tables and figures.
    json
        Print one JSON object a row instead of the table.
    """
    from leakmeter.core.written import write_whole
    from leakmeter.instruments.pii.check import Steps, checked
    from leakmeter.studies import tables

    wanted = asked or Check()
    command = command_line(sys.argv[1:], without=[out])
    backend = (model or ModelOptions()).load("teach")
    with counting("steps of planting") as planting, counting("epochs of tuning") as tuning:
        found = checked(wanted, backend, out, Steps(planting, tuning, output.tell), command=command)
    about = [
        f"command: {command}",
        f"model: {backend.name}, fine-tuned; people, documents and draws by seed {wanted.seed}",
        "AUC: those planted against those held out; 95 % interval (Newcombe, method 5)",
    ]
    markdown = tables.to_markdown(_TITLE, about, found.rows)
    write_whole(out / "table.csv", tables.to_csv(found.rows).encode())
    write_whole(out / "roc.csv", tables.to_csv(found.points).encode())
    write_whole(out / "table.md", markdown.encode())
    _draw(found, out, command)
    if json:
        for row in found.rows:
            output.print_json(row)
    else:
        output.print_plain(markdown)
    output.tell(f"check: {out}")


def _draw(found: Checked, out: Path, command: str) -> None:
    from leakmeter.errors import UsageError
    from leakmeter.instruments.pii import charts
    from leakmeter.instruments.pii.table import LIKELIHOOD
    from leakmeter.report.charts import write

    told = {"title": _TITLE, "footer": f"command: {command}"}
    try:
        write(charts.auc(found.rows, **told), out / "figure")
        write(charts.curves(found.points, **told), out / "roc")
        write(charts.densities(found.values, ("documents",), value=LIKELIHOOD, **told), out / "densities")
    except UsageError as error:
        output.tell(str(error))
