"""What runs keep of a query behind contexts, by either estimator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leakmeter.core.measurement import COUNT, NATS_PER_SQUARE, Measurement
from leakmeter.core.record import Record
from leakmeter.instruments.susceptibility.math import OF_CONTEXT, OF_QUERY
from leakmeter.overriding import override
from leakmeter.storage.damage import FieldError
from leakmeter.storage.kept import MOST, Amount, KeptCase, Series


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptContext(Record):
    """A context; see `instruments.susceptibility.case.Context`."""

    id: str
    text: str
    weight: Amount
    answer: str | None

    def __post_init__(self) -> None:
        if not self.weight:
            raise FieldError("weight", "has to be above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptContexts(KeptCase):
    """The texts of a query and of its contexts."""

    separator: str
    answers: tuple[str, ...]
    answer: str | None
    factors: Mapping[str, str]
    contexts: tuple[KeptContext, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptMixture(KeptContexts):
    """With the greedy answers as responses, that to the query alone first."""

    @override
    def series(self, params: Mapping[str, Any], measurements: Sequence[Measurement]) -> Iterator[Series]:
        n_contexts = len(self.contexts)
        if n_contexts < 2 or len(self.responses) not in (0, 1 + n_contexts):
            raise FieldError("statistic persuasion", "is of other contexts than the texts")
        for statistic in OF_CONTEXT:
            yield Series(statistic, (n_contexts,))
        for statistic in ("susceptibility", "from_bare", *OF_QUERY, "ceiling", "noise"):
            yield Series(statistic, (1,))
        yield self.response_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptGradients(KeptContexts):
    """With no responses: a number for each Σ."""

    @override
    def series(self, params: Mapping[str, Any], measurements: Sequence[Measurement]) -> Iterator[Series]:
        for statistic in ("fisher", "spread", "drift", "standard_error"):
            yield Series(statistic, (1,), params["sigma"])
        yield Series("trace", (1,), ("identity",), NATS_PER_SQUARE, "identity" in params["sigma"])
        yield Series("entropy", (1,))
        yield Series("n_probes", (1,), unit=COUNT, below=MOST)
        yield Series("n_query_tokens", (1,), unit=COUNT, below=MOST)
        yield Series("top_mass", (1,), is_needed=params["method"] == "top-k")
