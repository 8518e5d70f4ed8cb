"""How often the rule of disclosures is wrong in a run, and whether its stated bound holds: figures of controls.md.

python docs/results/controls.py RUN

RUN was measured with `--controls` and `--complete`, so that each answer stands beside the contexts of other cases. Its
answers are split into halves 200 times: the bound that one half states is held against the share of the other half.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import leakmeter
from leakmeter.instruments.influence.controls import FalseAlarms
from leakmeter.instruments.influence.disclosure_report import listed, personal, retold

N_SPLITS = 200


def coverage(cases: list[Any], seed: int = 0) -> tuple[int, int]:
    """In how many splits the other half's share of false alarms is at most the bound, and of how many."""
    rng, holds = np.random.default_rng(seed), 0
    for _ in range(N_SPLITS):
        order = rng.permutation(len(cases))
        halves = [[cases[i] for i in chosen] for chosen in np.array_split(order, 2)]
        stated, seen = (FalseAlarms.of(half) for half in halves)
        if stated is None or seen is None:
            raise SystemExit("no controls; measure with --controls 3 --complete")
        holds += seen.share <= stated.share_at_most
    return holds, N_SPLITS


def main(run: Path) -> None:
    cases: list[Any] = list(leakmeter.load_run(run))
    alarms = FalseAlarms.of(cases)
    if alarms is None:
        raise SystemExit("no controls; measure with --controls 3 --complete")
    n_personal = sum(len(personal(case)) for case in cases)
    n_other = sum(len(retold(case)) for case, _ in listed(cases)[0])
    holds, of = coverage(cases)
    told = (
        f"answers {len(cases)}",
        f"spans called personal or secret {n_personal}",
        f"spans in other words that are listed {n_other}",
        f"false alarms {alarms.alarms} of {alarms.pairs} pairs, {alarms.share:.1%}, at most {alarms.share_at_most:.1%}",
        f"the bound of one half holds for the other in {holds} of {of} splits",
    )
    sys.stdout.write("\n".join(told) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
