"""Decoding that bounds what each token tells of the context, with a ledger of what each told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from leakmeter.core.registry import Command, Example, Instrument, Short
from leakmeter.overriding import override


def _command() -> Any:
    from leakmeter.instruments.decoding.command import app

    return app


class BoundedDecoding(Instrument):
    name = "decode"
    commands = (
        Command(
            "decode",
            _command,
            "Draw a response from a mixture of the model with and without a context, and measure "
            "what each token leaks.",
            group="Act",
            order=2,
            short={
                "": Short(
                    (
                        '--context-file samples/note.txt --query "What should the patient stop taking?"',
                        (
                            '--context-file samples/note.txt --query "What should the patient stop taking?" '
                            "--epsilon 0.1"
                        ),
                        "frontier --data samples/answers.jsonl --epsilon 0.1 --epsilon 1",
                    ),
                    (
                        "--context-file --query --data --epsilon --lambda --max-new-tokens --public --model "
                        "--html --dry-run"
                    ),
                ),
                "frontier": Short(
                    ("--data samples/answers.jsonl --lambda 0.5 --lambda 1",),
                    "--data --map --lambda --epsilon --max-new-tokens --samples --model --html --dry-run",
                ),
            },
        ),
    )

    @property
    @override
    def measure(self) -> Any:
        from leakmeter.instruments.decoding.measure import Decode

        return Decode

    @property
    @override
    def result(self) -> Any:
        from leakmeter.instruments.decoding.result import DecodeResult

        return DecodeResult

    @override
    def report(self, results: Sequence[Any]) -> Any:
        from leakmeter.instruments.decoding.report import public_report, report

        return public_report(results) if results[0].is_public else report(results)

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
        from leakmeter.instruments.decoding.command import decode, frontier

        return decode, frontier


INSTRUMENT = BoundedDecoding()
