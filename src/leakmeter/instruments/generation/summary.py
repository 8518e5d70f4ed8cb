"""What several batches say together: batches that share no exemplar do not add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from leakmeter.errors import UsageError

Cases = Sequence[Mapping[str, Any]]


def summary(cases: Cases) -> dict[str, Any]:
    """Case objects of disjoint batches to one object.

    An exemplar has a part in the texts of one batch alone, so that what is promised of it is what that batch promises:
    of all together, the most that any promises (parallel composition). The same goes for what was measured. That holds
    of texts that stand in one batch only; how many do not is `n_repeated_texts`.

    Args:
        cases: one or more; see `case_object`.

    Raises:
        UsageError: no cases.
    """
    if not cases:
        raise UsageError("there are no batches to sum up; give at least one")
    told = [case["promise"]["guarantee"] for case in cases]
    failures = [{"batch": case["id"], **one} for case in cases for one in case["verdict"]["failures"]]
    batches_of = Counter(text for case in cases for text in {one["text"] for one in case["exemplars"]})
    return {
        "n_batches": len(cases),
        "n_texts": sum(len(case["sequences"]) for case in cases),
        "guarantee": None if None in told else max(told, key=lambda one: one["epsilon"]),
        "holds": not failures,
        "failures": failures,
        "most": max(
            ({"batch": case["id"], **row} for case in cases for row in case["by_order"]),
            key=lambda row: float("inf") if row["ratio"] is None else row["ratio"],
        ),
        "n_repeated_texts": sum(n > 1 for n in batches_of.values()),
    }
