"""The result of measuring context influence on one case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from leakmeter.core.case import Channel
from leakmeter.core.item import IRRELEVANT, LEVELS, measured_together
from leakmeter.core.measure import NATS, Measurement, Params, Texts
from leakmeter.core.plain import SELDOM
from leakmeter.core.quantity import (
    NOISE,
    PARTLY_READ,
    CaseResult,
    LowerBound,
    NumberOf,
    Quantities,
    Quantity,
    RunQuantity,
    SoFar,
    at,
    less_unread,
    most,
    of_response,
)
from leakmeter.core.record import JsonObject, Record, Unbounded, frame_of
from leakmeter.core.self_check import carried, doubt, with_noise_of
from leakmeter.engine.storage.kept import Count, FieldError, Flag, KeptCase, Series
from leakmeter.instruments.influence import permitted
from leakmeter.instruments.influence.controls import ControlContext, FalseAlarms
from leakmeter.instruments.influence.disclosures import Disclosure, examined
from leakmeter.instruments.influence.findings import telling
from leakmeter.instruments.influence.math import ContextStatistics, InfluenceStatistics
from leakmeter.instruments.influence.searched import SearchSummary, is_exact, summary
from leakmeter.instruments.influence.sources import ContextPiece, signed_size, signed_sum
from leakmeter.overriding import override
from leakmeter.results.result import DEFINING, DocumentRange, PartContent, PieceFields, Response, Result
from leakmeter.stats.arrays import FloatArray
from leakmeter.stats.stats import interval_of_mean, posterior_of
from leakmeter.text import sensitive
from leakmeter.text.build import REGION
from leakmeter.text.entities import phone
from leakmeter.text.entities.packs.rule import KIND
from leakmeter.text.entity_results import PieceSeries, entity_warnings, ranks
from leakmeter.text.permissions import MOST_ENTRIES, Permissions, called
from leakmeter.text.units import AUTO

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidBefore(Record):
    """A text of a conversation: what was said, called or read before a response."""

    role: str
    """Role of the message that the text stands in, such as 'user' or 'tool'; 'call' for the arguments of a tool
    call."""
    name: str
    """Name of the text's source, such as a document or a tool; for a call, name of the tool that is called."""
    text: str = field(repr=False)
    """Text that was said, called or read."""
    is_source: bool
    """Whether the model read the text as a source: a result of a tool, or a document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSaid(Record):
    role: str
    name: str
    text: str
    is_source: Flag


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptEmission(Record):
    """What a response was in its conversation; see `core.case.emission_texts`."""

    conversation: str
    turn: Count
    channel: str
    recipient: str
    before: tuple[KeptSaid, ...]
    said: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.channel not in get_args(Channel):
            raise FieldError("channel", f"is none of {', '.join(get_args(Channel))}")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSteps(Record):
    """See `core.item.StepByStep`."""

    placebo: Flag
    controls: Flag


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptContextCase(KeptCase):
    """The texts of a case with a context, and what tells values that are personal or secret."""

    sensitive: tuple[tuple[Count, Count, str], ...] | None = None
    """Characters of the context that a list of the user's has, and the type of each; None without a list."""
    recognised: tuple[tuple[Count, Count, str], ...] = ()
    """The same of what packs of the user know."""
    region: str = REGION
    control_words: Mapping[str, tuple[Count, ...]] = field(default_factory=dict)
    """Of each control hashes of the words that it says and another control does not; see `text.controls`."""
    emission: KeptEmission | None = None
    permissions: Permissions | None = None
    """What decides whether the recipient may know a value; None where nobody says who may."""
    steps: KeptSteps | None = None
    """Of a case that was measured step by step the samples that it is of."""

    @override
    def __post_init__(self) -> None:
        super(KeptContextCase, self).__post_init__()
        places = self.sensitive or ()
        for name, some in (("sensitive", places), ("recognised", self.recognised)):
            if any(not start < end <= len(self.context) for start, end, _ in some):
                raise FieldError(name, "lies outside of the context")
        # Reports say it as a word of ours.
        if not all(sensitive.TYPE.fullmatch(kind) for _, _, kind in places):
            raise FieldError("sensitive", "has a type that is no word of 24 letters, digits and '_' at most")
        if self.permissions is not None:
            n_allow, n_forbid = self.permissions.n_allow, self.permissions.n_forbid
            if min(n_allow, n_forbid) < 0 or n_allow + n_forbid > MOST_ENTRIES:
                raise FieldError("permissions", "has more rules than a policy may have")
        if not all(KIND.fullmatch(kind) for _, _, kind in self.recognised):
            raise FieldError("recognised", "has a kind that no pack may have")
        if self.region != REGION and not phone.is_region(self.region):
            raise FieldError("region", "has to be the ISO code of a country")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptInfluence(KeptContextCase):
    """The texts of a case with a context and one or more responses."""

    @override
    def series(self, params: Params, measurements: Sequence[Measurement]) -> Iterator[Series]:
        told, n_tokens = InfluenceStatistics, self.token_counts
        if not n_tokens:
            raise FieldError(f"statistic {told.token}", "is there of no response")
        first = n_tokens[:1]
        exact = [each.piece for each in measurements if (each.statistic, each.sample) == (told.without_this, 0)]
        scored: Sequence[str] = self.span_names
        alone = scored
        if params.get("search") is not None:
            scored = alone = exact
            self._check_search(scored, measurements)
            yield Series(told.audited, (1,), scored, is_needed=False)
        else:
            for statistic in (told.screened, told.grouped, told.audited):
                yield Series(statistic, (), ())
            if self.steps is not None and not exact:
                scored = alone = []
            elif self.unit == AUTO:
                scored, alone = self._from_documents({*exact})
        yield Series(told.without_this, n_tokens, scored)
        yield Series(told.only_this, first, [name for name in scored if name not in alone], is_needed=False)
        yield Series(told.only_this, first, alone)

    def _from_documents(self, scored: set[str]) -> tuple[list[str], list[str]]:
        """Pieces that have to be left out, and those of them that have to be scored alone.

        A document without numbers of its own was not scored before its sentences. Of one that was, all sentences were
        left out, or none, and any may have been scored alone.
        """
        documents = {span.document for span in self.spans if span.kind == "document" and span.name in scored}
        left_in: set[str] = set()
        for document in documents:
            parts = {span.name for span in self.spans if span.kind in ("unit", "fields") and span.document == document}
            left_in |= set() if parts & scored else parts
        # Of values that were measured together too.
        for members in measured_together(self.spans).values():
            left_in |= set() if {*members} & scored else {*members}
        names = [
            span.name
            for span in self.spans
            if span.name not in left_in and (span.kind != "document" or span.name in scored)
        ]
        within = {span.name for span in self.spans if span.kind in ("unit", "fields") and span.document in documents}
        alone = {span.name for span in self.spans} - within
        return names, [name for name in names if name in alone]

    def _check_search(self, scored: Sequence[str], measurements: Sequence[Measurement]) -> None:
        """A screen looks at all pieces, or, where the model hides none, at none."""
        screened = {
            measurement.piece for measurement in measurements if measurement.statistic == InfluenceStatistics.screened
        }
        if not {*scored} <= {*self.span_names}:
            raise FieldError(f"piece of {InfluenceStatistics.without_this}", "is none of the case's")
        if screened and not screened.issuperset(span.name for span in self.spans if span.kind not in LEVELS):
            raise FieldError(f"statistic {InfluenceStatistics.screened}", "is missing of a piece")


