"""The Fisher kernels against dense matrices, and against every direction there is."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from leakmeter.stats import fisher

N_VOCAB, SIZE, N_POSITIONS = 7, 3, 2
RNG = np.random.default_rng(0)
P = RNG.dirichlet(np.ones(N_VOCAB))
F = np.diag(P) - np.outer(P, P)
J = RNG.normal(size=(N_VOCAB, N_POSITIONS * SIZE))
I = J.T @ F @ J  # noqa: E741
SIGNS = np.asarray(list(product((-1, 1), repeat=N_VOCAB)), dtype=np.int8)
"""Every sketch that there is."""
numpy_and_torch = pytest.mark.parametrize("array", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])


def gradients(directions: Any) -> Any:
    """u = Jᵀ v, (direction, position, size)."""
    return (np.asarray(directions) @ J).reshape(-1, N_POSITIONS, SIZE)


@numpy_and_torch
def test_sketches_have_the_information_of_the_logits_for_their_mean(array: Any) -> None:
    v = np.asarray(fisher.sketched(array(P), array(SIGNS)))
    np.testing.assert_allclose(v.T @ v / len(v), F, atol=1e-15)


@numpy_and_torch
def test_all_tokens_add_up_to_it_and_are_weighed_gradients_of_their_log_probabilities(array: Any) -> None:
    v = np.asarray(fisher.of_tokens(array(P), array(np.arange(N_VOCAB))))
    np.testing.assert_allclose(v.T @ v, F, atol=1e-15)
    some = np.asarray(fisher.of_tokens(array(P), array(np.asarray([4, 1]))))
    np.testing.assert_allclose(some, v[[4, 1]])
    # ∇_z log p_a = e_a − p
    np.testing.assert_allclose(v / np.sqrt(P)[:, None], np.eye(N_VOCAB) - P)


@numpy_and_torch
def test_moments_are_those_of_dense_matrices(array: Any) -> None:
    root, mean = RNG.normal(size=(SIZE, SIZE)), RNG.normal(size=(N_POSITIONS, SIZE))
    covariance = root @ root.T
    u = array(gradients(fisher.of_tokens(P, np.arange(N_VOCAB))))
    blocks = np.kron(np.eye(N_POSITIONS), covariance)
    for made, expected in (
        (fisher.isotropic(u), [np.trace(I), 0.0]),
        (fisher.of_moments(u, array(mean), array(covariance)), [np.trace(I @ blocks), mean.ravel() @ I @ mean.ravel()]),
    ):
        np.testing.assert_allclose(np.asarray(made).sum(axis=0), expected, rtol=1e-12)


@numpy_and_torch
def test_deviations_have_their_weighted_covariance_and_mean(array: Any) -> None:
    deviations, weights = RNG.normal(size=(5, N_POSITIONS, SIZE)), RNG.dirichlet(np.ones(5))
    u = array(gradients(fisher.of_tokens(P, np.arange(N_VOCAB))))
    made = np.asarray(fisher.of_deviations(u, array(deviations), array(weights))).sum(axis=0)
    flat = deviations.reshape(5, -1)
    covariance, mean = np.cov(flat.T, aweights=weights, ddof=0), weights @ flat
    np.testing.assert_allclose(made, [np.trace(I @ covariance), mean @ I @ mean], rtol=1e-12)
    # Both together are the mean of Δᵀ I Δ.
    np.testing.assert_allclose(made.sum(), sum(w * d @ I @ d for w, d in zip(weights, flat, strict=True)))


@numpy_and_torch
@pytest.mark.parametrize("n_range", [1, 3, 20])
def test_a_subspace_and_what_is_left_are_the_whole(array: Any, n_range: int) -> None:
    spanning = gradients(fisher.sketched(P, SIGNS[:n_range])).reshape(n_range, -1)
    vectors = fisher.basis(array(spanning))
    q = np.asarray(vectors)
    np.testing.assert_allclose(q @ q.T, np.eye(len(q)), atol=1e-14)
    assert len(q) == min(n_range, N_POSITIONS * SIZE)
    w = np.asarray(fisher.principal(vectors, array(P), array(q @ J.T)))
    inside = q.T @ q
    np.testing.assert_allclose(w.T @ w, inside @ I @ inside, atol=1e-13)
    u = gradients(fisher.sketched(P, SIGNS)).reshape(len(SIGNS), -1)
    seen = np.asarray(fisher.projected(array(u), vectors))
    np.testing.assert_allclose(seen, u @ inside, atol=1e-13)
    # For any Σ: exact within the subspace, and the mean of all probes for what is left.
    sigma = np.diag(np.arange(1.0, 1 + N_POSITIONS * SIZE)) + 0.3
    quadratic = [np.einsum("ni,ij,nj->n", one, sigma, one) for one in (w, u, seen)]
    total = quadratic[0].sum() + (quadratic[1] - quadratic[2]).mean()
    np.testing.assert_allclose(total, np.trace(I @ sigma), rtol=1e-12)


def test_signs_depend_on_seed_key_purpose_and_number_alone() -> None:
    whole = fisher.probe_signs(3, "a", 1, range(6), 101)
    np.testing.assert_array_equal(fisher.probe_signs(3, "a", 1, range(2, 5), 101), whole[2:5])
    np.testing.assert_array_equal(np.unique(whole), [-1, 1])
    assert whole.shape == (6, 101)
    assert abs(fisher.probe_signs(3, "a", 1, range(400), 101).mean()) < 0.02
    others = [(4, "a", 1), (3, "b", 1), (3, "a", 0)]
    assert not any(np.array_equal(fisher.probe_signs(*other, range(6), 101), whole) for other in others)
    assert fisher.probe_signs(3, "a", 1, range(0), 101).shape == (0, 101)


@numpy_and_torch
def test_entropy_has_no_part_of_what_cannot_be(array: Any) -> None:
    assert fisher.entropy(array(np.asarray([0.5, 0.0, 0.5]))) == pytest.approx(np.log(2))
    assert fisher.entropy(array(P)) == pytest.approx(-(P * np.log(P)).sum())


def test_estimates_add_what_is_exact_to_the_mean_of_probes() -> None:
    values = np.asarray([[2.0, 1.0], [4.0, 1.0], [1.0, 0.0], [3.0, 2.0], [2.0, 1.0]])
    made = fisher.estimated(values, 3)
    assert (made.spread, made.drift, made.value) == pytest.approx(((6 + 2) / 2, (2 + 1) / 2, 5.5))
    assert made.standard_error == pytest.approx(np.std([0.5, 2.5, 1.5], ddof=1) / np.sqrt(3))
    assert fisher.estimated(values, 0).standard_error == 0.0
    assert np.isnan(fisher.estimated(values, 1).standard_error)


def test_twice_as_exact_takes_four_times_the_probes() -> None:
    made = fisher.FisherEstimate(3.0, 1.0, standard_error=0.4)
    assert fisher.probes_needed(made, 10, 0.1) == pytest.approx(10.0)
    assert fisher.probes_needed(made, 10, 0.05) == pytest.approx(40.0)
    assert fisher.probes_needed(fisher.FisherEstimate(0.3, 0.2, 0.1), 10, 0.1) == pytest.approx(40.0)
    assert fisher.probes_needed(fisher.FisherEstimate(0.0, 0.0, 0.0), 10, 0.1) == np.inf
