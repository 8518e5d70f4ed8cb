"""What runs keep of a case that was redacted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leakmeter.core.measurement import HALF_WIDTH, Measurement
from leakmeter.instruments.influence.kept import KeptContext
from leakmeter.instruments.redaction.disclosing import LEFT_WITHOUT_THIS, ONLY_THIS, WITHOUT_THIS
from leakmeter.instruments.redaction.measure import PUT_BACK, REMOVED
from leakmeter.overriding import override
from leakmeter.storage.damage import FieldError
from leakmeter.storage.kept import Series


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRedaction(KeptContext):
    """The texts of a case: the response, and where pieces are cut the one drawn from what is left."""

    @override
    def series(self, params: Mapping[str, Any], measurements: Sequence[Measurement]) -> Iterator[Series]:
        if not 1 <= len(self.responses) <= 2:
            raise FieldError("statistic token", "is not there of one response or two")
        first, names = self.token_counts[:1], self.span_names
        yield self.response_ids
        yield from self.of_tokens("whole")
        discloses = bool(params.get("disclosures"))
        yield Series("log_prob", first, is_needed=discloses)
        yield Series("left", first)
        yield Series("noise", first)
        yield Series("placebo", first, None if discloses else ("",), is_needed=False)
        yield Series("all_removed", first, is_needed=False)
        yield Series(HALF_WIDTH, first, is_needed=False)
        for statistic in (REMOVED, PUT_BACK):
            yield Series(statistic, first, names, is_needed=False)
        if discloses:
            units = [span.name for span in self.spans if span.kind == "unit"]
            yield Series(ONLY_THIS, first, units)
            yield Series(WITHOUT_THIS, first, units)
            yield Series(LEFT_WITHOUT_THIS, first, units, is_needed=False)
