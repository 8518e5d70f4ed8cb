"""Susceptibility from gradients beside Monte Carlo over 256 contexts: seconds, and how far off the estimated trace is.

Monte Carlo is done as by Liu et al. ("Efficiently Computing Susceptibility to Context in Language Models"), a full pass
for every context and query in batches, and as we do it, queries that share contexts together. Both make logits of the
last row alone; logits of all rows would take the first way longer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from benchmarks import peers
from benchmarks.base import Peer
from benchmarks.estimates import Estimate, Estimates
from benchmarks.random_ids import QuerySet
from leakmeter.backends.hf import HfBackend
from leakmeter.core.drive import drive
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.request import GradientRequest
from leakmeter.instruments.susceptibility.fisher.measure import Fisher
from leakmeter.instruments.susceptibility.measure import Susceptibility
from leakmeter.instruments.susceptibility.prompts import ContextSet, QueryItem

SETTINGS = {
    **{f"sketch {n}": Fisher(method="sketch", probes=n) for n in (4, 8, 16, 24, 64)},
    "deflated 8 + 8": Fisher(method="deflated", directions=8, probes=8),
    "top-k 16": Fisher(method="top-k", top_k=16),
}


def scenario(backend: HfBackend, asked: QuerySet, names: Collection[str] | None = None) -> Estimates:
    """The trace of the Fisher information about each query's input embeddings; χ by Monte Carlo, nats.

    Args:
        backend: what it runs on.
        asked: queries and contexts.
        names: of the settings to run; None for all.
    """
    items = [_item(f"q{i}", query, asked) for i, query in enumerate(asked.queries)]
    first = asked.behind(asked.queries[0])
    padded = Peer(
        lambda: np.asarray([peers.padded_susceptibility(backend.model, first)]),
        1 / len(items),
        of=lambda ours: ours[:1],
    )
    return Estimates(
        settings={
            name: _estimate(backend, measure, items)
            for name, measure in SETTINGS.items()
            if names is None or name in names
        },
        exact=lambda: exact_traces(backend.model, [item.prompt for item in items]),
        measured=lambda: _read(backend, Susceptibility(), items, "susceptibility"),
        peers={"padded": padded},
        n_queries=len(items),
    )


def exact_traces(model: Any, queries: Sequence[Prompt]) -> np.ndarray:
    """tr I of queries of equal length, in as many backward passes as the last hidden state h has dimensions: (query,).

    Logits are z = W h + b, so that I = Aᵀ (Wᵀ F W) A with A = ∂h/∂η, which has a row a dimension; its trace is the sum
    of (Wᵀ F W) ∘ (A Aᵀ). No random number and none of our own gradients is in it.
    """
    ids = torch.tensor(np.stack([query.ids for query in queries]), device=model.device)
    head = model.get_output_embeddings()
    with torch.enable_grad():
        vectors = model.get_input_embeddings()(ids).detach().requires_grad_()
        hidden = model.base_model(inputs_embeds=vectors, use_cache=False).last_hidden_state[:, -1]
        # A query's gradients are its own: those of a sum over queries are all of theirs.
        back = [torch.autograd.grad(one.sum(), vectors, retain_graph=True)[0].flatten(1) for one in hidden.T]
    slopes = torch.stack(back, dim=1)
    with torch.no_grad():
        logits = head(hidden)
        if not torch.allclose(logits, model(input_ids=ids, logits_to_keep=1).logits[:, 0], rtol=1e-3, atol=1e-3):
            raise SystemExit("this model does more to its logits than a matrix; the exact trace is not known")
        weight = head.weight.double()
        traces = [_trace(weight, p, a.double()) for p, a in zip(logits.double().softmax(-1), slopes, strict=True)]
    return np.asarray(traces)


def _trace(weight: torch.Tensor, p: torch.Tensor, slopes: torch.Tensor) -> float:
    mean = p @ weight
    inner = (weight.T * p) @ weight - torch.outer(mean, mean)
    return float((inner * (slopes @ slopes.T)).sum())


def _estimate(backend: HfBackend, measure: Fisher, items: Sequence[QueryItem]) -> Estimate:
    (request,) = next(measure.trial(items[0]))
    assert isinstance(request, GradientRequest)
    return Estimate(
        lambda seed: _read(backend, replace(measure, seed=seed), items, "trace"),
        request.directions.n_passes,
        is_random=measure.method != "top-k",
    )


def _read(
    backend: HfBackend, measure: Fisher | Susceptibility, items: Sequence[QueryItem], statistic: str
) -> np.ndarray:
    """One of the measure's statistics, of all queries together: (query,)."""
    found, _ = drive(backend, [measure.trial(item) for item in items])
    return np.asarray(
        [measurement.values[0] for of in found for measurement in of if measurement.statistic == statistic]
    )


def _item(id_: str, query: Piece, asked: QuerySet) -> QueryItem:
    bare = Prompt((query,))
    n = len(asked.contexts)
    return QueryItem(
        id=id_,
        prompt=bare,
        response=None,
        contexts=ContextSet(asked.behind(query), (1 / n,) * n),
    )
