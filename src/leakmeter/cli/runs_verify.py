"""`leakmeter runs verify`: whether runs are what was written."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from leakmeter.commands import output
from leakmeter.core.plain import visible

_WRONG: Final = 1
"""Exit code where a run is not what was written."""


def verify(*run: Annotated[str, Parameter(negative="")], runs: Path = Path("runs")) -> None:
    """Read all of some runs again, and say which files are truncated, edited, missing or foreign.

    The exit code is 1 if anything is wrong. An unfinished run is told as such, and is wrong only where it was named.

    Parameters
    ----------
    run
        The runs; without any, all of the directory.
    runs
        Directory of runs.
    """
    from leakmeter.runs.catalogue import RUN, entries, find_run
    from leakmeter.runs.verify import verify as verified

    named = [find_run(given, runs) for given in run]
    found = [verified(path) for path in named or (runs / one.name for one in entries(runs) if one.kind == RUN)]
    for one in found:
        lines = (f"{one.state:10}  {one.path.name}  {one.n_files} files", *(f"    {told}" for told in one.findings))
        # A file's name may hold anything, and is one line.
        sys.stdout.write("".join(visible(line).replace("\n", "␊") + "\n" for line in lines))
    if not found:
        output.tell(f"no runs under '{runs}'")
    if any(one.state == "wrong" or (named and one.state == "unfinished") for one in found):
        sys.exit(_WRONG)
