"""What a run keeps of a case: the texts that its measurements are about, and the measurements that belong to them.

A part is held against these records once, where it is read (see `storage.parts`). An instrument that keeps more has a
record of its own, derived from `KeptCase`, which its class of results names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, Literal

import numpy as np

from leakmeter.core.measure import NATS, RESPONSE, TOKEN_ID, Measurement, Params
from leakmeter.core.record import Record
from leakmeter.text.entities import mention, phone


class FieldError(ValueError):
    """A field of a file with what leakmeter did not write: its name and place, and why it is wrong, a clause that
    follows the name. The value is private, and not shown."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field = field
        self.why = why


MOST: Final = 2**53
"""Above any number of tokens or characters, and the last up to which every whole number is a float."""
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
Flag = Annotated[bool, _Bounded()]


@dataclass(frozen=True, slots=True)
class Series:
    """Measurements of one statistic that belong to a case, each a series of numbers."""

    statistic: str
    lengths: Sequence[int]
    """Numbers of each of them, by sample."""
    pieces: Collection[str] | None = ("",)
    """Names of what they are of; None for any."""
    unit: str = NATS
    is_needed: bool = True
    """Whether each sample and piece has to have one."""
    below: int | None = None
    """Of whole numbers from 0, what each is below; None of any numbers."""


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
    nats: Amount = 0.0
    largest_nats: Amount = 0.0
    failed_nats: Amount | None = None


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

    def of_tokens(self, *statistics: str, **more: Any) -> Iterator[Series]:
        """Series of one number for each token of each response."""
        for statistic in statistics:
            yield Series(statistic, self.token_counts, **more)

    @property
    def response_ids(self) -> Series:
        return Series(RESPONSE, self.token_counts, unit=TOKEN_ID, below=MOST)

    def series(self, params: Params, measurements: Sequence[Measurement]) -> Iterable[Series]:
        """The measurements that the case has to have, which may depend on those that are there; others are ignored, as
        those of a later version."""
        return ()

    def check_measurements(self, params: Params, measurements: Sequence[Measurement]) -> None:
        rules: dict[tuple[str, str | None], Series] = {}
        for rule in self.series(params, measurements):
            rules |= {(rule.statistic, piece): rule for piece in ((None,) if rule.pieces is None else rule.pieces)}
        statistics = {statistic for statistic, _ in rules}
        values = np.concatenate(
            [measurement.values for measurement in measurements if measurement.statistic in statistics] or [np.empty(0)]
        )
        if ((np.abs(values) > _LARGEST) & ~np.isinf(values)).any():
            raise FieldError("value", "is beyond what can be measured")
        seen: set[tuple[str, str, int]] = set()
        for measurement in measurements:
            if measurement.statistic not in statistics:
                continue
            rule_ = rules.get((measurement.statistic, measurement.piece)) or rules.get((measurement.statistic, None))
            if rule_ is None:
                raise FieldError(f"piece of {measurement.statistic}", "is none of the case's")
            if measurement.sample >= len(rule_.lengths):
                raise FieldError(f"sample of {measurement.statistic}", "is none of the case's")
            if len(measurement.values) != rule_.lengths[measurement.sample]:
                n = rule_.lengths[measurement.sample]
                raise FieldError(f"position of {measurement.statistic}", f"has to go over {n:,} numbers")
            if measurement.unit != rule_.unit:
                raise FieldError(f"unit of {measurement.statistic}", f"has to be '{rule_.unit}'")
            if (key := (measurement.statistic, measurement.piece, measurement.sample)) in seen:
                raise FieldError(f"statistic {measurement.statistic}", "comes twice")
            seen.add(key)
            numbers, below = measurement.values, rule_.below
            if below is not None and not ((numbers >= 0) & (numbers < below) & (numbers == np.floor(numbers))).all():
                raise FieldError(f"value of {measurement.statistic}", "has to be a whole number in range")
        for (statistic, piece), rule in rules.items():
            for sample, n in enumerate(rule.lengths) if rule.is_needed and piece is not None else ():
                # What has no numbers has no rows.
                if n and (statistic, piece, sample) not in seen:
                    raise FieldError(f"statistic {statistic}", "is missing of a piece or response")
