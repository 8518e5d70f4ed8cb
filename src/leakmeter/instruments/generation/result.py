"""The result of auditing private generation: the texts, the promise, and what was measured against it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from leakmeter.errors import UsageError
from leakmeter.instruments.generation.case_object import case_object as case_object
from leakmeter.instruments.generation.parts import whole_batches
from leakmeter.instruments.generation.quantities import AUDIT
from leakmeter.instruments.generation.summary import summary as summary
from leakmeter.report.result import Part, Result, run_facts

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

    from leakmeter.report.findings import Findings


@dataclass(frozen=True, slots=True)
class PrivateGenerationResult(Result):
    """Texts that a batch of exemplars voted for, what was promised of each exemplar, and what was measured.

    `case` is as `leakmeter audit run --json` prints it, and private but for its `public`.
    """

    quantities: ClassVar = AUDIT

    @classmethod
    def of_run(cls, parts: Iterable[Part], params: Mapping[str, Any]) -> Iterator[PrivateGenerationResult]:
        """The results of a run's batches, each as soon as its last part is there."""
        part = params["sequences_a_part"]
        n_parts = 1 if part is None else params["sequences"] // part
        for texts, readings in whole_batches(parts, n_parts):
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
    def public(self) -> PublicTexts:
        """What may be published: the texts, and what was promised of them.

        Raises:
            UsageError: nothing was promised, or the promise is broken.
        """
        if self.case["public"] is None:
            raise UsageError("nothing is promised of these texts: they were given, or drawn with a known seed")
        if not self.holds:
            raise UsageError("more was measured than was promised; nothing of this may be published")
        return PublicTexts(self.case["public"])

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
        from leakmeter.report.audit_terminal import audit_view

        return audit_view(self.case)

    @classmethod
    def overview(cls, cases: Sequence[Mapping[str, Any]]) -> RenderableType:
        """Many batches: the verdict on all, and a line for each."""
        from leakmeter.report.audit_terminal import audit_overview

        return audit_overview(cases, summary(cases))

    @classmethod
    def findings(cls, cases: Sequence[Mapping[str, Any]]) -> Findings:
        """The verdict, and promised against measured."""
        from leakmeter.report.findings_exemplars import of_audit

        return of_audit(cases, summary(cases))

    @classmethod
    def render_page(cls, cases: Sequence[Mapping[str, Any]], *, command: str | None, run: Path | None) -> str:
        """The HTML report of batches, which is private."""
        from leakmeter.report.audit_page import render_audit

        return render_audit(cases, summary(cases), command=command, run=run_facts(run))


@dataclass(frozen=True, slots=True)
class PublicTexts(Result):
    """What may be published of a batch: the texts and what was promised of them, nothing that was measured.

    `case` is as `leakmeter audit run --public --json` prints it.
    """

    is_public: ClassVar[bool] = True

    def heatmap(self) -> RenderableType:
        """Texts and promise for a terminal."""
        from leakmeter.report.audit_terminal import audit_public_view

        return audit_public_view([self.case])

    @classmethod
    def overview(cls, cases: Sequence[Mapping[str, Any]]) -> RenderableType:
        """The texts of many batches, and what was promised of all together."""
        from leakmeter.report.audit_terminal import audit_public_view

        return audit_public_view(cases)

    @classmethod
    def render_page(cls, cases: Sequence[Mapping[str, Any]], *, command: str | None, run: Path | None) -> str:
        """The page that may be published, without command and run: these may hold the seed, or be made of it."""
        from leakmeter.report.audit_page import render_public_audit

        return render_public_audit(cases)
