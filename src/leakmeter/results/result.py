"""What every result is: a case's numbers as a record, and its views.

The results of an instrument are made by the class that is its `result`, which has

    @classmethod
    def from_run(cls, parts: Iterable[Part], params: Params) -> Iterator[Result]

which takes the texts and measurements of each case of a run, and the parameters of the measure, and yields the results
of the cases in their order. Its `quantities` are what of it can be compared between runs, and bounded by `leakmeter
gate`.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from leakmeter.core import registry
from leakmeter.core.case import unmarked_context, unmeasured_text
from leakmeter.core.cost import ResultCost
from leakmeter.core.measure import Measurement, Texts
from leakmeter.core.plain import SELDOM, to_json, to_plain
from leakmeter.core.quantity import AnyQuantity, SoFar
from leakmeter.core.record import JsonObject, Record
from leakmeter.core.self_check import SelfCheck, nats_apart, warnings_of
from leakmeter.core.urls import place_of
from leakmeter.engine.storage.kept import KeptCase
from leakmeter.errors import UnknownNameError, UsageError
from leakmeter.overriding import override
from leakmeter.report.blocks import Provenance, Report, Unfinished, Untrusted, Warning

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import RenderableType

    from leakmeter.report.words import Findings
    from leakmeter.stats.arrays import ObjectArray

NAME_CHARACTERS: Final = 40

PartContent = tuple[Texts, Sequence[Measurement]]
"""A case's texts and its measurements."""


DEFINING: Final = ("prompts.unit", "prompts.removal", "params.temperature", "params.cid_lambda")
"""See `AnyResult.defining`."""


@dataclass(frozen=True, slots=True)
class PieceFields:
    """Where the pieces of a result lie, for the view `pieces` of `leakmeter runs query`."""

    field: str
    """Of the result, a tuple of records: 'pieces', 'exemplars' …"""
    nats: str = "nats"
    """Field of each that is its main number."""
    name: str = "name"
    prefix: str = ""
    """Of the names of its further numbers, where those of several kinds stand beside each other."""


