"""ICL influence: leakage from in-context examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from leakmeter.core.registry import Command, Example, Instrument, Short
from leakmeter.overriding import override


def _command() -> Any:
    from leakmeter.instruments.icl.command import app

    return app


class InContextLearning(Instrument):
    name = "icl"
    commands = (
        Command(
            "icl",
            _command,
            "Measure, in nats, the influence of each exemplar of a prompt on the answer to a query.",
            order=2,
            short={
                "": Short(
                    (
                        "",
                        (
                            "--exemplars samples/shots.csv --text-column review --label-column sentiment --data "
                            "samples/reviews.csv"
                        ),
                        (
                            "select --exemplars samples/shots.csv --text-column review --label-column sentiment "
                            "--data samples/reviews.csv"
                        ),
                    ),
                    (
                        "--exemplars --data --text-column --label-column --instruction --label-scoring "
                        "--model --html --dry-run"
                    ),
                ),
                "responses": Short(
                    ("--exemplars samples/answers.csv --data samples/asked.csv",),
                    ("--exemplars --data --input-column --output-column --instruction --model --html --dry-run"),
                ),
                "select": Short(
                    (
                        (
                            "--exemplars samples/shots.csv --text-column review --label-column sentiment --data "
                            "samples/reviews.csv"
                        ),
                    ),
                    "--exemplars --data --pool --text-column --label-column --max-steps --model --dry-run",
                ),
            },
        ),
    )

    @property
    @override
    def measure(self) -> Any:
        from leakmeter.instruments.icl.measure import Icl

        return Icl

    @property
    @override
    def result(self) -> Any:
        from leakmeter.instruments.icl.result import IclResult

        return IclResult

    @override
    def report(self, results: Sequence[Any]) -> Any:
        from leakmeter.instruments.icl.report import report

        return report(results)

    @override
    def example(self, id_: str = "one", response: str | None = None) -> Example:
        from leakmeter.instruments.icl.prompts import example

        return example(id_, response)

    @property
    @override
    def study(self) -> Any:
        from leakmeter.instruments.icl.study import KIND

        return KIND

    @override
    def functions(self) -> tuple[Callable[..., Any], ...]:
        from leakmeter.instruments.icl.command import icl, icl_responses, icl_select

        return icl, icl_responses, icl_select


INSTRUMENT = InContextLearning()
