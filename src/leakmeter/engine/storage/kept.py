"""What a run keeps of a case: the texts that its measurements are about, and the measurements that belong to them.

A part is held against these records once, where it is read (see `storage.parts`). An instrument that keeps more has a
record of its own, derived from `KeptCase`, which its class of results names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, Literal

import numpy as np

from leakmeter.core.measure import MOST, Measurement, Over, Params, Per, Statistic, Statistics
from leakmeter.core.record import Record
from leakmeter.text.entities import mention, phone


class FieldError(ValueError):
    """A field of a file with what leakmeter did not write: its name and place, and why it is wrong, a clause that
    follows the name. The value is private, and not shown."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field = field
        self.why = why


_LARGEST: Final = 1e150
"""Of finite numbers, in size: the square of a larger one is no float."""


@dataclass(frozen=True)
class _Bounded:
    """A number or truth value of JSON, not converted from a text or another kind."""

    least: float | None = None
    most: float | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        bounds = {"ge": self.least, "le": self.most} if self.least is not None else {}
        return {**handler(source), "strict": True, **bounds}


Count = Annotated[int, _Bounded(0, MOST)]
Amount = Annotated[float, _Bounded(0.0, float(MOST))]
AnyAmount = Amount | Literal["Infinity"]
"""One that may be infinite, as JSON has it."""
Flag = Annotated[bool, _Bounded()]


@dataclass(frozen=True, slots=True)
class Series:
    """Measurements of one statistic that belong to a case, each a series of numbers."""

    statistic: Statistic
    lengths: Sequence[int]
    """Numbers of each of them, by sample."""
    pieces: Collection[str] | None = ("",)
    """Names of what they are of; None for any."""
    is_needed: bool = True
    """Whether each sample and piece has to have one."""
    below: int | None = None
    """Of whole numbers from 0, what each is below; None where the statistic says it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptDocument(Record):
    """Where a document lies in the context, by characters."""

    name: str
    start: Count
    end: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptResponse(Record):
    """A response, and the text that each of its tokens adds."""

    text: str
    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptEntity(Record):
    """See `core.item.EntityTexts`."""

    type: str
    value: str
    text: str
    invented: str | None

    def __post_init__(self) -> None:
        if self.type == mention.PHONE and not phone.is_value(self.value):
            raise FieldError("value", "has to be a telephone number")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSpan(Record):
    """See `core.item.Span`."""

    name: str
    kind: Literal["unit", "value", "paragraph", "document", "fields"]
    ranges: tuple[tuple[Count, Count], ...]
    pieces: tuple[str, ...]
    document: str | None
    n_tokens: Count
    repeats: tuple[str, ...]
    entity: KeptEntity | None
    field: str | None = None

    def __post_init__(self) -> None:
        edges = [edge for pair in self.ranges for edge in pair]
        if not edges or edges != sorted(edges):
            raise FieldError("ranges", "has to be one or more ranges in order")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCost(Record):
    """What a case took; see `core.cost.ResultCost`."""

    requests: Count
    tree_tokens: Count
    naive_tokens: Count
    seconds: Amount
    out_of_memory_retries: Count
    scored_together: Count | None = None
    worker: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSelfCheck(Record):
    """See `core.self_check.record_of`."""

    passes: Literal["shared", "plain"]
    rows: Count = 0
    nats: AnyAmount = 0.0
    largest_nats: AnyAmount = 0.0
    failed_nats: AnyAmount | None = None
    tokens: Count | None = None
    rounding_nats: AnyAmount | None = None
    rounding_entropy_nats: AnyAmount | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCase(Record):
    """The texts of a case of any instrument; see `engine.measure.texts_of`."""

    same: ClassVar[tuple[str, ...]] = ()
    """Fields that are alike in all cases of a run."""

    id: str
    model: str
    weights_sha256: str | None
    dtype: str
    unit: str
    removal: str
    template: str
    query: str
    context: str
    documents: tuple[KeptDocument, ...]
    truncated_tokens: Count
    sampled: Flag
    responses: tuple[KeptResponse, ...]
    spans: tuple[KeptSpan, ...]
    cost: KeptCost
    unmarked_query_tokens: Count | None = None
    unmeasured_answers: Count | None = None
    words: Mapping[str, str] = field(default_factory=dict)
    """Texts of tokens by id, beside those of responses."""
    self_check: KeptSelfCheck | None = None

    def __post_init__(self) -> None:
        for number, document in enumerate(self.documents):
            if not document.start <= document.end <= len(self.context):
                raise FieldError(f"documents.{number}", "lies outside of the context")
        for number, span in enumerate(self.spans):
            if span.ranges[-1][1] > len(self.context):
                raise FieldError(f"spans.{number}.ranges", "lies outside of the context")
        names = set(self.span_names)
        if len(names) < len(self.spans):
            raise FieldError("spans", "has two of one name")
        for number, span in enumerate(self.spans):
            if not names.issuperset(span.repeats):
                raise FieldError(f"spans.{number}.repeats", "names what is no span")

    @property
    def span_names(self) -> list[str]:
        return [span.name for span in self.spans]

    @property
    def token_counts(self) -> list[int]:
        return [len(response.tokens) for response in self.responses]

    def lengths(self, params: Params, measurements: Sequence[Measurement]) -> Mapping[Over, Sequence[int]]:
        """How many numbers a series has that goes over something, by sample."""
        return {"token": self.token_counts, "number": (1,)}

    def pieces(self, params: Params, measurements: Sequence[Measurement]) -> Mapping[Per, Collection[str] | None]:
        """Names of what series are of; None for any."""
        return {"response": ("",), "piece": self.span_names, "text": None}

    def series(self, params: Params, measurements: Sequence[Measurement]) -> Iterable[Series]:
        """The measurements of a case that are others than their statistics say, which may depend on those that are
        there. They stand in the place of what is declared."""
        return ()

    def check_measurements(
        self, statistics: type[Statistics], params: Params, measurements: Sequence[Measurement]
    ) -> None:
        """Refuse measurements of the case that are others than their measure's statistics say."""
        own: dict[Statistic, list[Series]] = {}
        for series in self.series(params, measurements):
            own.setdefault(series.statistic, []).append(series)
        lengths, pieces = self.lengths(params, measurements), self.pieces(params, measurements)
        for statistic in statistics.all():
            if not (statistic.family or statistic in own):
                n = lengths[statistic.over]
                needed = not statistic.optional
                own[statistic] = [
                    Series(statistic, n[:1] if statistic.first_only else n, pieces[statistic.per], needed)
                ]
        known = [each for each in measurements if each.statistic in own]
        _check_series(own, known)
        if statistics.are_all and len(known) < len(measurements):
            # Its name may be a text of the user's.
            raise FieldError("statistic", "is none that this version of leakmeter knows of the measure")


