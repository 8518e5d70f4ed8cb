"""What a query may take; apart from `results.sql`, since a command line names it before DuckDB is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from leakmeter.core.limits import parse_memory, refuse_bad


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryLimits:
    """How much a query may take."""

    memory: str = "4GiB"
    """Memory limit of the query, such as 512MiB or 8GiB. Linux enforces it for the whole query; other systems only for
    what DuckDB itself counts."""
    max_seconds: float = 600.0
    """Time limit of the query, seconds."""

    def __post_init__(self) -> None:
        parse_memory(self.memory)
        refuse_bad((0 < self.max_seconds <= 10**6, "max-seconds", self.max_seconds, "above 0, and 1,000,000 at most"))

    @property
    def memory_bytes(self) -> int:
        return parse_memory(self.memory)


DEFAULT_LIMITS: Final = QueryLimits()
THREAD: Final = "leakmeter query"
"""Name of a thread in which a query runs."""
