"""What is drawn under two neighbouring inputs, enumerated exactly and audited from draws, keeps the guaranteed ε."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from helpers import generation_items as generation
from helpers.enumerated import distribution
from helpers.exact_bounds import at_most
from helpers.examples import few
from helpers.measure_items import make_item, readings_of
from helpers.privacy_audit import least_epsilon
from leakmeter.backends.toy import Toy
from leakmeter.core.drive import drive
from leakmeter.core.item import ContextItem
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.tree import Chunk
from leakmeter.instruments.decoding.measure import Decode
from leakmeter.instruments.generation import math as generation_math
from leakmeter.instruments.generation.measure import PrivateGeneration
from leakmeter.privacy import bounded
from leakmeter.privacy.clipped_logits import Aggregation
from leakmeter.privacy.mechanism import BoundedCid, ClippedLogitAggregation, Mechanism
from leakmeter.stats import exact_draw
from leakmeter.stats.arrays import FloatArray, IntArray

N_VOCAB = 4
STOP = 3
CONFIDENCE = 0.9999
FRAME, QUERY = Piece("open", "frame", (0, 1)), Piece("query", "query", (2,))


class Parted(Toy):
    """Contexts of token 1 and of token 0 want opposite things, by far; without context nothing is wanted much."""

    def logits(self, ids: IntArray, positions: IntArray) -> FloatArray:
        told = 9.0 * (np.count_nonzero(ids[2:] == 1) - np.count_nonzero(ids[2:] == 0)) / max(1, len(ids) - 3)
        return np.asarray([-told, told, 0.1, 0.2 * told]) + 0.01 * len(ids) * np.asarray([0.0, 1.0, 0.0, 1.0])


TOY = Parted(N_VOCAB)


def context(*ids: int) -> ContextItem:
    return make_item(Prompt((FRAME, Piece("a", "context", ids), QUERY)), None, stop_ids=(STOP,))


def exemplars(*spans: tuple[int, ...]) -> ContextItem:
    return generation.batch(spans, stop_ids=(STOP,))


CONTEXTS = {"one": context(1, 1), "two": context(0, 0, 0, 0, 0, 0)}
EXEMPLARS = {"more": exemplars((1, 1), (0,), (1, 2)), "fewer": exemplars((0,), (1, 2))}
# Where a mean is over those present, it moves most by the only exemplar that wants another token.
ODD = {"more": exemplars((0,), (1, 1), (1, 2)), "fewer": exemplars((1, 1), (1, 2))}
# The number of exemplars is public: one of them is replaced.
REPLACED = {"one": exemplars((1, 1), (0,), (1,) * 5), "two": exemplars((1, 1), (0,), (1,) * 9)}
SINGLE = {"one": exemplars((1, 1)), "two": exemplars((0, 0, 0))}


@dataclass(frozen=True)
class Kind:
    """A measure that draws, two neighbouring inputs, and the ε of a token between the two."""

    measure: Any
    inputs: dict[str, ContextItem]
    epsilon: float

    def drawing(self, n: int, **more: Any) -> Any:
        """The measure, drawing so many responses."""
        name = "samples" if isinstance(self.measure, Decode) else "sequences"
        return replace(self.measure, **{name: n}, **more)


def private(rule: Mechanism, inputs: dict[str, ContextItem], epsilon: float) -> Kind:
    return Kind(PrivateGeneration(mechanism=rule, max_new_tokens=2), inputs, epsilon)


FIXED, PRESENT = Aggregation(0.6, 3, 0.5), Aggregation(0.3, 3, 0.5, "present")
ALL = {
    "decode": Kind(Decode(epsilon=0.8, lambda_max=3.0, max_new_tokens=2), CONTEXTS, 0.8),
    "bounded cid": private(BoundedCid(0.8, 1.0, 3.0), SINGLE, 0.8),
    # The pure loss of a token is 2Δ.
    "clipped, fixed": private(ClippedLogitAggregation(FIXED), EXEMPLARS, 2.0 * FIXED.sensitivity()),
    "clipped, present": private(ClippedLogitAggregation(PRESENT), ODD, 2.0 * PRESENT.sensitivity()),
}
every = pytest.mark.parametrize("kind", ALL.values(), ids=ALL)


@every
@pytest.mark.parametrize("least", few([0, 1, 2]))
def test_stop_tokens_and_lengths_are_inside_the_bound(kind: Kind, least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All responses of up to three tokens: P(y) ≤ e^(nε) P′(y) for each, of n tokens with the one that ends it."""
    measure = kind.drawing(1, min_new_tokens=least, max_new_tokens=3, nonce=1)
    how: dict[str, Any] = {"n_vocab": N_VOCAB, "stops": (STOP,), "longest": 3, "monkeypatch": monkeypatch}
    one, other = (distribution(TOY, functools.partial(measure.trial, item), **how) for item in kind.inputs.values())
    assert sum(one.values()) == sum(other.values()) == 1
    assert one.keys() == other.keys()
    assert {len(y) for y in one} == set(range(least + 1, 4))
    assert not any(STOP in y[: max(least, len(y) - 1)] for y in one if len(y) > least)
    for y, probability in one.items():
        limit = at_most(len(y) * kind.epsilon)
        assert probability <= limit * other[y]
        assert other[y] <= limit * probability
    # The inputs part by a good share of the bound.
    first = [
        {v: sum((p for y, p in of.items() if y[0] == v), start=Fraction(0)) for v in range(N_VOCAB)}
        for of in (one, other)
    ]
    reached = max(abs(math.log(first[0][v] / first[1][v])) for v in range(N_VOCAB) if first[0][v])
    assert reached > 0.25 * kind.epsilon


