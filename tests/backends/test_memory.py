"""Order and batches under a memory limit, running out of memory, states that grow in place, and peaks of memory.

`tests/commands/test_memory.py` has peaks of every instrument, in processes of their own.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM

from helpers.examples import examples, few
from helpers.memory_meter import forget_peak, resident
from helpers.naive import random_prompt
from helpers.tiny_models import N_VOCAB, backend_of, tiny_backend
from leakmeter.backends.hf import HfBackend
from leakmeter.backends.hf.pasts import Fork, KeysValues
from leakmeter.backends.hf.schedule import PassLimits, batches, together, windows
from leakmeter.backends.hf.states import Start
from leakmeter.core.drive import drive
from leakmeter.core.limits import parse_memory
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.reductions import MixtureLogProbs, NextTokenSample, TargetLogProbs
from leakmeter.core.request import Request, Trial
from leakmeter.core.tree import chunk_of
from leakmeter.errors import ScoreError, UsageError

RESPONSE = (5, 6, 7)


def cuts(n_prompts: int = 4) -> list[Request]:
    rng = np.random.default_rng(8)
    requests = []
    for _ in range(n_prompts):
        prompt = random_prompt(rng, N_VOCAB, (6, 5, 9), frame=4, query=5)
        parts = (prompt, *(prompt.without(name) for name in prompt.names()))
        requests.append(Request(parts, RESPONSE, TargetLogProbs()))
    return requests


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=12), min_size=1, max_size=12), st.integers(0, 60))
@settings(max_examples=examples(200))
@seed(1)
def test_windows_run_every_run_once_after_its_parent_within_the_limit(tails: list[list[int]], limit: int) -> None:
    requests = [Request((Prompt((Piece("c", "context", (9, *tail)),)),), (1,), TargetLogProbs()) for tail in tails]
    chunk = chunk_of(requests)
    done: set[int] = set()
    live: dict[int, int] = {}
    for step in windows(chunk, 1, limit):
        for parent in step.finished:
            del live[parent]
        for branch in step.branches:
            assert branch not in done
            assert chunk.branches[branch].parent < 0 or chunk.branches[branch].parent in live
            done.add(branch)
        live |= {branch: len(chunk.branches[branch].ids) for branch in step.parents}
        # A single chain of parents is let through whatever it takes.
        assert sum(live.values()) <= limit or len(step.parents) <= 1
    assert done == set(range(len(chunk.branches)))
    assert not live


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 40), st.booleans()), min_size=1, max_size=30),
    st.integers(1, 200),
    st.integers(1, 4000),
    st.booleans(),
)
@settings(max_examples=examples(200))
@seed(2)
def test_batches_hold_every_run_once_within_their_limits_and_waste_15_percent_at_most(
    shapes: list[tuple[int, int, bool]], n_tokens: int, state_bytes: int, is_padded: bool
) -> None:
    prompts = [
        Prompt((Piece("c", "context", (number, *[1] * (start + tail - 1))),))
        for number, (start, tail, _) in enumerate(shapes)
    ]
    chunk = chunk_of([Request((prompt,), (1,), TargetLogProbs()) for prompt in prompts])
    of = {i: shapes[int(branch.ids[0])] for i, branch in enumerate(chunk.branches)}
    starts = {i: Start(None, start) for i, (start, _, _) in of.items()}
    lasts = {i: last for i, (_, _, last) in of.items()}
    limits = PassLimits(n_tokens, state_bytes, 1, 1, 1)

    def n_new(batch: list[int]) -> int:
        return len(batch) * max(of[i][1] for i in batch)

    def n_before(batch: list[int]) -> int:
        return len(batch) * max(of[i][0] for i in batch)

    cut = list(batches(chunk, sorted(of), starts, lasts, limits, 1, joins=not is_padded, views=lambda branch: False))
    assert sorted(i for batch in cut for i in batch) == sorted(of)
    for batch in cut:
        assert len({lasts[i] for i in batch}) == 1
        assert n_new(batch) <= (1.15 if is_padded else 1.0) * sum(of[i][1] for i in batch)
        assert len(batch) == 1 or n_new(batch) <= n_tokens
        assert is_padded or not n_before(batch) or n_before(batch) <= 1.5 * sum(of[i][0] for i in batch)
    joined = list(together(cut, chunk, starts, limits, n_before))
    assert [batch for group in joined for batch in group] == cut
    for group in joined:
        assert len(group) == 1 or sum(map(n_new, group)) <= n_tokens
        assert len(group) == 1 or sum(map(n_before, group)) <= state_bytes // 4


def shorten(backend: HfBackend, n_rows: int, n_logits: int, error: Exception) -> list[Any]:
    """Give the machine room for so many rows a pass and entries a slice; what did not fit is told."""
    refused: list[Any] = []
    passed, logits = backend.forward.passed, backend.forward.logits

    def pass_(segments: Sequence[Any], ids: Sequence[Any], until: Any) -> Any:
        if len(ids) > n_rows:
            refused.append(ids)
            raise error
        return passed(segments, ids, until)

    def logits_(features: Any) -> Any:
        if features[..., 0].numel() * N_VOCAB > n_logits:
            refused.append(features)
            raise error
        return logits(features)

    backend.forward.passed = pass_  # type: ignore[method-assign]
    backend.forward.logits = logits_  # type: ignore[method-assign]
    return refused


CPU_OUT_OF_MEMORY = RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes")


@pytest.mark.parametrize(
    "error",
    few([CPU_OUT_OF_MEMORY, torch.OutOfMemoryError("CUDA out of memory"), MemoryError()]),
    ids=["cpu", "cuda", "python"],
)
def test_out_of_memory_halves_and_goes_on(error: Exception) -> None:
    requests = cuts()
    expected = tiny_backend("llama", "sdpa").score(chunk_of(requests))
    backend = tiny_backend("llama", "sdpa")
    before = backend.limits
    refused = shorten(backend, 1, 7 * N_VOCAB, error)
    got = backend.score(chunk_of(requests))
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one.values, other.values, rtol=0, atol=2e-5)
    assert len(refused) == backend.n_halvings > 1
    assert backend.limits.tokens_per_pass < before.tokens_per_pass
    # It has learned: the same work needs fewer halvings, and none once the limits fit.
    again = backend.n_halvings
    for _ in range(8):
        backend.score(chunk_of(requests))
    last = backend.n_halvings
    backend.score(chunk_of(requests))
    assert backend.n_halvings == last >= again


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), (ScoreError, "out of memory on a single sequence")),
        (RuntimeError("shapes differ"), (RuntimeError, "shapes differ")),  # is not taken for memory
    ],
)
def test_what_does_not_fit_alone_is_said_and_loses_nothing(error: Exception, said: tuple[type[Exception], str]) -> None:
    backend = tiny_backend("llama", "sdpa")
    shorten(backend, 0, 10**9, error)
    with pytest.raises(said[0], match=said[1]):
        backend.score(chunk_of(cuts(1)))


def decode(prompt: Prompt, number: int, n_steps: int) -> Trial[list[float]]:
    drawn: list[int] = []
    seen: list[float] = []
    for step in range(n_steps):
        reduction = NextTokenSample(float(np.random.default_rng([number, step]).random()))
        (scores,) = yield [Request((prompt,), tuple(drawn), reduction)]
        drawn.append(int(scores.values[0, 0, 0]))
        seen.append(float(scores.values[0, 0, 1]))
    return [*drawn, *seen]


@pytest.mark.long
@pytest.mark.parametrize("memory_bytes", [None, 2**15])
def test_ragged_prompts_that_end_at_different_rounds_draw_what_each_draws_alone(memory_bytes: int | None) -> None:
    rng = np.random.default_rng(6)
    prompts = [random_prompt(rng, N_VOCAB, (n,), frame=2, query=3) for n in (4, 60, 61, 7, 30, 62, 5)]
    steps = [40, 5, 70, 40, 12, 38, 3]  # some outlast the spare columns of their block
    backend = tiny_backend("llama", "sdpa", memory_bytes=memory_bytes)
    marks: list[int] = []
    together_, _ = drive(
        backend,
        [decode(p, i, n) for i, (p, n) in enumerate(zip(prompts, steps, strict=True))],
        on_plan=lambda chunk: marks.append(backend.n_tokens_run),
    )
    for i, (prompt, n) in enumerate(zip(prompts, steps, strict=True)):
        (alone,), _ = drive(tiny_backend("llama", "sdpa", share_prefixes=False), [decode(prompt, i, n)])
        assert together_[i][:n] == alone[:n]
        np.testing.assert_allclose(together_[i][n:], alone[n:], rtol=0, atol=3e-5)
    if memory_bytes is not None:
        return  # states that do not fit are run again
    # After the first round, each live trial costs one token a round.
    live = [sum(n > step for n in steps) for step in range(1, max(steps))]
    assert np.diff([*marks, backend.n_tokens_run]).tolist()[1:] == live


def test_states_grow_in_place_while_a_batch_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    filled: list[int] = []
    gather = KeysValues.gather

    def counted(self: KeysValues, forks: Sequence[Fork], n_rows: int, n_start: int) -> None:
        filled.append(n_rows)
        gather(self, forks, n_rows, n_start)

    rng = np.random.default_rng(4)
    prompts = [random_prompt(rng, N_VOCAB, (20,), frame=2, query=3) for _ in range(6)]
    backend = tiny_backend("llama", "sdpa")
    monkeypatch.setattr(KeysValues, "gather", counted)
    drive(backend, [decode(p, i, 30) for i, p in enumerate(prompts)])
    # When the prompts were run, keys and values of three layers; then never, for 29 rounds.
    assert len(filled) == 3


AMOUNTS = (
    *(("64MiB", 2**26), ("2GiB", 2**31), ("1.5 GB", 1_500_000_000), (" 512MiB ", 2**29)),
    *(("65536KiB", 2**26), ("100 MB", 10**8), ("100000kB", 10**8)),
)


def test_amounts_have_units_and_anything_else_is_refused_with_what_to_give() -> None:
    for text, n_bytes in AMOUNTS:
        assert parse_memory(text) == n_bytes
    for text in ("", "2", "2G", "-1GiB", "1e3MiB", "GiB", "2 GiB please", "nan GiB", "٢GiB"):
        with pytest.raises(UsageError, match="give a number with its unit"):
            parse_memory(text)
    with pytest.raises(UsageError, match="at least 64MiB"):
        parse_memory("1KiB")


MIB, WIDE_VOCAB = 2**20, 16_384


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks cannot be read and forgotten")
def test_a_chunk_of_much_work_keeps_its_budget() -> None:
    """Rows of a wide vocabulary, and wide states: where there is room, the same work takes more."""
    # Beside the budget: holes between tensors, and what is loaded when it is first needed.
    beside = 24 * MIB
    with torch.random.fork_rng():
        torch.manual_seed(0)
        heads = {"num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 64, "tie_word_embeddings": True}
        sizes = {"vocab_size": WIDE_VOCAB, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2}
        model = LlamaForCausalLM(LlamaConfig(**sizes, **heads))
    rng = np.random.default_rng(0)
    response = tuple(rng.integers(0, WIDE_VOCAB, size=30).tolist())
    prompt = random_prompt(rng, WIDE_VOCAB, (30,) * 12)
    prompts = (prompt.blank(), prompt, *(prompt.without(name) for name in prompt.names()))
    chunk = chunk_of([Request(prompts, response, MixtureLogProbs(1.5, 1.0))])
    found = {}
    for budget in (8, 256):
        backend = backend_of(model, memory_bytes=budget * MIB)
        gc.collect()
        forget_peak()
        before = resident("VmRSS")
        (scores,) = backend.score(chunk)
        found[budget] = (resident("VmHWM") - before, scores.values)
    assert found[8][0] <= 8 * MIB + beside < found[256][0] <= 256 * MIB + beside
    np.testing.assert_allclose(found[8][1], found[256][1], rtol=0, atol=1e-4)
