"""Susceptibility: how far contexts move the answers to queries, by Monte Carlo."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from leakmeter.core.registry import Command, Example, Instrument, Short
from leakmeter.overriding import override


def _command() -> Any:
    from leakmeter.instruments.susceptibility.command import susceptibility_command

    return susceptibility_command


class SusceptibilityToContexts(Instrument):
    name = "susceptibility"
    commands = (
        Command(
            "susceptibility",
            _command,
            "Measure, in nats, how far contexts move the answers to queries.",
            order=4,
            short={
                "": Short(
                    (
                        "",
                        "--queries samples/questions.jsonl --contexts samples/contexts.jsonl",
                        "--queries samples/questions.jsonl --estimator fisher",
                    ),
                    "--queries --contexts --estimator --template --model --html --dry-run",
                ),
            },
        ),
    )

    @property
    @override
    def measure(self) -> Any:
        from leakmeter.instruments.susceptibility.measure import Susceptibility

        return Susceptibility

    @property
    @override
    def result(self) -> Any:
        from leakmeter.instruments.susceptibility.result import SusceptibilityResult

        return SusceptibilityResult

    @override
    def report(self, results: Sequence[Any]) -> Any:
        from leakmeter.instruments.susceptibility.report import report

        return report(results)

    @override
    def example(self, id_: str = "one", response: str | None = None) -> Example:
        from leakmeter.instruments.susceptibility.prompts import example

        return example(id_, response)

    @property
    @override
    def study(self) -> Any:
        from leakmeter.instruments.susceptibility.study import KIND

        return KIND

    @override
    def functions(self) -> tuple[Callable[..., Any], ...]:
        from leakmeter.instruments.susceptibility.command import fisher_susceptibility, susceptibility

        return fisher_susceptibility, susceptibility


INSTRUMENT = SusceptibilityToContexts()
