"""`leakmeter doctor`: whether leakmeter works here, or whether a model's numbers can be measured with."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from leakmeter.cli.tokens import tokens
from leakmeter.commands import output
from leakmeter.commands.options import FlagOption, LocalOption, ServedOption
from leakmeter.commands.output import command_line
from leakmeter.engine.options import LocalOptions, ServedOptions
from leakmeter.errors import UsageError

app = App(name="doctor")
app.command(tokens, name="tokens")


@app.default
def doctor(
    *,
    model: str | None = None,
    against: str | None = None,
    served: ServedOption = None,
    local: LocalOption = None,
    report: Annotated[Path | None, Parameter(name=("--report", "--html"))] = None,
    json: FlagOption = False,
) -> None:
    """Check that leakmeter works here or, with --model, that a model's log-probabilities are usable.

    Without --model: prints the versions of libraries and compares the engine's numbers with a slow computation; the
    output can be pasted into a bug report, since it has no path and no name of yours. With --model: sends a few hundred
    short texts of its own, none of yours. Exits with 1 if a measurement would be wrong.

    Parameters
    ----------
    model
        A served model, such as vllm:http://127.0.0.1:8000#NAME, or a local one (see `leakmeter influence`).
    against
        Local weights to compare with: hf:PATH, a known name, a directory or a .gguf file.
    served.allow_remote
        Allow a served model on another machine.
    report
        Also write the report on the model, a page, to this file.
    json
        Print one JSON object instead.
    """
    options = {**asdict(served or ServedOptions()), **asdict(local or LocalOptions())}
    if model is None:
        model_options = [name for name, value in {"against": against, **options, "report": report}.items() if value]
        if model_options:
            raise UsageError(f"--{model_options[0].replace('_', '-')} needs a model; give --model too")
        _print_installation(json=json)
        return
    from leakmeter.products.doctor.api import examined

    if report is not None:
        output.check_writable(report, "report", model, against)
    result = examined(model, against=against, notify=output.tell, **options)
    if report is not None:
        line = command_line(without=[report])
        output.save_page(report, result.render_page([result], command=line, run=None), public=True)
    if json:
        output.print_json(result.to_dict())
    else:
        output.print_results([result], explain=True)
    if report is not None:
        output.tell_page(report, public=True)
    if not result.is_sound:
        sys.exit(1)


def _print_installation(*, json: bool) -> None:
    from leakmeter.products.doctor.installation import check_installation

    result = check_installation()
    if json:
        output.print_json(result.to_dict())
    else:
        output.print_plain(result.to_text())
    if not result.is_sound:
        sys.exit(1)
