"""What runs keep of a query behind exemplars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from leakmeter.core.measurement import LABEL, NATS, TOKEN_ID, Measurement
from leakmeter.instruments.icl.math import FARTHEST
from leakmeter.overriding import override
from leakmeter.storage.damage import FieldError
from leakmeter.storage.kept import MOST, KeptCase, Series


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptQuery(KeptCase):
    """The texts of a query; the exemplars are its spans, and documents of their own."""

    same: ClassVar = ("labels",)

    labels: tuple[str, ...]

    @override
    def __post_init__(self) -> None:
        # Slots make this another class than the one that a bare `super` knows.
        super(KeptQuery, self).__post_init__()
        if not self.labels or not self.spans:
            raise FieldError("spans" if self.labels else "labels", "has none")
        for number, span in enumerate(self.spans):
            if len(span.ranges) != 1 or span.document is None:
                raise FieldError(f"spans.{number}", "is no document of its own")

    @override
    def series(self, params: Mapping[str, Any], measurements: Sequence[Measurement]) -> Iterator[Series]:
        n_labels, names, is_vocabulary = len(self.labels), self.span_names, params["space"] == "vocabulary"
        yield Series("label_loss", (n_labels,), names)
        yield Series("label_log_prob", (n_labels,))
        yield Series("label_mass", (1,))
        yield Series("noise", (1,))
        yield Series("prediction", (1,), unit=LABEL, below=n_labels)
        yield Series("gold", (1,), unit=LABEL, is_needed=False, below=n_labels)
        yield Series("answer", (1,), unit=LABEL, is_needed=False, below=n_labels)
        for kind in ("farthest", "plausible"):
            yield Series(f"{kind}_noise", (1,), is_needed=is_vocabulary)
        for statistic in FARTHEST:
            is_token = statistic.endswith("token")
            yield Series(
                statistic, (1,), names, TOKEN_ID if is_token else NATS, is_vocabulary, MOST if is_token else None
            )
        for measurement in measurements:
            if (
                measurement.unit == TOKEN_ID
                and not {f"{value:.0f}" for value in measurement.values} <= self.words.keys()
            ):
                raise FieldError(f"value of {measurement.statistic}", "is of a token that has no words")
