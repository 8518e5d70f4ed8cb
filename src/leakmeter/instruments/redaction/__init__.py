"""Redaction: which pieces to cut so that what is left of the context has little influence on a response."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from leakmeter.core.registry import Command, Example, Instrument, Short
from leakmeter.overriding import override


def _command() -> Any:
    from leakmeter.instruments.redaction.command import redact_command

    return redact_command


class Redacting(Instrument):
    name = "redact"
    commands = (
        Command(
            "redact",
            _command,
            "Find few pieces to cut from a context, so that the rest has little influence on the response.",
            group="Act",
            order=1,
            short={
                "": Short(
                    (
                        (
                            '--context-file samples/note.txt --query "Who is the patient?" --response "Tobias '
                            'Quillmere." --max-loss 5'
                        ),
                        (
                            '--context-file samples/note.txt --query "Who is the patient?" --response "Tobias '
                            'Quillmere." --disclosures --write-redacted left.txt'
                        ),
                        "--data samples/log.jsonl --disclosures --unit document --dry-run",
                    ),
                    (
                        "--max-loss --disclosures --data --context-file --query --response --unit "
                        "--write-redacted --model --html --dry-run"
                    ),
                ),
            },
        ),
    )

    @property
    @override
    def measure(self) -> Any:
        from leakmeter.instruments.redaction.measure import Redaction

        return Redaction

    @property
    @override
    def result(self) -> Any:
        from leakmeter.instruments.redaction.result import RedactionResult

        return RedactionResult

    @override
    def report(self, results: Sequence[Any]) -> Any:
        from leakmeter.instruments.redaction.report import report

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
        from leakmeter.instruments.redaction.command import redact

        return (redact,)


INSTRUMENT = Redacting()
