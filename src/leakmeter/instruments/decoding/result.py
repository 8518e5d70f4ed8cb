"""The result of decoding with receipts: a response, what it told of the context, and what may be published of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from leakmeter.core.measurement import Measurement
from leakmeter.core.request import FloatArray
from leakmeter.errors import UsageError
from leakmeter.instruments.decoding.quantities import DECODE
from leakmeter.privacy import accounting
from leakmeter.privacy.draws import draws_of
from leakmeter.report.blocks import Provenance, Report
from leakmeter.report.result import CaseResult, Part, ResponseResult

if TYPE_CHECKING:
    import pandas as pd

DELTA: Final = 1e-5
_PUBLIC_DECIMALS: Final = 3  # float32 noise of about 1e-5 nats depends on what was computed beside, so on D
_COMPOSED_AT_MOST_NATS: Final = 1000.0  # composing distributions takes seconds there, and says nothing anybody wants
_PRIVATE: Final = {
    "weight": "weight",
    "log_prob": "log_prob_nats",
    "bare_log_prob": "bare_log_prob_nats",
    "loss": "loss_nats",
    "max_loss": "max_loss_nats",
}


def decode_object(
    texts: Mapping[str, Any],
    measurements: Sequence[Measurement],
    params: Mapping[str, Any],
    *,
    lengths: Sequence[int] | None = None,
    delta: float = DELTA,
) -> dict[str, Any]:
    """Texts and measurements of a case to one plain object: what `--json` prints and reports are drawn from.

    Args:
        texts: what the measurements are about (see `runs.measure.texts_of`).
        measurements: of this case.
        params: of the measure.
        lengths: tokens of each response of the session, which are taken to be about one context; those of this case
            by default.
        delta: δ of the two compositions that have one.

    Raises:
        UsageError: δ is not between 0 and 1.
    """
    series = {(r.sample, r.statistic): r.values for r in measurements}
    own = [len(series[i, "token"]) for i in range(len(texts["responses"]))]
    lengths = own if lengths is None else lengths
    responses = [
        {
            "response": {**words, "sampled": texts["sampled"]},
            "epsilon": _epsilon(params, own[i], lengths, delta),
            "private": _private(i, series, params),
        }
        for i, words in enumerate(texts["responses"])
    ]
    for i, one in enumerate(responses):
        one["public"] = _public(texts, one, series[i, "token"], series[i, "bare_log_prob"], params)
    shown = responses[0]["public"]
    if shown is not None:
        several = [one["public"] for one in responses] if len(responses) > 1 else []
        shown = {**shown, "samples": several}
    return {
        **{name: texts[name] for name in ("id", "model", "weights_sha256", "dtype", "template", "query", "context")},
        "documents": texts["documents"],
        "truncated_tokens": texts["truncated_tokens"],
        "temperature": params["temperature"],
        "cid_lambda": params["cid_lambda"] if params["epsilon"] is None else None,
        "min_new_tokens": params["min_new_tokens"],
        "max_new_tokens": params["max_new_tokens"],
        **responses[0],
        "public": shown,
        "samples": responses if len(responses) > 1 else [],
        "cost": texts["cost"],
        "warnings": [],
    }


def _epsilon(params: Mapping[str, Any], n_tokens: int, lengths: Sequence[int], delta: float) -> dict[str, Any] | None:
    """What was promised; None without a bound."""
    if params["epsilon"] is None:
        return None
    each, most = float(params["epsilon"]), int(params["max_new_tokens"])
    response, session = (_composed(each, n, most * k, delta) for n, k in ((n_tokens, 1), (sum(lengths), len(lengths))))
    note = None
    if not accounting.is_available():
        note = "compositions with a delta need the dp-accounting library: pip install 'leakmeter[accounting]'"
    elif response["pld_nats"] is None or session["pld_nats"] is None:
        note = f"privacy loss distributions are composed up to {_COMPOSED_AT_MOST_NATS:g} nats of basic composition"
    return {
        "per_token": each,
        "lambda_max": params["lambda_max"],
        "draws": draws_of(params),
        "response": response,
        "session": {"n_responses": len(lengths), **session},
        "note": note,
    }


def _composed(epsilon: float, n_tokens: int, n_tokens_max: int, delta: float) -> dict[str, Any]:
    """Basic composition counts the tokens there came to be; the other two the most there could have been."""
    return {
        "n_tokens": n_tokens,
        "n_tokens_max": n_tokens_max,
        "basic_nats": accounting.basic([(epsilon, n_tokens)]),
        "pld_nats": _with_delta(epsilon, n_tokens_max, delta, "pld"),
        "rdp_nats": _with_delta(epsilon, n_tokens_max, delta, "rdp"),
        "delta": delta,
    }


@lru_cache(maxsize=64)
def _with_delta(epsilon: float, n_tokens: int, delta: float, by: str) -> float | None:
    accounting.check_delta(delta)
    if not accounting.is_available():
        return None
    if by == "rdp":
        return accounting.rdp([(epsilon, n_tokens)], delta)
    if epsilon * n_tokens > _COMPOSED_AT_MOST_NATS:
        return None
    return accounting.pld([(epsilon, n_tokens)], delta)


def _private(sample: int, series: Mapping[tuple[int, str], FloatArray], params: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that is a function of the context, and the seed."""
    per_token = {name: _plain(series[sample, statistic]) for statistic, name in _PRIVATE.items()}
    spent = series.get((sample, "spent_epsilon"))
    return {
        "per_token": per_token | ({} if spent is None else {"spent_epsilon": _plain(spent)}),
        "whole_nats": float(series[sample, "loss"].sum()),
        "spent_nats": None if spent is None else float(spent.sum()),
        "seed": params["seed"],
    }


