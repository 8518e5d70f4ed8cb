"""`leakmeter runs export`: a run in files that are the same wherever and however it was made."""

from __future__ import annotations

from pathlib import Path

from leakmeter.commands import output
from leakmeter.commands.options import Flag


def export(run: str, /, *, out: Path, redact: Flag = False, runs: Path = Path("runs")) -> None:
    """Write a run as measurements.parquet, cases.jsonl and spec.json, or its measurements alone as CSV.

    Two runs of the same spec give the same bytes, however often either was interrupted.

    Parameters
    ----------
    run
        The run.
    out
        A directory that is not there yet, or a file NAME.csv.
    redact
        Leave out all texts and what texts can be read from: keyed hashes stand for names, and drawn tokens are left
        out. Your own key makes them, so that two exports of yours can be joined and nobody else can try out guesses.
    runs
        Directory of runs, where the run is given by name.
    """
    from leakmeter.runs.catalogue import find_run
    from leakmeter.runs.export import Whole, write
    from leakmeter.runs.redact import Redacted

    path = find_run(run, runs)
    if redact:
        from leakmeter.models import config_dir
        from leakmeter.runs.pseudonym import subject_key

        write(path, out, Redacted(subject_key(config_dir())))
    else:
        write(path, out, Whole())
    output.tell(f"export: {out}")
