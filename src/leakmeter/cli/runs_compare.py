"""`leakmeter runs compare`: two runs of one measure, case by case."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from leakmeter.commands import output
from leakmeter.commands.options import Flag


def compare(
    a: str,
    b: str,
    /,
    *,
    runs: Path = Path("runs"),
    quantity: Annotated[list[str] | None, Parameter(negative="")] = None,
    json: Flag = False,
) -> None:
    """Pair the cases of two runs of one measure, and say what moved, by how much, and how sure that is.

    Differences are B − A, means over pairs of cases with the same id, with 95 % bootstrap intervals. p is of Wilcoxon's
    signed-rank test, by Holm's rule among the quantities; effect is its rank-biserial correlation. A difference within
    its interval of 0, or within the noise floor of both runs, is no finding.

    Parameters
    ----------
    a
        A run.
    b
        Another run of the same measure.
    runs
        Directory of runs, where they are given by name.
    quantity
        Compare this quantity, such as 'influence' or 'icl.accuracy'; again for each further one. All by default.
    json
        Print one JSON object instead; null stands for what is infinite or has no meaning.
    """
    from leakmeter.runs.catalogue import find_run
    from leakmeter.runs.compare import compare as compared
    from leakmeter.runs.compare import comparison_object
    from leakmeter.runs.measured import read_measured

    first, second = (read_measured(find_run(name, runs)) for name in (a, b))
    for name, one in ((a, first), (b, second)):
        output.tell_outdated(name, one.spec)
    told = comparison_object(compared(first, second, quantity or ()))
    if json:
        output.print_json(told)
        return
    from leakmeter.runs.comparison_words import comparison_lines

    for line in comparison_lines(told):
        output.print_text(line)
