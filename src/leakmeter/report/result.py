"""What every result is: a case's numbers as one plain object, and its views.

The results of an instrument are made by the class that its `result_at` names, which has

    @classmethod
    def from_run(cls, parts: Iterable[Part], params: Mapping[str, Any]) -> Iterator[Result]

which takes the texts and measurements of each case of a run, and the parameters of the measure, and yields the results
of the cases in their order. Its `quantities` are what of it can be compared between runs, and bounded by `leakmeter
gate`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

from leakmeter.core.measurement import Measurement
from leakmeter.core.plain import to_json
from leakmeter.core.quantity import AnyQuantity
from leakmeter.report.blocks import Provenance, Report, Untrusted

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

    from leakmeter.report.findings import Findings

_note: ContextVar[str | None] = ContextVar("note", default=None)
_NAMED: Final = 8  # results whose ids a repr has
_NAME_CHARACTERS: Final = 40

Part = tuple[Mapping[str, Any], Sequence[Measurement]]
"""A case's texts (see `runs.measure.texts_of`) and its measurements."""


@dataclass(frozen=True, slots=True)
class Result(ABC):
    """A case as it is shown and kept.

    What shows it is imported where it is called: a program that asks for numbers need not load what draws them.
    """

    is_public: ClassVar[bool] = False
    """Whether it may be published."""
    quantities: ClassVar[tuple[AnyQuantity, ...]] = ()
    """What of it can be compared and bounded, the first that one thinks of first."""

    case: dict[str, Any]
    """Everything, as `--json` prints it; units stand in the names."""

    def __init_subclass__(cls, **more: Any) -> None:
        # A dataclass would write a repr of its own, with every text of the case in it, into logs and tracebacks.
        super(Result, cls).__init_subclass__(**more)
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = Result.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        """Id, sizes and headline, and no other text of the case."""
        sizes = ", ".join(f"{name}: {n}" for name, n in _sizes(self.case).items())
        try:
            headline = type(self).findings([self.case]).headline
        except (KeyError, IndexError, TypeError, ValueError, AttributeError):
            headline = ""  # a case that was made by hand may lack something; a repr has to come all the same
        said = [f"{type(self).__name__} {_name(self.case)}", sizes and f" ({sizes})", headline and f": {headline}"]
        return f"<{''.join(said)}>"

    @classmethod
    @abstractmethod
    def report(
        cls,
        cases: Sequence[Mapping[str, Any]],
        *,
        command: str | None = None,
        provenance: Provenance = Provenance(),  # noqa: B008 (frozen)
    ) -> Report:
        """What is said of the cases, as blocks; all views are made of it.

        Args:
            cases: one or more.
            command: the command line they came from.
            provenance: of the run they lie in.
        """

    @classmethod
    def summary(cls, cases: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        """One object of all cases together, where the measure has one; units stand in the names."""
        return None

    def heatmap(self) -> RenderableType:
        """The case for a terminal: for `rich.print` or the last line of a notebook cell."""
        from leakmeter.report import console

        return console.view(type(self).report([self.case]))

    @classmethod
    def overview(cls, cases: Sequence[Mapping[str, Any]]) -> RenderableType:
        """Many cases for a terminal."""
        from leakmeter.report import console

        return console.view(cls.report(cases))

    @classmethod
    def findings(cls, cases: Sequence[Mapping[str, Any]]) -> Findings:
        """What many cases say together: a sentence, a summary and figures.

        Args:
            cases: one or more.
        """
        from leakmeter.report.blocks import charts_of, headline_of
        from leakmeter.report.findings import Findings

        made = cls.report(cases)
        return Findings(headline_of(made), cls.summary(cases), {chart.name: chart for chart in charts_of(made)})

    @classmethod
    def render_page(cls, cases: Sequence[Mapping[str, Any]], *, command: str | None, run: Path | None) -> str:
        """The HTML report of the cases: one file, no network.

        Args:
            cases: one or more.
            command: the command line they came from.
            run: the directory they lie in.
        """
        from leakmeter.report import html

        return html.page(cls.report(cases, command=command, provenance=provenance_of(run, noted_now())))

    def save_html(self, path: str | Path) -> Path:
        """Write the report of this case: one file, no network; mode 0600, unless it may be published.

        Args:
            path: the file; one that is there is replaced.

        Returns:
            The file's path.

        Raises:
            StoreError: it lies in a run.
        """
        return saved(path, self.render_page([self.case], command=None, run=None), public=self.is_public)

    def to_json(self) -> str:
        """The case as one line of JSON."""
        return to_json(self.case)


def _name(case: Mapping[str, Any]) -> str:
    """A case's id, cut where it is long, without anything that a terminal would obey."""
    id_ = str(case.get("id", ""))
    return repr(id_ if len(id_) <= _NAME_CHARACTERS else f"{id_[:_NAME_CHARACTERS]}…")


def _sizes(case: Mapping[str, Any]) -> dict[str, int]:
    """How many objects each list of a case has, and tokens its response."""
    sizes = {
        name: len(value)
        for name, value in case.items()
        if isinstance(value, list) and value and all(isinstance(one, dict) for one in value)
    }
    response = case.get("response")
    tokens = response.get("tokens") if isinstance(response, dict) else None
    return sizes if tokens is None else {**sizes, "response tokens": len(tokens)}


R = TypeVar("R", bound=Result)


@dataclass(frozen=True, slots=True)
class ResponseResult(Result):
    """A case that is about a response: its object has `response.text` and `response.tokens`."""

    @property
    def response(self) -> str:
        """The response's text."""
        return str(self.case["response"]["text"])

    @property
    def tokens(self) -> tuple[str, ...]:
        """The text that each response token adds."""
        return tuple(self.case["response"]["tokens"])


@dataclass(frozen=True)
class Results(Generic[R]):
    """Results that are about one thing together, of one measure."""

    results: tuple[R, ...]
    """One or more, in their order."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = Results.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        """Number and ids of the results, and no other text of their cases."""
        ids = ", ".join(_name(result.case) for result in self.results[:_NAMED])
        more = ", …" if len(self.results) > _NAMED else ""
        return f"<{type(self).__name__} of {len(self.results)}: {ids}{more}>"

    def overview(self) -> RenderableType:
        """All of them, for `rich.print` or the last line of a notebook cell."""
        return type(self.results[0]).overview([result.case for result in self.results])

    def save_html(self, path: str | Path) -> Path:
        """Write the report of all of them: one file of mode 0600, no network.

        Args:
            path: the file; one that is there is replaced.

        Returns:
            The file's path.

        Raises:
            StoreError: it lies in a run.
        """
        cases = [result.case for result in self.results]
        return saved(path, type(self.results[0]).render_page(cases, command=None, run=None))

    def joined(self, frames: Iterable[pd.DataFrame], by: str) -> pd.DataFrame:
        """Frames of the results one below the other, with each one's id in a first column.

        Args:
            frames: one of each result, in their order.
            by: name of the column.
        """
        import pandas as pd

        ids = [result.case["id"] for result in self.results]
        frame = pd.concat([of.assign(**{by: id_}) for of, id_ in zip(frames, ids, strict=True)], ignore_index=True)
        return frame[[by, *(name for name in frame.columns if name != by)]]


def saved(path: str | Path, page: str, *, public: bool = False) -> Path:
    """Where a page was written; for its owner alone, mode 0600, unless it may be published.

    Raises:
        StoreError: it lies in a run.
    """
    from leakmeter.core.written import check_outside_runs, write_whole

    where = Path(path)
    check_outside_runs(where, "page")
    # A path that a page names need not be Unicode, and a page is.
    write_whole(where, page.encode(errors="replace"), public=public)
    return where


@contextmanager
def noted(note: str | None) -> Iterator[None]:
    """Pages that are made meanwhile begin with a warning, unless it is None."""
    token = _note.set(note)
    try:
        yield
    finally:
        _note.reset(token)


def noted_now() -> str | None:
    """The warning that pages begin with now."""
    return _note.get()


def provenance_of(run: Path | None, outdated: str | None) -> Provenance:
    """Where cases lie, and why their numbers need care."""
    facts = () if run is None else (("Directory", Untrusted(str(run))),)
    return Provenance(facts=facts, outdated=outdated or "")
