"""What every result is: a case's numbers as one plain object, and its views."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from leakmeter.types.reading import Reading

if TYPE_CHECKING:
    from rich.console import RenderableType

Part = tuple[Mapping[str, Any], Sequence[Reading]]
"""A case's texts (see `studies.run.texts_of`) and its readings."""


class Result(Protocol):
    """A case as it is shown."""

    @property
    def case(self) -> dict[str, Any]:
        """Everything, as `--json` prints it; units stand in the names."""

    def heatmap(self) -> RenderableType:
        """The case for a terminal."""

    @classmethod
    def overview(cls, cases: Sequence[Mapping[str, Any]]) -> RenderableType:
        """Many cases for a terminal, one a line."""

    @classmethod
    def render_page(cls, cases: Sequence[Mapping[str, Any]], *, command: str | None, run: Path | None) -> str:
        """The HTML report of the cases: one file, no network.

        Args:
            cases: one or more.
            command: the command line they came from.
            run: the directory they lie in.
        """


class RunResult(Result, Protocol):
    """The result of one measure: the one class of `results/NAME.py` that makes results of a run."""

    @classmethod
    def of_run(cls, parts: Iterable[Part], params: Mapping[str, Any]) -> Iterator[Result]:
        """The results of a run's cases, in order.

        Args:
            parts: texts and readings of each case.
            params: of the measure.
        """
