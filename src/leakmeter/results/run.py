"""A finished run as an object: its results, its numbers as frames, its figures and its page."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from leakmeter.core import registry
from leakmeter.core.urls import forget_copy
from leakmeter.engine.storage.parts import PartReader
from leakmeter.engine.storage.rundir import RunDirectory
from leakmeter.engine.storage.stored import fetched
from leakmeter.errors import UsageError
from leakmeter.overriding import override
from leakmeter.results.result import PartContent, provenance_of
from leakmeter.results.results import MeasuredCases, Results

if TYPE_CHECKING:
    from leakmeter.report.blocks import Report


class Run(Results[Any]):
    """A finished run: the results of its cases, with what is kept of it in its directory.

    `load_run` gives it, and so does a call with `out=`, which has the results of up to 1,000 cases at hand. Else parts
    are read when they are asked for; iterating reads one after another. What is made of all cases together is made
    once, and keeps their texts in memory.

    Args:
        reader: of its parts.
        results: texts and measurements to results; those of the measure by default.

    Examples:
        >>> import leakmeter, tempfile
        >>> with tempfile.TemporaryDirectory() as runs:
        ...     told = {"context": "Ana is 41.", "query": "How old is Ana?", "response": "41"}
        ...     run = leakmeter.influence("toy", [told], out=runs)
        ...     frame = run.to_frame()
        >>> run
        <Run 'influence-...': influence, 1 case>
        >>> frame["id"].tolist()
        ['1']
    """

    def __init__(
        self,
        reader: PartReader,
        results: Callable[[Iterable[PartContent]], Iterator[Any]] | None = None,
    ) -> None:
        self.path = reader.directory.path
        self.spec: Mapping[str, Any] = reader.record
        """All that it takes to run it again; with a guarantee of privacy it holds a seed or nonce, which is secret."""
        self.problems = tuple(self.spec.get("problems") or ())
        self._reader = reader
        self._results = results

    @override
    def __repr__(self) -> str:
        # The spec holds the command line, with the texts that stood in it, and the seed, which may be secret.
        return f"<Run {self.path.name!r}: {self.measure}, {len(self):,} case{'s' * (len(self) != 1)}>"

    @classmethod
    def read(cls, path: str | Path) -> Run:
        """See `load_run`."""
        return cls.opened(Path(path))

    @classmethod
    def opened(
        cls,
        path: Path,
        results: Callable[[Iterable[PartContent]], Iterator[Any]] | None = None,
        cases: tuple[Any, ...] | None = None,
    ) -> Run:
        """A run by its directory, or by its URL: then of a copy, which goes with the object. `cases` are its results,
        where they are at hand; else they are read when they are asked for."""
        local = fetched(path)
        run = cls(PartReader.of_complete(RunDirectory(local)), results)
        if cases is not None:
            run.cases = cases
        if local is not path:
            weakref.finalize(run, forget_copy, local)
        return run

    @override
    def __iter__(self) -> Iterator[Any]:
        if "cases" in vars(self):
            yield from self.cases
            return
        parts = self._reader.all_cases()
        yield from (self.kind.from_run(parts, self.spec["params"]) if self._results is None else self._results(parts))

    @override
    def __len__(self) -> int:
        return len(self.spec.get("cases") or ())

    @property
    def measure(self) -> str:
        """Name of the measure, such as 'influence'."""
        return str(self.spec["measure"])

    @property
    @override
    def kind(self) -> Any:
        """Class of the results."""
        return registry.instrument(self.measure).result

    @cached_property
    @override
    def cases(self) -> tuple[Any, ...]:
        """Results of its cases, in their order."""
        return tuple(iter(self))

    @cached_property
    @override
    def measured(self) -> MeasuredCases:
        """Its quantities, of each case and of all together."""
        return MeasuredCases(self.measure, self.spec, self.cases, self.kind.quantities)

    def measurements(self, engine: Literal["pandas", "polars"] = "pandas") -> Any:
        """Every number of the run, one a row, in the columns of the view `measurements` (see `leakmeter runs
        query --schema`).

        Args:
            engine: 'pandas' or 'polars'; names come as categories.

        Raises:
            UsageError: another engine, or polars is not installed.
            StoreError: a part is damaged.
        """
        if engine not in ("pandas", "polars"):
            raise UsageError(f"engine is '{engine}'; it has to be pandas or polars")
        import pyarrow as pa

        from leakmeter.engine.storage.schema import to_table

        directory = RunDirectory(self.path)
        parts = [to_table(directory.read_measurements(number)) for number in range(self.spec["n_parts"])]
        table = pa.concat_tables(parts).unify_dictionaries()
        if engine == "pandas":
            return table.to_pandas()
        try:
            import polars
        except ImportError:
            raise UsageError("frames of polars need polars: pip install 'leakmeter[polars]'") from None
        return polars.from_arrow(table)

    @override
    def render_page(self) -> str:
        """The page of the run as text."""
        page: str = self.kind.render_page(
            self.cases, command=self.spec.get("command"), run=self.path, n_left_out=len(self.problems)
        )
        return page

    @override
    def report(self) -> Report:
        """What the run says, as blocks; all views are made of it."""
        report: Report = self.kind.report(
            self.cases, command=self.spec.get("command"), provenance=provenance_of(self.path, len(self.problems))
        )
        return report
