"""All that is needed to run a measurement again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class RunSpec:
    """A run: what determines its numbers, and what explains them. The former make its id."""

    measure: str
    """Name of the measure."""
    params: Mapping[str, Any]
    """The measure's parameters, given and defaulted."""
    prompts: Mapping[str, Any]
    """Unit, removal, template and the like, given and defaulted."""
    model: Mapping[str, Any]
    """Name, weights_sha256, dtype and device."""
    cases: tuple[Mapping[str, Any], ...]
    """The cases themselves: texts as they were given."""
    version: str
    """Of leakmeter."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Versions of Python and of the libraries that compute; for the reader, not part of the id."""
    command: str | None = None
    """The command line, for the reader."""
    problems: tuple[str, ...] = ()
    """Lines of the data that were left out, for the reader."""

    @property
    def id(self) -> str:
        """'<measure>-' and 16 hexadecimal digits: equal for runs that compute the same numbers."""
        told = asdict(self)
        for name in ("environment", "command", "problems"):
            del told[name]
        text = json.dumps(told, sort_keys=True, ensure_ascii=True)
        return f"{self.measure}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
