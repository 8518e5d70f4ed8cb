"""`leakmeter pii check`: whether probing tells people whom a model was taught from people whom it was not."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from leakmeter.cli import output
from leakmeter.cli.counting import counting
from leakmeter.cli.options import Flag
from leakmeter.cli.pii_tune import ModelOptions
from leakmeter.data.planting import Check


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
        Directory for the copy, the people, what was measured, a table and a figure.
    json
        Print one JSON object a row instead of the table.
    """
    from leakmeter.report import tables
    from leakmeter.store.rundir import write_whole
    from leakmeter.studies.planted import Steps, checked

    wanted = asked or Check()
    command = shlex.join(["leakmeter", *sys.argv[1:]])
    backend = (model or ModelOptions()).load("teach")
    with counting("steps of planting") as planting, counting("epochs of tuning") as tuning:
        rows = checked(wanted, backend, out, Steps(planting, tuning, output.tell), command=command)
    about = [
        f"command: {command}",
        f"model: {backend.name}, fine-tuned; people, documents and draws by seed {wanted.seed}",
        "AUC: those planted against those held out; 95 % interval (Newcombe, method 5)",
    ]
    markdown = tables.to_markdown("People planted against people held out", about, rows)
    write_whole(out / "table.csv", tables.to_csv(rows).encode())
    write_whole(out / "table.md", markdown.encode())
    _draw(rows, out, command)
    if json:
        for row in rows:
            output.print_json(row)
    else:
        sys.stdout.write(markdown)
    output.tell(f"check: {out}")


def _draw(rows: list[dict[str, Any]], out: Path, command: str) -> None:
    from leakmeter.errors import UsageError
    from leakmeter.report import figures

    groups = list(dict.fromkeys((row["box"], row["type"]) for row in rows))
    named = {group: f"AUC, {group[1]}, {group[0]} box" for group in groups}
    wide: dict[tuple[int, str], dict[str, Any]] = {}
    for row in rows:
        of = wide.setdefault((row["repeats"], row["score"]), {"repeats": row["repeats"], "score": row["score"]})
        name = named[row["box"], row["type"]]
        of |= {name: row["auc"], f"{name}_low": row["auc_low"], f"{name}_high": row["auc_high"]}
    try:
        figures.draw(
            list(wide.values()),
            x="repeats",
            lines=("score",),
            ys=tuple(named.values()),
            title="People planted against people held out",
            footer=f"command: {command}",
            stem=out / "figure",
        )
    except UsageError as error:
        output.tell(str(error))
