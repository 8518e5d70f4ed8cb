"""What was found of an installation, as records. No path, no name of a user or of a machine goes into them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from leakmeter.checkup.result import Status
from leakmeter.core.plain import to_plain
from leakmeter.core.record import Record, Unbounded
from leakmeter.overriding import override
from leakmeter.report.words import about_bytes
from leakmeter.runs.result import AnyResult


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationCheck(Record):
    """One check."""

    number: int
    """From 1, in the order of the documentation."""
    name: str
    status: Status
    """'note' where something is to be known; 'failed' where leakmeter would not work, or give wrong numbers."""
    found: str
    """What was found, in words."""
    advice: str
    """What to do about it; empty where there is nothing to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationParity(Record):
    """The fast way to a number against the slow one."""

    model: str
    n_tokens: int
    """Tokens whose log-probabilities were compared."""
    max_token_nats: Unbounded
    """Largest difference of a token's log-probability; infinite where there is NaN."""
    bound_nats: float
    """The largest difference that passes."""
    seconds: float
    """Time of both ways; the model's loading is not in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationResult(AnyResult, Record):
    """Whether leakmeter works where it is installed."""

    schema: ClassVar[str] = "installation-1"
    is_public: ClassVar[bool] = True

    version: str
    """Of leakmeter."""
    is_editable: bool
    """Whether it runs from a checkout (`pip install -e`)."""
    python: str
    """Implementation and version."""
    system: str
    """Operating system, kind of machine, and C library or release."""
    libraries: dict[str, str]
    """Version by name, of every library that leakmeter needs; 'missing' of one that is not there."""
    extras: tuple[str, ...]
    """Extras of which every library is installed."""
    processor: str | None
    """CPU, and the widest instructions that torch uses; None where torch cannot be imported."""
    n_processors: int
    """That this process may use."""
    n_threads: int | None
    """That torch computes with; None where torch cannot be imported."""
    devices: tuple[str, ...]
    """GPUs that torch can use, by their kind."""
    memory_bytes: int | None
    """Of the machine; None where it does not tell."""
    cached_models: tuple[str, ...]
    """Known models that are on this machine, whole."""
    score_bytes: int | None
    """Size of the score cache; None where it is turned off."""
    disk_free_bytes: int | None
    """Where the cache lies; None where it cannot be seen."""
    variables: tuple[str, ...]
    """Names of the environment variables that are set and change how leakmeter works."""
    checks: tuple[InstallationCheck, ...]
    parity: tuple[InstallationParity, ...]
    seconds: float
    """Time of all checks."""
    is_sound: bool
    """Whether no check failed."""
    verdict: str
    """What the checks say together."""

    @override
    def to_dict(self) -> dict[str, Any]:
        """As `Record.to_dict`, with the name and version of the schema in front."""
        return {"schema": self.schema, **to_plain(self)}

    def bug_report(self) -> str:
        """What to paste into a bug report: plain text, a line each, with nothing private."""
        libraries = ", ".join(f"{name} {version}" for name, version in self.libraries.items())
        memory = "" if self.memory_bytes is None else f", {about_bytes(self.memory_bytes)} of memory"
        lines = [
            f"leakmeter {self.version}{' (checkout)' if self.is_editable else ''}, {self.python}",
            f"system: {self.system}{memory}",
            f"processor: {self.processor or 'unknown'}; usable: {self.n_processors}, threads: {self.n_threads}",
            f"GPUs: {', '.join(self.devices) or 'none'}",
            f"libraries: {libraries}",
            f"extras: {', '.join(self.extras) or 'none'}",
            f"models: {', '.join(self.cached_models) or 'none'}",
            f"score cache: {'off' if self.score_bytes is None else about_bytes(self.score_bytes)}",
            f"set: {', '.join(self.variables) or 'nothing'}",
        ]
        lines += [f"{check.number} {check.name}: {check.status}. {check.found}" for check in self.checks]
        return "\n".join(lines) + "\n"
