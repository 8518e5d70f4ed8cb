"""What the doctor found, as blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from leakmeter.checkup.result import DoctorResult
from leakmeter.checkup.words import first_sentence
from leakmeter.report.blocks import (
    Advice,
    Block,
    Column,
    Command,
    Facts,
    Headline,
    Phrase,
    Provenance,
    Report,
    Row,
    Table,
    Untrusted,
)

_STATUS: Final = {"passed": "passed", "note": "to know", "failed": "FAILED", "skipped": "–"}


def report(
    results: Sequence[DoctorResult],
    *,
    command: str | None = None,
    provenance: Provenance = Provenance(),  # noqa: B008 (frozen)
) -> Report:
    """One examination; `provenance` is unused, since there is no run."""
    (result,) = results
    return Report(
        title=("Doctor: ", Untrusted(result.model)),
        measure="doctor",
        blocks=tuple(_blocks(result)),
        lead="Checks whether measurements can rely on the numbers of this model, using built-in texts.",
        command=Command.from_line(command),
        scripted=False,
    )


def _blocks(result: DoctorResult) -> Iterator[Block]:
    yield Headline(result.verdict, "good" if result.is_sound else "bad")
    todo = [(first_sentence(check.found), check.advice) for check in result.checks if check.advice]
    if todo:
        yield Advice(todo)
    yield Table(
        [Column("check"), Column("result"), Column("found")],
        [
            Row([f"{check.number} {check.name}", _STATUS[check.status], check.found], strong=check.status == "failed")
            for check in result.checks
        ],
        caption="What was examined",
    )
    if noise := result.noise:
        ways = [
            ("asked again", noise.repeat_nats),
            ("in another order", noise.order_nats),
            ("with others at once", noise.batch_nats),
            ("after a prefix was kept", noise.cache_nats),
            ("token by token", noise.split_nats),
            ("largest", noise.floor_nats),
            ("largest, of a whole response", noise.response_floor_nats),
        ]
        yield Table(
            [Column("circumstance"), Column("moves a log-probability by", "nats", "nats")],
            [Row([name, value]) for name, value in ways],
            caption="Noise floor",
        )
    yield Facts(tuple(_facts(result)), "The model")


def _facts(result: DoctorResult) -> Iterator[tuple[Phrase, Phrase]]:
    facts = {
        "Dialect": result.dialect,
        "Served as": result.served_model,
        "Revision": result.revision,
        "Server": result.server_version,
        "Fingerprint": result.fingerprint,
    }
    for name, value in facts.items():
        if value:
            yield name, Untrusted(value, 80)
    if result.window is not None:
        yield "Window", f"{result.window:,} tokens"
    for name, value in (result.settings or {}).items():
        yield name.capitalize(), Untrusted(value, 80)
