"""What runs keep of a case whose context's influence was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leakmeter.core.item import LEVELS
from leakmeter.core.measurement import COUNT, HALF_WIDTH, Measurement
from leakmeter.instruments.influence.measure import AUDITED, GROUPED, MOST_ROUNDS, SCREENED
from leakmeter.overriding import override
from leakmeter.storage.damage import FieldError
from leakmeter.storage.kept import Count, KeptCase, Series
from leakmeter.text import sensitive
from leakmeter.text.build import REGION
from leakmeter.text.entities import phone
from leakmeter.text.units import AUTO


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptContext(KeptCase):
    """The texts of a case with a context, and what tells values that are personal or secret."""

    sensitive: tuple[tuple[Count, Count, str], ...] | None = None
    """Characters of the context that a list of the user's has, and the type of each; None without a list."""
    region: str = REGION

    @override
    def __post_init__(self) -> None:
        super(KeptContext, self).__post_init__()
        places = self.sensitive or ()
        if any(not start < end <= len(self.context) for start, end, _ in places):
            raise FieldError("sensitive", "lies outside of the context")
        # Reports say it as a word of ours.
        if not all(sensitive.TYPE.fullmatch(kind) for _, _, kind in places):
            raise FieldError("sensitive", "has a type that is no word of 24 letters, digits and '_' at most")
        if self.region != REGION and not phone.is_region(self.region):
            raise FieldError("region", "has to be the ISO code of a country")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptInfluence(KeptContext):
    """The texts of a case with a context and one or more responses."""

    @override
    def series(self, params: Mapping[str, Any], measurements: Sequence[Measurement]) -> Iterator[Series]:
        names, n_tokens = self.span_names, self.token_counts
        if not n_tokens:
            raise FieldError("statistic token", "is there of no response")
        first = n_tokens[:1]
        scored = alone = names
        if params.get("search") is not None:
            scored = [
                measurement.piece
                for measurement in measurements
                if (measurement.statistic, measurement.sample) == ("without_this", 0)
            ]
            self._check_search(scored, measurements)
            yield Series(SCREENED, first, names, is_needed=False)
            yield Series(GROUPED, first, names, is_needed=False)
            yield Series(AUDITED, (1,), scored, COUNT, is_needed=False, below=MOST_ROUNDS + 1)
            alone = scored
        elif self.unit == AUTO:
            scored, alone = self._from_documents(measurements)
            yield Series("only_this", first, [name for name in scored if name not in alone], is_needed=False)
        yield self.response_ids
        yield from self.of_tokens("whole")
        yield from self.of_tokens("log_prob")
        yield Series("noise", first)
        yield Series("without_this", n_tokens, scored)
        yield Series("only_this", first, alone)
        yield Series("swapped", first, names, is_needed=False)
        yield Series("placebo", first, None, is_needed=False)
        yield Series("placebo_alone", first, is_needed=False)
        yield Series(HALF_WIDTH, n_tokens, ("", *names), is_needed=False)

    def _from_documents(self, measurements: Sequence[Measurement]) -> tuple[list[str], list[str]]:
        """Pieces that have to be left out, and those of them that have to be scored alone.

        A document without numbers of its own was not scored before its sentences. Of one that was, all sentences were
        left out, or none, and any may have been scored alone.
        """
        scored = {
            measurement.piece
            for measurement in measurements
            if (measurement.statistic, measurement.sample) == ("without_this", 0)
        }
        documents = {span.document for span in self.spans if span.kind == "document" and span.name in scored}
        left_in: set[str] = set()
        for document in documents:
            parts = {span.name for span in self.spans if span.kind == "unit" and span.document == document}
            left_in |= set() if parts & scored else parts
        names = [
            span.name
            for span in self.spans
            if span.name not in left_in and (span.kind != "document" or span.name in scored)
        ]
        alone = {span.name for span in self.spans if span.kind != "unit" or span.document not in documents}
        return names, [name for name in names if name in alone]

    def _check_search(self, scored: Sequence[str], measurements: Sequence[Measurement]) -> None:
        """A screen looks at all pieces, or, where the model hides none, at none."""
        screened = {measurement.piece for measurement in measurements if measurement.statistic == SCREENED}
        if not {*scored} <= {*self.span_names}:
            raise FieldError("piece of without_this", "is none of the case's")
        if screened and not screened.issuperset(span.name for span in self.spans if span.kind not in LEVELS):
            raise FieldError(f"statistic {SCREENED}", "is missing of a piece")
