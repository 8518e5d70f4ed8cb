"""The result of decoding: a response, its ledger (the privacy loss of each token), and what may be published of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Final, Self

import numpy as np

from leakmeter.core.measure import NATS, RESPONSE, Measurement, Params, Statistic, Texts
from leakmeter.core.plain import SELDOM
from leakmeter.core.quantity import Quantities, Quantity, SoFar, at, most
from leakmeter.core.record import Record, Unbounded
from leakmeter.core.self_check import carried
from leakmeter.engine.storage.kept import FieldError, KeptCase, Series
from leakmeter.errors import UsageError
from leakmeter.instruments.decoding.measure import DELTA, DecodingStatistics
from leakmeter.overriding import override
from leakmeter.privacy import accounting
from leakmeter.privacy.draws import draws_of
from leakmeter.results.result import AnyResult, DocumentRange, PartContent, Response, Result
from leakmeter.stats.arrays import FloatArray

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptDecoding(KeptCase):
    """The texts of a case and of the responses that were decoded."""

    @override
    def series(self, params: Params, measurements: Sequence[Measurement]) -> Iterator[Series]:
        if not self.responses:
            raise FieldError(f"statistic {RESPONSE}", "is there of no response")
        for statistic in (DecodingStatistics.spent_epsilon, DecodingStatistics.promised_epsilon):
            yield Series(statistic, self.token_counts, is_needed=params["epsilon"] is not None)


_PUBLIC_DECIMALS: Final = 3  # float32 noise of about 1e-5 nats depends on what was computed beside, so on D
_COMPOSED_AT_MOST_NATS: Final = 1000.0  # composing distributions takes seconds there, and says nothing anybody wants
ResponseSeries = Mapping[tuple[int, str], FloatArray]
"""By (sample, statistic)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition(Record):
    """Bound on what several tokens tell together."""

    n_tokens: int
    """Number of tokens of the response or responses, which basic composition counts."""
    n_tokens_max: int
    """Largest number of tokens that there could have been, which the compositions with δ count."""
    basic_nats: float
    """Bound by basic composition, nats: n ε."""
    pld_nats: float | None
    """Bound by composition of privacy loss distributions, with δ, nats; None where it was not computed."""
    rdp_nats: float | None
    """Bound by composition of Rényi divergences, with δ, nats; None where it was not computed."""
    delta: float
    """δ of `pld_nats` and `rdp_nats`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session(Composition):
    """All responses of a run, which are taken to be about one context."""

    n_responses: int
    """Number of responses of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingDraws(Record):
    """How tokens were drawn."""

    random_bits: str
    """Source of the random bits that tokens are drawn with: 'operating system' or 'seed'."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseGuarantee(Record):
    """What is guaranteed of a bounded response."""

    epsilon_nats: float
    """Bound ε on each token between any two contexts, nats."""
    lambda_max: float
    """Upper limit of the weight λ_t of the context at a token."""
    draws: DecodingDraws
    response: Composition
    session: Session
    note: str | None
    """Reason why a composition is missing; None where none is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLosses(Record):
    """A number for each token of a response."""

    weight: tuple[float, ...]
    """Weight λ_t of the context at each token."""
    log_prob_nats: tuple[Unbounded, ...]
    """Log-probability of each token with the context, log p̄(y_t | D), nats."""
    bare_log_prob_nats: tuple[Unbounded, ...]
    """Log-probability of each token without the context, log p(y_t | ∅), nats."""
    loss_nats: tuple[Unbounded, ...]
    """Privacy loss of each token, nats: absolute difference of its log-probability with and without the context."""
    max_loss_nats: tuple[Unbounded, ...]
    """Largest privacy loss that any token would have had in the place of each token, nats."""
    spent_nats: tuple[Unbounded, ...] | None
    """ε that each token spent, nats: twice its `max_loss_nats`; None without a bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseLedger(Record):
    """What each token of a response told of its context. All of it is a function of the context, or the seed."""

    per_token: TokenLosses
    whole_nats: Unbounded
    """Influence of the whole context on the response, nats: Σ_t |log p̄(y_t | D) − log p(y_t | ∅)|."""
    spent_nats: Unbounded | None
    """Sum of the ε that the tokens spent, nats; None without a bound."""
    seed: int | None
    """Seed of the draws; None where they came from the operating system."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicResponse(Record):
    """A bounded response with nothing that is a function of the context but through its tokens."""

    model: str
    """Name of the model, as it was given."""
    weights_sha256: str | None
    """SHA-256 hash of the model's weights; None where it is not known."""
    dtype: str
    """Number type of the model's arithmetic."""
    temperature: float
    """Temperature T of the branches with and without the context."""
    min_new_tokens: int
    """Smallest number of tokens before a response may stop."""
    max_new_tokens: int
    """Largest number of tokens of a response."""
    text: str = field(repr=False)
    """Text of the response."""
    tokens: tuple[str, ...] = field(repr=False)
    """Text that each token adds to the response."""
    token_ids: tuple[int, ...] = field(repr=False)
    """Ids of the response's tokens in the model's vocabulary."""
    bound_nats: tuple[float, ...]
    """Bound ε on each token, nats."""
    bare_log_prob_nats: tuple[Unbounded, ...]
    """Log-probability of each token without the context, log p(y_t | ∅), nats, to three decimals: further ones may
    depend on what was computed beside it."""
    guarantee: ResponseGuarantee


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicResult(PublicResponse, AnyResult):
    """What may be published of a bounded response.

    The tokens are ε-DP for the context as long as the ledger and the seed, if there is one, stay secret. The fields are
    as `leakmeter decode --public --json` prints them.
    """

    is_public: ClassVar[bool] = True

    samples: tuple[PublicResponse, ...]
    """All responses, where several were drawn; else empty."""

    @property
    def responses(self) -> tuple[PublicResponse, ...]:
        """All responses."""
        return self.samples or (self,)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedResponse(Record):
    """One of several responses."""

    response: Response
    guarantee: ResponseGuarantee | None
    """Guarantee of the response; None without a bound."""
    ledger: ResponseLedger
    public: PublicResponse | None
    """Part of the response that may be published; None without a bound, or where the response was not drawn under
    it."""