def _public(
    texts: Mapping[str, Any],
    one: Mapping[str, Any],
    tokens: FloatArray,
    bare_log_probs: FloatArray,
    params: Mapping[str, Any],
) -> dict[str, Any] | None:
    """What may stand beside the response; None where nothing was promised, or the response was not drawn so."""
    if params["epsilon"] is None or not texts["sampled"]:
        return None
    return {
        **{name: texts[name] for name in ("model", "weights_sha256", "dtype")},
        **{name: params[name] for name in ("temperature", "min_new_tokens", "max_new_tokens")},
        "text": one["response"]["text"],
        "tokens": one["response"]["tokens"],
        "token_ids": tokens.astype(int).tolist(),
        "promised_epsilon": [float(params["epsilon"])] * len(tokens),
        # Adding 0 makes −0 a 0.
        "bare_log_prob_nats": (np.round(bare_log_probs, _PUBLIC_DECIMALS) + 0.0).tolist(),
        "epsilon": one["epsilon"],
    }


def _plain(values: FloatArray) -> list[float | None]:
    """JSON has no word for infinity: null stands for it."""
    return [float(value) if np.isfinite(value) else None for value in values]


@dataclass(frozen=True, slots=True)
class DecodeResult(ResponseResult):
    """A response and what each of its tokens told of the context, in nats.

    `case` is as `leakmeter decode --json` prints it, and private: much of it is a function of the context.
    """

    quantities: ClassVar = DECODE

    @classmethod
    def from_run(
        cls, parts: Iterable[Part], params: Mapping[str, Any], *, delta: float = DELTA
    ) -> Iterator[DecodeResult]:
        """The results of a run's cases; the session is all of its responses, so that all parts are read first."""
        kept = list(parts)
        lengths = [len(r.values) for _, measurements in kept for r in measurements if r.statistic == "token"]
        for texts, measurements in kept:
            yield cls(decode_object(texts, measurements, params, lengths=lengths, delta=delta))

    @property
    def whole(self) -> float:
        """What the response told of the whole context, nats: Σ_t |log p̄(y_t | D) − log p(y_t | ∅)|."""
        return float(self.case["private"]["whole_nats"])

    @property
    def public(self) -> PublicReceipt:
        """What may be published.

        Raises:
            UsageError: there was no bound, so that nothing was promised.
        """
        if self.case["public"] is None:
            raise UsageError("nothing was promised of this response, so it has no public receipt; decode with epsilon")
        return PublicReceipt(self.case["public"])

    def to_frame(self) -> pd.DataFrame:
        """One row a token: token and every number of its private receipt, which names give in nats."""
        import pandas as pd

        return pd.DataFrame({"token": self.tokens, **self.case["private"]["per_token"]})

    @classmethod
    def report(
        cls,
        cases: Sequence[Mapping[str, Any]],
        *,
        command: str | None = None,
        provenance: Provenance = Provenance(),  # noqa: B008 (frozen)
    ) -> Report:
        """See `instruments.decoding.report`; it is private."""
        from leakmeter.instruments.decoding.report import private_report

        return private_report(cases, command=command, provenance=provenance)


@dataclass(frozen=True, slots=True)
class PublicReceipt(CaseResult):
    """What may be published beside a bounded response: no number of it depends on the context but through its tokens.

    The tokens are ε-DP for the context as long as the private receipt and the seed, if there is one, stay secret.
    `case` is as `leakmeter decode --public --json` prints it.
    """

    is_public: ClassVar[bool] = True

    @classmethod
    def report(
        cls,
        cases: Sequence[Mapping[str, Any]],
        *,
        command: str | None = None,
        provenance: Provenance = Provenance(),  # noqa: B008 (frozen)
    ) -> Report:
        """See `instruments.decoding.report`.

        Command and run are left out: the one may hold the seed, and the other's id is made of it.
        """
        from leakmeter.instruments.decoding.report import public_report

        return public_report(cases, outdated=provenance.outdated)
