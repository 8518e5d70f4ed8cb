"""The results of many cases of one measure as one object: of a call, or of a run directory; and their quantities."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, overload

import numpy as np

from leakmeter.core import registry
from leakmeter.core.plain import excerpt, to_json
from leakmeter.core.quantity import (
    SHARE,
    SHARE_OF_CASES,
    AnyQuantity,
    CaseResult,
    Number,
    Quantity,
    RunQuantity,
    clusters_of,
)
from leakmeter.core.record import JsonObject, Record, frame_of, part_fields
from leakmeter.engine.storage.parts import PartReader
from leakmeter.engine.storage.rundir import RunDirectory
from leakmeter.errors import UnknownNameError, UsageError
from leakmeter.overriding import override
from leakmeter.report.blocks import Provenance, Report, headline_of
from leakmeter.results.result import (
    NAME_CHARACTERS,
    Response,
    figures_of,
    in_notebook,
    name_of,
    plotted,
    saved,
    show,
)
from leakmeter.stats.aggregates import IntervalEnds, aggregate, interval_of_aggregate, is_aggregate
from leakmeter.stats.arrays import BoolArray, FloatArray
from leakmeter.stats.stats import FEWEST_FOR_INTERVAL

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import RenderableType

    from leakmeter.report.words import Findings
    from leakmeter.stats.arrays import ObjectArray


R = TypeVar("R")
_NAMED: Final = 8
"""Results whose ids a repr has."""


class Results(Generic[R]):
    """Results of one measure, in the order of their cases; what a call with many cases gives.

    Iterating yields results; `len`, a number, a slice or a case's id in brackets work as one expects. `load_run` gives
    the same of a run directory, with what is kept there.

    Args:
        cases: results of one class.
        kind: their class; that of the first by default.
        problems: what was wrong with each case that was left out, a line each.

    Examples:
        >>> import leakmeter
        >>> cases = [{"id": name, "context": f"{name} is 41.", "query": "Who?"} for name in ("Ana", "Bo")]
        >>> many = leakmeter.influence("toy", cases, samples=1, max_new_tokens=2)
        >>> len(many), many["Bo"].id, [result.id for result in many]
        (2, 'Bo', ['Ana', 'Bo'])
        >>> list(many.to_frame()["id"])
        ['Ana', 'Bo']
    """

    def __init__(self, cases: Iterable[R], *, kind: Any = None, problems: Sequence[str] = ()) -> None:
        self._cases = tuple(cases)
        self._kind = kind or type(self._cases[0])
        self.problems = tuple(problems)

    @property
    def kind(self) -> Any:
        """Class of the results."""
        return self._kind

    @property
    def cases(self) -> tuple[R, ...]:
        """The results, in their order."""
        return self._cases

    def __iter__(self) -> Iterator[R]:
        return iter(self.cases)

    def __len__(self) -> int:
        return len(self.cases)

    @overload
    def __getitem__(self, key: int | str) -> R: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[R, ...]: ...
    def __getitem__(self, key: int | str | slice) -> R | tuple[R, ...]:
        """A result by its number from 0 or its case's id, or several by a slice.

        Raises:
            IndexError: no result of that number.
            UnknownNameError: no case of that id.
        """
        if not isinstance(key, str):
            return self.cases[key]
        result = next((case for case in self.cases if getattr(case, "id", None) == key), None)
        if result is None:
            raise UnknownNameError("case", excerpt(key, NAME_CHARACTERS), map(name_of, islice(self.cases, _NAMED)))
        return result

    @override
    def __repr__(self) -> str:
        """Number and ids of the results, and no other text of their cases."""
        ids = ", ".join(repr(name_of(result)) for result in self.cases[:_NAMED])
        more = ", …" if len(self.cases) > _NAMED else ""
        return f"<{type(self).__name__} of {len(self.cases)}: {ids}{more}>"

    # ---- what was found ----------------------------------------------------------------------------------------------
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
        findings: Findings = self.kind.findings(self.cases)
        return findings

    @property
    def measured(self) -> MeasuredCases:
        """The quantities, of each case and of all together."""
        return MeasuredCases("", {}, self.cases, self.kind.quantities)

    def quantities(self) -> dict[str, Number]:
        """Each quantity by QUANTITY.AGGREGATE: the usual aggregate, or the mean, with its 95 % interval over cases.

        A quantity that no case has is left out; one of all cases as a whole has no aggregate and no interval. Where
        only a lower bound is known of a case, as of a context that was searched, the number is a lower bound too, and
        says so.
        """
        return {name: number for name, (_, number) in self.summed_up().items()}

    def summed_up(self) -> dict[str, tuple[AnyQuantity, Number]]:
        """As `quantities`, each with what it is."""
        summed: dict[str, tuple[AnyQuantity, Number]] = {}
        measured = self.measured
        for quantity in measured.quantities:
            if isinstance(quantity, RunQuantity):
                if (whole := quantity.number(self.cases)) is not None:
                    summed[quantity.name] = quantity, whole
                continue
            how = quantity.usual or "mean"
            if (number := measured.number(quantity, how)) is not None:
                summed[f"{quantity.name}.{how}"] = quantity, number
        return summed

    # ---- as data -----------------------------------------------------------------------------------------------------
    def to_frame(self, *, detail: bool | str = False) -> pd.DataFrame:
        """One row a case: 'id', the 'query' and the text of the 'response' where results have them, the 'verdict' (what
        was found, in a sentence), the 'channel', of a turn of a conversation 'conversation', 'turn' and
        'recipient' too, and each quantity under its name; NaN where a case has none, or a lower bound only; inf where
        it is infinite.

        Args:
            detail: the rows of each result's own `to_frame` instead, one below the other, with the case's id in a first
                column 'case': one row a piece, exemplar, context, template or token. Or the name of a field of the
                results that holds records, such as 'disclosures': one row a record.
        """
        import pandas as pd

        if detail:
            cases: list[Any] = list(self.cases)
            frames = [
                (case.to_frame() if detail is True else _frame_of_field(case, detail)).assign(case=case.id)
                for case in cases
            ]
            frame: pd.DataFrame = pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True)
            return frame.reindex(columns=["case", *(name for name in frame.columns if name != "case")])
        measured = self.measured
        values = {quantity.name: measured.values(quantity) for quantity in case_quantities(measured)}
        labels = {name: [getattr(case, name) for case in self.cases] for name in self.kind.label_fields}
        said = {name: column for name, column in labels.items() if any(label is not None for label in column)}
        return pd.DataFrame({"id": measured.ids, **self._texts(), **said, **values})

    def _texts(self) -> dict[str, list[str]]:
        """Of each case the query, the response and the verdict, where the class of results has them."""
        cases: list[Any] = list(self.cases)
        names = {field.name for field in fields(self.kind)} if is_dataclass(self.kind) else set()
        texts: dict[str, list[str]] = {}
        if "query" in names:
            texts["query"] = [case.query for case in cases]
        if "response" in names and all(isinstance(case.response, Response) for case in cases):
            texts["response"] = [case.response.text for case in cases]
        return {**texts, "verdict": [headline_of(self.kind.report([case])) for case in cases]}

    def to_dict(self) -> JsonObject:
        """All of it as one object: 'results', each as `--json` prints it, and 'summary', None where there is none."""
        cases: list[Any] = list(self.cases)
        return {"results": [case.to_dict() for case in cases], "summary": self.summary}

    def to_json(self) -> str:
        """JSON lines: one object a case, as `--json` prints them."""
        return "".join(to_json(record) + "\n" for record in self.to_dict()["results"])

    # ---- shown -------------------------------------------------------------------------------------------------------
    def figures(self) -> dict[str, Figure]:
        """The figures that a paper has for the measure, by name; a notebook shows each as the last line of a cell.

        Raises:
            UsageError: matplotlib is not installed.
        """
        return figures_of(self.findings)

    def plot(self, figure: str | None = None, *, ax: Axes | None = None) -> Axes | ObjectArray:
        """Draw a figure of all results with matplotlib; arguments, what is returned, and errors are those of a
        result's own `plot`.

        Examples:
            >>> import leakmeter
            >>> from matplotlib import pyplot
            >>> cases = [{"id": name, "context": f"{name} is 41.", "query": "Who?"} for name in ("Ana", "Bo")]
            >>> many = leakmeter.influence("toy", cases, samples=1, max_new_tokens=2)
            >>> list(many.figures())
            ['pieces', 'tokens']
            >>> _, (left, right) = pyplot.subplots(1, 2)
            >>> many.plot("pieces", ax=left) is left, many.plot("tokens", ax=right) is right
            (True, True)
        """
        return plotted(self.findings, figure, ax)

    def report(self) -> Report:
        """What the results say, as blocks; all views are made of it."""
        report: Report = self.kind.report(self.cases, provenance=Provenance(n_left_out=len(self.problems)))
        return report

    def render_page(self) -> str:
        """The page of all results as text."""
        page: str = self.kind.render_page(self.cases, command=None, run=None, n_left_out=len(self.problems))
        return page

    def save_html(self, path: str | Path) -> Path:
        """Write the page of all results: one file, no network; mode 0600, unless it may be published.

        Args:
            path: the file; one that is there is replaced.

        Returns:
            The file's path.

        Raises:
            StoreError: it lies in a run.
        """
        return saved(path, self.render_page(), public=self.kind.is_public)

    def to_rich(self) -> RenderableType:
        """All results for a terminal: for `rich.print`."""
        overview: RenderableType = self.kind.overview(self.cases)
        return overview

    def show(self) -> None:
        """Show the results: the page in a notebook, tables and shaded texts in a terminal."""
        show(self)

    def _repr_html_(self) -> str:
        """The page of all results, for a notebook; see `results.result.in_notebook`."""
        return in_notebook(self.report())


def _frame_of_field(result: Any, field: str) -> pd.DataFrame:
    parts = part_fields(type(result)) if isinstance(result, Record) else {}
    kinds = {name: kind for name, kind in parts.items() if "." not in name}
    if field not in kinds:
        raise UnknownNameError("detail", field, kinds)
    return frame_of(kinds[field], getattr(result, field))


@dataclass(frozen=True, slots=True)
class MeasuredCases:
    measure: str
    spec: Mapping[str, Any]
    cases: tuple[CaseResult, ...]
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
        hold = np.asarray([bound is not None and bound.holds(case) for case in self.cases], dtype=np.bool_)
        # A case without the number may be one of which it is not known, where others have it.
        return hold & bool(hold.any() and not np.isnan(self.least_values(quantity)).all())

    def number(self, quantity: Quantity, how: str) -> Number | None:
        """An aggregate of a quantity over the cases that have it, with its interval; where only a lower bound of some
        is known, a lower bound. None where no case has it."""
        values = self.least_values(quantity)
        having = np.flatnonzero(~np.isnan(values))
        if not having.size:
            return None
        known_values, n = values[having], having.size
        value = aggregate(known_values, how)
        if self.lower_bounds(quantity).any():
            return Number(value, None, quantity.unit, n, is_lower_bound=True)
        interval = self.interval(quantity, how)
        is_few = how == "mean" and interval is None and n > 1 and len(set(self.clusters(having))) < FEWEST_FOR_INTERVAL
        extremes = (float(known_values.min()), float(known_values.max())) if is_few else None
        return Number(value, interval, quantity.unit, n, extremes=extremes)

    def interval(self, quantity: Quantity, how: str) -> IntervalEnds | None:
        """95 % interval of an aggregate over the cases that have the quantity, or of which a lower bound is known."""
        values = self.least_values(quantity)
        having = np.flatnonzero(~np.isnan(values))
        is_share = quantity.unit == SHARE_OF_CASES
        clusters = self.clusters(having.tolist())
        interval = interval_of_aggregate(values[having], how, seed=0, is_share=is_share, clusters=clusters)
        if interval is not None and quantity.unit.startswith(SHARE) and values[having].max() <= 1.0:
            return interval[0], min(interval[1], 1.0)
        return interval

    def floor(self, quantity: Quantity, cases: Iterable[int]) -> float:
        """Mean noise floor of a quantity over cases by their number from 0; 0 where it has none, or it is unknown."""
        if quantity.floor is None:
            return 0.0
        floors = [floor for number in cases if (floor := quantity.floor(self.cases[number])) is not None]
        return float(np.mean(floors)) if floors else 0.0

    def clusters(self, cases: Iterable[int]) -> list[Hashable]:
        """Of cases by their number from 0, see `core.quantity.clusters_of`."""
        return clusters_of(self.cases[number] for number in cases)

    def named(self, name: str) -> tuple[AnyQuantity, str | None] | None:
        return named_quantity(self.quantities, name)

    @property
    def defining(self) -> tuple[str, ...]:
        """Settings, by dotted names, without which equal numbers are not comparable; see `AnyResult.defining`."""
        kinds = {type(case): None for case in self.cases}
        return tuple(dict.fromkeys(name for kind in kinds for name in kind.defining))

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


def read_measured(path: Path) -> MeasuredCases:
    reader = PartReader.of_complete(RunDirectory(path))
    spec = reader.record
    kind = registry.instrument(spec["measure"]).result
    if not kind.quantities:
        raise UsageError(f"run '{path}' is of {spec['measure']}, whose results have no named quantities")
    cases = tuple(kind.from_run(reader.all_cases(), spec["params"]))
    return MeasuredCases(spec["measure"], spec, cases, kind.quantities)


def case_quantities(run: MeasuredCases) -> list[Quantity]:
    return [quantity for quantity in run.quantities if isinstance(quantity, Quantity)]