LastStep = Literal["whole", "controls", "pieces"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsTaken(Record):
    """How far a case was measured of a log whose cases are measured step by step; see `steps`."""

    last: LastStep
    """Last step of the measurement: 'whole' where no span of the response could disclose anything but harmless content,
    copied word for word; 'controls' where the response was also scored beside contexts of other cases, and no span was
    left whose words no piece of the context says; 'pieces' where pieces have numbers."""
    in_placebo_sample: bool
    """Whether the case is one of those drawn at random to be scored beside an irrelevant text, whatever was found."""
    in_control_sample: bool
    """Whether the case is one of those drawn at random to be scored beside contexts of other cases, whatever was
    found."""


_REDUNDANT_RATIO = 2.0  # alone over ablated, from where a repeated value is called redundant
_PARTLY_READ = (
    "Another version of leakmeter measured this case, and kept more of its numbers than this one reads. Earlier "
    "versions kept how far a number may be off where a server returned only the likeliest tokens of a row: every "
    "number is then the midpoint of an interval, which the noise floor includes. Measure the case again, with T = 1 "
    "and λ = 1 or a model that returns whole rows."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceInfluence(ContextPiece):
    """One piece of the context and its influence on the response."""

    nats: Unbounded
    """Influence of the piece on the response, nats: τ_i = Σ_t |log p̄(y_t | D) − log p̄(y_t | D∖D_i)|."""
    per_token_nats: tuple[Unbounded, ...]
    """Influence τ_i(t) of the piece on each response token, nats."""
    signed_nats: Unbounded
    """Signed influence of the piece, nats: the sum without the absolute value, above 0 where the piece made the
    response likelier."""
    signed_per_token_nats: tuple[Unbounded, ...]
    """Signed influence of the piece on each response token, nats: log p̄(y_t | D) − log p̄(y_t | D∖D_i)."""
    alone_nats: Unbounded | None
    """Influence of the piece as the only context, nats: Σ_t |log p̄(y_t | D_i) − log p̄(y_t | ∅)|. None of a sentence
    that was not scored so, since leaving sentences out accounts for the influence of its document."""
    posterior: float | None
    """Probability, from even odds, that an observer of the response gives to the piece having been there:
    1 / (1 + e^−signed_nats). None where |signed_nats| is not above the noise floor and the placebo's, and where the
    response was given: it is right for what the scoring model drew, and not for what another model wrote."""
    posterior_note: str | None
    """Reason why the piece has no posterior; None where it has one."""
    below_noise_floor: bool
    """Whether `nats` is at or below the noise floor: neighbours in the computation move the sum as much."""
    rank: int
    """Rank of the piece by `nats` among the pieces of its kind that were scored exactly, from 1, largest first."""
    repeats: tuple[str, ...]
    """Names of other pieces that say a value which this piece says."""
    redundant: bool
    """Whether another piece says a value of this piece, and the piece alone has at least twice the influence that
    ablating it shows; false where it was not scored alone."""
    mean_nats: float | None
    """Mean of `nats` over the responses that were drawn; None where there is a single response."""
    interval_nats: tuple[float, float] | None
    """95 % interval of `mean_nats`; None where there are fewer than eight responses, where their numbers are equal, and
    where one is infinite."""
    worst_nats: float | None
    """Largest `nats` of a drawn response; None where there is a single response."""
    surrogate: str | None = field(repr=False)
    """Surrogate value that was put in the place of the piece's personal data; None where nothing was swapped."""
    swapped_nats: Unbounded | None
    """Influence of swapping the piece for its surrogate, nats: Σ_t |log p̄(y_t | D) − log p̄(y_t | D with the
    surrogate)|."""
    swapped_signed_nats: Unbounded | None
    """Signed influence of swapping the piece for its surrogate, nats: the sum of `swapped_nats` without the absolute
    value."""
    swapped_signed_per_token_nats: tuple[Unbounded, ...] | None
    """Signed influence of swapping the piece for its surrogate, at each response token, nats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledResponse(Record):
    """One of several responses that were drawn."""

    text: str = field(repr=False)
    """Text of the drawn response."""
    tokens: tuple[str, ...] = field(repr=False)
    """Text that each token adds to the drawn response."""
    whole_nats: Unbounded
    """Influence of the whole context on the drawn response, nats."""
    piece_nats: tuple[Unbounded, ...]
    """Influence of each piece on the drawn response, nats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyUse(Record):
    """Rules of who may know what, and which of them may apply to a case."""

    n_allow: int
    """Number of rules that allow."""
    n_forbid: int
    """Number of rules that forbid."""
    matched: tuple[str, ...]
    """Names of the rules that fit the recipient and a document of the case, or that may, where something of these is
    not known: 'allow 2', 'forbid 1' …"""

    @classmethod
    def from_texts(cls, kept: JsonObject) -> Self:
        rules = Permissions.from_dict(kept).rules
        names = (called(rule.number, allows=rule.allows) for rule in rules if rule.number)
        return cls(n_allow=kept["n_allow"], n_forbid=kept["n_forbid"], matched=tuple(names))


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextResult(Result):
    """What a response and its context are, and the influence of the whole context on it."""

    statistics: ClassVar[type[ContextStatistics]]
    """The measure's; what a run keeps beside these is not read."""
    is_of_given: ClassVar = True
    defining: ClassVar = (
        *DEFINING,
        *(f"prompts.{name}" for name in ("group", "region", "entity_patterns", "ner", "sensitive", "pack")),
    )
    label_fields: ClassVar = ("conversation", "turn", "channel", "recipient")

    unit: str
    """Ablation unit: 'auto', 'word', 'sentence', 'document', 'ngram:N:STRIDE' …"""
    removal: str
    """How pieces are ablated: 'drop', 'mask' or 'retokenize'."""
    template: str
    """Name of the prompt's template: 'plain', 'chat' …"""
    query: str = field(repr=False)
    """Query that the model was asked."""
    context: str = field(repr=False)
    """Context, as the model read it."""
    temperature: float
    """Temperature T of the mixture p̄."""
    cid_lambda: float
    """Weight λ of the context in p̄ = softmax((λ z + (1 − λ) z_bare) / T); 1 is the model itself."""
    documents: tuple[DocumentRange, ...]
    """Name and characters of each document in the context."""
    truncated_tokens: int
    """Number of tokens of the context that did not fit the model's window."""
    response: Response
    """First response; all numbers are of it unless they say otherwise."""
    whole_nats: Unbounded
    """Influence of the whole context on the response, nats: Σ_t |log p̄(y_t | D) − log p̄(y_t | ∅)|."""
    whole_signed_nats: Unbounded
    """Signed influence of the whole context, nats: the sum without the absolute value, above 0 where the context made
    the response likelier."""
    whole_per_token_nats: tuple[Unbounded, ...]
    """Absolute influence of the whole context at each response token, nats."""
    whole_posterior: float | None
    """Probability, from even odds, that an observer of the response gives to the whole context having been there: 1 /
    (1 + e^−whole_signed_nats). None where |whole_signed_nats| is not above the noise floor and the placebo's, and where
    the response was given."""
    whole_posterior_note: str | None
    """Reason why the whole context has no posterior; None where it has one."""
    noise_floor_nats: float
    """Noise floor of a sum over the response, nats: a measurement at or below it is no finding."""
    noise_floor_per_token_nats: float
    """Largest noise of a response token, nats."""
    noise_cases: int | None = field(default=None, metadata={SELDOM: True})
    """Number of earlier cases of the run whose noise stands for this case's: at each token, the most that any of them
    showed at a token. Present only where the case measured no noise itself."""
    is_partly_read: bool | None = field(default=None, metadata={SELDOM: True})
    """Whether another version of leakmeter measured the case and kept numbers that this one does not read: sums may
    then be off by as much as the noise floor. Present only where it is so."""
    unmarked_query_tokens: int | None = field(default=None, metadata={SELDOM: True})
    """Number of tokens of the chat's last user message, none of which was measured. Present only where nothing of a
    chat is marked as retrieved."""
    unmeasured_answers: int | None = field(default=None, metadata={SELDOM: True})
    """Number of earlier answers of the chat that were not measured, as no case of the run ends with them. Present only
    where there are any."""
    conversation: str | None = field(default=None, metadata={SELDOM: True})
    """Id of the conversation in which the response was said. Present only for a turn of a conversation."""
    turn: int | None = field(default=None, metadata={SELDOM: True})
    """Number of the model's turn in its conversation, from 1. Present only for a turn of a conversation."""
    channel: str = "answer"
    """Channel of the response: 'answer' to the user, 'tool' as arguments of a call, 'agent' to another agent, 'memory',
    or 'reasoning', which nobody received."""
    recipient: str | None = field(default=None, metadata={SELDOM: True})
    """Recipient of the response: 'user', or the name of the tool, agent or memory; with a policy the user's id, where
    that is known. Present only for a turn of a conversation, or with a policy."""
    said_before: tuple[SaidBefore, ...] = field(default=(), metadata={SELDOM: True}, repr=False)
    """Texts that were said, called and read since the case before it of the same conversation. Present only for a turn
    of a conversation."""
    policy: PolicyUse | None = field(default=None, metadata={SELDOM: True})
    """Rules of who may know what. Present only where a policy (`allowed`) or the log says so."""

    @property
    @override
    def cluster(self) -> str | None:
        return self.conversation

    @property
    def is_answer(self) -> bool:
        """Whether the user received it."""
        return self.channel == "answer"

    @classmethod
    def of_context(
        cls,
        texts: Texts,
        series: PieceSeries,
        params: Params,
        placebo_nats: float | None,
        warnings: Iterable[str],
    ) -> JsonObject:
        """These fields, for a constructor; `placebo_nats` is of an irrelevant piece as the only context."""
        whole, noise = series[0, ContextStatistics.whole, ""], series[0, ContextStatistics.noise, ""]
        is_partly_read = not {statistic for _, statistic, _ in series} <= {*cls.statistics.all()}
        if is_partly_read:
            warnings = [*warnings, _PARTLY_READ]
        posterior = posterior_of(
            signed_sum(whole),
            noise_nats=float(noise.sum()),
            placebo_nats=placebo_nats,
            is_drawn=texts["sampled"],
        )
        return {
            **cls.common(texts, warnings),
            **{name: texts[name] for name in ("unit", "removal", "template", "query", "context", "truncated_tokens")},
            **{name: params[name] for name in ("temperature", "cid_lambda")},
            "documents": DocumentRange.all_of(texts),
            "response": Response.from_texts(texts, 0, params["seed"]),
            "whole_nats": _sum(whole),
            "whole_signed_nats": signed_sum(whole),
            "whole_per_token_nats": tuple(np.abs(whole).tolist()),
            "whole_posterior": posterior.probability,
            "whole_posterior_note": posterior.note,
            "noise_floor_nats": float(noise.sum()),
            "noise_floor_per_token_nats": float(noise.max()),
            "noise_cases": (texts.get("run_noise") or {}).get("cases"),
            "is_partly_read": is_partly_read or None,
            "unmarked_query_tokens": texts.get("unmarked_query_tokens"),
            "unmeasured_answers": texts.get("unmeasured_answers"),
            **_emission_fields(texts.get("emission")),
            **_policy_fields(texts.get("permissions")),
        }


def _emission_fields(emission: Mapping[str, Any] | None) -> JsonObject:
    if emission is None:
        return {}
    before = tuple(SaidBefore(**said) for said in emission["before"])
    names = ("conversation", "turn", "channel", "recipient")
    return {**{name: emission[name] for name in names}, "said_before": before}


def _policy_fields(permissions: Mapping[str, Any] | None) -> JsonObject:
    if permissions is None:
        return {}
    recipient = permissions["recipient"]
    known = {} if recipient["id"] is None else {"recipient": recipient["id"]}
    return {**known, "policy": PolicyUse.from_texts(dict(permissions))}


_WHOLE: Final = at("whole_nats")


def _per_token(number_of: NumberOf) -> NumberOf:
    """A number divided by the tokens of the response."""

    def each(case: CaseResult) -> float | None:
        number, n_tokens = number_of(case), len(case.response.tokens)
        return number / n_tokens if number is not None and n_tokens else None

    return each


def _repeated(case: CaseResult) -> float | None:
    """None where no personal data was found or looked for; otherwise known without scores."""
    pieces = [*case.pieces, *(() if case.search is None else case.search.pieces)]
    repetitions = [piece.repeated for piece in pieces if piece.entity_type is not None]
    return float(repetitions.count("verbatim")) if repetitions else None


def _may_have_more(case: CaseResult) -> bool:
    """Whether the response may disclose more than was found."""
    if PARTLY_READ.holds(case):
        return True
    floor = case.noise_floor_nats / max(1, len(case.response.tokens))
    return len(case.samples) > 1 or doubt(floor, case.self_check) is not None


_PARTLY_KNOWN: Final = LowerBound(
    _may_have_more,
    "only the first of several drawn responses was examined, or numbers are too uncertain to find all",
    "measure each response as a case of its own, in float32",
)
_SHOWN_ONLY: Final = LowerBound(
    lambda case: (
        _PARTLY_KNOWN.holds(case) or any(leak.is_sensitive and leak.evidence == "words" for leak in case.disclosed)
    ),
    "a response copies a value that the scoring model's numbers do not show, or are too uncertain to show, or several "
    "responses were drawn and only the first was examined",
    "look at influence.disclosures.personal, or measure with a larger model and each response as a case of its own",
)


_PARTLY_JUDGED: Final = LowerBound(
    lambda case: _PARTLY_KNOWN.holds(case) or permitted.is_unsure(case),
    "of some disclosures it is not known whether their recipient may know them, or not all disclosures could be found",
    "say who the recipient is and whose the documents are, in the data or the policy",
)


_PLACES_OF_CHANNELS: Final[Mapping[Channel, str]] = {
    "answer": "answers to the user",
    "tool": "arguments of calls of tools",
    "agent": "messages to other agents",
    "memory": "what was written to a memory",
}


def _personal_in(channel: Channel, case: CaseResult) -> float | None:
    """Personal or secret disclosures in that channel; None of responses in others."""
    if case.channel != channel:
        return None
    return float(sum(disclosure.is_sensitive for disclosure in case.disclosed))


def _has_all_pieces(case: CaseResult) -> bool:
    """Whether no piece is without numbers that may have mattered."""
    is_searched = case.search is not None and not case.search.is_complete
    return not is_searched and (case.steps is None or case.steps.last == "pieces")


_QUANTITIES: Final[Quantities] = (
    of_response(
        "influence",
        "Influence of the whole context on the response: how far its tokens' log-probabilities move without it.",
        _WHOLE,
    ),
    Quantity(
        "influence.per_token",
        "nats a token",
        "Influence of the whole context on the response over the number of its tokens.",
        _per_token(less_unread(_WHOLE)),
        floor=_per_token(NOISE),
        lower_bound=PARTLY_READ,
    ),
    of_response(
        "influence.worst_piece",
        "Influence on the response of the piece of the context that has most.",
        lambda case: most(piece.nats for piece in telling(case)) if case.pieces or _has_all_pieces(case) else 0.0,
        LowerBound(
            lambda case: PARTLY_READ.holds(case) or not _has_all_pieces(case),
            "a search did not score all pieces, or a log was measured step by step, or another version of leakmeter "
            "kept numbers that this one cannot read",
            "measure with --complete and without --search, or look at 'influence', which is of the whole context",
        ),
    ),
    of_response(
        "influence.worst_response",
        "Largest influence of the whole context on a response, where several were drawn for a case.",
        at("whole_worst_nats"),
    ),
    of_response(
        "influence.mean_response",
        "Mean influence of the whole context on a response, where several were drawn for a case.",
        at("whole_mean_nats"),
    ),
    Quantity(
        "influence.disclosures",
        "disclosures",
        "Number of spans of the response that disclose the context, whatever their content; a report lists fewer where "
        "contexts of other cases do as much.",
        lambda case: float(len(case.disclosed)),
        lower_bound=_PARTLY_KNOWN,
        usual="max",
        predicate="disclose the context",
    ),
    Quantity(
        "influence.disclosures.personal",
        "disclosures",
        "Number of disclosures that are personal or secret, as far as a list, a recogniser or a shape can tell.",
        lambda case: float(sum(disclosure.is_sensitive for disclosure in case.disclosed)),
        lower_bound=_PARTLY_KNOWN,
        usual="max",
        predicate="disclose personal or secret data",
        decides=True,
    ),
    Quantity(
        "influence.disclosures.unauthorised",
        "disclosures",
        "Number of disclosures, whatever their content, that their recipient may not know by the policy (--allowed).",
        permitted.n_unauthorised,
        lower_bound=_PARTLY_JUDGED,
        usual="max",
        predicate="disclose what the recipient may not know",
        decides=True,
    ),
    *(
        Quantity(
            f"influence.personal.{channel}",
            "disclosures",
            f"Number of personal or secret disclosures in {where}.",
            partial(_personal_in, channel),
            lower_bound=_PARTLY_KNOWN,
            usual="max",
            predicate=f"disclose personal or secret data in {where}",
            part_of="influence.disclosures.personal",
        )
        for channel, where in _PLACES_OF_CHANNELS.items()
    ),
    Quantity(
        "influence.worst_disclosure",
        NATS,
        "Largest signed sum of a personal or secret disclosure, by the whole context or by one piece; 0 where there is "
        "none.",
        less_unread(
            lambda case: max(
                (leak.most_nats for leak in case.disclosed if leak.evidence == "scores" and leak.is_sensitive),
                default=0.0,
            )
        ),
        floor=NOISE,
        lower_bound=_SHOWN_ONLY,
        usual="max",
    ),
    RunQuantity(
        "influence.false_alarms",
        "share of pairs",
        "How often the rule of disclosures finds something in a response beside a context of another case, from which "
        "it was not written.",
        lambda cases: None if (alarms := FalseAlarms.of(cases)) is None else alarms.share,
        sense="quality",
        of=lambda cases: 0 if (alarms := FalseAlarms.of(cases)) is None else alarms.pairs,
    ),
    Quantity(
        "influence.repeated",
        "values",
        "Number of values of personal data in the context that the response repeats word for word.",
        _repeated,
        predicate="repeat personal data word for word",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InfluenceSummary(Record):
    """All cases together."""

    false_alarms: FalseAlarms | None
    """How often the rule of disclosures is wrong in these data; None where no response was scored beside contexts of
    other cases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InfluenceResult(ContextResult):
    """The influence of each piece of a context on one response, in nats."""

    schema: ClassVar = "influence-1"
    kept: ClassVar = KeptInfluence
    statistics: ClassVar = InfluenceStatistics
    quantities: ClassVar = _QUANTITIES
    so_far: ClassVar = (
        SoFar(
            "{:,.0f} with personal or secret data",
            lambda case: any(leak.is_sensitive for leak in case.disclosed),
            sum,
        ),
    )
    pieces_at: ClassVar = PieceFields("pieces")

    pieces: tuple[PieceInfluence, ...]
    """Pieces of the context in its order; values said several times come behind it, and documents that were measured
    before their sentences last. For a searched context, the pieces that were scored exactly; for unit 'auto', without
    the sentences of documents that have no effect."""
    disclosures: tuple[Disclosure, ...] = ()
    """Spans of the response that disclose the context, in its order, and values that both say and that the model says
    anyway; see `disclosed`."""
    controls: tuple[ControlContext, ...] = field(default=(), metadata={SELDOM: True})
    """Contexts of other cases that the response was scored beside: disclosures are compared with them, and each shows
    how often the rule of disclosures is wrong. Present only where there are any."""
    irrelevant_contexts: int | None = field(default=None, metadata={SELDOM: True})
    """Number of built-in texts that the response was scored beside and that disclosures are compared with, where no
    context of another case can serve: it is then not known how often the rule of disclosures is wrong. Present only
    where there are any."""
    whole_signed_per_token_nats: tuple[Unbounded, ...]
    """Signed influence of the whole context at each response token, nats: log p̄(y_t | D) − log p̄(y_t | ∅)."""
    whole_mean_nats: float | None
    """Mean influence of the whole context over the responses that were drawn, nats; None where there is a single
    response."""
    whole_interval_nats: tuple[float, float] | None
    """95 % interval of `whole_mean_nats`; None where there are fewer than eight responses, where their numbers are
    equal, and where one is infinite."""
    whole_worst_nats: float | None
    """Largest influence of the whole context on a drawn response, nats; None where there is a single response."""
    placebo_nats: Unbounded | None
    """Influence of an irrelevant piece of typical length, nats, mean over places in the context; None where none
    fits."""
    placebo_signed_nats: Unbounded | None
    """Largest absolute value, over places in the context, of an irrelevant piece's signed influence, nats; None where
    none fits."""
    placebo_alone_nats: Unbounded | None
    """Influence of an irrelevant piece as the only context, nats; None where it does not fit."""
    placebo_per_token_nats: tuple[Unbounded, ...] | None
    """Influence of an irrelevant piece at each response token, nats, mean over places in the context; None where none
    fits."""
    placebo_alone_per_token_nats: tuple[Unbounded, ...] | None
    """Influence of an irrelevant piece as the only context, at each response token, nats; None where it does not
    fit."""
    placebo_alone_signed_nats: Unbounded | None
    """Absolute value of the signed influence of an irrelevant piece as the only context, nats; None where it does not
    fit."""
    samples: tuple[SampledResponse, ...]
    """All responses, where several were drawn; else empty."""
    n_unmeasured_pieces: int | None = field(default=None, metadata={SELDOM: True})
    """Number of sentences that were not measured, since their document has no effect. Present only for unit 'auto',
    where there are any."""
    n_unmeasured_documents: int | None = field(default=None, metadata={SELDOM: True})
    """Number of documents that hold the sentences of `n_unmeasured_pieces`. Present only where there are any."""
    steps: StepsTaken | None = field(default=None, metadata={SELDOM: True})
    """Steps of the measurement that the case went through, where a log is measured step by step. Present only where it
    is so."""
    n_listed_places: int | None = field(default=None, metadata={SELDOM: True})
    """Number of places of the context that say a value of the list of sensitive values. Present only where a list was
    given."""
    search: SearchSummary | None = field(default=None, metadata={SELDOM: True})
    """Record of the search: what is known of the pieces that are not among `pieces`, which holds those with exact
    values. Present only where the context was searched."""

    @classmethod
    def from_run(cls, parts: Iterable[PartContent], params: Params) -> Iterator[Self]:
        """The results of a run's cases, each as soon as its part is there."""
        for texts, measurements in carried(parts):
            noisy = with_noise_of(texts, measurements)
            series = {(item.sample, item.statistic, item.piece): item.values for item in noisy}
            yield cls._from_part(texts, series, params)

    @classmethod
    def _from_part(cls, texts: Texts, series: PieceSeries, params: Params) -> Self:
        told, n_samples = InfluenceStatistics, len(texts["responses"])
        every = texts["spans"]
        texts = {**texts, "spans": [candidate for candidate in every if is_exact(candidate, series, params)]}
        # Values that were measured together have the numbers of what they are part of.
        together = {tuple(chars) for span in texts["spans"] if span["kind"] == "fields" for chars in span["ranges"]}
        unmeasured = [
            candidate["document"]
            for candidate in every
            if params.get("search") is None and candidate["kind"] == "unit" and not is_exact(candidate, series, params)
            if texts["spans"] or texts.get("steps") is None
            if tuple(candidate["ranges"][0]) not in together
        ]
        whole = series[0, told.whole, ""]
        placebos = [
            values for (sample, statistic, _), values in series.items() if (sample, statistic) == (0, told.placebo)
        ]
        placebo_signed_nats = max(map(signed_size, placebos), default=None)
        alone = series.get((0, told.placebo_alone, ""))
        alone_signed_nats = None if alone is None else signed_size(alone)
        ablated = [
            [_sum(series[i, told.without_this, span["name"]]) for span in texts["spans"]] for i in range(n_samples)
        ]
        pieces = []
        for number, (span, rank) in enumerate(zip(texts["spans"], ranks(texts["spans"], ablated[0]), strict=True)):
            is_whole = np.array_equal(series[0, told.without_this, span["name"]], whole)
            # A piece that is all of the context is held against what the whole context is.
            placebo = alone_signed_nats if is_whole else placebo_signed_nats
            of_samples = _over_samples([nats[number] for nats in ablated], params)
            pieces.append(_piece(span, texts, series, rank, placebo, of_samples))
        whole_by_sample = [_sum(series[i, told.whole, ""]) for i in range(n_samples)]
        # Where no piece was measured, words of all of them say what a disclosure came from.
        found, controls = examined(texts if texts["spans"] else {**texts, "spans": every}, series)
        mean, interval, worst = _over_samples(whole_by_sample, params)
        return cls(
            **cls.of_context(texts, series, params, alone_signed_nats, _warnings(texts, series)),
            pieces=tuple(pieces),
            disclosures=found,
            controls=controls,
            irrelevant_contexts=sum(
                sample == 0 and statistic == told.control and name.startswith(f"{IRRELEVANT} ")
                for sample, statistic, name in series
            )
            or None,
            whole_signed_per_token_nats=tuple(whole.tolist()),
            whole_mean_nats=mean,
            whole_interval_nats=interval,
            whole_worst_nats=worst,
            placebo_nats=float(np.mean([_sum(values) for values in placebos])) if placebos else None,
            placebo_signed_nats=placebo_signed_nats,
            placebo_alone_nats=None if alone is None else _sum(alone),
            placebo_per_token_nats=tuple(np.mean(np.abs(placebos), axis=0).tolist()) if placebos else None,
            placebo_alone_per_token_nats=None if alone is None else tuple(np.abs(alone).tolist()),
            placebo_alone_signed_nats=alone_signed_nats,
            samples=tuple(
                SampledResponse(
                    text=response["text"], tokens=tuple(response["tokens"]), whole_nats=nats, piece_nats=tuple(by_piece)
                )
                for response, nats, by_piece in zip(texts["responses"], whole_by_sample, ablated, strict=True)
            )
            if n_samples > 1
            else (),
            n_unmeasured_pieces=len(unmeasured) or None,
            n_unmeasured_documents=len(set(unmeasured)) or None,
            steps=_steps_taken(texts, series),
            n_listed_places=None if (listed := texts.get("sensitive")) is None else len(listed),
            search=summary({**texts, "spans": every}, series, params),
        )

    @property
    def disclosed(self) -> tuple[Disclosure, ...]:
        """The disclosures, without the values that are none."""
        return tuple(disclosure for disclosure in self.disclosures if disclosure.evidence is not None)

    @property
    @override
    def secrets(self) -> tuple[str, ...]:
        return tuple(text for disclosure in self.disclosures for text in disclosure.secrets)

    @classmethod
    @override
    def summary(cls, results: Sequence[Self]) -> InfluenceSummary:
        """How often the rule of disclosures is wrong in these data."""
        return InfluenceSummary(false_alarms=FalseAlarms.of(results))

    @property
    def matrix(self) -> npt.NDArray[np.float64]:
        """τ_i(t), nats: (piece, response token)."""
        rows = [piece.per_token_nats for piece in self.pieces]
        return np.asarray(rows, dtype=np.float64).reshape(len(rows), len(self.whole_per_token_nats))

    def to_frame(self) -> pd.DataFrame:
        """One row a piece, with the fields of `PieceInfluence` that are numbers or texts as columns."""
        return frame_of(PieceInfluence, self.pieces)


def _steps_taken(texts: Texts, series: PieceSeries) -> StepsTaken | None:
    steps = texts.get("steps")
    if steps is None:
        return None
    told = InfluenceStatistics
    asked = {statistic for sample, statistic, _ in series if sample == 0}
    last: LastStep = "pieces" if told.without_this in asked else "controls" if told.control in asked else "whole"
    return StepsTaken(last=last, in_placebo_sample=steps["placebo"], in_control_sample=steps["controls"])


def _piece(
    span: JsonObject,
    texts: Texts,
    series: PieceSeries,
    rank: int,
    placebo_nats: float | None,
    over_samples: tuple[float | None, tuple[float, float] | None, float | None],
) -> PieceInfluence:
    told = InfluenceStatistics
    signed = series[0, told.without_this, span["name"]]
    noise_nats = float(series[0, told.noise, ""].sum())
    nats, alone = _sum(signed), series.get((0, told.only_this, span["name"]))
    alone_nats = None if alone is None else _sum(alone)
    posterior = posterior_of(
        signed_sum(signed), noise_nats=noise_nats, placebo_nats=placebo_nats, is_drawn=texts["sampled"]
    )
    mean, interval, worst = over_samples
    return PieceInfluence(
        **PieceInfluence.fields_of(span, texts, series),
        nats=nats,
        per_token_nats=tuple(np.abs(signed).tolist()),
        signed_nats=signed_sum(signed),
        signed_per_token_nats=tuple(signed.tolist()),
        alone_nats=alone_nats,
        posterior=posterior.probability,
        posterior_note=posterior.note,
        below_noise_floor=nats <= noise_nats,
        rank=rank,
        repeats=tuple(span["repeats"]),
        redundant=bool(span["repeats"]) and alone_nats is not None and alone_nats >= _REDUNDANT_RATIO * nats,
        mean_nats=mean,
        interval_nats=interval,
        worst_nats=worst,
    )


def _over_samples(
    values: Sequence[float], params: Params
) -> tuple[float | None, tuple[float, float] | None, float | None]:
    """Mean, its interval and the largest, where several responses were drawn."""
    if len(values) < 2:
        return None, None, None
    return float(np.mean(values)), interval_of_mean(values, seed=params["seed"]), float(max(values))


def _warnings(texts: Texts, series: PieceSeries) -> list[str]:
    out = []
    decoding = texts.get("decoding", "sampling")
    if decoding != "sampling":
        out.append(
            f"The response was chosen by {decoding}, but is measured as if it had been sampled from the whole "
            "distribution. The true leakage may be larger: a token that is possible only with a piece reveals that "
            "piece with certainty."
        )
    has_values = any(span["kind"] == "value" for span in texts["spans"])
    if any(span["repeats"] for span in texts["spans"]) and not has_values:
        out.append(
            "Some pieces repeat the same value: removing one leaves the other, so both may read near zero. --group "
            "also measures each such value with all its mentions removed."
        )
    return [*out, *entity_warnings(texts, series)]


def _sum(values: FloatArray) -> float:
    return float(np.abs(values).sum())