def _spent(case: DecodeResult) -> float | None:
    if case.guarantee is None:
        return None
    nats = most(nats for response in case.responses for nats in response.ledger.per_token.spent_nats or ())
    return None if nats is None else nats / case.guarantee.epsilon_nats


def _bound(case: DecodeResult) -> float | None:
    """Of all responses of a case together."""
    bounds = [one.guarantee.response.basic_nats for one in case.responses if one.guarantee is not None]
    return sum(bounds) if bounds else None


_QUANTITIES: Final[Quantities] = (
    Quantity(
        "decode",
        NATS,
        "Leakage of the whole context into the response: how far the context moved its log-probability, token by "
        "token.",
        at("ledger", "whole_nats"),
    ),
    Quantity(
        "decode.worst_response",
        NATS,
        "Leakage of the whole context by the response that leaks most, where several were drawn for a case.",
        lambda case: most(response.ledger.whole_nats for response in case.samples),
    ),
    Quantity(
        "decode.worst_token",
        NATS,
        "The most that a token of a response could have leaked, whether the drawn token or another in its place.",
        lambda case: most(nats for response in case.responses for nats in response.ledger.per_token.max_loss_nats),
    ),
    Quantity(
        "decode.bound",
        NATS,
        "Bound on what the response leaks, by basic composition over its tokens.",
        at("guarantee", "response", "basic_nats"),
        sense="quality",
    ),
    Quantity(
        "decode.ratio",
        "measured over bound",
        "The largest share of its epsilon that a token spent; above 1 the guarantee is broken.",
        _spent,
        usual="max",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeResult(Result):
    """A response and what each of its tokens told of the context. It is private: much is a function of the context."""

    schema: ClassVar = "decode-1"
    kept: ClassVar = KeptDecoding
    quantities: ClassVar = _QUANTITIES
    so_far: ClassVar = (
        SoFar("up to {:.3g} nats", lambda case: most(response.ledger.whole_nats for response in case.responses)),
        SoFar("bound of all {:,.2f} nats", _bound, sum),
    )
    is_of_run: ClassVar = True
    defining: ClassVar = ()

    template: str
    """Name of the prompt's template: 'plain', 'chat' …"""
    query: str = field(repr=False)
    """Query that the model was asked."""
    context: str = field(repr=False)
    """Context, as the model read it."""
    documents: tuple[DocumentRange, ...]
    """Name and characters of each document in the context."""
    truncated_tokens: int
    """Number of tokens of the context that did not fit the model's window."""
    temperature: float
    """Temperature T of the branches with and without the context."""
    cid_lambda: float | None
    """Weight λ of the context; None with a bound, where each token has its own."""
    min_new_tokens: int
    """Smallest number of tokens before a response may stop."""
    max_new_tokens: int
    """Largest number of tokens of a response."""
    response: Response
    """First response; all numbers are of it unless they say otherwise."""
    guarantee: ResponseGuarantee | None
    """Guarantee of the first response; None without a bound."""
    ledger: ResponseLedger
    public: PublicResult | None
    """Part of the result that may be published; None without a bound, or where the response was not drawn under it."""
    samples: tuple[DecodedResponse, ...]
    """All responses, where several were drawn; else empty."""
    unmarked_query_tokens: int | None = field(default=None, metadata={SELDOM: True})
    """Number of tokens of the chat's last user message, none of which was measured. Present only where nothing of a
    chat is marked as retrieved."""
    unmeasured_answers: int | None = field(default=None, metadata={SELDOM: True})
    """Number of earlier answers of the chat that were not measured, as no case of the run ends with them. Present only
    where there are any."""

    @classmethod
    def from_run(
        cls,
        parts: Iterable[PartContent],
        params: Params,
        *,
        delta: float = DELTA,
        composed_nats: float = _COMPOSED_AT_MOST_NATS,
    ) -> Iterator[Self]:
        """The results of a run's cases; the session is all of its responses, so that all parts are read first.

        δ is that of the two compositions that have one. Privacy loss distributions are composed up to `composed_nats`
        of basic composition: of many they take seconds.
        """
        kept = list(carried(parts))
        lengths = [
            len(measurement.values)
            for _, measurements in kept
            for measurement in measurements
            if measurement.statistic == RESPONSE
        ]
        for texts, measurements in kept:
            yield cls._from_part(texts, measurements, params, lengths, delta, composed_nats)

    @classmethod
    def _from_part(
        cls,
        texts: Texts,
        measurements: Sequence[Measurement],
        params: Params,
        lengths: Sequence[int],
        delta: float,
        composed_nats: float,
    ) -> Self:
        series = {(item.sample, item.statistic): item.values for item in measurements}
        responses = []
        for number in range(len(texts["responses"])):
            response = Response.from_texts(texts, number, params["seed"])
            guarantee = _guarantee(params, len(series[number, RESPONSE]), lengths, delta, composed_nats)
            public = None
            if guarantee is not None and response.sampled:
                bare = (
                    np.round(series[number, DecodingStatistics.bare_log_prob], _PUBLIC_DECIMALS) + 0.0
                )  # which makes −0 a 0
                public = PublicResponse(
                    **{name: texts[name] for name in ("model", "weights_sha256", "dtype")},
                    **{name: params[name] for name in ("temperature", "min_new_tokens", "max_new_tokens")},
                    text=response.text,
                    tokens=response.tokens,
                    token_ids=tuple(series[number, RESPONSE].astype(int).tolist()),
                    bound_nats=(guarantee.epsilon_nats,) * len(bare),
                    bare_log_prob_nats=tuple(bare.tolist()),
                    guarantee=guarantee,
                )
            ledger = _ledger(number, series, params["seed"])
            responses.append(DecodedResponse(response=response, guarantee=guarantee, ledger=ledger, public=public))
        first, several = responses[0], responses if len(responses) > 1 else []
        shown = None
        if first.public is not None:
            published = {item.name: getattr(first.public, item.name) for item in fields(PublicResponse)}
            shown = PublicResult(**published, samples=tuple(filter(None, (response.public for response in several))))
        return cls(
            **cls.common(texts),
            **{name: texts[name] for name in ("template", "query", "context", "truncated_tokens")},
            **{name: params[name] for name in ("temperature", "min_new_tokens", "max_new_tokens")},
            documents=DocumentRange.all_of(texts),
            cid_lambda=params["cid_lambda"] if params["epsilon"] is None else None,
            response=first.response,
            guarantee=first.guarantee,
            ledger=first.ledger,
            public=shown,
            samples=tuple(several),
            unmarked_query_tokens=texts.get("unmarked_query_tokens"),
            unmeasured_answers=texts.get("unmeasured_answers"),
        )

    @property
    def responses(self) -> tuple[DecodedResponse, ...]:
        """All responses."""
        alone = DecodedResponse(
            response=self.response, guarantee=self.guarantee, ledger=self.ledger, public=self.public
        )
        return self.samples or (alone,)

    def published(self) -> PublicResult:
        """What may be published; `UsageError` where there was no bound, so that nothing is guaranteed."""
        if self.public is None:
            raise UsageError("this response has no guarantee, so it has no public part; decode with epsilon")
        return self.public

    def to_frame(self) -> pd.DataFrame:
        """One row a token: token and every number of its ledger, which names give in nats; private."""
        import pandas as pd

        per_token = self.ledger.per_token
        columns = {item.name: getattr(per_token, item.name) for item in fields(per_token)}
        return pd.DataFrame(
            {"token": self.response.tokens, **{name: column for name, column in columns.items() if column is not None}}
        )


def _guarantee(
    params: Params, n_tokens: int, lengths: Sequence[int], delta: float, composed_nats: float
) -> ResponseGuarantee | None:
    if params["epsilon"] is None:
        return None
    each, most = float(params["epsilon"]), int(params["max_new_tokens"])
    response = _composed(each, n_tokens, most, delta, composed_nats)
    together = _composed(each, sum(lengths), most * len(lengths), delta, composed_nats)
    session = Session(n_responses=len(lengths), **asdict(together))
    note = None
    if not accounting.is_available():
        note = "compositions with a delta need the dp-accounting library: pip install 'leakmeter[accounting]'"
    elif response.pld_nats is None or session.pld_nats is None:
        note = f"privacy loss distributions are composed up to {composed_nats:g} nats of basic composition"
    return ResponseGuarantee(
        epsilon_nats=each,
        lambda_max=params["lambda_max"],
        draws=DecodingDraws(**draws_of(params)),
        response=response,
        session=session,
        note=note,
    )


def _composed(epsilon: float, n_tokens: int, n_tokens_max: int, delta: float, composed_nats: float) -> Composition:
    return Composition(
        n_tokens=n_tokens,
        n_tokens_max=n_tokens_max,
        basic_nats=accounting.basic([(epsilon, n_tokens)]),
        pld_nats=_with_delta(epsilon, n_tokens_max, delta, "pld") if epsilon * n_tokens_max <= composed_nats else None,
        rdp_nats=_with_delta(epsilon, n_tokens_max, delta, "rdp"),
        delta=delta,
    )


@lru_cache(maxsize=64)
def _with_delta(epsilon: float, n_tokens: int, delta: float, by: str) -> float | None:
    accounting.check_delta(delta)
    if not accounting.is_available():
        return None
    if by == "rdp":
        return accounting.rdp([(epsilon, n_tokens)], delta)
    return accounting.pld([(epsilon, n_tokens)], delta)


def _ledger(number: int, series: ResponseSeries, seed: int | None) -> ResponseLedger:
    told = DecodingStatistics

    def values(statistic: Statistic) -> tuple[float, ...]:
        return tuple(series[number, statistic].tolist())

    spent = series.get((number, told.spent_epsilon))
    losses = TokenLosses(
        weight=values(told.weight),
        log_prob_nats=values(told.log_prob),
        bare_log_prob_nats=values(told.bare_log_prob),
        loss_nats=values(told.loss),
        max_loss_nats=values(told.max_loss),
        spent_nats=None if spent is None else values(told.spent_epsilon),
    )
    return ResponseLedger(
        per_token=losses,
        whole_nats=float(series[number, told.loss].sum()),
        spent_nats=None if spent is None else float(spent.sum()),
        seed=seed,
    )
