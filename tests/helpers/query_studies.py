"""Small studies of queries about relations, and what the toy model says of them."""

from __future__ import annotations

from leakmeter.commands.studies.cells import FinishedCell
from leakmeter.commands.studies.grid import Study, load_study

SMALL = {"model": ["toy"], "relations": ["4"], "entities": ["2"], "contexts": ["5"], "mentioning": ["1"]}
N_QUERIES = 4 * 2 * 4
FISHER = {**SMALL, "directions": ["1"], "probes": ["2"], "place": ["query", "slot"]}
_OF_FISHER = ("susceptibility_table_1", "susceptibility_figure_3", "susceptibility_figure_4")


def study_of(name: str, **changes: list[str]) -> Study:
    return load_study(name, changes={**(FISHER if name in _OF_FISHER else SMALL), **changes})


def chi_of(finished: FinishedCell) -> list[float]:
    return [
        float(measurement.values[0])
        for _, measurements in finished.measured
        for measurement in measurements
        if measurement.statistic == "susceptibility"
    ]
