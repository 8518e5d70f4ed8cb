"""What was found of an installation, as blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from leakmeter.checkup.installation.result import InstallationResult
from leakmeter.checkup.report import of_checks
from leakmeter.report.blocks import Block, Command, Provenance, Report, Text, Untrusted


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
    yield from of_checks(result.verdict, result.checks, is_sound=result.is_sound)
    # Names and versions of libraries are what others wrote into their packages.
    yield Text(Untrusted(result.bug_report()), "prose", "For a bug report; no path and no name of yours is in it")
