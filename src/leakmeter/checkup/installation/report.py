"""What was found of an installation, as blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from leakmeter.checkup.installation.result import InstallationResult
from leakmeter.checkup.words import first_sentence
from leakmeter.report.blocks import (
    Advice,
    Block,
    Column,
    Command,
    Headline,
    Provenance,
    Report,
    Row,
    Table,
    Text,
    Untrusted,
)

_STATUS: Final = {"passed": "passed", "note": "to know", "failed": "FAILED", "skipped": "–"}


def report(
    results: Sequence[InstallationResult],
    *,
    command: str | None = None,
    provenance: Provenance = Provenance(),  # noqa: B008 (frozen)
) -> Report:
    """One examination.

    Args:
        results: one.
        command: the command line it came from.
        provenance: unused; there is no run.
    """
    (result,) = results
    return Report(
        title="Doctor: this installation",
        measure="doctor",
        blocks=tuple(_blocks(result)),
        lead="Checks whether leakmeter works where it is installed.",
        command=None if command is None else Command(Untrusted(command)),
        scripted=False,
    )


def _blocks(result: InstallationResult) -> Iterator[Block]:
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
    # Names and versions of libraries are what others wrote into their packages.
    yield Text(Untrusted(result.bug_report()), "prose", "For a bug report; no path and no name of yours is in it")
