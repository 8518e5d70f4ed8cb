"""`leakmeter report`: the page of a finished run, without the model."""

from __future__ import annotations

import sys
from pathlib import Path

from leakmeter.cli import output


def report(run: Path, /, *, html: Path = Path("report.html")) -> None:
    """Write the HTML report of a finished run.

    Parameters
    ----------
    run
        The run's directory.
    html
        The file to write.
    """
    from leakmeter.api import load_run
    from leakmeter.store.rundir import RunDirectory

    cases = [result.case for result in load_run(run)]
    output.check_writable(html, "report")
    output.write_page(html, cases, RunDirectory(run).read_spec().get("command"), run)
    sys.stderr.write(f"report: {html}\n")
