"""Other ways to the strongest pieces of a long context: a hierarchical search, an attention ranking, a regression.

The first two are written small after what is published (AttriBoT and TracLLM search group by group, AttnTrace ranks by
attention); the regression is context-cite's own. All have the prompts that we measure, token id by token id, and are
charged the least that their passes need: where they run several prompts, each token of a shared prefix once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import torch

from benchmarks.long_contexts_memory import Remembering
from benchmarks.machine import Work, least_operations, n_seen, operations_of, size_of
from benchmarks.published import regression
from leakmeter.backends.hf import HfBackend
from leakmeter.core.item import ContextItem
from leakmeter.core.prompt import CONTEXT, Prompt
from leakmeter.core.reductions import TargetLogProbs
from leakmeter.core.request import Request
from leakmeter.core.tree import chunk_of

GROUP = 4
"""Sentences of a group, between a document and a sentence."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a search takes."""

    n_tokens: int
    """Tokens put through the model."""
    operations: float
    """That these tokens, their attention and the rows of the response need at least."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search says of a context."""

    order: np.ndarray
    """Numbers of all pieces, the strongest first: (piece,)."""
    exact: dict[int, float]
    """Σ|τ| of the pieces that were scored exactly, nats, by number."""
    cost: Cost


def cost_of(backend: HfBackend, prompts: Iterable[Prompt], response: Sequence[int]) -> Cost:
    """What it takes to score a response behind prompts, each token of their prefix tree once."""
    chunk = chunk_of([Request(tuple(prompts), tuple(response), TargetLogProbs())])
    return Cost(chunk.n_tree_tokens, least_operations(size_of(backend.model), chunk))


def rescored(backend: HfBackend, item: ContextItem, found: Found, truth: np.ndarray, m: int) -> Found:
    """The same search, with its first m pieces scored exactly and ranked by that.

    Args:
        backend: of the model.
        item: the case.
        found: what the search says.
        truth: Σ|τ| of every piece, nats, (piece,).
        m: pieces.
    """
    first, rest = found.order[:m], found.order[m:]
    first = first[np.argsort(-truth[first], kind="stable")]
    cuts = [item.cuts[item.spans[i].name] for i in first]
    both, prompt = (cost_of(backend, prompts, item.response or ()) for prompts in ([item.prompt, *cuts], [item.prompt]))
    # The prompt was run already, and its states are kept.
    n_tokens = found.cost.n_tokens + both.n_tokens - prompt.n_tokens
    needed = found.cost.operations + both.operations - prompt.operations
    exact = {int(i): float(truth[i]) for i in first}
    return Found(np.concatenate([first, rest]), exact, Cost(n_tokens, needed))


def hierarchical(model: Remembering, item: ContextItem, width: int) -> Found:
    """Leave out documents, then groups of sentences of the strongest ones, then the sentences of the strongest groups.

    Args:
        model: remembers the case's scores.
        item: the case, cut by sentence.
        width: documents that are opened, and groups.
    """
    by_document = groupby(range(len(item.spans)), key=lambda i: item.spans[i].document)
    groups = [tuple(numbers) for _, numbers in by_document]
    asked: list[Prompt] = [item.prompt]
    strength = np.zeros((3, len(item.spans)))
    for level in range(3):
        prompts = [item.without([item.spans[i].name for i in group]) for group in groups]
        nats = _nats(model, item, prompts)
        for group, own in zip(groups, nats, strict=True):
            strength[level, list(group)] = own
        asked += prompts
        if level < 2:
            size = GROUP if level == 0 else 1
            best = [groups[i] for i in np.argsort(-nats, kind="stable")[:width]]
            groups = [group[i : i + size] for group in best for i in range(0, len(group), size)]
    # Who was scored last comes first; the others as their group or document was found.
    order = np.lexsort((-strength[0], -strength[1], -strength[2]))
    exact = {i: float(strength[2, i]) for (i,) in groups}
    return Found(order, exact, cost_of(model.backend, asked, item.response or ()))


def _nats(model: Remembering, item: ContextItem, prompts: Sequence[Prompt]) -> np.ndarray:
    """Σ|τ| of what each prompt lacks."""
    (scores,) = model.score(chunk_of([Request((item.prompt, *prompts), item.response or (), TargetLogProbs())]))
    nats: np.ndarray = np.abs(scores.values[0] - scores.values[1:]).sum(axis=-1)
    return nats


def attention(backend: HfBackend, item: ContextItem) -> Found:
    """Rank by the attention that the tokens of query and response pay to a piece, all layers and heads alike.

    The weights are added up over the piece's tokens and averaged over everything else.
    """
    model: Any = backend.model
    prompt = item.prompt
    ids = torch.tensor([[*prompt.ids.tolist(), *(item.response or ())]], device=model.device)
    ends = np.cumsum([len(piece.ids) for piece in prompt.pieces])
    n_before = int(max(end for end, piece in zip(ends, prompt.pieces, strict=True) if piece.role == CONTEXT))
    used = model.config._attn_implementation
    with torch.inference_mode():
        states = model(input_ids=ids[:, :n_before], use_cache=True, logits_to_keep=1).past_key_values
        try:
            model.set_attn_implementation("eager")  # the only one that gives its weights
            out = model(input_ids=ids[:, n_before:], past_key_values=states, output_attentions=True, logits_to_keep=1)
        finally:
            model.set_attn_implementation(used)
        weights = (
            torch.stack([layer[0].mean(dim=(0, 1)) for layer in out.attentions]).mean(dim=0).double().cpu().numpy()
        )
    of_piece = np.add.reduceat(weights[: len(prompt.ids)], ends - [len(piece.ids) for piece in prompt.pieces])
    by_name: dict[str, float] = {}
    for piece, weight in zip(prompt.pieces, of_piece, strict=True):
        by_name[piece.name] = by_name.get(piece.name, 0.0) + (float(weight) if piece.ids else 0.0)
    paid = np.array([sum(by_name[name] for name in span.pieces) for span in item.spans])
    return Found(np.argsort(-paid, kind="stable"), {}, cost_of(backend, [prompt], item.response or ()))


def context_cite(backend: HfBackend, item: ContextItem, context: str, query: str, answer: str, n_tokens: int) -> Found:
    """Rank by the size of context-cite's weights, from as many random ablations as a number of tokens allows.

    Args:
        backend: of the model.
        item: the case, under the model's chat template.
        context: its text.
        query: as it was asked.
        answer: the response's text, as it stands behind the prompt.
        n_tokens: that it may run; it gets the ablation in which they end too, and two at least.
    """
    edges = [0, *(span.ranges[0][0] for span in item.spans[1:]), len(context)]
    parts = tuple(context[start:end] for start, end in pairwise(edges))
    weights, lengths = regression(
        backend, parts, query, answer, n_tokens, (item.prompt.ids.tolist(), item.response or ())
    )
    size, n_rows = size_of(backend.model), len(item.response or ())
    needed = sum(operations_of(size, Work(n_tokens=n, n_seen=n_seen(0, n), n_rows=n_rows)) for n in lengths)
    return Found(np.argsort(-np.abs(weights), kind="stable"), {}, Cost(sum(lengths), needed))
