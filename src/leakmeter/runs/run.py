"""A finished run as an object: its results, its numbers as frames, its figures and its page."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from leakmeter.core import registry
from leakmeter.core.check import Number
from leakmeter.core.quantity import SHARE_OF_CASES, AnyQuantity, Case, RunQuantity
from leakmeter.errors import UsageError
from leakmeter.runs.damage import as_written
from leakmeter.runs.measure import cases_of_run
from leakmeter.runs.measured import Measured, case_quantities
from leakmeter.runs.result import noted, provenance_of, saved
from leakmeter.runs.rundir import RunDirectory
from leakmeter.runs.spec import outdated
from leakmeter.stats.aggregates import aggregate, interval_of_aggregate

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from leakmeter.report.blocks import Report
    from leakmeter.report.findings import Findings

_SHOWN_IN_A_NOTEBOOK = 12


@dataclass(frozen=True)
class Run:
    """A finished run, as `load_run` gives it. Iterating over it yields the results of its cases, one after another.

    Parts are read when they are asked for. What is made of all cases together is made once, and keeps their texts in
    memory.
    """

    path: Path
    """Its directory."""
    spec: Mapping[str, Any]
    """All that it takes to run it again; with a promise of privacy it holds a seed or nonce, which is secret."""

    def __repr__(self) -> str:
        # The spec holds the command line, with the texts that stood in it, and the seed, which may be secret.
        return f"<Run {self.path.name!r}: {self.measure}, {len(self.spec.get('cases') or ()):,} cases>"

    @classmethod
    def read(cls, path: str | Path) -> Run:
        """See `load_run`."""
        return cls(Path(path), RunDirectory(Path(path)).read_spec())

    def __iter__(self) -> Iterator[Any]:
        yield from self.kind.from_run(cases_of_run(RunDirectory(self.path)), self.spec["params"])

    @property
    def measure(self) -> str:
        """Name of the measure, such as 'influence'."""
        return str(self.spec["measure"])

    @property
    def outdated(self) -> str | None:
        """What to know before its numbers are used, where an early version measured them; else None."""
        return outdated(self.spec.get("version"), self.spec.get("model") or {})

    @property
    def kind(self) -> Any:
        """Class of the results."""
        return registry.instrument(self.measure).result

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        """Results of its cases, in their order."""
        with as_written(self.path):
            return tuple(self)

    @property
    def headline(self) -> str:
        """What was found, in a sentence; empty where the measure says none."""
        return self.findings.headline

    @property
    def summary(self) -> Any:
        """All cases together as one record; None of measures that have none."""
        return self.findings.summary

    @cached_property
    def findings(self) -> Findings:
        """Headline, summary and figures."""
        with as_written(self.path):
            found: Findings = self.kind.findings(self.cases)
        return found

    @cached_property
    def measured(self) -> Measured:
        """Its quantities, of each case and of all together."""
        return Measured(self.measure, self.spec, self.cases, self.kind.quantities)

    def quantities(self) -> dict[str, Number]:
        """Each quantity by QUANTITY.AGGREGATE: the usual aggregate, or the mean, with its 95 % interval over cases.

        A quantity that no case has is left out; one of the run as a whole has no aggregate and no interval.
        """
        return {name: number for name, (_, number) in self.summed_up().items()}

    def summed_up(self) -> dict[str, tuple[AnyQuantity, Number]]:
        """As `quantities`, each with what it is."""
        with as_written(self.path):
            return self._summed_up()

    def _summed_up(self) -> dict[str, tuple[AnyQuantity, Number]]:
        found: dict[str, tuple[AnyQuantity, Number]] = {}
        for quantity in self.measured.quantities:
            if isinstance(quantity, RunQuantity):
                whole = quantity.of(self.cases)
                if whole is not None:
                    found[quantity.name] = quantity, Number(whole, None, quantity.unit, len(self.cases))
                continue
            values = self.measured.values(quantity)
            known, how = values[~np.isnan(values)], quantity.usual or "mean"
            if known.size:
                interval = interval_of_aggregate(known, how, seed=0, is_share=quantity.unit == SHARE_OF_CASES)
                number = Number(aggregate(known, how), interval, quantity.unit, known.size)
                found[f"{quantity.name}.{how}"] = quantity, number
        return found

    def to_frame(self) -> pd.DataFrame:
        """One row a case: 'id', and each quantity under its name; NaN where a case has none, inf where it is infinite.

        `leakmeter.core.quantity` says of each in `kind.quantities` what it is, in which unit.
        """
        import pandas as pd

        values = {quantity.name: self.measured.values(quantity) for quantity in case_quantities(self.measured)}
        return pd.DataFrame({"id": self.measured.ids, **values})

    def measurements(self, engine: Literal["pandas", "polars"] = "pandas") -> Any:
        """Every number of the run, one a row, in the columns of the view `measurements` (see `leakmeter query
        --schema`).

        Args:
            engine: 'pandas' or 'polars'; names come as categories.

        Raises:
            UsageError: another engine, or polars is not installed.
            StoreError: a part is damaged.
        """
        if engine not in ("pandas", "polars"):
            raise UsageError(f"no frames of '{engine}'; engine is pandas or polars")
        import pyarrow as pa

        from leakmeter.runs.schema import to_table

        directory = RunDirectory(self.path)
        parts = [to_table(directory.read_measurements(number)) for number in range(self.spec["n_parts"])]
        table = pa.concat_tables(parts).unify_dictionaries()
        if engine == "pandas":
            return table.to_pandas()
        try:
            polars = importlib.import_module("polars")
        except ImportError:
            raise UsageError("frames of polars need polars: pip install 'leakmeter[polars]'") from None
        return polars.from_arrow(table)

    def figures(self) -> dict[str, Figure]:
        """The figures that a paper has for the measure, by name; a notebook shows each as the last line of a cell.

        Raises:
            UsageError: matplotlib is not installed.
        """
        from leakmeter.report import charts

        return {name: charts.figure(chart) for name, chart in self.findings.figures.items()}

    def save_html(self, path: str | Path) -> Path:
        """Write the page of the run: one file of mode 0600, no network.

        Args:
            path: the file; one that is there is replaced.

        Returns:
            The file's path.

        Raises:
            StoreError: it lies in a run.
        """
        return saved(path, self.render_page())

    def render_page(self) -> str:
        """The page of the run as text."""
        with as_written(self.path), noted(self.outdated):
            page: str = self.kind.render_page(self.cases, command=self.spec.get("command"), run=self.path)
        return page

    def report(self) -> Report:
        """What the run says, as blocks; all views are made of it."""
        with as_written(self.path):
            made: Report = self.kind.report(
                self.cases, command=self.spec.get("command"), provenance=provenance_of(self.path, self.outdated)
            )
        return made

    def _repr_html_(self) -> str:
        from leakmeter.runs.run_table import run_table

        return run_table(
            self.path.name,
            f"{self.measure}, {(self.spec.get('model') or {}).get('name', '')}, {len(self.cases):,} cases"
            + (", outdated" if self.outdated else ""),
            self.headline,
            dict(list(self.quantities().items())[:_SHOWN_IN_A_NOTEBOOK]),
        )
