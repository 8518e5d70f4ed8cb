"""Values of Fisher susceptibility: a series for every place and Σ, beside Monte Carlo susceptibility of the queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any, Final

from leakmeter.instruments.susceptibility.fisher.measure import Fisher
from leakmeter.instruments.susceptibility.table import Series, value_of
from leakmeter.studies.cells import FinishedCell
from leakmeter.studies.grid import Cell

OF_FISHER: Final = tuple(field.name for field in fields(Fisher))
"""Factors that Monte Carlo susceptibility does not have."""
ESTIMATOR: Final = "estimator"
"""Column of what the values come from."""
MONTE_CARLO: Final = "Monte Carlo"
_IDENTITY: Final = "identity"


def varied(cell: Cell) -> dict[str, Any]:
    """Place, and the other factors of a Fisher cell that Monte Carlo susceptibility does not have."""
    factors = {name: value for name, value in cell.factors.items() if name in OF_FISHER and name != "sigma"}
    return {"place": fisher_of(cell).place, **factors}


def variant_of(cell: Cell, sigma: str) -> str:
    """What the values of a Fisher cell and a Σ are called."""
    said = [f"{name} {value}" for name, value in varied(cell).items() if name != "place"]
    return ", ".join([fisher_of(cell).place, *said, sigma])


def of_sigma(finished: FinishedCell, sigma: str, statistic: str) -> list[float]:
    """A statistic of each query of a Fisher cell, in order."""
    return [
        next(float(r.values[0]) for r in measurements if (r.piece, r.statistic) == (sigma, statistic))
        for _, measurements in finished.measured
    ]


def series_of(cells: Sequence[FinishedCell]) -> Iterator[Series]:
    """The Monte Carlo susceptibility of a study's queries, then Eq. 9 for each place and Σ.

    That of Σ = 1 is in units of squared embeddings or states, which differ from model to model and place to place.
    """
    for one in cells:
        if not isinstance(one.cell.measure, Fisher):
            told = {**one.cell.factors, ESTIMATOR: MONTE_CARLO, "place": None, "sigma": None}
            yield Series(one, told, value_of(one, "susceptibility"))
    for one in cells:
        if isinstance(one.cell.measure, Fisher):
            shared = {name: value for name, value in one.cell.factors.items() if name not in OF_FISHER}
            for sigma in one.cell.measure.sigma:
                told = {**shared, ESTIMATOR: "Fisher", "place": None, "sigma": sigma, **varied(one.cell)}
                yield Series(one, told, of_sigma(one, sigma, "fisher"), is_comparable=sigma != _IDENTITY)


def fisher_of(cell: Cell) -> Fisher:
    """The measure of a Fisher cell."""
    if not isinstance(cell.measure, Fisher):
        raise TypeError(f"a {type(cell.measure).__name__} has no Fisher susceptibility")
    return cell.measure
