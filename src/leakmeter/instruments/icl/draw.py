"""Exemplars of queries: drawn for each, or the same for all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from leakmeter.core.limits import refuse_bad
from leakmeter.data.named.base import chosen_numbers
from leakmeter.errors import UsageError
from leakmeter.text.exemplar import Example, ExemplarCase

REDRAWN_TOGETHER: Final = 8
"""Queries scored together where each has its own exemplars; they share an instruction."""
FIXED_TOGETHER: Final = 32
"""Queries scored together where all have the same exemplars."""


def draw_cases(pool: Sequence[Example], queries: Sequence[Example], *, shots: int, seed: int) -> list[ExemplarCase]:
    """For each query exemplars from a pool, without replacement (Section 4.1 of the ICLInf paper), in the order drawn.

    What is drawn for a query depends on the pool, the seed and the query's number alone, and fewer shots are the first
    of more: levels of any other factor, and of this one, are paired query by query. An example of the pool that has the
    query's own texts, white space around them apart, is passed over.
    """
    import numpy as np

    refuse_bad((shots >= 1, "shots", shots, "1 or more"), (seed >= 0, "seed", seed, "0 or more"))
    same = Counter(example.compared for example in pool)
    cases = []
    for number, query in enumerate(queries):
        n_others = len(pool) - same[query.compared]
        if n_others < shots:
            raise UsageError(
                f"query '{query.id}' needs {shots} exemplars, and there are {n_others:,} besides the query itself; "
                "give more of them, or fewer shots"
            )
        rng = np.random.default_rng([seed, number])
        chosen: dict[int, Example] = {}
        # One at a time, without duplicates and examples alike: `shots` changes no earlier draw.
        while len(chosen) < shots:
            at = int(rng.integers(len(pool)))
            if pool[at].compared != query.compared:
                chosen.setdefault(at, pool[at])
        cases.append(ExemplarCase(query.id, tuple(chosen.values()), query))
    return cases


def fixed_cases(exemplars: Sequence[Example], queries: Sequence[Example]) -> list[ExemplarCase]:
    """Every query with the same exemplars, in their order; a query that is one of them keeps it."""
    if not exemplars:
        raise UsageError("there are no exemplars to measure; give at least one")
    return [ExemplarCase(query.id, tuple(exemplars), query) for query in queries]


def choose_queries(examples: Sequence[Example], n: int | None, seed: int | None) -> list[Example]:
    """Some examples, in their order: `n` at most, chosen by the seed; the first ones where it is None."""
    refuse_bad(
        (n is None or n >= 1, "max-queries", n or 0, "1 or more"),
        ((seed or 0) >= 0, "seed", seed or 0, "0 or more"),
    )
    return [examples[i] for i in chosen_numbers(len(examples), n, seed)]
