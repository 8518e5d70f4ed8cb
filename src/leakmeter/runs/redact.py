"""A run without its texts: numbers, and keyed hashes that tell equal from different.

Drawn tokens are texts by number, and are left out. What stays are numbers that were computed from texts: under a public
model, log-probabilities of single tokens are evidence of what the tokens were.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from leakmeter.core.measurement import TOKEN_ID, Measurement
from leakmeter.runs.pseudonym import pseudonym
from leakmeter.runs.spec import RunSpec

_RANDOM: Final = ("seed", "nonce")
_KEPT_OF_MODEL: Final = (
    *("weights_sha256", "config_sha256", "tokenizer_sha256", "chat_template_sha256"),
    *("dtype", "device", "memory_bytes"),
)


@dataclass(frozen=True, slots=True)
class Redacted:
    """What may be told of a run without its texts."""

    key: bytes = field(repr=False)
    """The user's; see `runs.pseudonym`."""

    def spec(self, spec: RunSpec) -> Mapping[str, Any]:
        """Numbers among the settings, and hashes of the rest; not a seed, which a promise may rest on, nor a nonce."""
        return {
            "redacted": True,
            "id_hmac": pseudonym(self.key, "run", spec.id),
            "measure": spec.measure,
            "version": spec.version,
            "model": {name: spec.model.get(name) for name in _KEPT_OF_MODEL},
            "params": {name: self._number(value) for name, value in spec.params.items() if name not in _RANDOM},
            "prompts": {name: self._number(value) for name, value in spec.prompts.items() if name not in _RANDOM},
            "n_cases": len(spec.cases),
        }

    def case(self, case: Mapping[str, Any]) -> Mapping[str, Any]:
        """The name that the measurements have for it, and a hash of its texts."""
        return {"id": self._name("item", case["id"]), "texts_hmac": self._told(case)}

    def measurements(self, measurements: Sequence[Measurement]) -> list[Measurement]:
        """All but tokens, under other names."""
        return [
            replace(r, item=self._name("item", r.item), piece=self._name("piece", r.piece))
            for r in measurements
            if r.unit != TOKEN_ID
        ]

    def _name(self, kind: str, name: str) -> str:
        # An empty name is the response as a whole, and nobody's.
        return pseudonym(self.key, kind, name) if name else ""

    def _number(self, value: Any) -> Any:
        """A setting: a number as it is, anything else as a hash."""
        return value if value is None or isinstance(value, (bool, int, float)) else self._told(value)

    def _told(self, value: Any) -> str:
        return pseudonym(self.key, "told", json.dumps(value, sort_keys=True, ensure_ascii=True))
