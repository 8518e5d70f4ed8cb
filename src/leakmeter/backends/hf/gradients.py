"""Requests for gradients to their numbers: prompts of equal length together, many directions in one backward pass.

One forward pass of a batch keeps its graph; directions of the logits go back through it as many at a time as fit
(`is_grads_batched`), which takes as long as going forward with as many tokens: half of what a copy of the prompt for
each direction takes. What vectors of the place do to the logits is found by going back through a backward pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

import torch
from torch import Tensor

from leakmeter.backends.hf.forward import Forward
from leakmeter.backends.hf.machine import is_out_of_memory
from leakmeter.backends.hf.places import check_one_stream, cut_at
from leakmeter.backends.hf.schedule import PassLimits
from leakmeter.backends.hf.tokenizer import HfTokenizer
from leakmeter.core.request import NEUTRAL, GradientRequest, Gradients, TopTokens, tokens_of
from leakmeter.errors import CapabilityError, ScoreError
from leakmeter.stats import fisher

_GRAPH_SHARE: Final = 8
"""Of the tokens of a pass, one in so many where its graph is kept. On a CPU 256 tokens of SmolLM2-135M take 0.3 GB, and
0.5 GB where directions go forth too."""
_TABLE_ROWS: Final = 1024  # of the embedding, copied at a time
_RANGE, _PROBE = 0, 1


def alike(requests: Sequence[GradientRequest], limits: PassLimits) -> list[list[int]]:
    """Indices of requests that go through the model together: equally long, cut alike, with as many directions."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for number, request in enumerate(requests):
        ways = (type(request.directions), request.directions.n_exact, request.directions.n_probes)
        key = (len(request.prompt.ids), request.varied.tobytes(), request.place, ways)
        groups.setdefault(key, []).append(number)
    batches: list[list[int]] = []
    for (n_tokens, *_), members in groups.items():
        at_once = max(1, limits.tokens_per_pass // _GRAPH_SHARE // n_tokens)
        batches += [members[i : i + at_once] for i in range(0, len(members), at_once)]
    return batches


class Differentiator:
    def __init__(self, forward: Forward, tokenizer: HfTokenizer, name: str) -> None:
        self._forward = forward
        self._model = forward.model
        self._tokenizer = tokenizer
        self._name = name
        self._moments: tuple[int, Tensor, Tensor] | None = None

    @cached_property
    def neutral(self) -> int:
        """The token of a slot: a line break, which says as little as any; without one, the vocabulary's first."""
        ids = self._tokenizer.encode_data("\n", first=False).ids
        return ids[-1] if ids else 0

    def answers(
        self, requests: Sequence[GradientRequest], behind: Sequence[Tensor | None], limits: PassLimits
    ) -> list[Gradients]:
        """Answers to requests that are alike (see `alike`). `behind` has each request's states at its place behind each
        context, (context, position, size), where these were run."""
        if any(request.prompt.next_position != len(request.prompt.ids) for request in requests):
            raise CapabilityError(f"'{self._name}' gives gradients only for prompts without gaps; give --removal drop")
        ids = torch.stack([torch.from_numpy(request.prompt.ids) for request in requests])
        ids = torch.where(ids == NEUTRAL, self.neutral, ids).to(self._model.device)
        with cut_at(self._model, requests[0].place, self._name) as leaves:
            if self._forward.has_head:
                hidden = self._model.base_model(input_ids=ids, use_cache=False).last_hidden_state[:, -1]
            else:
                hidden = self._model(input_ids=ids, use_cache=False).logits[:, -1]
            logits = self._forward.logits(hidden)
        if not torch.isfinite(logits).all():
            raise ScoreError(f"'{self._name}' gave NaN logits for a query; try --dtype float32")
        (vectors,) = leaves
        check_one_stream(self._model, vectors, ids)
        weighers = [self._weighers(*of_prompt) for of_prompt in zip(requests, vectors.detach(), behind, strict=True)]
        return _Batch(requests, vectors, logits, limits).answers(weighers)

    def _weighers(
        self, request: GradientRequest, vectors: Tensor, behind: Tensor | None
    ) -> list[Callable[[Tensor], Tensor]]:
        """For each Σ, what makes gradients (probe, position, size) into its numbers (probe, 2)."""
        own = vectors[torch.from_numpy(request.varied).to(vectors.device)].double()
        weighers: list[Callable[[Tensor], Tensor]] = []
        for sigma in request.sigmas:
            if sigma == "identity":
                weighers.append(fisher.isotropic)
            elif sigma == "embedding":
                mean, covariance = self._table_moments()
                weighers.append(partial(fisher.of_moments, mean=mean - own, covariance=covariance))
            else:
                deviations = (self._slots(request, own) if behind is None else behind) - own
                weights = torch.tensor(request.weights, dtype=torch.float64, device=own.device)
                weighers.append(partial(fisher.of_deviations, deviations=deviations, weights=weights))
        return weighers

    def _table_moments(self) -> tuple[Tensor, Tensor]:
        """Mean and covariance of the embedding over the vocabulary, (size,) and (size, size)."""
        table = self._model.get_input_embeddings()
        version = table.weight._version
        if self._moments is None or self._moments[0] != version:
            with torch.no_grad():
                parts = torch.split(torch.arange(self._forward.n_vocab, device=self._model.device), _TABLE_ROWS)
                mean = sum(table(ids).double().sum(dim=0) for ids in parts) / self._forward.n_vocab
                covariance = torch.zeros((len(mean), len(mean)), dtype=torch.float64, device=mean.device)
                for ids in parts:
                    rows = table(ids).float() - mean.float()
                    covariance += (rows.T @ rows).double()
                self._moments = (version, mean, covariance / self._forward.n_vocab)
        return self._moments[1:]

    def _slots(self, request: GradientRequest, own: Tensor) -> Tensor:
        """The slot with each context in it, (context, position, size)."""
        slots = own.repeat(len(request.contexts), 1, 1)
        embed = self._model.get_input_embeddings()
        for row, prompt in zip(slots, request.contexts, strict=True):
            ids = torch.from_numpy(prompt.ids[tokens_of(prompt, request.place.role)]).to(own.device)
            # A context shorter than the slot stands next to the query.
            row[len(row) - len(ids) :] = embed(ids).detach()
        return slots


@dataclass(frozen=True, slots=True)
class _Batch:
    """Requests that are alike, and the pass through which directions go back."""

    requests: Sequence[GradientRequest]
    vectors: Tensor
    """Those of the place, of all tokens: (prompt, token, size)."""
    logits: Tensor
    """(prompt, vocab)."""
    limits: PassLimits

    def answers(self, weighers: Sequence[Sequence[Callable[[Tensor], Tensor]]]) -> list[Gradients]:
        p = torch.softmax(self.logits.detach().float() if self.logits.dtype.itemsize < 4 else self.logits.detach(), -1)
        first = self.requests[0].directions
        log_mass = torch.zeros(len(p), dtype=torch.float64)
        if isinstance(first, TopTokens):
            tokens = p.topk(min(first.k, p.shape[-1])).indices
            log_mass = p.gather(1, tokens).double().sum(dim=1).clamp(max=1.0).log().cpu()
            exact = self._back(tokens.shape[-1], lambda row, some: fisher.of_tokens(p[row], tokens[row, some]))
            probes = seen = exact[:0]
        else:
            probes = self._back(first.n_probes, self._sketch(p, _PROBE))
            exact, seen = self._principal(p, probes) if first.n_range else (probes[:0], torch.zeros_like(probes))
        gradients = []
        for row, weigh in enumerate(weighers):
            values = [
                torch.cat([weigher(exact[:, row]), weigher(probes[:, row]) - weigher(seen[:, row])])
                for weigher in weigh
            ]
            numbers = torch.stack(values, dim=1).cpu().numpy()
            if not math.isfinite(numbers.sum()):
                raise ScoreError("the model gave NaN gradients; try --dtype float32")
            gradients.append(Gradients(numbers, entropy=fisher.entropy(p[row]), log_mass=float(log_mass[row])))
        return gradients

    def _sketch(self, p: Tensor, purpose: int) -> Callable[[int, slice], Tensor]:
        def directions(row: int, some: slice) -> Tensor:
            request = self.requests[row].directions
            assert not isinstance(request, TopTokens)
            start = request.first if purpose == _PROBE else 0
            numbers = range(start + some.start, start + some.stop)
            signs = fisher.probe_signs(request.seed, request.key, purpose, numbers, p.shape[-1])
            sketched: Tensor = fisher.sketched(p[row], torch.from_numpy(signs).to(p))
            return sketched

        return directions

    def _principal(self, p: Tensor, probes: Tensor) -> tuple[Tensor, Tensor]:
        """I in a subspace, as vectors (vector, prompt, position, size), and the probes' parts in it, of their shape."""
        spanning = self._back(self.requests[0].directions.n_exact, self._sketch(p, _RANGE))
        bases: list[Tensor] = [fisher.basis(spanning[:, row].flatten(1)) for row in range(len(p))]
        tangents = self._forth(torch.stack(bases, dim=1).view(-1, *spanning.shape[1:]))
        exact = [fisher.principal(basis, p[row], tangents[:, row]) for row, basis in enumerate(bases)]
        seen = [fisher.projected(probes[:, row].flatten(1), basis) for row, basis in enumerate(bases)]
        return torch.stack(exact, dim=1).view(-1, *probes.shape[1:]), torch.stack(seen, dim=1).view_as(probes)

    def _back(self, n: int, directions: Callable[[int, slice], Tensor]) -> Tensor:
        """u = Jᵀ v for n directions of each prompt: float64, (direction, prompt, position, size). `directions` gives a
        slice of a prompt's v, (direction, vocab)."""
        parts = []
        for some in self._portions(n):
            v = torch.stack([directions(row, some) for row in range(len(self.requests))], dim=1)
            parts.append(_many(self.logits, self.vectors, v.to(self.logits.dtype)))
        positions = torch.from_numpy(self.requests[0].varied).to(self.vectors.device)
        return torch.cat(parts)[:, :, positions].double()

    def _forth(self, moves: Tensor) -> Tensor:
        """J d for moves d of the place, (move, prompt, position, size): (move, prompt, vocab). Jᵀ w is linear in w, so
        its gradient with respect to w, along d, is J d."""
        w = torch.zeros_like(self.logits).requires_grad_()
        (pulled,) = torch.autograd.grad(self.logits, self.vectors, w, create_graph=True)
        positions = torch.from_numpy(self.requests[0].varied).to(self.vectors.device)
        parts = []
        for some in self._portions(len(moves)):
            whole = self.vectors.new_zeros((some.stop - some.start, *self.vectors.shape))
            whole[:, :, positions] = moves[some].to(whole.dtype)
            parts.append(_many(pulled, w, whole))
        return torch.cat(parts)

    def _portions(self, n: int) -> list[slice]:
        n_tokens = self.vectors.shape[0] * self.vectors.shape[1]
        most_tokens, most_logits = self.limits.tokens_per_pass, self.limits.logits_per_slice
        at_once = max(1, min(most_tokens // n_tokens, most_logits // self.logits.numel()))
        return [slice(i, min(i + at_once, n)) for i in range(0, n, at_once)]


def _many(output: Tensor, inputs: Tensor, directions: Tensor) -> Tensor:
    """Gradients along each of many directions; one by one where an operation has no batched backward pass."""
    grad = partial(torch.autograd.grad, output, inputs, retain_graph=True)
    try:
        return grad(directions, is_grads_batched=True)[0]
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise
    return torch.stack([grad(direction)[0] for direction in directions])
