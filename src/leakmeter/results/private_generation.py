"""The result of auditing private generation: the texts, the promise, and what was measured against it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakmeter.errors import UsageError
from leakmeter.results._private_generation_case import case_object as case_object
from leakmeter.results._private_generation_summary import summary as summary
from leakmeter.results.base import Part, Result, run_facts

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType


@dataclass(frozen=True, slots=True)
class PrivateGenerationResult(Result):
    """Texts that a batch of exemplars voted for, what was promised of each exemplar, and what was measured.

    `case` is as `leakmeter audit run --json` prints it, and private but for its `public`.
    """

    @classmethod
    def of_run(cls, parts: Iterable[Part], params: Mapping[str, Any]) -> Iterator[PrivateGenerationResult]:
        """The results of a run's batches, each as soon as its part is there."""
        for texts, readings in parts:
            yield cls(case_object(texts, readings, params))

    @property
    def texts(self) -> tuple[str, ...]:
        """The sequences."""
        return tuple(one["text"] for one in self.case["sequences"])

    @property
    def holds(self) -> bool:
        """Whether nothing that was measured is above its promise."""
        return bool(self.case["verdict"]["holds"])

    @property
    def public(self) -> dict[str, Any]:
        """What may be published: the texts, and what was promised of them.

        Raises:
            UsageError: nothing was promised.
        """
        if self.case["public"] is None:
            raise UsageError("nothing is promised of these texts: they were given, or drawn without a secret seed")
        return dict(self.case["public"])

    def to_frame(self) -> pd.DataFrame:
        """One row an exemplar: what all tokens told of it, nats, by order, and its rank."""
        import pandas as pd

        orders = [row["order"] for row in self.case["by_order"]]
        names = ["max_divergence_nats" if order is None else f"renyi_{order:g}_nats" for order in orders]
        kept = ("name", "id", "rank", "n_tokens", "measured_nats", "ratio", "copied_tokens", "text")
        return pd.DataFrame(
            [
                {**{name: one[name] for name in kept}, **dict(zip(names, one["by_order_nats"], strict=True))}
                for one in self.case["exemplars"]
            ]
        )

    def heatmap(self) -> RenderableType:
        """Verdict, promise, who paid most and the texts, for `rich.print` or the last line of a notebook cell."""
        from leakmeter.results._private_generation_views import view

        return view(self.case)

    @classmethod
    def overview(cls, cases: Sequence[Mapping[str, Any]]) -> RenderableType:
        """A table of many batches: promised, measured and the verdict."""
        from leakmeter.results._private_generation_views import overview

        return overview(cases)

    @classmethod
    def render_page(cls, cases: Sequence[Mapping[str, Any]], *, command: str | None, run: Path | None) -> str:
        """The HTML report of batches, which is private."""
        from leakmeter.results._private_generation_views import page

        return page(cases, command=command, run=run_facts(run))
