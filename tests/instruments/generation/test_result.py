"""From measurements to the result that `leakmeter generate --json` prints, by hand-written numbers."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from leakmeter.core.measure import NATS, TOKEN_ID, WEIGHT, Measurement
from leakmeter.errors import UsageError
from leakmeter.instruments.generation.math import distinct, perplexity, shared_runs, stretches
from leakmeter.instruments.generation.result import (
    ClippedLogits,
    CopiedPassage,
    GenerationDraws,
    GenerationSummary,
    OwnMechanism,
    PrivateGenerationResult,
    PublicTexts,
)
from leakmeter.privacy.clipped_logits import Aggregation
from leakmeter.privacy.rdp import ORDERS, bound, conversion, guarantee

PARAMS: dict[str, Any] = {
    "nonce": None, "clip": 2.0, "temperature": 4.0, "normalise_by": "fixed", "sequences": 2, "max_new_tokens": 3,
    "min_new_tokens": 0, "delta": 1e-5, "seed": 2**127, "mechanism": None, "sequences_a_part": None,
}  # fmt: skip

BROKEN = ([0.1, 0.2, 0.3], [0.4, 1.5])
SENSITIVITY = Aggregation(2.0, 2, 4.0).sensitivity()
BEST = guarantee(SENSITIVITY, 6, 1e-5).order
MEASURED = (2.0, BEST, math.inf)
LIMITS = bound(SENSITIVITY, MEASURED)
TOKENS = ([7, 8, 9], [7, 8])
# Share of the promise that each token of the two sequences used, by exemplar.
SHARES = {"e1": ([0.1, 0.2, 0.3], [0.4, 0.1]), "e2": ([0.5, 0.1, 0.1], [0.1, 0.9])}


def texts(**more: Any) -> dict[str, Any]:
    return {
        "id": "batch 1", "model": "toy", "weights_sha256": None, "dtype": "float64", "template": "plain",
        "query": "Sports", "context": "Text: one\n\nText: two", "sampled": True,
        "responses": [{"text": "A b", "tokens": ["A", " b", ""]}, {"text": "A c", "tokens": ["A", " c"]}],
        "spans": [
            {"name": name, "ranges": [[a, b]], "document": id_, "n_tokens": n, "repeats": []}
            for name, a, b, id_, n in (("e1", 0, 9, "x7", 5), ("e2", 11, 20, "x9", 6))
        ],
        "cost": {"requests": 6, "tree_tokens": 90, "naive_tokens": 300, "seconds": 1.0, "out_of_memory_retries": 0},
    } | more  # fmt: skip


def measurements(shares: Any = SHARES, ratios: dict[tuple[int, str], list[float]] | None = None) -> list[Measurement]:
    def one(sample: int, piece: str, statistic: str, unit: str, values: Any) -> Measurement:
        return Measurement("batch 1", sample, piece, statistic, unit, np.asarray(values, dtype=np.float64))

    out = [
        one(0, "", "promised_order", WEIGHT, ORDERS),
        one(0, "", "promised_rdp", NATS, bound(SENSITIVITY, ORDERS)),
        one(0, "", "promised_max_divergence", NATS, LIMITS[-1:]),
    ]
    for i, tokens in enumerate(TOKENS):
        out.append(one(i, "", "token", TOKEN_ID, tokens))
        out.append(one(i, "", "log_prob", NATS, [-1.0] * len(tokens)))
        out.append(one(i, "", "bare_log_prob", NATS, np.log([0.5, 0.125, 0.5][: len(tokens)])))
        for name, of in shares.items():
            used = np.asarray(of[i])
            for order, limit, falls in zip(MEASURED, LIMITS, (0.5, 1.0, 0.8), strict=True):
                statistic = "max_divergence" if order == math.inf else f"renyi_{order:g}"
                out.append(one(i, name, statistic, NATS, falls * used * limit))
            out.append(one(i, name, "ratio", WEIGHT, (ratios or {}).get((i, name), used)))
            out.append(one(i, name, "order", WEIGHT, [7.0] * len(tokens)))
            runs = [5.0, 5.0, 0.0] if name == "e2" else [0.0, 0.0, 0.0]
            out.append(one(i, name, "verbatim", WEIGHT, runs[: len(tokens)]))
    return out


def result_of(shares: Any = SHARES, ratios: Any = None, **more: Any) -> PrivateGenerationResult:
    params = {**PARAMS, **more.pop("params", {})}
    (made,) = PrivateGenerationResult.from_run([(texts(**more), measurements(shares, ratios))], params)
    return made


def test_promise_verdict_and_who_paid_most() -> None:
    case = result_of()
    promised, told = case.bounds.guarantee, guarantee(SENSITIVITY, 6, 1e-5)
    assert promised is not None
    assert (promised.n_tokens, promised.delta, promised.epsilon, promised.order) == (6, 1e-5, told.epsilon, BEST)
    assert promised.rdp_nats == pytest.approx(told.rdp_nats, rel=1e-14)
    assert promised.pure_epsilon == pytest.approx(told.pure_epsilon, rel=1e-14)
    assert case.bounds.spent.n_tokens == 5
    assert case.bounds.spent.epsilon == pytest.approx(guarantee(SENSITIVITY, 5, 1e-5).epsilon, rel=1e-14)
    assert [row.order for row in case.by_order] == [2.0, BEST, math.inf]
    limit, at = float(LIMITS[1]), case.by_order[1]
    assert at.bound_nats == pytest.approx(5 * limit)
    assert at.measured_nats == pytest.approx(1.7 * limit)
    assert (at.ratio, at.worst_token_ratio, at.exemplar) == (pytest.approx(1.7 / 5), pytest.approx(0.9), "e2")
    assert at.sum_of_maxima_nats == pytest.approx((0.5 + 0.2 + 0.3 + 0.4 + 0.9) * limit)
    assert (case.verdict.holds, case.verdict.failures) == (True, ())
    assert where(case.verdict.worst_token) == ("e2", "x9", 1, 1, " c")
    assert case.verdict.worst_token.order == BEST
    assert [one.rank for one in case.exemplars] == [2, 1]
    assert [one.measured_nats for one in case.exemplars] == pytest.approx([1.1 * limit, 1.7 * limit])
    assert [one.text for one in case.exemplars] == ["Text: one", "Text: two"]
    assert case.exemplars[0].worst_token.sample == 1
    per_token = case.samples[0].per_token
    assert per_token.most_exemplar == ("e2", "e1", "e1")
    assert per_token.most_nats == pytest.approx([0.5 * limit, 0.2 * limit, 0.3 * limit])
    assert per_token.share_of_bound == pytest.approx([0.5, 0.2, 0.3])


def where(told: Any) -> tuple[object, ...]:
    return (told.exemplar, told.exemplar_id, told.sample, told.token, told.token_text)


def test_the_papers_figure_stands_beside_that_of_a_mechanism_that_tells_nothing() -> None:
    told = result_of().paper_convention
    zero = 2 * float(conversion([BEST], 1e-5)[0])
    assert told.zero_leak_epsilon == pytest.approx(zero)
    assert told.epsilon == pytest.approx(zero + 2 * told.sum_of_maxima_nats)
    # Nothing at all is told, and the figure is still most of the promise.
    silent = result_of({name: ([0.0] * 3, [0.0] * 2) for name in SHARES})
    assert silent.paper_convention.epsilon == pytest.approx(zero)
    assert silent.verdict.holds is True


def test_a_failure_names_exemplar_and_token() -> None:
    (failure,) = result_of({**SHARES, "e1": BROKEN}).verdict.failures
    assert where(failure) == ("e1", "x7", 1, 1, " c")
    assert failure.ratio == pytest.approx(1.5)
    assert failure.measured_nats == pytest.approx(1.5 * failure.bound_nats)
    # At an order that was not measured by itself.
    (failure,) = result_of(ratios={(0, "e2"): [0.5, 1.25, 0.1]}).verdict.failures
    assert (failure.exemplar, failure.sample, failure.token, failure.order) == ("e2", 0, 1, 7.0)
    # All tokens together.
    every = result_of({**SHARES, "e1": ([1.2] * 3, [1.2] * 2)}).verdict
    assert {(one.exemplar, one.token is None) for one in every.failures} == {("e1", True), ("e1", False)}
    assert every.holds is False
    # Infinite losses are a failure, and are written as such.
    case = result_of({**SHARES, "e1": ([0.1, math.inf, 0.3], [0.4, 0.1])})
    assert not case.verdict.holds
    assert (case.exemplars[0].measured_nats, case.exemplars[0].rank) == (math.inf, 1)
    assert case.verdict.worst_token.token == 1
    told = json.loads(case.to_json())
    assert told["exemplars"][0]["measured_nats"] == "Infinity"
    assert PrivateGenerationResult.from_dict(told) == case


def test_what_may_be_published_is_the_texts_and_the_guarantee() -> None:
    result = result_of()
    assert result.bounds.guarantee is not None
    mechanism = ClippedLogits(name="clipped-logit aggregation", clip=2.0, temperature=4.0, normalise_by="fixed")
    assert result.public == PublicTexts(
        model="toy", weights_sha256=None, dtype="float64", template="plain", query="Sports", mechanism=mechanism,
        subset_size=2, n_samples=2, min_new_tokens=0, max_new_tokens=3, delta=1e-5, adjacency="add-remove",
        sampled=True, texts=("A b", "A c"), guarantee=result.bounds.guarantee,
        draws=GenerationDraws(random_bits="seed"),
    )  # fmt: skip
    assert result.public.is_public
    # The same whatever was measured.
    assert result_of({name: ([0.7] * 3, [0.3] * 2) for name in SHARES}).public == result.public
    assert result.texts == ("A b", "A c")
    with pytest.raises(UsageError, match="publish nothing from this run"):
        _ = result_of({**SHARES, "e1": BROKEN}).public
    own = result_of(params={"mechanism": {"name": "Mine", "k": 3}}).mechanism
    assert own == OwnMechanism(name="Mine", settings={"k": 3})


@pytest.mark.parametrize("more", [{"sampled": False}, {"params": {"seed": None}}])
def test_no_guarantee_for_texts_that_were_given_or_drawn_with_a_known_seed(more: dict[str, Any]) -> None:
    case = result_of(**more)
    assert case.publishable is None
    assert case.bounds.guarantee is None
    assert any("seed 0, a known seed" in line for line in case.warnings) == ("params" in more)
    with pytest.raises(UsageError, match="these texts have no guarantee"):
        _ = case.public
    drawn = result_of(params={"seed": None, "nonce": 5})
    assert drawn.draws == GenerationDraws(random_bits="operating system")
    assert drawn.publishable is not None


def test_parts_of_a_batch_are_one_batch_again() -> None:
    cost = {"requests": 3, "tree_tokens": 45, "naive_tokens": 150, "seconds": 0.5, "out_of_memory_retries": 0}
    said, params = texts(), {**PARAMS, "sequences_a_part": 1}
    parts = []
    for i in range(2):
        of_part = [r for r in measurements() if r.sample == i or r.statistic.startswith("promised_")]
        own = texts(id=f"batch 1, part {i + 1}", responses=said["responses"][i : i + 1], cost=cost)
        parts.append((own, [replace(r, sample=0) for r in of_part]))
    (made, again) = PrivateGenerationResult.from_run(parts * 2, params)
    whole = result_of()
    assert replace(made, cost=whole.cost) == whole
    assert made == again
    assert made.cost.to_dict() == {
        "requests": 6, "tree_tokens": 90, "naive_tokens": 300, "seconds": 1.0,
        "out_of_memory_retries": 0, "scored_together": None,
    }  # fmt: skip


def test_quality_of_the_texts() -> None:
    told = result_of().text_quality
    assert told.perplexity == pytest.approx(2 ** ((1 + 3 + 1 + 1 + 3) / 5))
    assert (told.distinct_1, told.distinct_2, told.distinct_3) == pytest.approx((3 / 5, 2 / 3, 1.0))
    assert (told.verbatim_share, told.longest_verbatim_tokens) == (pytest.approx(4 / 5), 5)
    assert told.verbatim == (
        CopiedPassage(sample=0, start=0, end=2, longest_run_tokens=5, text="A b", exemplar="e2"),
        CopiedPassage(sample=1, start=0, end=2, longest_run_tokens=5, text="A c", exemplar="e2"),
    )


def test_several_batches_are_as_private_as_the_worst() -> None:
    cases = [result_of(), result_of({**SHARES, "e1": BROKEN}, id="batch 2")]
    told = GenerationSummary.from_results(cases)
    assert (told.n_batches, told.n_texts, told.holds) == (2, 4, False)
    assert told.guarantee == cases[0].bounds.guarantee
    assert [(one.batch, one.exemplar) for one in told.failures] == [("batch 2", "e1")]
    # The two batches hold the same texts: what is promised of them adds up.
    assert (told.most.batch, told.n_repeated_texts) == ("batch 2", 2)
    without = replace(cases[0], bounds=replace(cases[0].bounds, guarantee=None))
    assert GenerationSummary.from_results([cases[0], without]).guarantee is None
    with pytest.raises(UsageError, match="there are no batches to sum up"):
        GenerationSummary.from_results([])


def test_a_row_for_each_exemplar() -> None:
    frame = result_of().to_frame()
    assert frame[["name", "rank"]].values.tolist() == [["e1", 2], ["e2", 1]]
    assert {"renyi_2_nats", f"renyi_{BEST:g}_nats", "max_divergence_nats"} < set(frame.columns)


IDS = st.lists(st.integers(0, 3), max_size=14)


@seed(110)
@given(IDS, st.lists(IDS, min_size=1, max_size=3))
def test_runs_are_those_that_any_comparison_finds(ids: list[int], others: list[list[int]]) -> None:
    stretches_of = list(itertools.combinations(range(len(ids) + 1), 2))
    for other, found in zip(others, shared_runs(ids, others).tolist(), strict=True):
        theirs = {tuple(other[a:b]) for a, b in itertools.combinations(range(len(other) + 1), 2)}
        shared = [(a, b) for a, b in stretches_of if tuple(ids[a:b]) in theirs]
        assert found == [max((b - a for a, b in shared if a <= i < b), default=0) for i in range(len(ids))]


def test_runs_and_shares_by_hand() -> None:
    # A run does not go on in the next text.
    assert shared_runs([1, 2, 3, 4], [[9, 1, 2], [3, 4, 9]]).tolist() == [[2, 2, 0, 0], [0, 0, 2, 2]]
    assert stretches([0, 5, 5, 5, 5, 5, 2, 6, 6], 5) == [(1, 6), (7, 9)]
    assert [stretches(runs, 5) for runs in ([5, 5], [4, 4], [])] == [[(0, 2)], [], []]
    assert distinct([[1, 2, 1, 2], [2]], 1) == pytest.approx(2 / 5)
    assert distinct([[1, 2, 1, 2], [2]], 2) == pytest.approx(2 / 3)
    assert math.isnan(distinct([[1]], 2))
    assert perplexity(np.log([0.5, 0.125])) == pytest.approx(4.0)
    assert math.isnan(perplexity([]))