def _check_series(series: Mapping[Statistic, Sequence[Series]], measurements: Sequence[Measurement]) -> None:
    """Refuse measurements that are others than their series say, and the lack of a needed one."""
    rules: dict[tuple[str, str | None], Series] = {
        (statistic, piece): rule
        for statistic, some in series.items()
        for rule in some
        for piece in ((None,) if rule.pieces is None else rule.pieces)
    }
    values = np.concatenate([measurement.values for measurement in measurements] or [np.empty(0)])
    if ((np.abs(values) > _LARGEST) & ~np.isinf(values)).any():
        raise FieldError("value", "is beyond what can be measured")
    seen: set[tuple[str, str, int]] = set()
    for measurement in measurements:
        name, numbers = measurement.statistic, measurement.values
        rule = rules.get((name, measurement.piece)) or rules.get((name, None))
        if rule is None:
            raise FieldError(f"piece of {name}", "is none of the case's")
        if measurement.sample >= len(rule.lengths):
            raise FieldError(f"sample of {name}", "is none of the case's")
        if len(numbers) != (n := rule.lengths[measurement.sample]):
            raise FieldError(f"position of {name}", f"has to go over {n:,} numbers")
        if measurement.unit != rule.statistic.unit:
            raise FieldError(f"unit of {name}", f"has to be '{rule.statistic.unit}'")
        if (key := (name, measurement.piece, measurement.sample)) in seen:
            raise FieldError(f"statistic {name}", "comes twice")
        seen.add(key)
        below = rule.statistic.below if rule.below is None else rule.below
        if below is not None and not ((numbers >= 0) & (numbers < below) & (numbers == np.floor(numbers))).all():
            raise FieldError(f"value of {name}", "has to be a whole number in range")
        if not rule.statistic.undefined and np.isnan(numbers).any():
            raise FieldError(f"value of {name}", "is no number")
    for (name, piece), rule in rules.items():
        for sample, n in enumerate(rule.lengths) if rule.is_needed and piece is not None else ():
            # What has no numbers has no rows.
            if n and (name, piece, sample) not in seen:
                raise FieldError(f"statistic {name}", "is missing of a piece or response")
