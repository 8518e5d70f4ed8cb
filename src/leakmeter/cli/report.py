"""`leakmeter report`: the page of a finished run, without the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leakmeter.cli import output
from leakmeter.cli.options import Flag
from leakmeter.errors import UsageError


def report(run: Path, /, *, html: Path = Path("report.html"), public: Flag = False) -> None:
    """Write the HTML report of a finished run.

    Parameters
    ----------
    run
        The run's directory.
    html
        The file to write.
    public
        Write only what may be published, of a bounded decoding or of an audit.
    """
    from leakmeter.api.loading import load_run
    from leakmeter.store.rundir import RunDirectory

    results = list(load_run(run))
    if public:
        results = [published(result) for result in results]
    output.check_writable(html, "report")
    output.write_page(html, results, RunDirectory(run).read_spec().get("command"), run)
    output.tell(f"report: {html}")


def published(result: Any) -> Any:
    """The part of a result that may be published.

    Raises:
        UsageError: there is none.
    """
    receipt = getattr(result, "public", None)
    if receipt is None:
        raise UsageError(
            "--public is for `leakmeter decode --epsilon` and `leakmeter audit run`; nothing else promises anything"
        )
    return receipt
