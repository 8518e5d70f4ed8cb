"""From measurements to the object that `--estimator fisher --json` prints, and to what many objects say, by hand."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from leakmeter.core.measure import NATS, Measurement
from leakmeter.errors import UsageError
from leakmeter.instruments.susceptibility.fisher.result import FisherResult
from leakmeter.stats.stats import interval_of_mean

summary = FisherResult.summary
PARAMS = {
    "method": "sketch", "sigma": ("identity", "empirical"), "place": "layer:3", "probes": 5, "directions": 8,
    "top_k": 16, "slot_tokens": 16, "relative_error": None, "max_probes": 256, "seed": 0,
}  # fmt: skip


def texts(**more: Any) -> dict[str, Any]:
    return {
        "id": "q1", "model": "tiny", "weights_sha256": None, "dtype": "float32", "template": "plain",
        "separator": "\n", "query": "Who wrote Emma?", "factors": {"form": "question"}, "answers": [], "answer": None,
        "contexts": [{"id": "c1"}],
        "cost": {"requests": 6, "tree_tokens": 90, "naive_tokens": 90, "seconds": 0.1, "out_of_memory_retries": 0},
    } | more  # fmt: skip


def measurements(
    value: float = 2.0, error: float = 0.1, *, n_probes: int = 5, n_tokens: int = 4, entropy: float = 3.0, **more: float
) -> list[Measurement]:
    told = {
        ("identity", "fisher"): value, ("identity", "spread"): value, ("identity", "drift"): 0.0,
        ("identity", "standard_error"): error, ("identity", "trace"): 2 * value,
        ("empirical", "fisher"): 0.5, ("empirical", "spread"): 0.2, ("empirical", "drift"): 0.3,
        ("empirical", "standard_error"): 0.1, ("", "n_probes"): n_probes, ("", "n_query_tokens"): n_tokens,
        ("", "entropy"): entropy, **{("", name): number for name, number in more.items()},
    }  # fmt: skip
    return [Measurement("q1", 0, sigma, name, NATS, np.asarray([number])) for (sigma, name), number in told.items()]


def case_object(told: dict[str, Any], found: list[Measurement], **params: Any) -> FisherResult:
    (made,) = FisherResult.from_run([(told, found)], PARAMS | params)
    return made


def case(id_: str = "q1", value: float = 2.0, **more: Any) -> FisherResult:
    factors = more.pop("factors", {"form": "question"})
    return case_object(texts(id=id_, factors=factors), measurements(value, **more))


def test_the_case() -> None:
    made = case()
    identity, empirical = made.values
    assert (identity.sigma, identity.fisher_nats, identity.trace_nats_per_square) == ("identity", 2.0, 4.0)
    assert (empirical.spread_nats, empirical.drift_nats, empirical.trace_nats_per_square) == (0.2, 0.3, None)
    assert (made.estimator, made.method, made.place) == ("fisher", "sketch", "layer:3")
    assert (made.sigma, made.top_mass) == (("identity", "empirical"), None)
    assert (made.entropy_nats, made.n_query_tokens, made.n_probes, made.n_contexts) == (3.0, 4, 5, 1)
    assert FisherResult.from_dict(json.loads(made.to_json())) == made
    assert case_object(texts(), measurements(), **json.loads(json.dumps(PARAMS))) == made
    frame = made.to_frame()[["sigma", "fisher_nats", "n_query_tokens"]]
    assert frame.to_numpy().tolist() == [["identity", 2.0, 4], ["empirical", 0.5, 4]]


def test_an_interval_is_students_and_cut_at_zero() -> None:
    # t of 4 degrees at 97.5 %, from a table.
    assert case().values[0].interval_nats == pytest.approx([2 - 0.27764, 2 + 0.27764], abs=1e-5)
    assert case(n_probes=2).values[1].interval_nats == pytest.approx([0.0, 0.5 + 1.27062], abs=1e-5)


def test_intervals_cover_what_normal_probes_scatter_about() -> None:
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(1000):
        probes = rng.normal(2.0, 0.3, size=4)
        error = probes.std(ddof=1) / 2
        low, high = case(value=probes.mean(), error=error, n_probes=4).values[0].interval_nats
        hits += low <= 2.0 <= high
    assert 0.93 < hits / 1000 < 0.97


def test_top_k_has_no_interval_and_says_what_it_leaves_out() -> None:
    made = case_object(texts(), measurements(n_probes=0, top_mass=math.log(0.4)), method="top-k")
    assert made.top_mass == pytest.approx(0.4)
    assert {(one.standard_error_nats, one.interval_nats) for one in made.values} == {(None, None)}
    (warning,) = made.warnings
    assert "the 16 likeliest, which hold 40 % of the probability; the value is too low" in warning


def test_what_narrows_a_result_is_said() -> None:
    assert case().warnings == ()
    (wide,) = case(error=0.6).warnings
    assert wide.startswith("The standard error of sigma identity is 30 % of the value")
    warnings = case_object(texts(), measurements(), relative_error=0.04, max_probes=5).warnings
    assert [warning.split(" is ")[0][-8:] for warning in warnings] == ["identity", "mpirical"]
    assert "after 5 probes, the most allowed, and not the 4 % asked for" in warnings[0]
    assert case_object(texts(), measurements(), relative_error=0.04, max_probes=6).warnings == ()
    (answers,) = case_object(texts(answers=["Yes"]), measurements()).warnings
    assert "the query's answers play no part" in answers
    assert case(value=0.0, error=0.0).warnings == ()


def test_the_summary_ranks_and_tells_what_else_explains_the_ranks() -> None:
    values = [0.1, 0.9, 0.2, 0.8, 0.3, 0.7, 0.4, 0.6, 0.5, 1.0]
    cases = [
        case(f"q{i}", value, n_tokens=20 - round(10 * value), entropy=value**3, factors={"form": "ab"[i % 2]})
        for i, value in enumerate(values)
    ]
    told = summary(cases)
    identity, empirical = told.values
    assert (told.n, identity.sigma, empirical.sigma) == (10, "identity", "empirical")
    assert [row.id for row in identity.queries] == [f"q{i}" for i in (9, 1, 3, 5, 7, 8, 6, 4, 2, 0)]
    assert identity.mean_nats == pytest.approx(0.55)
    assert identity.interval_nats == pytest.approx(interval_of_mean(values, seed=0))
    assert (identity.spearman_with_length, identity.spearman_with_entropy) == pytest.approx((-1.0, 1.0))
    # All alike: ranks have no order, and no correlation.
    assert (empirical.spearman_with_length, empirical.spearman_with_entropy) == (None, None)
    assert [(level.level, level.n) for level in identity.factors["form"]] == [("a", 5), ("b", 5)]
    assert identity.factors["form"][1].mean_nats == pytest.approx(0.8)
    json.dumps(told.to_dict(), allow_nan=False)


def test_few_queries_have_no_correlation_and_one_no_interval() -> None:
    told = summary([case(f"q{i}", 1.0 + i, n_tokens=i) for i in range(9)])
    assert told.values[0].spearman_with_length is None
    one = summary([case()]).values[0]
    assert (one.interval_nats, one.factors) == (None, {})
    with pytest.raises(UsageError, match="no queries"):
        summary([])
