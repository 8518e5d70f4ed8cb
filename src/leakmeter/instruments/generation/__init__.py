"""Private generation from exemplars, and its audit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from leakmeter.core.registry import Command, Example, Instrument, Short
from leakmeter.overriding import override


def _command() -> Any:
    from leakmeter.instruments.generation.command import app

    return app


class PrivateGenerating(Instrument):
    name = "private_generation"
    commands = (
        Command(
            "generate",
            _command,
            "Generate text from private exemplars and compare the measured privacy loss with the guarantee.",
            order=5,
            short={
                "": Short(
                    (
                        "--html private.html",
                        (
                            '--exemplars samples/notes.csv --column note --instruction "Write a note." --epsilon '
                            "8 --subset-size 3"
                        ),
                        "calibrate --epsilon 8 --free temperature --clip 10 --subset-size 50",
                    ),
                    (
                        "--exemplars --column --instruction --epsilon --subset-size --samples --public "
                        "--model --html --dry-run"
                    ),
                ),
            },
        ),
    )

    @property
    @override
    def measure(self) -> Any:
        from leakmeter.instruments.generation.measure import PrivateGeneration

        return PrivateGeneration

    @property
    @override
    def result(self) -> Any:
        from leakmeter.instruments.generation.result import PrivateGenerationResult

        return PrivateGenerationResult

    @override
    def report(self, results: Sequence[Any]) -> Any:
        from leakmeter.instruments.generation.report import public_report, report

        return public_report(results) if results[0].is_public else report(results)

    @override
    def example(self, id_: str = "one", response: str | None = None) -> Example:
        from leakmeter.instruments.generation.prompts import example

        return example(id_, response)

    @property
    @override
    def study(self) -> Any:
        from leakmeter.instruments.generation.study import KIND

        return KIND

    @override
    def functions(self) -> tuple[Callable[..., Any], ...]:
        from leakmeter.instruments.generation.command import calibrate, generate

        return calibrate, generate


INSTRUMENT = PrivateGenerating()
