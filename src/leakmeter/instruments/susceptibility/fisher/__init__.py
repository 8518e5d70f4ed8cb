"""Fisher susceptibility: how far contexts would move the answer, from gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leakmeter.core.registry import Example, Instrument
from leakmeter.overriding import override


class FisherSusceptibility(Instrument):
    name = "fisher"

    @property
    @override
    def measure(self) -> Any:
        from leakmeter.instruments.susceptibility.fisher.measure import Fisher

        return Fisher

    @property
    @override
    def result(self) -> Any:
        from leakmeter.instruments.susceptibility.fisher.result import FisherResult

        return FisherResult

    @override
    def report(self, results: Sequence[Any]) -> Any:
        from leakmeter.instruments.susceptibility.fisher.report import report

        return report(results)

    @override
    def example(self, id_: str = "one", response: str | None = None) -> Example:
        from leakmeter.instruments.susceptibility.prompts import example

        return example(id_, response)

    @property
    @override
    def study(self) -> Any:
        from leakmeter.instruments.susceptibility.fisher.study import KIND

        return KIND


INSTRUMENT = FisherSusceptibility()
