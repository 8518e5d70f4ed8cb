"""What runs keep of a decoding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leakmeter.core.measurement import WEIGHT, Measurement
from leakmeter.overriding import override
from leakmeter.storage.damage import FieldError
from leakmeter.storage.kept import KeptCase, Series


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptDecoding(KeptCase):
    """The texts of a case and of the responses that were decoded."""

    @override
    def series(self, params: Mapping[str, Any], measurements: Sequence[Measurement]) -> Iterator[Series]:
        if not self.responses:
            raise FieldError("statistic token", "is there of no response")
        yield self.response_ids
        yield from self.of_tokens("weight", unit=WEIGHT)
        yield from self.of_tokens("log_prob", "bare_log_prob", "loss", "max_loss")
        yield from self.of_tokens("spent_epsilon", "promised_epsilon", is_needed=params["epsilon"] is not None)
