"""Fisher susceptibility on the toy model, where logits are linear in what varies, and everything can be written out."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from helpers.differentiable_toy import DifferentiableToy
from leakmeter.backends.toy import Toy
from leakmeter.core.counting import CountingBackend, count
from leakmeter.core.drive import drive
from leakmeter.core.measure import Measurement
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.reductions import FullDistribution
from leakmeter.core.request import GradientRequest, Gradients, Request, TopTokens
from leakmeter.core.tree import chunk_of_contexts
from leakmeter.errors import CapabilityError, UnknownNameError, UsageError, WindowError
from leakmeter.instruments.susceptibility.fisher.measure import Fisher
from leakmeter.instruments.susceptibility.measure import ContextSet, QueryItem

N_VOCAB = 40
OPEN, SEPARATOR = Piece("start", "frame", (1, 2)), Piece("separator", "frame", (3,))
QUERY = Piece("query", "query", (4, 5, 6))
CONTEXTS = ((7, 8), (9, 10, 11, 12), (13,))
WEIGHTS = (0.5, 0.3, 0.2)


def question(id_: str = "q", window: int | None = None, *, contexts: bool = True) -> QueryItem:
    bare = Prompt((OPEN, QUERY))
    behind = tuple(Prompt((OPEN, Piece("context", "context", ids), SEPARATOR, QUERY)) for ids in CONTEXTS)
    return QueryItem(
        id=id_, prompt=bare, response=None, window=window,
        contexts=ContextSet(behind, WEIGHTS) if contexts else ContextSet((), ()),
    )  # fmt: skip


def toy(**settings: Any) -> DifferentiableToy:
    return DifferentiableToy(N_VOCAB, scale=0.3, **settings)


def told(measure: Fisher, item: QueryItem | None = None) -> dict[tuple[str, str], float]:
    """(Σ, statistic) to value."""
    (measurements,), _ = drive(toy(), [measure.trial(item or question())])
    assert all(isinstance(r, Measurement) and r.values.shape == (1,) for r in measurements)
    found = {(r.piece, r.statistic): float(r.values[0]) for r in measurements}
    assert len(found) == len(measurements)
    return found


def asked(measure: Fisher, item: QueryItem | None = None) -> GradientRequest:
    (request,) = next(measure.trial(item or question()))
    assert isinstance(request, GradientRequest)
    return request


def information(measure: Fisher) -> tuple[np.ndarray, np.ndarray, GradientRequest]:
    """p and I, written out."""
    request = asked(measure)
    p, slopes = toy().jacobian(request)
    flat = slopes.reshape(len(p), -1)
    return p, flat.T @ (np.diag(p) - np.outer(p, p)) @ flat, request


@pytest.mark.parametrize("place", ["query", "slot"])
@pytest.mark.parametrize(
    "settings", [{"method": "top-k", "top_k": N_VOCAB}, {"directions": 500}], ids=["top-k", "deflated"]
)
def test_all_of_it_is_the_closed_form(place: str, settings: dict[str, Any]) -> None:
    sigma = ("identity", "embedding", "empirical") if place == "slot" else ("identity", "embedding")
    measure = Fisher(place=place, sigma=sigma, slot_tokens=3, **settings)
    p, i, request = information(measure)
    n_positions = len(request.varied)
    assert n_positions == (4 if place == "slot" else 3)  # as many as the longest context has
    own = np.eye(N_VOCAB)[toy().ids(request)[request.varied]]
    uniform = np.eye(N_VOCAB) / N_VOCAB - 1 / N_VOCAB**2
    moments = {
        "identity": (np.eye(len(i)), np.zeros(len(i))),
        "embedding": (np.kron(np.eye(n_positions), uniform), (1 / N_VOCAB - own).ravel()),
    }
    if place == "slot":
        deviations = toy().deviations(request).reshape(3, -1)
        covariance = np.cov(deviations.T, aweights=WEIGHTS, ddof=0)
        moments["empirical"] = (covariance, np.asarray(WEIGHTS) @ deviations)
    found = told(measure)
    for name, (covariance, mean) in moments.items():
        spread, drift = np.trace(i @ covariance) / 2, mean @ i @ mean / 2
        values = [found[name, statistic] for statistic in ("spread", "drift", "fisher")]
        assert values == pytest.approx([spread, drift, spread + drift], rel=1e-9)
        assert found[name, "standard_error"] == pytest.approx(0.0, abs=1e-9)
    assert found["identity", "trace"] == pytest.approx(np.trace(i))
    assert found["", "entropy"] == pytest.approx(-(p * np.log(p)).sum())
    assert found["", "n_query_tokens"] == 3


def test_a_short_way_the_divergence_is_what_fisher_says() -> None:
    """The value with a slot, against the divergences of models whose contexts do a hundredth of what they do."""
    small, weights = 1e-2, np.asarray(WEIGHTS)
    measure = Fisher(method="top-k", sigma=("empirical",), place="slot", top_k=N_VOCAB)
    p, _, request = information(measure)
    _, slopes = toy().jacobian(request)
    moves = np.einsum("vps,cps->cv", slopes, small * toy().deviations(request))
    behind = p * np.exp(moves)
    behind /= behind.sum(axis=1, keepdims=True)
    mixture, found = weights @ behind, told(measure)
    for name, expected in (
        ("fisher", weights @ (behind * np.log(behind / p)).sum(axis=1)),
        ("spread", weights @ (behind * np.log(behind / mixture)).sum(axis=1)),
        ("drift", (mixture * np.log(mixture / p)).sum()),
    ):
        assert found["empirical", name] * small**2 == pytest.approx(expected, rel=0.02)


def test_the_likeliest_answers_hold_their_terms_of_the_trace() -> None:
    found = told(Fisher(method="top-k", top_k=5))
    p, _, request = information(Fisher())
    _, slopes = toy().jacobian(request)
    flat = slopes.reshape(N_VOCAB, -1)
    top = np.argsort(-p)[:5]
    squares = [((flat[a] - p @ flat) ** 2).sum() for a in top]
    assert found["identity", "trace"] == pytest.approx((p[top] * squares).sum())
    assert found["", "top_mass"] == pytest.approx(np.log(p[top].sum()))
    assert found["", "n_probes"] == 0
    assert asked(Fisher(method="top-k", top_k=5)).directions == TopTokens(5)


@pytest.mark.parametrize("method", ["sketch", "deflated"])
def test_estimates_scatter_about_the_value_as_far_as_they_say(method: Any) -> None:
    _, i, _ = information(Fisher())
    found = [told(Fisher(method=method, probes=12, directions=2, seed=seed)) for seed in range(100)]
    off = np.asarray([one["identity", "trace"] - np.trace(i) for one in found])
    errors = np.asarray([one["identity", "standard_error"] for one in found])
    assert abs(off.mean()) < 4 * off.std() / np.sqrt(len(off))
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(off.std() / 2, rel=0.25)
    assert len({one["identity", "trace"] for one in found}) == len(found)


def test_values_are_of_what_contexts_do_whatever_their_order_and_whatever_else_is_asked() -> None:
    contexts = question().contexts
    assert contexts is not None
    turned = ContextSet(contexts.prompts[::-1], contexts.weights[::-1])
    one, other = (Fisher(place="slot", sigma=sigma) for sigma in (("empirical",), ("identity", "empirical")))
    alone = told(one)
    assert told(one, dataclasses.replace(question(), contexts=turned)) == pytest.approx(alone, rel=1e-12)
    assert {key: value for key, value in told(other).items() if key[0] != "identity"} == alone
    # A model that is deaf to the place.
    (measurements,), _ = drive(toy(reach=1), [other.trial(question())])
    values = {(r.piece, r.statistic): r.values[0] for r in measurements}
    assert [values[sigma, "fisher"] for sigma in ("identity", "empirical")] == pytest.approx([0.0, 0.0], abs=1e-12)


def test_the_slot_stands_where_contexts_do() -> None:
    for contexts, behind in ((True, [("frame", 1)]), (False, [])):
        prompt = asked(Fisher(place="slot"), question(contexts=contexts)).prompt
        expected = [("frame", 2), ("context", 16), *behind, ("query", 3)]
        assert [(piece.role, len(piece.ids)) for piece in prompt.pieces] == expected
    assert asked(Fisher(place="query")).prompt == question().prompt


@pytest.mark.parametrize("relative_error", [None, 0.01])
def test_what_it_takes_is_known_before(relative_error: float | None) -> None:
    measure = Fisher(relative_error=relative_error, max_probes=40)
    predicted = count(CountingBackend(toy()), [measure.trial(question())])
    _, taken = drive(toy(), [measure.trial(question())])
    assert predicted.n_tokens_run == predicted.n_full_pass_tokens
    assert predicted.n_token_pass_tokens == predicted.n_tokens_run
    if relative_error is None:
        assert taken.n_tokens_run == predicted.n_tokens_run == 5 * 25


def test_a_small_model_takes_what_was_predicted() -> None:
    from helpers import tiny_models as tiny

    backend = tiny.tiny_backend()
    measure = Fisher(place="layer:1", sigma=("identity", "empirical"))
    predicted = count(CountingBackend(backend), [measure.trial(question())])
    (measurements,), taken = drive(backend, [measure.trial(question())])
    # The frame is the same before all contexts; what stands between and the query are of each.
    of_contexts = len(OPEN.ids) + sum(len(ids) + len(SEPARATOR.ids) + len(QUERY.ids) for ids in CONTEXTS)
    assert taken.n_tokens_run == predicted.n_tokens_run == 5 * 25 + of_contexts
    assert taken.n_prompts == predicted.n_prompts == 4
    assert all(np.isfinite(measurement.values).all() for measurement in measurements)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sigma": ("empirical",)}, "zero at place query.*give place slot or layer:N"),
        ({"sigma": ("embedding",), "place": "layer:3"}, "and place layer:3 has none"),
        ({"sigma": "identity"}, "sigma is 'identity'; give one or more"),
        ({"sigma": ()}, "give one or more"),
        ({"sigma": ("identity", "identity")}, "different names"),
        ({"place": "layer"}, "place is 'layer'; it has to be query, slot or layer:N"),
        ({"place": "layer:-1"}, "place is 'layer:-1'"),
        ({"probes": 1}, "probes is 1; it has to be 2 or more"),
        ({"directions": 0}, "directions is 0"),
        ({"top_k": 0}, "top-k is 0"),
        ({"slot_tokens": 0}, "slot-tokens is 0"),
        *(({"relative_error": of}, f"relative-error is {of}; it has to be above 0") for of in (0.0, 1.0, math.nan)),
        ({"method": "topk"}, "no method named 'topk'; did you mean 'top-k'"),
        ({"sigma": ("emperical",), "place": "slot"}, "no sigma named 'emperical'; did you mean 'empirical'"),
    ],
)
def test_settings_without_a_meaning_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises((UsageError, UnknownNameError), match=message):
        Fisher(**settings)
    # The least that has a meaning is taken.
    Fisher(probes=2, directions=1, top_k=1, slot_tokens=1, max_probes=2)


def test_cases_and_models_that_cannot_be_measured_are_refused() -> None:
    empirical, item = Fisher(sigma=("empirical",), place="slot"), question()
    assert item.contexts is not None
    other = Prompt((OPEN, Piece("context", "context", (7,)), SEPARATOR, Piece("query", "query", (4, 5, 7))))
    behind = dataclasses.replace(item.contexts, prompts=(*item.contexts.prompts[:2], other))
    for measure, case, kind, message in (
        (empirical, question(contexts=False), UsageError, "case 'q' has no contexts"),
        (empirical, dataclasses.replace(item, contexts=behind), UsageError, "different tokens after some contexts"),
        (Fisher(), dataclasses.replace(item, prompt=Prompt((OPEN,))), UsageError, "case 'q' has no query"),
        (Fisher(place="slot"), question(window=20), WindowError, "22 tokens with a slot of 16, and 20 fit"),
    ):
        with pytest.raises(kind, match=message):
            asked(measure, case)
    with pytest.raises(CapabilityError, match="'toy' gives no gradients"):
        drive(Toy(N_VOCAB), [Fisher().trial(question())])


def test_probes_are_taken_until_they_suffice_and_those_that_decide_are_left_out() -> None:
    measure = Fisher(method="sketch", probes=8, relative_error=0.05, max_probes=400)
    found = [told(dataclasses.replace(measure, seed=seed)) for seed in range(150)]
    _, i, _ = information(Fisher())
    numbers = np.asarray([one["", "n_probes"] for one in found])
    values = np.asarray([one["identity", "trace"] for one in found])
    assert len(set(numbers)) > 20
    assert 2 <= numbers.min() < numbers.max() <= 400
    assert np.median([one["identity", "standard_error"] / one["identity", "fisher"] for one in found]) < 0.07
    assert abs(values.mean() - np.trace(i)) < 4 * values.std() / np.sqrt(len(values))
    trial = measure.trial(question())
    (first,) = next(trial)
    (second,) = trial.send([toy().differentiate([first], chunk_of_contexts([first]))[0]])
    assert (first.directions.first, second.directions.first) == (0, 8)


def test_where_few_directions_count_deflated_is_the_surer_for_as_many_passes() -> None:
    backend = toy()
    rng = np.random.default_rng(0)
    steep = np.diag(0.6 ** np.arange(N_VOCAB))
    backend._seen, backend._last = (rng.normal(size=(N_VOCAB, N_VOCAB)) @ steep for _ in range(2))
    scatter = {}
    for measure in (Fisher(method="sketch", probes=24), Fisher(probes=8, directions=8)):
        assert asked(measure).directions.n_passes == 24
        trials = [dataclasses.replace(measure, seed=seed).trial(question()) for seed in range(30)]
        scatter[measure.method] = np.std([measurements[0].values[0] for measurements in drive(backend, trials)[0]])
    assert 5 * scatter["deflated"] < scatter["sketch"]


def test_trials_share_rounds_with_others_that_ask_for_scores() -> None:
    def both() -> Any:
        item = question()
        rows, gradients = yield [
            Request((item.prompt,), (), FullDistribution()),
            GradientRequest(item.prompt, asked(Fisher()).place, TopTokens(3), ("identity",)),
        ]
        assert isinstance(gradients, Gradients)
        return rows.values, gradients.entropy

    backend = toy()
    measure = Fisher(sigma=("identity", "embedding"))
    trials: list[Any] = [measure.trial(question()), both(), measure.trial(question("other"))]
    (first, (rows, entropy), other), cost = drive(backend, trials)
    assert -(np.exp(rows) * rows).sum() == pytest.approx(entropy)
    assert cost.n_prompts == 4
    assert cost.n_tokens_run == cost.n_full_pass_tokens == backend.n_tokens_run
    assert cost.n_gradient_tokens == 2 * 5 * 25 + 5 * 4
    alone = drive(toy(), [measure.trial(question())])[0][0]
    assert [r.values.tolist() for r in alone] == [r.values.tolist() for r in first]
    assert first[0].values != other[0].values  # another case has other probes
