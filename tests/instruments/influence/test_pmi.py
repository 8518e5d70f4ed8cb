"""The identity behind Theorem 3.1 (Flemings et al.), and what its proportionality leaves out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from leakmeter.core.reductions import MixtureLogProbs, TargetLogProbs
from leakmeter.instruments.influence.pmi import WITH_PMI, TargetWithPmi

N_ROWS, N_VOCAB = 6, 97
weights = pytest.mark.parametrize("weight", [0.0, 0.5, 1.0, 1.5])
temperatures = pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
libraries = pytest.mark.parametrize("library", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])


def logits(scale: float = 3.0, shift: float = 0.0) -> np.ndarray:
    """Bare prompt, whole prompt, two cuts: (4, rows, vocab), float64."""
    rng = np.random.default_rng(31)
    return rng.normal(size=(4, N_ROWS, N_VOCAB)) * scale + shift * rng.normal(size=(4, N_ROWS, 1))


def targets() -> np.ndarray:
    return np.random.default_rng(32).integers(0, N_VOCAB, size=N_ROWS)


def entries(values: Any) -> dict[str, np.ndarray]:
    return dict(zip(WITH_PMI, np.moveaxis(np.asarray(values), -1, 0), strict=True))


@weights
@temperatures
@libraries
def test_losses_are_pmi_less_the_term_beside_it(weight: float, temperature: float, library: Any) -> None:
    rows, tokens = logits(30.0, shift=100.0), targets()
    found = entries(TargetWithPmi(weight, temperature).reduce(library(rows), library(tokens)))
    whole, cuts = 1, [2, 3]
    loss = np.abs(found["log_prob"][whole] - found["log_prob"][cuts])
    for kind, power in (("", weight / temperature), ("tempered_", weight)):
        pmi, partition = (found[f"{kind}{name}"][whole] - found[f"{kind}{name}"][cuts] for name in ("pmi", "partition"))
        np.testing.assert_allclose(loss, np.abs(power * pmi - partition), rtol=0, atol=1e-10)  # measured: 2.1e-11
    # The losses are those that influence is made of.
    mixed = np.asarray(MixtureLogProbs(weight, temperature).reduce(rows, tokens))
    np.testing.assert_allclose(found["log_prob"], mixed, rtol=0, atol=1e-10)
    # The bare prompt has no PMI with itself.
    bare = np.asarray(TargetLogProbs(temperature).reduce(rows, tokens))[0]
    np.testing.assert_allclose(found["log_prob"][0], bare, rtol=0, atol=1e-10)
    for name in WITH_PMI[1:]:
        np.testing.assert_allclose(found[name][0], 0.0, atol=1e-10)


@weights
@temperatures
def test_each_entry_is_its_definition_written_out(weight: float, temperature: float) -> None:
    rows, tokens = logits(), targets()
    found = entries(TargetWithPmi(weight, temperature).reduce(rows, tokens))

    def log_probs(of: np.ndarray, at: float) -> np.ndarray:
        scaled = of / at
        return np.asarray(scaled - np.log(np.exp(scaled).sum(axis=-1, keepdims=True)))

    def of_tokens(values: np.ndarray) -> np.ndarray:
        return values[:, np.arange(N_ROWS), tokens]

    prior = log_probs(rows[0], temperature)
    for kind, at, power in (("", 1.0, weight / temperature), ("tempered_", temperature, weight)):
        pmi = log_probs(rows, at) - log_probs(rows[0], at)
        np.testing.assert_allclose(found[f"{kind}pmi"], of_tokens(pmi), rtol=0, atol=1e-12)
        expected = np.log((np.exp(prior) * np.exp(power * pmi)).sum(axis=-1))
        np.testing.assert_allclose(found[f"{kind}partition"], expected, rtol=0, atol=1e-12)
    # Nothing stands beside the PMI without a weight, and beside that at T = 1 without a temperature of its own.
    beside = {name: np.abs(np.diff(found[name][1:], axis=0)).max() for name in ("partition", "tempered_partition")}
    assert (beside["tempered_partition"] < 1e-12) == (weight in (0.0, 1.0))
    assert (beside["partition"] < 1e-12) == (weight == 0.0 or weight == temperature == 1.0)


@weights
@libraries
def test_tokens_that_a_branch_rules_out_have_no_part_in_it(weight: float, library: Any) -> None:
    rows, tokens = logits(), np.full(N_ROWS, 5)
    rows[0, :, 20:30] = -np.inf
    rows[1, :, 25:40] = -np.inf
    found = entries(TargetWithPmi(weight, 0.8).reduce(library(rows), library(tokens)))
    assert all(np.isfinite(values).all() for values in found.values())
    right = found["log_prob"][0] + weight / 0.8 * found["pmi"] - found["partition"]
    np.testing.assert_allclose(found["log_prob"], right, rtol=0, atol=1e-10)
    gone = entries(TargetWithPmi(weight, 0.8).reduce(library(rows), library(np.full(N_ROWS, 27))))
    assert (gone["log_prob"][1] == -np.inf).all()


def test_half_precision_is_widened_before_anything_is_summed() -> None:
    rows, tokens = torch.from_numpy(logits()).to(torch.bfloat16), torch.from_numpy(targets())
    half, wide = (np.asarray(TargetWithPmi(1.5, 0.8).reduce(one, tokens)) for one in (rows, rows.to(torch.float64)))
    np.testing.assert_array_equal(half, wide)
