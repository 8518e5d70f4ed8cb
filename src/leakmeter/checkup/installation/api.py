"""What programs call: `leakmeter.check_installation`."""

from __future__ import annotations

import platform
import time
from importlib import metadata

from leakmeter.checkup.installation import checks
from leakmeter.checkup.installation.result import InstallationCheck, InstallationResult
from leakmeter.checkup.words import first_sentence


def check_installation() -> InstallationResult:
    """Examine whether leakmeter works where it is installed: versions, threads, cache, permissions, and numbers.

    Numbers are those of the toy model, and of the default model where it is on this machine. Nothing is fetched, and
    nothing private is in what is found: no path, no name of a user or of a machine.

    Returns:
        The checks, what they say together (`verdict`), whether anything is wrong (`is_sound`), and a text for a bug
        report (`bug_report()`).

    Examples:
        >>> import leakmeter
        >>> found = leakmeter.check_installation()
        >>> [check.status for check in found.checks if check.name == "Parity, toy"]
        ['passed']
    """
    begun = time.perf_counter()
    installation = checks.Installation()
    made = []
    for number, (name, check) in enumerate(checks.CHECKS, 1):
        found = check(installation)
        made.append(
            InstallationCheck(number=number, name=name, status=found.status, found=found.said, advice=found.advice)
        )
    computing = installation.computing
    processor, n_threads = computing.cpu_of() if computing else (None, None)
    failed = [check for check in made if check.status == "failed"]
    return InstallationResult(
        version=metadata.version("leakmeter"),
        is_editable=checks.is_editable(),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        system=checks.system(),
        libraries=installation.libraries,
        extras=installation.extras,
        processor=processor,
        n_processors=checks.n_processors(),
        n_threads=n_threads,
        devices=computing.gpus_of() if computing else (),
        memory_bytes=checks.memory_bytes(),
        cached_models=installation.cached_models,
        score_bytes=installation.score_bytes,
        disk_free_bytes=installation.disk_free_bytes,
        variables=checks.variables(),
        checks=tuple(made),
        parity=tuple(installation.parity),
        seconds=time.perf_counter() - begun,
        is_sound=not failed,
        verdict=_verdict(made, failed),
    )


def _verdict(made: list[InstallationCheck], failed: list[InstallationCheck]) -> str:
    if failed:
        n = len(failed) - 1
        further = f" {n} further check{'s fail' if n > 1 else ' fails'}." if n else ""
        return f"Something is wrong with this installation: {first_sentence(failed[0].found)}{further}"
    n_notes = sum(check.status == "note" for check in made)
    notes = f" {n_notes} of {len(made)} checks have a note." if n_notes else ""
    return f"Sound: leakmeter works here, and its fast and slow ways agree.{notes}"