class AnyResult(ABC):
    """What every result can do.

    What shows it is imported where it is called: a program that asks for numbers need not load what draws them.
    """

    __slots__ = ()
    is_public: ClassVar[bool] = False
    """Whether it may be published."""
    quantities: ClassVar[tuple[AnyQuantity, ...]] = ()
    """What of it can be compared and bounded, the first that one thinks of first."""
    so_far: ClassVar[tuple[SoFar, ...]] = ()
    """What progress says of the cases that are done."""
    is_of_given: ClassVar[bool] = False
    """Whether it is about the response of a case, which nobody was given where it was drawn."""
    is_of_run: ClassVar[bool] = False
    """Whether each has numbers of the whole run, so that none is there before all parts are."""
    defining: ClassVar[tuple[str, ...]] = DEFINING
    """Settings that say what is measured, by dotted names: numbers under others are no better and no worse."""
    label_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that say what a case is, beside its id; None where a case has none of them."""
    pieces_at: ClassVar[PieceFields | None] = None
    """None where a case has no pieces with a number each."""
    kept: ClassVar[type[KeptCase]] = KeptCase
    """What runs keep of a case beside its measurements; one of the instrument's own where that is more."""
    schema: ClassVar[str]
    """Name and version of the schema of what `to_dict` gives, 'influence-1'; the version changes where a key goes, or
    means another thing."""

    @override
    def __init_subclass__(cls, **more: Any) -> None:
        # A dataclass would write a repr of its own, with every text of the case in it, into logs and tracebacks.
        super().__init_subclass__(**more)
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = AnyResult.__repr__  # type: ignore[method-assign]

    @override
    def __repr__(self) -> str:
        """Id, sizes and headline, and no other text of the case."""
        sizes = ", ".join(f"{name}: {n}" for name, n in _sizes(self).items())
        try:
            headline = type(self).findings([self]).headline
        except (KeyError, IndexError, TypeError, ValueError, AttributeError):
            headline = ""  # a case that was made by hand may lack something; a repr has to come all the same
        parts = [f"{type(self).__name__} {name_of(self)!r}", sizes and f" ({sizes})", headline and f": {headline}"]
        return f"<{''.join(parts)}>"

    @property
    def self_check(self) -> SelfCheck | None:
        """What self-checks found up to this case; None of results that do not say it, such as public ones."""
        return None

    @property
    def unmeasured_answers(self) -> int | None:
        """Earlier answers of the case's chat that were not measured; None of none, and of results of no chats."""
        return None

    @property
    def cluster(self) -> str | None:
        """What a case is one of several of that are alike, such as the conversation of a turn; None of one alone."""
        return None

    @property
    def secrets(self) -> tuple[str, ...]:
        """Keys and passwords that were given away, as the response and the documents write them: a terminal shows their
        first characters alone."""
        return ()

    @abstractmethod
    def to_dict(self) -> JsonObject:
        """The case as `--json` prints it."""

    @classmethod
    def report(
        cls,
        results: Sequence[Any],
        *,
        command: str | None = None,
        provenance: Provenance = Provenance(),  # noqa: B008 (frozen)
        n_cases: int | None = None,
    ) -> Report:
        """What is said of results, as blocks; all views are made of it. See `core.registry.Instrument.report`.

        Args:
            results: one or more.
            command: the command line they came from.
            provenance: of the run they lie in.
            n_cases: of how many cases they are the first, where the run was interrupted.

        Raises:
            UsageError: there is no result.
        """
        if not results:
            raise UsageError("nothing to show: a report needs at least one result, as printed by `--json`")
        report = cls._said_of(results)
        secrets = [secret for result in results for secret in result.secrets]
        report = replace(report, blocks=[*report.blocks, *_before_a_failed_check(results)], secrets=secrets)
        return report.signed(command, provenance).interrupted(len(results), n_cases)

    @classmethod
    def _said_of(cls, results: Sequence[Any]) -> Report:
        """The blocks that are about these results; the instrument's."""
        report: Report = registry.reporter(cls)(results)
        return report

    @classmethod
    def summary(cls, results: Sequence[Any]) -> Any:
        """All results together as a record; None of measures that have none."""
        return None

    def to_rich(self) -> RenderableType:
        """The case for a terminal: for `rich.print` or the last line of a notebook cell."""
        return type(self).overview([self])

    @classmethod
    def overview(cls, results: Sequence[Any], *, n_cases: int | None = None) -> RenderableType:
        """Many results for a terminal; see `report`."""
        from leakmeter.report import console

        return console.view(cls.report(results, n_cases=n_cases))

    @classmethod
    def findings(cls, results: Sequence[Any]) -> Findings:
        """What many results say together: a sentence, a summary and figures."""
        from leakmeter.report.blocks import charts_of, headline_of
        from leakmeter.report.words import Findings

        report = cls.report(results)
        return Findings(headline_of(report), cls.summary(results), {chart.name: chart for chart in charts_of(report)})

    @classmethod
    def render_page(
        cls,
        results: Sequence[Any],
        *,
        command: str | None,
        run: Path | None,
        n_cases: int | None = None,
        n_left_out: int = 0,
        unfinished: Unfinished | None = None,
    ) -> str:
        """The HTML report of results: one file, no network.

        Args:
            results: one or more.
            command: the command line they came from.
            run: the directory they lie in.
            n_cases: of how many cases they are the first, where the run was interrupted.
            n_left_out: cases beside them that could not be used.
            unfinished: where cases are left that were not measured yet.
        """
        from leakmeter.report import html

        provenance = replace(provenance_of(run, n_left_out), unfinished=unfinished)
        return html.page(cls.report(results, command=command, provenance=provenance, n_cases=n_cases))

    def figures(self) -> dict[str, Figure]:
        """The figures that a paper has for the case, by name; a notebook shows each as the last line of a cell.

        Raises:
            UsageError: matplotlib is not installed.
        """
        return figures_of(type(self).findings([self]))

    def plot(self, figure: str | None = None, *, ax: Axes | None = None) -> Axes | ObjectArray:
        """Draw a figure of the case with matplotlib.

        Args:
            figure: its name, as in `figures`; the first by default.
            ax: axes to draw into, for a figure of one panel; a new figure of pyplot by default, which a notebook
                shows.

        Returns:
            The axes; of a figure of several panels an array of them, (panel,).

        Raises:
            UnknownNameError: it has no figure of that name.
            UsageError: it has no figure, `ax` is given for one of several panels, or matplotlib is not installed.

        Examples:
            >>> import leakmeter
            >>> case = {"context": "Ana is 41. She sings.", "query": "How old is Ana?", "response": "41"}
            >>> result = leakmeter.influence("toy", **case)
            >>> list(result.figures()), result.plot("pieces").get_xlabel()
            (['pieces', 'tokens'], 'influence of the piece, nats')
        """
        return plotted(type(self).findings([self]), figure, ax)

    def save_html(self, path: str | Path) -> Path:
        """Write the report of this case: one file, no network; mode 0600, unless it may be published.

        Args:
            path: the file; one that is there is replaced.

        Returns:
            The file's path.

        Raises:
            StoreError: it lies in a run.
        """
        return saved(path, self.render_page([self], command=None, run=None), public=self.is_public)

    def to_json(self) -> str:
        """The case as one line of JSON."""
        return to_json(self.to_dict())

    def show(self) -> None:
        """Show the case: its page in a notebook, tables and shaded texts in a terminal."""
        show(self)

    def _repr_html_(self) -> str:
        """The page of the case, for a notebook; see `in_notebook`."""
        return in_notebook(type(self).report([self]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(AnyResult, Record):
    """A case as it is shown and kept: the fields are what `--json` prints, units in their names."""

    id: str
    """Id of the case in its run."""
    model: str
    """Name of the model, as it was given."""
    weights_sha256: str | None
    """SHA-256 hash of the model's weights; None where it is not known."""
    dtype: str
    """Number type of the model's arithmetic."""
    cost: ResultCost
    warnings: tuple[str, ...]
    """Warnings that narrow the meaning of the numbers, a sentence each."""
    self_check: SelfCheck | None = field(default=None, metadata={SELDOM: True})
    """Differences between the run's numbers and those of plain passes, up to this case. Present only where they were
    checked, as for models of the transformers library."""

    @override
    def to_dict(self) -> JsonObject:
        """As `Record.to_dict`, with the name and version of the schema (see `leakmeter runs schema`) in front."""
        return {"schema": self.schema, **to_plain(self)}

    @staticmethod
    def common(texts: Texts, warnings: Iterable[str] = ()) -> JsonObject:
        """The fields of all results, for a constructor, of a case's texts and of what narrows the meaning of its
        numbers."""
        return {
            **{name: texts.get(name) for name in ("id", "model", "weights_sha256", "dtype")},
            "cost": ResultCost.from_texts(texts),
            "warnings": (*_warnings_of_case(texts), *warnings),
            "self_check": SelfCheck.from_texts(texts),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Response(Record):
    """A response that was measured."""

    text: str = field(repr=False)
    """Text of the response."""
    tokens: tuple[str, ...] = field(repr=False)
    """Text that each token adds to the response; empty at all but the last token of a character that takes several."""
    sampled: bool
    """Whether the response was drawn from the model that measures; else it was given."""
    seed: int | None
    """Seed of the draw; None where there is none."""

    @classmethod
    def from_texts(cls, texts: Texts, number: int, seed: int | None) -> Self:
        """A response of a case's texts, by its number from 0."""
        sampled = bool(texts["sampled"])
        response = texts["responses"][number]
        return cls(
            text=response["text"], tokens=tuple(response["tokens"]), sampled=sampled, seed=seed if sampled else None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentRange(Record):
    """Where a document lies in the context, by characters."""

    name: str
    """Name of the document."""
    start: int
    """Offset of the document's first character in the context, from 0."""
    end: int
    """Offset just after the document's last character in the context."""

    @classmethod
    def all_of(cls, texts: Texts) -> tuple[Self, ...]:
        return tuple(
            cls(name=document["name"], start=document["start"], end=document["end"]) for document in texts["documents"]
        )


def _warnings_of_case(texts: Texts) -> Iterator[str]:
    n_tokens = texts.get("unmarked_query_tokens")
    if n_tokens is not None:
        yield (
            f"The only context is {unmarked_context(document['name'] for document in texts['documents'])}; the rest "
            f"of the chat, {n_tokens:,} tokens, counts as the query, and nothing in it was measured."
        )
    if n := texts.get("unmeasured_answers"):
        yield f"{unmeasured_text(n)}."
    yield from warnings_of(texts)


def _before_a_failed_check(results: Sequence[Any]) -> Iterator[Warning]:
    """What a failed self-check means for the cases that were computed before it."""
    for at, result in enumerate(results):
        check: SelfCheck | None = result.self_check
        if check is None or check.failed_nats is None:
            continue
        if at:
            yield Warning(
                (
                    "A self-check failed at case “",
                    Untrusted(name_of(result)),
                    f"”. The {at:,} before it were computed by passes that share work, and may be wrong by as much "
                    f"({nats_apart(check.failed_nats)} at a token): measure again with that case first.",
                )
            )
        return


def name_of(result: Any) -> str:
    """A case's id, cut where it is long; its `repr` escapes control characters."""
    id_ = str(getattr(result, "id", ""))
    return id_ if len(id_) <= NAME_CHARACTERS else f"{id_[:NAME_CHARACTERS]}…"


def _sizes(result: Any) -> dict[str, int]:
    values = {field.name: getattr(result, field.name) for field in fields(result)}
    sizes = {
        name: len(value)
        for name, value in values.items()
        if isinstance(value, list | tuple) and value and all(isinstance(item, Record) for item in value)
    }
    tokens = getattr(values.get("response"), "tokens", None)
    return sizes if tokens is None else {**sizes, "response tokens": len(tokens)}


def figures_of(found: Findings) -> dict[str, Figure]:
    from leakmeter.report import charts

    return {name: charts.figure(chart) for name, chart in found.figures.items()}


def plotted(found: Findings, name: str | None, ax: Axes | None) -> Axes | ObjectArray:
    from leakmeter.report import charts

    if not found.figures:
        raise UsageError("there is nothing to draw: these results have no figure")
    if name is not None and name not in found.figures:
        raise UnknownNameError("figure", name, found.figures)
    return charts.draw(next(iter(found.figures.values())) if name is None else found.figures[name], ax)


NOTEBOOK_BYTES: Final = 600_000
"""Most that a page takes in a notebook, which keeps it in its file."""


def in_notebook(report: Report) -> str:
    """A report's page for a notebook, within a frame of its own.

    The page can neither read nor restyle the notebook, nor ask anything of the network: the frame has an origin of its
    own, and the page its content security policy. It is light or dark as the reader's system is.
    """
    from leakmeter.report import html

    # An address of letters, digits and + / = only: nothing in it can end the attribute.
    held = html.address(html.page(report, room=NOTEBOOK_BYTES))
    return (
        f'<iframe src="{held}" sandbox="allow-scripts" title="leakmeter report" loading="lazy" '
        'style="width:100%;height:38rem;border:0;resize:vertical;color-scheme:light dark"></iframe>'
    )


def show(shown: Any) -> None:
    """Show a result, or several, where the program runs: in a notebook its page, else in the terminal."""
    # Jupyter's kernels show HTML, and IPython in a terminal does not.
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if hasattr(shell, "kernel"):
        from IPython.display import display

        display(shown)
        return
    from rich.console import Console

    Console(markup=False, highlight=False).print(shown.to_rich())


def saved(path: str | Path, text: str, *, public: bool = False, noun: str = "page") -> Path:
    """Where a page was written, or a text of another kind, the `noun`; for its owner alone, mode 0600, unless it may be
    published."""
    from leakmeter.core.files import check_outside_runs, write_whole

    where = Path(path)
    check_outside_runs(where, noun)
    # A path that a page names need not be Unicode, and a page is.
    write_whole(where, text.encode(errors="replace"), public=public)
    return where


def provenance_of(run: Path | None, n_left_out: int = 0) -> Provenance:
    facts = () if run is None else (("Directory", Untrusted(place_of(run))),)
    return Provenance(facts=facts, n_left_out=n_left_out)
