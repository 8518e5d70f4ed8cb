"""The result of auditing private generation: the texts, the promise, and what was measured against it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from leakmeter.errors import UsageError
from leakmeter.instruments.generation.case_object import case_object as case_object
from leakmeter.instruments.generation.parts import whole_batches
from leakmeter.instruments.generation.quantities import AUDIT
from leakmeter.instruments.generation.summary import summary as summary
from leakmeter.report.blocks import Provenance, Report
from leakmeter.report.result import CaseResult, Part

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class PrivateGenerationResult(CaseResult):
    """Texts that a batch of exemplars voted for, what was promised of each exemplar, and what was measured.

    `case` is as `leakmeter audit run --json` prints it, and private but for its `public`.
    """

    quantities: ClassVar = AUDIT

    @classmethod
    def from_run(cls, parts: Iterable[Part], params: Mapping[str, Any]) -> Iterator[PrivateGenerationResult]:
        """The results of a run's batches, each as soon as its last part is there."""
        part = params["sequences_a_part"]
        n_parts = 1 if part is None else params["sequences"] // part
        for texts, measurements in whole_batches(parts, n_parts):
            yield cls(case_object(texts, measurements, params))

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

    @classmethod
    def summary(cls, cases: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """Promise and verdict of all batches together; see `summary`."""
        return summary(cases)

    @classmethod
    def report(
        cls,
        cases: Sequence[Mapping[str, Any]],
        *,
        command: str | None = None,
        provenance: Provenance = Provenance(),  # noqa: B008 (frozen)
    ) -> Report:
        """See `instruments.generation.report`; it is private."""
        from leakmeter.instruments.generation.report import report

        return report(cases, summary(cases), command=command, provenance=provenance)


@dataclass(frozen=True, slots=True)
class PublicTexts(CaseResult):
    """What may be published of a batch: the texts and what was promised of them, nothing that was measured.

    `case` is as `leakmeter audit run --public --json` prints it.
    """

    is_public: ClassVar[bool] = True

    @classmethod
    def report(
        cls,
        cases: Sequence[Mapping[str, Any]],
        *,
        command: str | None = None,
        provenance: Provenance = Provenance(),  # noqa: B008 (frozen)
    ) -> Report:
        """What may be published, without command and run: these may hold the seed, or be made of it."""
        from leakmeter.instruments.generation.report import public_report

        return public_report(cases, outdated=provenance.outdated)