def audited(kind: Kind, n: int) -> tuple[float, float]:
    """Measured lower bounds on ε, of the first token and of the response, nats: of draws by the operating system."""
    drawn = []
    for item in kind.inputs.values():
        measure = kind.drawing(n).seeded()
        assert measure.nonce is not None
        series = readings_of(TOY, measure, item)
        drawn.append([tuple(series[i, "token", ""].astype(int).tolist()) for i in range(n)])
    one, other = drawn
    first = least_epsilon([y[:1] for y in one], [y[:1] for y in other], CONFIDENCE)
    return first, least_epsilon(one, other, CONFIDENCE)


@pytest.fixture
def remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Distributions are made once for each input: they are the same each time, and only draws differ."""

    def remember(function: Callable[..., Any]) -> Callable[..., Any]:
        known: dict[Any, Any] = {}

        def ask(*given: Any) -> Any:
            key = tuple((each.shape, each.tobytes()) if isinstance(each, np.ndarray) else each for each in given)
            if key not in known:
                known[key] = function(*given)
            return known[key]

        return ask

    places = ((bounded, "bounded_mixture"), (generation_math, "measured"), (exact_draw, "_banded weights_of"))
    for home, names in places:
        for name in names.split():
            monkeypatch.setattr(home, name, remember(getattr(home, name)))
    monkeypatch.setattr(TOY, "logits", remember(TOY.logits))


@pytest.mark.long
@pytest.mark.usefixtures("remembered")
@every
def test_an_audit_of_100_000_draws_finds_no_more(kind: Kind, record_property: Callable[[str, object], None]) -> None:
    first, whole = audited(kind, 100_000)
    record_property("least_epsilon", [first, whole])
    assert 0.2 * kind.epsilon < first <= kind.epsilon
    assert whole <= 2 * kind.epsilon


def test_an_audit_catches_a_decoder_without_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a decoder would be whose search for λ forgot the bound."""
    kind = ALL["decode"]

    def unbounded(full: Any, bare: Any, bound_nats: float, temperature: float, max_weight: float) -> Any:
        made = bounded.mixture(full, bare, 1.0, temperature)
        weights = [exact_draw.weights_of(of) for of in (made.log_probs, made.bare_log_probs)]
        return made._replace(weights=weights[0], bare_weights=weights[1])

    monkeypatch.setattr(bounded, "bounded_mixture", unbounded)
    first, _ = audited(kind, 400)
    assert first > kind.epsilon


def test_the_audit_s_lower_bound_by_hand() -> None:
    """Of 100 draws 90 to 10: Clopper–Pearson at 1/8 of what may go wrong, each way and for each of two outcomes."""
    one, other = ["a"] * 90 + ["b"] * 10, ["a"] * 10 + ["b"] * 90
    lower = binomtest(90, 100, alternative="greater").proportion_ci(1 - 0.05 / 8).low
    upper = binomtest(10, 100, alternative="less").proportion_ci(1 - 0.05 / 8).high
    assert 0.0 < least_epsilon(one, other, 0.95) == pytest.approx(math.log(lower / upper), abs=1e-3)
    assert least_epsilon(one, one, 0.95) == 0.0
    assert least_epsilon(["a"] * 50, ["b"] * 50, 0.95) > 1.0


class Counting(Parted):
    """Counts what it is asked."""

    n_passes = 0

    def logits(self, ids: IntArray, positions: IntArray) -> FloatArray:
        self.n_passes += 1
        return super().logits(ids, positions)


@every
@pytest.mark.parametrize("tokens", [(0, 0), (1, STOP), (STOP,)])
def test_calls_follow_from_the_tokens_alone(
    kind: Kind, tokens: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two contexts, one longer, and the same tokens drawn: the same rounds, prompts and rows."""
    told = []
    for item in (REPLACED if "more" in kind.inputs else kind.inputs).values():
        backend, rounds, at = Counting(N_VOCAB), list[Any](), iter(tokens)

        def draw(weights: Any, bits: Any, at: Any = at) -> Any:
            return np.full((len(weights), 1), next(at))

        def seen(chunk: Chunk, rounds: list[Any] = rounds) -> None:
            rounds.append([(type(r.reduction), len(r.prompts), r.response) for r in chunk.requests])

        monkeypatch.setattr(exact_draw, "draw", draw)
        drive(backend, [kind.drawing(1, nonce=1).trial(item)], on_plan=seen)
        told.append((rounds, backend.n_passes))
    assert told[0] == told[1]
