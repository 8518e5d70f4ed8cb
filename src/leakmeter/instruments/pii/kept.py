"""What runs keep of a value that a model was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from leakmeter.core.measurement import COUNT, RESPONSE, TOKEN_ID, Measurement, Params
from leakmeter.instruments.pii.decoy_test import stops_at
from leakmeter.instruments.pii.matching import STATISTICS
from leakmeter.instruments.pii.measure import BEAM
from leakmeter.instruments.pii.probe import ProbeKind
from leakmeter.instruments.pii.subject import ValueType
from leakmeter.overriding import override
from leakmeter.storage.damage import FieldError
from leakmeter.storage.kept import MOST, Count, Flag, KeptCase, Series


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptProbe(KeptCase):
    """The texts of a case; answers are its responses, of each width of beams one a template."""

    subject: str
    kind: ProbeKind
    type: ValueType
    relation: str | None
    given: tuple[ValueType, ...]
    n_templates: Count
    n_nulls: Count
    nulls_share_place: Flag | None
    n_references: Count
    name: str | None = None
    value: str | None = None
    prompts: tuple[str, ...] | None = None

    @override
    def __post_init__(self) -> None:
        super(KeptProbe, self).__post_init__()
        if not self.n_templates:
            raise FieldError("n_templates", "has to be 1 or more")
        if self.nulls_share_place is not None and self.type not in ("email", "address"):
            raise FieldError("nulls_share_place", "is of a type that has no place")

    @override
    def series(self, params: Params, measurements: Sequence[Measurement]) -> Iterator[Series]:
        # Of a sequential test that stopped, those that were scored; and nothing may have been generated then.
        n_scored = len(next((item.values for item in measurements if item.statistic == "log_likelihood"), ())) - 1
        is_full = params.get("decoy_test", "full") == "full"
        n_nulls = self.n_nulls if is_full else min(max(n_scored, stops_at(self.n_nulls)), self.n_nulls)
        of_values = (1 + n_nulls,) * self.n_templates
        widths = [f"{BEAM}{width}" for width in params["beams"]]
        if n_nulls < self.n_nulls and not any(item.piece for item in measurements):
            widths = []
        yield Series("log_likelihood", of_values)
        yield Series("n_tokens", of_values, unit=COUNT, below=MOST)
        yield Series("reference_log_likelihood", of_values)
        of_answers = (1,) * self.n_templates
        yield Series("generated_log_likelihood", of_answers, widths)
        yield Series("generated_tokens", of_answers, widths, COUNT, below=MOST)
        for statistic, unit in STATISTICS[self.type].items():
            yield Series(statistic, of_answers, widths, unit)
        if any(measurement.statistic == RESPONSE for measurement in measurements):
            if len(self.responses) != len(widths) * self.n_templates:
                raise FieldError(f"statistic {RESPONSE}", "is not there of each response")
            counts = self.token_counts
            for number, width in enumerate(widths):
                lengths = counts[number * self.n_templates : (number + 1) * self.n_templates]
                yield Series(RESPONSE, lengths, (width,), TOKEN_ID, below=MOST)
