"""From receipts to the object that `leakmeter decode --json` prints, by hand-written numbers."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from leakmeter.core.measure import NATS, TOKEN_ID, Measurement
from leakmeter.errors import UsageError
from leakmeter.instruments.decoding import result
from leakmeter.instruments.decoding.result import DecodeResult, DecodingDraws, ResponseGuarantee
from leakmeter.privacy import accounting

PARAMS: dict[str, Any] = {
    "nonce": None, "temperature": 0.8, "cid_lambda": 1.0, "epsilon": 0.5, "lambda_max": 1.5, "min_new_tokens": 1,
    "max_new_tokens": 4, "samples": 1, "seed": 2**127,
}  # fmt: skip
LOG_PROB = [-1.0, -0.25, -3.0]
BARE = [-1.1234567, -0.125, -2.9]
MAX_LOSS = [0.25, 0.2, 0.125]


def texts(n: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "id": "ana", "model": "toy", "weights_sha256": None, "dtype": "float64", "template": "plain",
        "query": "How old?", "context": "Ana is 41.", "documents": [{"name": "note", "start": 0, "end": 10}],
        "truncated_tokens": 0, "sampled": True, "responses": [{"text": "She is", "tokens": ["She", " is", ""]}] * n,
        "cost": {"requests": 6, "tree_tokens": 90, "naive_tokens": 300, "seconds": 0.1, "out_of_memory_retries": 0},
    } | more  # fmt: skip


def measurements(n: int = 1, *, bounded: bool = True, **more: list[float]) -> list[Measurement]:
    columns: dict[str, list[float]] = {
        "token": [7, 8, 9], "weight": [0.5, 1.0, 1.5], "log_prob": LOG_PROB, "bare_log_prob": BARE,
        "max_loss": MAX_LOSS, "loss": [abs(a - b) for a, b in zip(LOG_PROB, BARE, strict=True)],
    }  # fmt: skip
    if bounded:
        columns |= {"spent_epsilon": [2 * x for x in MAX_LOSS], "promised_epsilon": [0.5] * 3}
    return [
        Measurement("ana", i, "", name, TOKEN_ID if name == "token" else NATS, np.asarray(values, dtype=np.float64))
        for i in range(n)
        for name, values in (columns | more).items()
    ]


def made(texts: dict[str, Any], measurements: list[Measurement], params: Any = PARAMS, **more: Any) -> DecodeResult:
    (only,) = DecodeResult.from_run([(texts, measurements)], params, **more)
    return only


def guaranteed(case: DecodeResult) -> ResponseGuarantee:
    assert case.guarantee is not None
    return case.guarantee


@pytest.fixture
def without_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounting, "is_available", lambda: False)
    result._with_delta.cache_clear()


@pytest.mark.usefixtures("without_library")
def test_sums_and_the_split_into_private_and_public() -> None:
    case = made(texts(), measurements())
    assert case.ledger.whole_nats == pytest.approx(0.1234567 + 0.125 + 0.1)
    assert case.ledger.spent_nats == pytest.approx(1.15)
    assert case.ledger.seed == 2**127
    assert case.ledger.per_token.weight == (0.5, 1.0, 1.5)
    composed = {"n_tokens": 3, "n_tokens_max": 4, "basic_nats": 1.5, "pld_nats": None, "rdp_nats": None, "delta": 1e-5}
    guarantee = {
        "epsilon_nats": 0.5, "lambda_max": 1.5, "draws": {"random_bits": "seed"}, "response": composed,
        "session": {"n_responses": 1, **composed},
        "note": "compositions with a delta need the dp-accounting library: pip install 'leakmeter[accounting]'",
    }  # fmt: skip
    assert guaranteed(case).to_dict() == guarantee
    assert case.published().to_dict() == {
        "model": "toy", "weights_sha256": None, "dtype": "float64", "temperature": 0.8, "min_new_tokens": 1,
        "max_new_tokens": 4, "text": "She is", "tokens": ["She", " is", ""], "token_ids": [7, 8, 9],
        # To three decimals: further ones may depend on what was computed beside.
        "bound_nats": [0.5] * 3, "bare_log_prob_nats": [-1.123, -0.125, -2.9], "guarantee": guarantee, "samples": [],
    }  # fmt: skip
    # What was given was not drawn under the bound.
    assert made(texts(sampled=False), measurements()).public is None
    # How tokens were drawn is told by what the run says of its seed.
    drawn = made(texts(), measurements(), PARAMS | {"seed": None, "nonce": 5})
    assert guaranteed(drawn).draws == DecodingDraws(random_bits="operating system")
    assert drawn.ledger.seed is None


@pytest.mark.usefixtures("without_library")
def test_a_run_is_one_session() -> None:
    cases = list(DecodeResult.from_run([(texts(2), measurements(2)), (texts(), measurements())], PARAMS))
    for case, n in zip(cases, (2, 1), strict=True):
        session = guaranteed(case).session
        assert (session.n_responses, session.n_tokens, session.n_tokens_max) == (3, 9, 12)
        assert session.basic_nats == 4.5
        assert len(case.samples) == len(case.published().samples) == (n if n > 1 else 0)
        assert len(case.responses) == len(case.published().responses) == n
        assert json.loads(case.to_json()) == case.to_dict()
        assert DecodeResult.from_dict(case.to_dict()) == case


def test_without_a_bound_nothing_is_guaranteed() -> None:
    params = PARAMS | {"epsilon": None, "lambda_max": 1.0, "cid_lambda": 1.5, "seed": 0}
    case = made(texts(), measurements(bounded=False, max_loss=[1.0, math.inf, 2.0]), params)
    assert (case.guarantee, case.public, case.cid_lambda) == (None, None, 1.5)
    assert case.ledger.spent_nats is case.ledger.per_token.spent_nats is None
    assert "spent_nats" not in case.to_frame()
    assert case.ledger.per_token.max_loss_nats == (1.0, math.inf, 2.0)
    assert case.to_dict()["ledger"]["per_token"]["max_loss_nats"] == [1.0, "Infinity", 2.0]
    json.dumps(case.to_dict(), allow_nan=False)
    with pytest.raises(UsageError, match="it has no public part; decode with epsilon"):
        case.published()


@pytest.mark.parametrize("delta", [0.0, 1.0, math.nan])
def test_a_delta_is_a_chance(delta: float) -> None:
    with pytest.raises(UsageError, match="delta is"):
        made(texts(), measurements(), delta=delta)


def test_compositions_with_the_library() -> None:
    pytest.importorskip("dp_accounting", reason="dp-accounting is not installed (pip install 'leakmeter[accounting]')")
    params = PARAMS | {"max_new_tokens": 50}
    case, *_ = DecodeResult.from_run([(texts(), measurements())] * 2, params)
    response, session = guaranteed(case).response, guaranteed(case).session
    # The library's numbers for randomised response, also in docs/decoding.md.
    assert response.pld_nats == pytest.approx(18.93, abs=0.01)
    assert response.rdp_nats == pytest.approx(19.87, abs=0.01)
    assert session.pld_nats == accounting.pld([(0.5, 100)], 1e-5)
    assert guaranteed(case).note is None
    # 25,000 nats: composing distributions would take minutes and bound nothing.
    wide, *_ = DecodeResult.from_run([(texts(), measurements())] * 1000, params)
    assert guaranteed(wide).session.pld_nats is None
    assert (guaranteed(wide).session.rdp_nats or 0.0) > 1000
    assert "up to 1000 nats" in (guaranteed(wide).note or "")
