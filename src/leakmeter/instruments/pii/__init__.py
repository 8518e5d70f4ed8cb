"""PII probing: does a model know people's data?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from leakmeter.core.registry import Command, Example, Instrument, Short
from leakmeter.overriding import override


def _command() -> Any:
    from leakmeter.instruments.pii.command import app

    return app


class PiiProbing(Instrument):
    name = "pii"
    commands = (
        Command(
            "pii",
            _command,
            "Measure whether a model knows people's telephone numbers, e-mail and postal addresses.",
            order=3,
            short={
                "probe": Short(
                    (
                        '--name "Anselm Dorrick" --phone 617-555-0171',
                        "--subjects samples/people.csv --html pii.html",
                        "--subjects samples/people.csv --kinds twin --dry-run",
                    ),
                    ("--name --phone --email --address --subjects --kinds --templates --model --html --dry-run"),
                ),
            },
        ),
    )

    @property
    @override
    def measure(self) -> Any:
        from leakmeter.instruments.pii.measure import Pii

        return Pii

    @property
    @override
    def result(self) -> Any:
        from leakmeter.instruments.pii.result import PiiResult

        return PiiResult

    @override
    def report(self, results: Sequence[Any]) -> Any:
        from leakmeter.instruments.pii.report import report

        return report(results)

    @override
    def example(self, id_: str = "one", response: str | None = None) -> Example:
        from leakmeter.instruments.pii.prompts import example

        return example(id_, response)

    @property
    @override
    def study(self) -> Any:
        from leakmeter.instruments.pii.study import KIND

        return KIND

    @override
    def functions(self) -> tuple[Callable[..., Any], ...]:
        from leakmeter.instruments.pii.command import pii, pii_check, pii_extract, pii_insert, pii_tune

        return pii, pii_check, pii_extract, pii_insert, pii_tune


INSTRUMENT = PiiProbing()
