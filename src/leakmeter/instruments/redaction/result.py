"""The result of choosing what to redact in one case: the pieces, the way to them, and the answer before and after."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, ClassVar, Final, Self

import numpy as np

from leakmeter.core.measure import Measurement, Params, Texts
from leakmeter.core.plain import SELDOM, excerpt
from leakmeter.core.quantity import SHARE_OF_CASES, Quantities, Quantity, SoFar, at, of_response
from leakmeter.core.record import JsonObject, Record, Unbounded, frame_of
from leakmeter.core.self_check import carried, with_noise_of
from leakmeter.engine.storage.kept import FieldError, Series
from leakmeter.instruments.influence.disclosures import DisclosedSpan, Disclosure, Evidence
from leakmeter.instruments.influence.result import ContextResult, KeptContextCase
from leakmeter.instruments.influence.search import Search
from leakmeter.instruments.influence.sources import ContextPiece, signed_size, signed_sum
from leakmeter.instruments.redaction.disclosing import (
    RedactionStatistics,
    after,
    before,
    of_answer,
    outside,
    still_said,
    tokens_of,
)
from leakmeter.overriding import override
from leakmeter.results.result import PartContent
from leakmeter.stats.arrays import FloatArray
from leakmeter.stats.stats import posterior_of
from leakmeter.text.entities.encoded import ENCODED
from leakmeter.text.entity_results import PieceSeries, entity_warnings
from leakmeter.text.layout import without_characters
from leakmeter.text.units import merged

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRedaction(KeptContextCase):
    """The texts of a case: the response, and where pieces are cut the one drawn from what is left."""

    @override
    def series(self, params: Params, measurements: Sequence[Measurement]) -> Iterator[Series]:
        told = RedactionStatistics
        if not 1 <= len(self.responses) <= 2:
            raise FieldError(f"statistic {told.token}", "is not there of one response or two")
        first, discloses = self.token_counts[:1], bool(params.get("disclosures"))
        units = [span.name for span in self.spans if span.kind == "unit"] if discloses else []
        yield Series(told.log_prob, first, is_needed=discloses)
        yield Series(told.placebo, first, None if discloses else ("",), is_needed=False)
        yield Series(told.control, first, None if discloses else (), is_needed=False)
        yield Series(told.only_this, first, units)
        yield Series(told.without_this, first, units)
        yield Series(told.left_without_this, first, units, is_needed=False)


MARK: Final = "[…]"
"""Stands, where a redacted text is shown, for what was cut; what is measured has nothing in its place."""
_ACTIONS: Final[Mapping[str, str]] = {RedactionStatistics.removed: "cut", RedactionStatistics.put_back: "put back"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionStep(Record):
    """A piece cut or put back, and the influence of what is then left."""

    action: str
    """Action of the step: 'cut' or 'put back'."""
    name: str
    """Name of the piece."""
    kind: str
    """Kind of piece: 'unit', or 'value' for a value that is said several times, with all its mentions."""
    text: str = field(repr=False)
    """Text of the piece."""
    left_nats: Unbounded
    """Influence on the response of what is left of the context after the step, nats."""
    left_signed_nats: Unbounded
    """Signed influence on the response of what is left after the step, nats: the sum without the absolute value."""
    left_posterior: float | None
    """Probability, from even odds, that an observer of the response gives to what is left having been there: 1 / (1 +
    e^−left_signed_nats). None where |left_signed_nats| is not above the noise floor and the placebo's, and where the
    response was given: it is right for what the scoring model drew, and not for what another model wrote."""
    left_posterior_note: str | None
    """Reason why what is left has no posterior; None where it has one."""
    change_nats: Unbounded
    """Change of the remaining influence against the step before, nats; of the first step, against the whole context."""
    raised: bool
    """Whether the step cut a piece and raised the remaining influence by more than the noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactedDocument(Record):
    """A document without the pieces that are cut."""

    name: str
    """Name of the document."""
    text: str = field(repr=False)
    """Text of the document without the pieces that are cut."""


