"""A finished run as its quantities: numbers of its cases that can be compared, averaged and bounded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from leakmeter.core import registry
from leakmeter.core.quantity import AnyQuantity, Case, Quantity
from leakmeter.core.record import JsonObject
from leakmeter.errors import UsageError
from leakmeter.stats.aggregates import is_aggregate
from leakmeter.stats.stats import FloatArray
from leakmeter.storage.parts import PartReader
from leakmeter.storage.rundir import RunDirectory

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Measured:
    measure: str
    spec: Mapping[str, Any]
    cases: tuple[Case, ...]
    """Results of its cases, in their order."""
    quantities: tuple[AnyQuantity, ...]
    """One or more, the first that one thinks of first."""

    @property
    def ids(self) -> list[str]:
        return [str(case.id) for case in self.cases]

    def values(self, quantity: Quantity) -> FloatArray:
        """A quantity of every case, NaN where a case has none, or a lower bound only, (case,)."""
        return np.where(self.lower_bounds(quantity), np.nan, self.least_values(quantity))

    def least_values(self, quantity: Quantity) -> FloatArray:
        """As `values`, but of a case of which only a lower bound is known that bound, (case,)."""
        values = [quantity.compute(case) for case in self.cases]
        return np.asarray([np.nan if value is None else value for value in values], dtype=np.float64)

    def lower_bounds(self, quantity: Quantity) -> BoolArray:
        """Whether only a lower bound of a case's number is known, (case,)."""
        bound = quantity.lower_bound
        return np.asarray([bound is not None and bound.holds(case) for case in self.cases], dtype=np.bool_)

    def worst_values(self, quantity: Quantity, *, is_upper: bool) -> FloatArray:
        """As `least_values`, but of a middle of an interval the end nearest to a bound or beyond it, (case,)."""
        half_width = quantity.half_width
        if half_width is None:
            return self.least_values(quantity)
        widths = np.asarray([half_width(case) or 0.0 for case in self.cases])
        ends: FloatArray = self.least_values(quantity) + (widths if is_upper else -widths)
        return ends

    def floor(self, quantity: Quantity, cases: Iterable[int]) -> float:
        """Mean noise floor of a quantity over cases by their number from 0; 0 where it has none, or it is unknown."""
        if quantity.floor is None:
            return 0.0
        floors = [floor for number in cases if (floor := quantity.floor(self.cases[number])) is not None]
        return float(np.mean(floors)) if floors else 0.0

    def named(self, name: str) -> tuple[AnyQuantity, str | None] | None:
        return named_quantity(self.quantities, name)

    @property
    def defining(self) -> tuple[str, ...]:
        """Settings, by dotted names, without which equal numbers are not comparable; see `AnyResult.defining`."""
        kinds = {type(case): None for case in self.cases}
        return tuple(dict.fromkeys(name for kind in kinds for name in getattr(kind, "defining", ())))

    def settings(self) -> JsonObject:
        """What determines the numbers beside the cases, by dotted names: 'model.dtype', 'params.seed' … 'version'."""
        settings = {
            f"{section}.{name}": value
            for section in ("model", "params", "prompts")
            for name, value in (self.spec.get(section) or {}).items()
        }
        # Where it was left to the kind of case, results say which unit it was.
        if units := dict.fromkeys(unit for case in self.cases if (unit := getattr(case, "unit", None))):
            settings["prompts.unit"] = ", ".join(units)
        return {**settings, "version": self.spec.get("version")}


def named_quantity(quantities: Iterable[AnyQuantity], name: str) -> tuple[AnyQuantity, str | None] | None:
    """The quantity of a name, and the aggregate behind it; None where there is no such quantity."""
    head, _, last = name.rpartition(".")
    for quantity in quantities:
        if name == quantity.name:
            return quantity, None
        if head == quantity.name and is_aggregate(last):
            return quantity, last
    return None


def read_measured(path: Path) -> Measured:
    reader = PartReader.of_complete(RunDirectory(path))
    spec = reader.record
    kind = registry.instrument(spec["measure"]).result
    if not getattr(kind, "quantities", ()):
        raise UsageError(f"run '{path}' is of {spec['measure']}, whose results have no named quantities")
    cases = tuple(kind.from_run(reader.all_cases(), spec["params"]))
    return Measured(spec["measure"], spec, cases, kind.quantities)


def case_quantities(run: Measured) -> list[Quantity]:
    return [quantity for quantity in run.quantities if isinstance(quantity, Quantity)]
