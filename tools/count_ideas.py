"""How many ideas the house asks one to hold, a line each: `python tools/count_ideas.py [LINE ...]`; all by default."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src" / "leakmeter"
N_CASES = 3


@contextmanager
def counted(owner: Any, name: str) -> Iterator[list[str]]:
    """The callables by which a function or method is called meanwhile."""
    calls: list[str] = []
    usual = getattr(owner, name)

    def counting(*given: Any, **named: Any) -> Any:
        calls.append(name)
        return usual(*given, **named)

    setattr(owner, name, counting)
    try:
        yield calls
    finally:
        setattr(owner, name, usual)


def of_influence(owner: Any, name: str) -> float:
    """Calls a case of `leakmeter.influence` of a few cases on the toy model."""
    import leakmeter
    from leakmeter.core.case import Case, Document

    cases = [
        Case(f"case {number}", (Document("note", "Anna lives in Graz. Bo lives in Oslo."),), "Where?", "In Graz.")
        for number in range(N_CASES)
    ]
    with counted(owner, name) as calls:
        leakmeter.influence("toy", cases)
    return len(calls) / N_CASES


def trials_a_case() -> float:
    from leakmeter.instruments.influence.measure import Influence

    return of_influence(Influence, "trial")


def prefix_trees_a_case() -> float:
    from leakmeter.core import plan

    return of_influence(plan, "_lay_out")


def files_that_name(pattern: str) -> int:
    words = re.compile(pattern)
    return sum(words.search(path.read_text(encoding="utf-8")) is not None for path in SOURCE.rglob("*.py"))


def files_that_name_prediction() -> int:
    """Of what work takes; a label that is predicted is another thing."""
    return files_that_name(
        r"engine\.prediction|[Pp]redictor|PlanningBackend|predicted_(tree|seconds|cases)|forecast|on_prediction|"
        r"KeptPrediction|longest_trial|\bpredict_cases|engine\.counting|core\.counting"
    )


LINES: dict[str, Callable[[], float]] = {
    "trials a case": trials_a_case,
    "prefix trees a case": prefix_trees_a_case,
    "files that name prediction": files_that_name_prediction,
}


def main(names: list[str]) -> None:
    for name in names or LINES:
        print(f"{name}: {LINES[name]():g}")


if __name__ == "__main__":
    main(sys.argv[1:])
