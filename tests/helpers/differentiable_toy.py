"""The toy model with gradients: its logits are linear in one-hot vectors of its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from leakmeter.backends.toy import Toy
from leakmeter.core.request import NEUTRAL, GradientRequest, Gradients, TopTokens
from leakmeter.core.tree import Chunk
from leakmeter.stats import fisher

_NEUTRAL_ID = 32


class DifferentiableToy(Toy):
    """η is a one-hot vector a token, so that the embedding table is the identity; there are no layers."""

    capabilities = replace(Toy.capabilities, differentiates=True)

    def differentiate(self, requests: Sequence[GradientRequest], contexts: Chunk) -> list[Gradients]:
        self.n_tokens_run += sum(request.n_tokens for request in requests)
        return [self._gradients(request) for request in requests]

    def jacobian(self, request: GradientRequest) -> tuple[np.ndarray, np.ndarray]:
        """p of the next token, (vocab,), and ∂z/∂η, (vocab, position, vocab)."""
        ids, positions = self.ids(request), request.prompt.positions
        logits = self.logits(ids, positions)
        distance = positions[-1] - positions
        near = np.where(distance < self._reach, 1.0 / (1.0 + distance), 0.0)
        slopes = [near[i] * self._seen + (i == len(ids) - 1) * self._last for i in request.varied]
        p = np.exp(logits - logits.max())
        return p / p.sum(), np.stack([slope.T for slope in slopes], axis=1)

    def ids(self, request: GradientRequest) -> np.ndarray:
        return np.where(request.prompt.ids == NEUTRAL, _NEUTRAL_ID, request.prompt.ids)

    def deviations(self, request: GradientRequest) -> np.ndarray:
        """What each context makes of the slot, (context, position, vocab)."""
        table = np.eye(len(self._last))
        slot = self.ids(request)[request.varied]
        found = []
        for prompt in request.contexts:
            ids = [token for piece in prompt.pieces if piece.role == "context" for token in piece.ids]
            found.append(table[[*slot[: len(slot) - len(ids)], *ids]] - table[slot])
        return np.stack(found)

    def _gradients(self, request: GradientRequest) -> Gradients:
        p, slopes = self.jacobian(request)
        shape = (-1, *slopes.shape[1:])
        flat = slopes.reshape(len(p), -1)
        directions = request.directions
        exact = seen = np.zeros((0, flat.shape[1]))
        if isinstance(directions, TopTokens):
            tokens = np.argsort(-p)[: directions.k]
            exact = fisher.of_tokens(p, tokens) @ flat
            probes = seen
        else:
            numbers = range(directions.first, directions.first + directions.n_probes)
            signs = fisher.probe_signs(directions.seed, directions.key, 1, numbers, len(p))
            probes = fisher.sketched(p, signs) @ flat
            seen = np.zeros_like(probes)
            if directions.n_range:
                signs = fisher.probe_signs(directions.seed, directions.key, 0, range(directions.n_range), len(p))
                basis = fisher.basis(fisher.sketched(p, signs) @ flat)
                exact = fisher.principal(basis, p, basis @ flat.T)
                seen = fisher.projected(probes, basis)
        values = []
        for sigma in request.sigmas:
            parts = [self._weighed(request, sigma, one.reshape(shape)) for one in (exact, probes, seen)]
            values.append(np.concatenate([parts[0], parts[1] - parts[2]]))
        log_mass = np.log(p[tokens].sum()) if isinstance(directions, TopTokens) else 0.0
        return Gradients(np.stack(values, axis=1), entropy=fisher.entropy(p), log_mass=float(log_mass))

    def _weighed(self, request: GradientRequest, sigma: str, gradients: np.ndarray) -> np.ndarray:
        table = np.eye(len(self._last))
        if sigma == "identity":
            return fisher.isotropic(gradients)
        if sigma == "embedding":
            own = table[self.ids(request)[request.varied]]
            return fisher.of_moments(gradients, table.mean(axis=0) - own, np.cov(table.T, ddof=0))
        return fisher.of_deviations(gradients, self.deviations(request), np.asarray(request.weights))
