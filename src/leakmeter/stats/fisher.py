"""Fisher information of a categorical distribution, carried back to the vectors it is a function of.

With logits z(η), p = softmax z, J = ∂z/∂η and F = diag(p) − p pᵀ, the information is I = Jᵀ F J, and
KL(p(η) ‖ p(η + Δ)) ≈ ½ Δᵀ I Δ (Liu et al., "Efficiently Computing Susceptibility to Context in Language Models",
Eq. 5, 9). I is never formed: directions v of the logits are carried back, u = Jᵀ v, and uᵀ Σ u is taken.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from array_api_compat import array_namespace, device

from leakmeter.stats.arrays import FloatArray


def probe_signs(seed: int, key: str, purpose: int, numbers: range, n_vocab: int) -> npt.NDArray[np.int8]:
    """Random signs, (probe, vocab), each probe's from the seed, the key, the purpose and its number alone."""
    entropy = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8])
    n_bytes = -(-n_vocab // 8)
    drawn = [np.random.default_rng([seed, entropy, purpose, number]).bytes(n_bytes) for number in numbers]
    bits = np.unpackbits(np.frombuffer(b"".join(drawn), dtype=np.uint8).reshape(len(numbers), n_bytes), axis=1)
    return (2 * bits[:, :n_vocab].astype(np.int8) - 1).astype(np.int8)


def sketched(probabilities: Any, signs: Any) -> Any:
    """Directions v = √p ∘ g − p (√p · g) of signs g, (probe, vocab), for p, (vocab,): E v vᵀ = F over all tokens."""
    xp = array_namespace(probabilities)
    scaled = signs * xp.sqrt(probabilities)
    return scaled - probabilities * xp.sum(scaled, axis=-1, keepdims=True)


def of_tokens(probabilities: Any, tokens: Any) -> Any:
    """Directions √p_a (e_a − p) of tokens a, (token, vocab).

    Back at the place they are √p_a ∇ log p_a, whose squares are the terms of Eq. 11; over all tokens v vᵀ adds up to F.
    """
    xp = array_namespace(probabilities)
    vocabulary = xp.arange(probabilities.shape[0], device=device(probabilities))
    chosen = xp.astype(vocabulary[None, :] == tokens[:, None], probabilities.dtype)
    return xp.sqrt(xp.take(probabilities, tokens))[:, None] * (chosen - probabilities)


def entropy(probabilities: Any) -> float:
    """−Σ p log p, nats."""
    xp = array_namespace(probabilities)
    p = xp.astype(probabilities, xp.float64)
    return float(-xp.sum(xp.where(p > 0, p * xp.log(xp.where(p > 0, p, xp.ones_like(p))), xp.zeros_like(p))))


def basis(gradients: Any) -> Any:
    """Orthonormal vectors (vector, dimension) that span gradients (probe, dimension); no more than dimensions."""
    xp = array_namespace(gradients)
    return xp.linalg.qr(gradients.T).Q.T


def principal(vectors: Any, probabilities: Any, tangents: Any) -> Any:
    """I in the span of orthonormal vectors, (vector, dimension), as w with Σ w wᵀ = P I P, where P projects on it;
    tangents are J times each of them, (vector, vocab)."""
    xp = array_namespace(vectors)
    p, t = (xp.astype(array, xp.float64) for array in (probabilities, tangents))
    mean = t @ p
    inner = (t * p) @ t.T - mean[:, None] * mean[None, :]
    sizes, axes = xp.linalg.eigh((inner + inner.T) / 2)
    lengths = xp.sqrt(xp.where(sizes > 0, sizes, xp.zeros_like(sizes)))
    return (axes * lengths).T @ vectors


def projected(gradients: Any, vectors: Any) -> Any:
    """Gradients (probe, dimension) without what is orthogonal to all of some orthonormal vectors."""
    return (gradients @ vectors.T) @ vectors


def isotropic(gradients: Any) -> Any:
    """Of Σ = 1 and μ = 0, uᵀ Σ u and (u · μ)² of gradients (probe, position, size): (probe, 2)."""
    xp = array_namespace(gradients)
    spread = xp.sum(gradients * gradients, axis=(-2, -1))
    return xp.stack([spread, xp.zeros_like(spread)], axis=-1)


def of_moments(gradients: Any, mean: Any, covariance: Any) -> Any:
    """As `isotropic`, of positions that vary independently and alike: μ (position, size), covariance (size, size)."""
    xp = array_namespace(gradients)
    spread = xp.sum((gradients @ covariance) * gradients, axis=(-2, -1))
    drift = xp.sum(gradients * mean, axis=(-2, -1))
    return xp.stack([spread, drift * drift], axis=-1)


def of_deviations(gradients: Any, deviations: Any, weights: Any) -> Any:
    """As `isotropic`, of the covariance and mean of Δ, (deviation, position, size), by weights that add up to 1."""
    xp = array_namespace(gradients)
    along = xp.tensordot(gradients, deviations, axes=((1, 2), (1, 2)))
    drift = along @ weights
    return xp.stack([((along - drift[:, None]) ** 2) @ weights, drift * drift], axis=-1)


@dataclass(frozen=True, slots=True)
class FisherEstimate:
    """½ tr(I Σ) and ½ μᵀ I μ, nats, and how far their sum may be off."""

    spread: float
    drift: float
    standard_error: float
    """Of the sum; 0 where nothing was drawn, NaN for a single probe."""

    @property
    def value(self) -> float:
        """Eq. 9, nats."""
        return self.spread + self.drift


def estimated(values: FloatArray, n_probes: int) -> FisherEstimate:
    """The estimate from tr(I Σ) and μᵀ I μ, (number, 2), of which the last `n_probes` are of random probes."""
    exact, probes = np.split(values / 2.0, [len(values) - n_probes])
    spread, drift = exact.sum(axis=0) + (probes.mean(axis=0) if n_probes else 0.0)
    error = 0.0
    if n_probes:
        error = float(probes.sum(axis=1).std(ddof=1) / np.sqrt(n_probes)) if n_probes > 1 else float("nan")
    return FisherEstimate(float(spread), float(drift), error)


def probes_needed(estimate: FisherEstimate, n_probes: int, relative_error: float) -> float:
    """Probes for which the standard error would be that share of the value; infinite where there is no value."""
    if not estimate.value > 0:
        return float("inf")
    return n_probes * float(estimate.standard_error / (relative_error * estimate.value)) ** 2