def is_from_pieces(disclosure: Disclosure) -> bool:
    """Whether pieces say what a new answer discloses, as it says it or in a code; if not, the model may have invented
    it, or said it in other words."""
    return disclosure.relation == "copied" or disclosure.found_by == ENCODED


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactedAnswer(Record):
    """The answer drawn from what is left of the context."""

    text: str = field(repr=False)
    """Text of the answer."""
    tokens: tuple[str, ...] = field(repr=False)
    """Text that each token adds to the answer."""
    seed: int
    """Seed of the draw."""
    whole_nats: Unbounded
    """Influence of the remaining context on the answer, nats; the limit does not bound it."""
    whole_signed_nats: Unbounded
    """Signed influence of the remaining context on the answer, nats: the sum without the absolute value."""
    whole_per_token_nats: tuple[Unbounded, ...]
    """Absolute influence of the remaining context at each token of the answer, nats."""
    disclosures: tuple[Disclosure, ...] | None = None
    """Spans of the answer that disclose the remaining context, in its order, and values that both say and that the
    model says anyway: as `disclosures` of `leakmeter influence`, but that sources are pieces that have its words, which
    were not measured on it. None where the answer was not searched, as in runs of earlier versions."""

    @property
    def disclosed(self) -> tuple[Disclosure, ...]:
        """The disclosures, without the values that are none."""
        return tuple(disclosure for disclosure in self.disclosures or () if disclosure.evidence is not None)

    @property
    def sensitive(self) -> tuple[Disclosure, ...]:
        """Those of something personal or secret that the recipient may not know, most nats first."""
        sensitive = (row for row in self.disclosed if row.is_sensitive and row.allowed != "yes")
        return tuple(sorted(sensitive, key=lambda row: -row.nats))

    @property
    def may_be_invented(self) -> bool:
        """Whether it says something personal or secret, and nothing of it as a piece has it."""
        return bool(self.sensitive) and not any(map(is_from_pieces, self.sensitive))


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactedDisclosure(DisclosedSpan):
    """Something personal or secret that the response gives away of the context, before and after the cuts."""

    evidence: Evidence | None
    """Evidence for the disclosure: 'scores' where its nats are above its floor, or those of a piece that says it;
    'words' where a piece says what the model would not have said by itself."""
    pieces: tuple[str, ...]
    """Names of the pieces that the span comes from, most nats first; of the document where no piece has any of it."""
    before_nats: Unbounded
    """Signed influence on the span before the cuts, nats: Σ_t log p̄(y_t | D) − log p̄(y_t | ∅) over its tokens."""
    after_nats: Unbounded
    """Signed influence on the span after the cuts, nats: Σ_t log p̄(y_t | D∖R) − log p̄(y_t | ∅) over its tokens."""
    floor_nats: Unbounded
    """Floor that the span's nats less `control_nats` have to exceed: the largest of 3, the noise and the influence of
    an irrelevant text."""
    control_nats: Unbounded | None = field(default=None, metadata={SELDOM: True})
    """Largest amount by which the context of one other case, or none, raises the span's tokens together, nats. Present
    only where the response was scored beside such contexts."""
    is_left: bool
    """Whether the remaining context still discloses the span, or says it in another form."""
    left_as: tuple[str, ...] = field(default=(), repr=False, metadata={SELDOM: True})
    """Texts of the remaining context that say the span, as it is or in another form: a date in digits, a part of a
    name, base64. Present only where there are any."""

    @property
    def least_nats(self) -> float:
        """What its nats have to be above for what is left to disclose it."""
        return self.floor_nats + (self.control_nats or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactedDisclosures(Record):
    """What the response gives away that is personal or secret, and what the cuts do to the rest of it."""

    spans: tuple[RedactedDisclosure, ...]
    """Spans that were disclosed, in the order of the response."""
    n_left: int
    """Number of spans that the remaining context still discloses."""
    n_rest_tokens: int
    """Number of tokens of the response outside of the spans."""
    rest_change_nats: Unbounded
    """Change that the cuts make to the tokens outside of the spans, nats: Σ_t log p̄(y_t | D∖R) − log p̄(y_t | D),
    below 0 where the cuts make them less likely."""


_QUANTITIES: Final[Quantities] = (
    of_response("redact", "Influence of the remaining context on the response.", at("left_nats")),
    replace(
        of_response("redact.whole", "Influence of the whole context on the response, before cuts.", at("whole_nats")),
        sense="neither",
    ),
    Quantity(
        "redact.cut",
        "share of characters",
        "Share of the context that is cut, not counting white space.",
        at("redacted_share"),
        sense="quality",
    ),
    Quantity(
        "redact.reached",
        SHARE_OF_CASES,
        "Whether the remaining influence is within the limit.",
        at("reached"),
        worse="less",
        usual="mean",
        sense="quality",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionResult(ContextResult):
    """What to cut so that what is left of the context has at most so many nats of influence on the response."""

    schema: ClassVar = "redact-1"
    kept: ClassVar = KeptRedaction
    statistics: ClassVar = RedactionStatistics
    quantities: ClassVar = _QUANTITIES
    so_far: ClassVar = (
        SoFar("cut up to {:.0%} of a context", at("redacted_share")),
        SoFar("{:,.0f} disclosure{s} left", at("disclosed", "n_left"), sum),
        SoFar("{:,.0f} not reached", lambda case: not case.reached, sum),
    )

    max_loss_nats: float | None
    """Limit of the influence of what is left, nats; None where only disclosures were to be removed."""
    reached: bool
    """Whether what is left is within the limit, and discloses nothing personal or secret where that was asked for."""
    left_nats: Unbounded
    """Influence of what is left when the pieces R are cut, nats: L(R) = Σ_t |log p̄(y_t | D∖R) − log p̄(y_t | ∅)|."""
    left_signed_nats: Unbounded
    """Signed influence on the response of what is left, nats: the sum without the absolute value."""
    left_per_token_nats: tuple[Unbounded, ...]
    """Absolute influence of what is left at each response token, nats."""
    left_posterior: float | None
    """Probability, from even odds, that an observer of the response gives to what is left having been there: 1 / (1 +
    e^−left_signed_nats). None where |left_signed_nats| is not above the noise floor and the placebo's, and where the
    response was given."""
    left_posterior_note: str | None
    """Reason why what is left has no posterior; None where it has one."""
    all_removed_nats: Unbounded | None
    """Influence that remains with every piece cut, nats; None where the limit is met."""
    placebo_nats: Unbounded | None
    """Influence of irrelevant words as the only context, nats; None where they did not fit."""
    placebo_signed_nats: Unbounded | None
    """Absolute value of the signed influence of irrelevant words as the only context, nats; None where they did not
    fit."""
    n_pieces: int
    """Number of pieces of the context."""
    redacted: tuple[ContextPiece, ...]
    """Pieces to cut, in the order of the context."""
    redacted_share: float
    """Share of the context's characters, not counting white space, that is cut."""
    redacted_documents: tuple[RedactedDocument, ...]
    """Text of each document without the pieces that are cut."""
    marked_context: str = field(repr=False)
    """Context with a mark in the place of each piece that is cut."""
    steps: tuple[RedactionStep, ...]
    """Steps of the search, in their order: pieces that were cut and put back."""
    after: RedactedAnswer | None
    """Answer drawn from what is left of the context; None where none was drawn, as where nothing is cut."""
    disclosed: RedactedDisclosures | None = field(default=None, metadata={SELDOM: True})
    """Personal or secret spans that pieces were cut for. Present only where pieces were cut for what the response
    discloses."""

    @property
    @override
    def secrets(self) -> tuple[str, ...]:
        spans = () if self.disclosed is None else self.disclosed.spans
        said = () if self.after is None else self.after.disclosures or ()
        told = (text for span in spans if span.is_secret for text in (span.text, *span.left_as))
        return (*told, *(text for row in said for text in row.secrets))

    @classmethod
    def from_run(cls, parts: Iterable[PartContent], params: Params) -> Iterator[Self]:
        """The results of a run's cases, each as soon as its part is there."""
        for texts, measurements in carried(parts):
            yield cls._from_part(texts, with_noise_of(texts, measurements), params)

    @classmethod
    def _from_part(cls, texts: Texts, measurements: Sequence[Measurement], params: Params) -> Self:
        series = {(item.sample, item.statistic, item.piece): item.values for item in measurements}
        told = RedactionStatistics
        whole, left, noise = (series[0, statistic, ""] for statistic in (told.whole, told.left, told.noise))
        all_removed, placebo, answered = (
            series.get(key) for key in ((0, told.all_removed, ""), (0, told.placebo, ""), (1, told.whole, ""))
        )
        limit, context, noise_nats = params["max_loss"], texts["context"], float(noise.sum())
        placebo_signed_nats = None if placebo is None else signed_size(placebo)

        def amounts(values: FloatArray) -> JsonObject:
            signed = signed_sum(values)
            posterior = posterior_of(
                signed, noise_nats=noise_nats, placebo_nats=placebo_signed_nats, is_drawn=texts["sampled"]
            )
            return {
                "left_nats": _sum(values),
                "left_signed_nats": signed,
                "left_posterior": posterior.probability,
                "left_posterior_note": posterior.note,
            }

        pieces = {span["name"]: ContextPiece(**ContextPiece.fields_of(span, texts, series)) for span in texts["spans"]}
        pieces = {name: replace(piece, text=_text_of(piece, context)) for name, piece in pieces.items()}
        steps: list[RedactionStep] = []
        for item in (item for item in measurements if item.statistic in _ACTIONS):
            change = _sum(item.values) - (steps[-1].left_nats if steps else _sum(whole))
            steps.append(
                RedactionStep(
                    action=_ACTIONS[item.statistic],
                    name=item.piece,
                    kind=pieces[item.piece].kind,
                    text=pieces[item.piece].text,
                    **amounts(item.values),
                    change_nats=change,
                    raised=item.statistic == told.removed and change > noise_nats,
                )
            )
        cut = {step.name for step in steps} - {step.name for step in steps if step.action == _ACTIONS[told.put_back]}
        redacted = [piece for name, piece in pieces.items() if name in cut]
        ranges = merged(part for piece in redacted for part in piece.spans)
        disclosed = _disclosed(texts, series, cut) if params.get("disclosures") else None
        common = cls.of_context(texts, series, params, placebo_signed_nats, _of_search(params))
        is_within = limit is None or _sum(left) + (noise_nats if common["is_partly_read"] else 0.0) <= limit
        result = cls(
            **common,
            max_loss_nats=limit,
            reached=is_within and not (disclosed and disclosed.n_left),
            **amounts(left),
            left_per_token_nats=tuple(np.abs(left).tolist()),
            all_removed_nats=None if all_removed is None else _sum(all_removed),
            placebo_nats=None if placebo is None else _sum(placebo),
            placebo_signed_nats=placebo_signed_nats,
            n_pieces=len(texts["spans"]),
            redacted=tuple(sorted(redacted, key=lambda piece: (piece.start, piece.n_tokens))),
            redacted_share=share(context, ranges),
            redacted_documents=tuple(
                RedactedDocument(
                    name=document["name"], text=_left_of(context, ranges, document["start"], document["end"])
                )
                for document in texts["documents"]
            ),
            marked_context=marked(context, ranges),
            steps=tuple(steps),
            after=None
            if answered is None
            else RedactedAnswer(
                text=texts["responses"][1]["text"],
                tokens=tuple(texts["responses"][1]["tokens"]),
                seed=params["seed"],
                whole_nats=_sum(answered),
                whole_signed_nats=signed_sum(answered),
                whole_per_token_nats=tuple(np.abs(answered).tolist()),
                disclosures=of_answer(texts, series, cut),
            ),
            disclosed=disclosed,
        )
        return replace(result, warnings=(*result.warnings, *_warnings(result, texts), *entity_warnings(texts, series)))

    @property
    def text(self) -> str:
        """The context without the pieces; blank lines join the documents that are not empty."""
        return "\n\n".join(document.text for document in self.redacted_documents if document.text)

    def to_frame(self) -> pd.DataFrame:
        """One row a step: what was cut or put back, and the nats that were left then."""
        return frame_of(RedactionStep, self.steps)


def unmet(case: RedactionResult) -> str:
    if case.disclosed is not None and (n := case.disclosed.n_left):
        return f"{n:,} personal or secret disclosure{'s are' if n > 1 else ' is'} left"
    return f"more than {case.max_loss_nats:g} nats are left"


def _disclosed(texts: Texts, series: PieceSeries, cut: Collection[str]) -> RedactedDisclosures:
    told = RedactionStatistics
    by_tokens = {tokens_of(disclosure): disclosure for disclosure in before(texts, series)}
    left = {tokens_of(disclosure): disclosure for disclosure in after(texts, series, cut)}
    said = still_said(texts, ({**left, **by_tokens}).values(), cut)
    spans = []
    for tokens in sorted({**by_tokens, **left}):
        disclosure = by_tokens.get(tokens) or left[tokens]
        spans.append(
            RedactedDisclosure(
                **{field.name: getattr(disclosure, field.name) for field in fields(DisclosedSpan)},
                evidence=disclosure.evidence,
                pieces=tuple(source.piece for source in disclosure.sources),
                before_nats=float(series[0, told.whole, ""][slice(*tokens)].sum()),
                after_nats=float(series[0, told.left, ""][slice(*tokens)].sum()),
                floor_nats=disclosure.floor_nats,
                control_nats=disclosure.control_nats,
                is_left=tokens in left or tokens in said,
                left_as=tuple(dict.fromkeys(texts["context"][start:end] for start, end in said.get(tokens, ()))),
            )
        )
    rest = outside({**by_tokens, **left}, len(series[0, told.whole, ""]))
    return RedactedDisclosures(
        spans=tuple(spans),
        n_left=sum(span.is_left for span in spans),
        n_rest_tokens=int(rest.sum()),
        rest_change_nats=float((series[0, told.left, ""] - series[0, told.whole, ""])[rest].sum()),
    )


def _text_of(piece: ContextPiece, context: str) -> str:
    """The piece's text; of a value each form once."""
    forms = [context[start:end] for start, end in piece.spans]
    return " … ".join(forms if piece.kind == "unit" and piece.entity_type is None else dict.fromkeys(forms))


def _left_of(context: str, ranges: Iterable[tuple[int, int]], start: int, end: int) -> str:
    """A document of the context without some ranges; empty if only white space is left."""
    left = without_characters(context[start:end], [(first - start, last - start) for first, last in ranges])
    return left if left.strip() else ""


def _of_search(params: Params) -> Iterator[str]:
    if params.get("search") is not None:
        yield (
            f"In each step, only the {Search.parse(params['search']).k} pieces that a screen ranked first were "
            "scored; another piece may have left less. The remaining influence stated is exact."
        )


def _warnings(case: RedactionResult, texts: Texts) -> Iterator[str]:
    if case.disclosed is not None:
        for span in case.disclosed.spans:
            if span.is_left:
                nats = f"{span.after_nats:.3g} nats are left, above its floor of {span.least_nats:.3g}"
                shown = f"with all its sources cut, {nats}; " if span.after_nats > span.least_nats else ""
                how = f", as '{excerpt(span.left_as[0], 60)}'" if span.left_as else ""
                yield (
                    f"'{excerpt(span.text, 60)}' ({span.kind}) cannot be removed: {shown}text between the pieces says "
                    f"it, or a part of it{how}. Another --unit, such as sentence, covers all of the text."
                )
    if case.max_loss_nats is not None:
        yield from _of_limit(case, case.max_loss_nats)
    raised = [step.name for step in case.steps if step.raised]
    if raised and case.disclosed is None:
        yield (
            f"Cutting {', '.join(raised)} raised the loss: no other scored piece lowered it, and the limit could only "
            "be reached this way."
        )
    has_values = any(span["kind"] == "value" for span in texts["spans"])
    if any(span["repeats"] for span in texts["spans"]) and not has_values:
        yield (
            "Some pieces repeat the same value; cutting one has little effect until the others are cut as well. "
            "--group also offers each such value, with all its mentions, as one piece."
        )


def _of_limit(case: RedactionResult, max_loss_nats: float) -> Iterator[str]:
    limit, floor = f"{max_loss_nats:g}", case.noise_floor_nats
    if max_loss_nats <= floor:
        yield (
            f"A limit of {limit} nats is below this response's noise floor of {floor:.2g}, so whether it is met is "
            "chance. Give a larger --max-loss, or --dtype float32."
        )
    if not case.reached and case.all_removed_nats is not None and case.n_pieces:
        yield (
            f"With every piece cut, {case.all_removed_nats:.3g} nats are left: the text between the pieces leaks too "
            "much. Another --unit, such as sentence, covers all of the text."
        )
    if case.placebo_nats is not None and max_loss_nats < case.placebo_nats and case.steps:
        yield (
            f"Any text moves this response: irrelevant words as the only context, by {case.placebo_nats:.3g} nats. "
            f"A limit of {limit} is below that, and may not be met while any text is left. Look at the signed sums too."
        )


def _sum(values: FloatArray) -> float:
    return float(np.abs(values).sum())


def marked(context: str, ranges: Sequence[tuple[int, int]]) -> str:
    """The context with a mark for each range, and one for ranges that only white space separates."""
    out, cursor = "", 0
    for start, end in ranges:
        between = context[cursor:start]
        if not (out.endswith(MARK) and not between.strip()):
            out += between + MARK
        cursor = end
    return out + context[cursor:]


def share(context: str, ranges: Iterable[tuple[int, int]]) -> float:
    """Share of the characters within the ranges, not counting white space."""
    n = sum(len("".join(context[start:end].split())) for start, end in ranges)
    return n / max(1, len("".join(context.split())))
