"""Context influence: the influence of each piece of a context on a response."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from leakmeter.core.registry import Command, Example, Instrument, Short
from leakmeter.overriding import override


def _command() -> Any:
    from leakmeter.instruments.influence.command import influence_command

    return influence_command


class ContextInfluence(Instrument):
    name = "influence"
    commands = (
        Command(
            "influence",
            _command,
            "Measure, in nats, the influence of each piece of a context on a response.",
            order=1,
            short={
                "": Short(
                    (
                        "--data samples/log.jsonl --html report.html",
                        '--data samples/chats.jsonl --context-from "Notes:(.*)Question:"',
                        (
                            '--context-file samples/note.txt --query "How can I reach the patient?" --response '
                            '"Call 555-010-7788."'
                        ),
                    ),
                    ("--data --map --context-from --context-file --query --response --unit --model --html --dry-run"),
                ),
            },
        ),
    )

    @property
    @override
    def measure(self) -> Any:
        from leakmeter.instruments.influence.measure import Influence

        return Influence

    @property
    @override
    def result(self) -> Any:
        from leakmeter.instruments.influence.result import InfluenceResult

        return InfluenceResult

    @override
    def report(self, results: Sequence[Any]) -> Any:
        from leakmeter.instruments.influence.report import report

        return report(results)

    @override
    def example(self, id_: str = "one", response: str | None = None) -> Example:
        from leakmeter.text.example import example

        return example(id_, response)

    @property
    @override
    def study(self) -> Any:
        from leakmeter.commands.studies.contexts import KIND

        return KIND

    @override
    def functions(self) -> tuple[Callable[..., Any], ...]:
        from leakmeter.instruments.influence.command import influence

        return (influence,)


INSTRUMENT = ContextInfluence()
