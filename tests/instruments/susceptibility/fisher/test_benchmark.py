"""The benchmark of susceptibility from gradients: its exact trace, its errors, what it makes of times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from benchmarks import estimates, fisher
from benchmarks.base import Peer
from benchmarks.estimates import Estimate, Estimates, rows
from benchmarks.random_ids import QuerySet
from benchmarks.random_models import random_backend

from leakmeter.backends.hf import HfBackend
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.instruments.susceptibility.fisher.measure import Fisher

QUERIES = [Prompt((Piece("q", "query", ids),)) for ids in ((3, 9, 4), (50, 2, 2))]
SIZES = {
    "vocab_size": 97, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 2, "initializer_range": 0.35,
}  # fmt: skip


def small_model(config: Any) -> Any:
    torch.manual_seed(1)
    return transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float64).eval()


@pytest.fixture(scope="module")
def tiny() -> HfBackend:
    return random_backend("llama-tiny", "cpu", "float32")


def test_the_exact_trace_is_that_of_the_full_jacobian() -> None:
    model = small_model(transformers.LlamaConfig(**SIZES))
    found = fisher.exact_traces(model, QUERIES)
    for trace, query in zip(found, QUERIES, strict=True):
        vectors = model.get_input_embeddings()(torch.from_numpy(query.ids)[None]).detach()
        slopes = torch.autograd.functional.jacobian(lambda v: model(inputs_embeds=v).logits[0, -1], vectors)
        slopes = slopes.reshape(97, -1)
        p = model(torch.from_numpy(query.ids)[None]).logits[0, -1].softmax(-1)
        information = slopes.T @ (torch.diag(p) - torch.outer(p, p)) @ slopes
        # A model takes its norms in float32, whatever it is given.
        np.testing.assert_allclose(trace, information.trace().item(), rtol=1e-5)


def test_logits_that_are_more_than_a_product_are_refused() -> None:
    model = small_model(transformers.GraniteConfig(**SIZES, logits_scaling=3.0))
    with pytest.raises(SystemExit, match="the exact trace is not known"):
        fisher.exact_traces(model, QUERIES)


def test_times_are_those_of_a_query_and_of_all_the_work(monkeypatch: pytest.MonkeyPatch, tiny: HfBackend) -> None:
    """Four queries; the peer is timed on one of them."""

    def four(value: float) -> Callable[..., np.ndarray]:
        return lambda *_: np.full(4, value)

    made = Estimates(
        settings={"quick": Estimate(lambda seed: np.array([1.0, 1.0, 1.0, 1.0 + seed]), n_passes=2)}, exact=four(1.0),
        measured=four(7.0), peers={"slow": Peer(lambda: np.array([7.5]), 1 / 4, of=lambda ours: ours[:1])},
        n_queries=4,
    )  # fmt: skip
    answers = iter([([0.4, 8.0, 10.0], 1e9), None, ([0.8, 8.0, 10.0], 3e9), ([0.2, 16.0, 20.0], 2e9)])

    def steady(works: Sequence[Callable[[], Any]], backend: HfBackend) -> Any:
        assert [np.asarray(work()).tolist() for work in works] == [[1.0] * 4, [7.0] * 4, [7.5]]
        return next(answers)

    monkeypatch.setattr(estimates, "steady", steady)
    forked, quick = rows(made, tiny, 4)
    shared = {"data": "random token ids", "matrix_gflops": 2.0, "steady_rounds": 3, "s_per_query_slow": 10.0}
    assert forked == shared | {
        "setting": "forked", "max_abs_diff_nats_slow": 0.5, "part_timed_slow": 0.25, "s_per_query": 2.0,
        "ratio_slow": 5.0,
    }  # fmt: skip
    assert quick == shared | {
        "setting": "quick", "backward_passes": 2, "n_guesses": 16, "s_per_query": 0.1, "s_per_query_forked": 2.0,
        "relative_rms_error": pytest.approx(((0 + 1 + 4 + 9) / 16) ** 0.5), "ratio_slow": pytest.approx(100.0),
        "ratio_forked": pytest.approx(20.0),
    }  # fmt: skip


@pytest.mark.long
def test_numbers_are_compared_without_timing(tiny: HfBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    # The last hidden state has 32 dimensions, and so has all that gradients span.
    settings = {"sketch 64": fisher.SETTINGS["sketch 64"], "deflated 32 + 2": Fisher(directions=32, probes=2)}
    settings["top-k 16"] = fisher.SETTINGS["top-k 16"]
    monkeypatch.setattr(fisher, "SETTINGS", settings)
    made = fisher.scenario(tiny, QuerySet.drawn(n_contexts=5, n_queries=3))
    found = {row["setting"]: row for row in rows(made, tiny, 0)}
    assert list(found) == ["forked", *settings]
    assert made.measured().min() > 1e-3
    assert found["forked"]["max_abs_diff_nats_padded"] < 1e-5
    assert found["deflated 32 + 2"]["relative_rms_error"] < 1e-4
    assert 0.01 < found["sketch 64"]["relative_rms_error"] < 0.4
    # Most of a trace lies outside of the likeliest tokens here, and top-k has none of that.
    assert 0.5 < found["top-k 16"]["relative_rms_error"] < 1.0
    passes = [(found[name]["backward_passes"], found[name]["n_guesses"]) for name in settings]
    assert passes == [(64, 12), (66, 12), (16, 3)]
    assert not [key for row in found.values() for key in row if key.startswith(("s_per_query", "ratio"))]
