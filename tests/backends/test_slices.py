"""Rows reduced a few at a time, states that two rounds share, and freed memory: bounded, and the same numbers."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from helpers.naive import random_prompt
from helpers.tiny_models import N_VOCAB, tiny_backend, tiny_model
from leakmeter.backends.hf import machine
from leakmeter.backends.hf.machine import Surplus, resident_bytes
from leakmeter.backends.hf.schedule import limits_for, token_bytes
from leakmeter.backends.hf.states import Kept
from leakmeter.core.drive import drive
from leakmeter.core.prompt import Prompt
from leakmeter.core.reductions import (
    FullDistribution,
    Labels,
    MixtureLogProbs,
    NextTokenSample,
    PartialRows,
    TargetLogProbs,
    Top,
)
from leakmeter.core.request import Reduction, Request, Trial
from leakmeter.core.tree import chunk_of
from leakmeter.instruments.generation.math import LeaveOneOutVote
from leakmeter.instruments.icl.math import LogRatioFromFirst
from leakmeter.instruments.influence.pmi import TargetWithPmi
from leakmeter.instruments.susceptibility.math import ContextMixture, Likeliest
from leakmeter.privacy import rdp
from leakmeter.privacy.clipped_logits import Aggregation
from leakmeter.privacy.decoding import Decoding, NextTokenSampleWithLoss, TargetLogProbsWithLoss
from leakmeter.privacy.mechanism import ClippedLogitAggregation

N_PROMPTS = 5
VOTES = ClippedLogitAggregation(Aggregation(10.0, N_PROMPTS, 2.0))
WANTS: dict[str, Reduction] = {
    "target": TargetLogProbs(),
    "mixed": MixtureLogProbs(1.5),
    "stretch": PartialRows(MixtureLogProbs(0.5), 1, 3),
    "draw": NextTokenSample(0.3),
    "draw mixed": NextTokenSample(0.3, 1.5),
    "labels": Labels((4, 9)),
    "rows": FullDistribution(),
    "top": Top(4),
    "likeliest": Likeliest(),
    "log ratio": LogRatioFromFirst(),
    "pmi": TargetWithPmi(1.5, 0.7),
    "receipt": NextTokenSampleWithLoss(Decoding(0.9, 1.5), 0.4, (2,)),
    "scored receipt": TargetLogProbsWithLoss(Decoding(bound_nats=0.5), 1, 3, (2,)),
    "mixture": ContextMixture((0.25,) * 4, (1,) * 4),
    "ballot": LeaveOneOutVote(VOTES, (2.0, 100.0), tuple(VOTES.bound(rdp.ORDERS).tolist()), 0.6),
}


def asked(reduction: Reduction) -> list[Request]:
    rng = np.random.default_rng(5)
    prompts = [tuple(random_prompt(rng, N_VOCAB, (6,)) for _ in range(N_PROMPTS)) for _ in range(3)]
    return [Request(some, (7, 8, 9), reduction) for some in prompts]


@pytest.mark.parametrize("name", WANTS)
def test_a_few_rows_at_a_time_give_what_all_of_them_give(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reduction = WANTS[name]
    seen: list[int] = []
    reduce = type(reduction).reduce

    def spied(self: Any, rows: Any, targets: Any) -> Any:
        seen.append(rows.shape[0] * rows.shape[1])
        return reduce(self, rows, targets)

    monkeypatch.setattr(type(reduction), "reduce", spied)
    requests = asked(reduction)
    backend = tiny_backend("llama", "sdpa")
    whole = backend.score(chunk_of(requests))
    limits = backend.limits
    for n_made, n_reduced in ((1, 1), (2, 1), (1000, 2), (7, 3)):
        seen.clear()
        backend.limits = replace(limits, logits_per_slice=n_made * N_VOCAB, reduced_per_slice=n_reduced * N_VOCAB)
        for one, other in zip(backend.score(chunk_of(requests)), whole, strict=True):
            assert one.values.shape == other.values.shape
            # Products of a few rows have other last digits than those of many.
            np.testing.assert_allclose(one.values, other.values, rtol=2e-5, atol=2e-5)
        # One row of all exemplars, or contexts, is the least of those that need all; two prompts of those that compare.
        assert max(seen) <= (N_PROMPTS if name in ("mixture", "ballot") else max(n_reduced, 2))


def test_a_budget_is_shared_out() -> None:
    """What may be there at a time is within the budget, while passes are made and while rows are reduced."""
    model = tiny_model("llama")
    for budget in (2**26, 2**30):
        limits = limits_for("cpu", budget, token_bytes(model))
        passing = limits.state_bytes * (1 + 1 / 2 + 1 / 4) + limits.tokens_per_pass * token_bytes(model)
        assert passing + limits.feature_bytes <= budget
        reducing = limits.state_bytes + limits.feature_bytes + 4 * limits.logits_per_slice
        assert reducing + 64 * limits.reduced_per_slice <= budget
    assert limits_for("cpu", 2**30, 29_184).tokens_per_pass == 2048  # the default model's passes, by default
    assert limits_for("cpu", 2**26, 29_184).tokens_per_pass == 143
    assert limits_for("cpu", 2**26, 10**12).tokens_per_pass == 1
    assert limits_for("cpu", 2**26, 10, 7).tokens_per_pass == 7


def continued(prompt: Prompt, n_rounds: int) -> Trial[list[float]]:
    """The likeliest tokens: states are copied wherever beams part."""
    tokens: list[list[int]] = [[], []]
    for _ in range(n_rounds):
        scores = yield [Request((prompt,), tuple(ids), Top(2)) for ids in tokens]
        # The beams change places each round, so that no block can grow in place.
        tokens = [[*ids, int(one.values[0, 0, i, 0])] for i, (ids, one) in enumerate(zip(tokens, scores, strict=True))]
        tokens.reverse()
    return [float(token) for ids in tokens for token in ids]


@pytest.mark.parametrize("memory_bytes", [2**16, 2**17, 2**18])
def test_states_of_two_rounds_are_within_the_limit_together(memory_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    prompts = [random_prompt(rng, N_VOCAB, (n,)) for n in (20, 31, 8, 25)]
    expected, _ = drive(tiny_backend("llama", "sdpa"), [continued(prompt, 6) for prompt in prompts])
    held: list[int] = []
    add = Kept.add

    def watched(self: Kept, *given: Any, beside: dict[int, int], **named: Any) -> None:
        add(self, *given, beside=beside, **named)
        held.append(sum({**beside, **self._block_bytes}.values()))

    monkeypatch.setattr(Kept, "add", watched)
    backend = tiny_backend("llama", "sdpa", memory_bytes=memory_bytes)
    found, _ = drive(backend, [continued(prompt, 6) for prompt in prompts])
    assert found == expected
    assert 0 < max(held) <= backend.limits.state_bytes


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_goes_back_to_the_kernel() -> None:
    if not hasattr(ctypes.CDLL(None), "malloc_trim"):
        pytest.skip("not glibc")
    surplus = Surplus(2**24)
    # Large blocks with small ones between them, which stay.
    held = [make() for _ in range(400) for make in (lambda: np.ones(500), lambda: torch.ones(2**16))]
    before = resident_bytes()
    held = held[::2]
    surplus.give_back()
    assert resident_bytes() < before - 50 * 2**20


@pytest.mark.parametrize("broken", [AttributeError, OSError])
def test_other_c_libraries_are_left_alone(broken: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: object) -> Any:
        raise broken

    monkeypatch.setattr(machine.ctypes, "CDLL", none)
    Surplus(1).give_back()
