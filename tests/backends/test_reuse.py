"""Chunks found instead of run: the same numbers, bit for bit, whatever the cache holds."""

from __future__ import annotations

import gc
import hashlib
import weakref
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from helpers.examples import few
from helpers.naive import random_prompt
from helpers.tiny_models import backend_of, fresh_model, item_of, tiny_backend
from leakmeter.backends.hf.backend import HfBackend
from leakmeter.backends.hf.reuse import Reuse, chunk_key, leaves_states, reuse_for
from leakmeter.core.drive import drive
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.reductions import MixtureLogProbs, NextTokenSample, TargetLogProbs
from leakmeter.core.request import Reduction, Request
from leakmeter.core.tree import Chunk, chunk_of
from leakmeter.instruments.influence.measure import Influence


class Memory:
    def __init__(self) -> None:
        self.held: dict[bytes, np.ndarray] = {}
        self.n_put = 0

    def get(self, key: bytes) -> np.ndarray | None:
        return self.held.get(key)

    def put(self, key: bytes, array: np.ndarray) -> None:
        self.n_put += 1
        self.held[key] = array.copy()
        self.held[key].setflags(write=False)


class Historical:
    """Stands in for a model with states: what it gives depends on every chunk since its states were last dropped."""

    def __init__(self) -> None:
        self.states = b""
        self.n_run = 0
        self.reuse: Reuse | None = None

    def score(self, chunk: Chunk) -> bytes:
        if chunk.round == 0:
            self.forget()
        found = self.run(chunk) if self.reuse is None else self.reuse.through(chunk, self.run, self.forget)
        return found.numpy().tobytes()

    def run(self, chunk: Chunk) -> Tensor:
        self.n_run += 1
        digest = hashlib.sha256(self.states + chunk_key(b"", chunk)).digest()
        self.states = digest if leaves_states(chunk) else b""
        return torch.frombuffer(bytearray(digest * chunk.n_slots), dtype=torch.uint8).reshape(chunk.n_slots, -1)

    def forget(self) -> None:
        self.states = b""


def a_prompt(*ids: int) -> Prompt:
    return Prompt((Piece("text", "context", ids),))


def a_chunk(token: int, reduction: Reduction, round: int = 0) -> Chunk:
    return chunk_of([Request((a_prompt(1, 2, token),), (5,), reduction)], round)


def reuse(cache: Memory) -> Reuse:
    return Reuse(cache, {}, dict, torch.device("cpu"))


DRAW, TARGET = NextTokenSample(0.5), TargetLogProbs()

# Trials: rounds of (token, whether states are left for the next round); in between, keys that the cache forgets.
TRIALS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=5),
        st.lists(st.integers(0, 50), max_size=3),
    ),
    max_size=8,
)


@given(trials=TRIALS)
def test_nothing_depends_on_what_the_cache_holds(trials: list[tuple[list[tuple[int, bool]], list[int]]]) -> None:
    plain, reusing, cache = Historical(), Historical(), Memory()
    reusing.reuse = reuse(cache)
    for rounds, forgotten in trials:
        for number, (token, continues) in enumerate(rounds):
            chunk = a_chunk(token, DRAW if continues else TARGET, number)
            assert reusing.score(chunk) == plain.score(chunk)
        for index in forgotten:
            if cache.held:
                del cache.held[list(cache.held)[index % len(cache.held)]]
    assert reusing.n_run <= plain.n_run
    n_run = reusing.n_run
    if trials and not any(forgotten for _, forgotten in trials):
        for rounds, _ in trials:
            for number, (token, continues) in enumerate(rounds):
                reusing.score(a_chunk(token, DRAW if continues else TARGET, number))
        assert reusing.n_run == n_run


def test_what_is_no_number_is_not_kept() -> None:
    cache, chunk = Memory(), a_chunk(0, TARGET)
    features = reuse(cache).through(chunk, lambda chunk: torch.full((chunk.n_slots, 2), float("nan")), lambda: None)
    assert features.isnan().all()
    assert cache.n_put == 0


def test_an_entry_of_another_shape_is_a_miss() -> None:
    cache, chunk = Memory(), a_chunk(0, TARGET)
    for shape, is_hit in (((9, 2), False), ((1,), False), ((1, 2, 2), False), ((1, 2), True)):
        cache.held[chunk_key(b"[{}, {}]", chunk)] = np.zeros(shape)
        model = Historical()
        reuse(cache).through(chunk, model.run, model.forget)
        assert model.n_run == (not is_hit)


def laid_out(chunk: Chunk, **changed: Any) -> Chunk:
    """The chunk, with something of it, or of what its requests come to, changed."""
    layout = tuple(changed.get(name, getattr(chunk, name)) for name in ("branches", "slots", "n_slots"))
    made = Chunk(changed.get("requests", chunk.requests), changed.get("round", chunk.round))
    vars(made)["layout"] = layout
    return made


def changes(chunk: Chunk, which: int) -> Iterator[Chunk]:
    at = which % len(chunk.branches)
    branch = chunk.branches[at]

    def with_run(**changed: Any) -> Chunk:
        return laid_out(chunk, branches=(*chunk.branches[:at], replace(branch, **changed), *chunk.branches[at + 1 :]))

    for name in ("ids", "positions", "row_tokens", "row_slots"):
        array = getattr(branch, name)
        one_other = array + (np.arange(len(array)) == which % len(array))
        for changed in (one_other, array[:-1], np.append(array, 0)):
            yield with_run(**{name: changed})
    # The last token of one array is not the first of the next.
    yield with_run(ids=np.append(branch.ids, branch.positions[0]), positions=branch.positions[1:])
    yield with_run(parent=branch.parent + 1)
    yield with_run(fork=branch.fork + 1)
    yield with_run(ends=(*branch.ends, len(branch.ids) - 1))
    yield laid_out(chunk, n_slots=chunk.n_slots + 1)
    yield laid_out(chunk, branches=(*chunk.branches, branch))
    (request,) = chunk.requests
    yield laid_out(chunk, requests=(replace(request, reduction=TARGET if leaves_states(chunk) else DRAW),))


@pytest.mark.parametrize("reduction", [TARGET, DRAW])
@pytest.mark.parametrize("which", range(3))
def test_the_key_holds_every_token_place_and_row(reduction: Reduction, which: int) -> None:
    chunk = chunk_of([Request((a_prompt(1, 2, 3), a_prompt(1, 7, 9, 4)), (5, 6), reduction)], 1)
    assert len(chunk.branches) == 2
    key = chunk_key(b"model", chunk)
    others = [chunk_key(b"model", other) for other in changes(chunk, which)]
    others += [chunk_key(b"other", chunk), chunk_key(b"model", chunk, b"before"), chunk_key(b"modelbefore", chunk)]
    assert len({key, *others}) == 1 + len(others)
    assert len(key) == 32
    # Another integer type, the round, and what is done with the rows are no matter.
    narrow = [replace(branch, ids=branch.ids.astype(np.uint32)) for branch in chunk.branches]
    assert chunk_key(b"model", laid_out(chunk, branches=tuple(narrow))) == key
    assert chunk_key(b"model", laid_out(chunk, round=chunk.round + 1)) == key


def backend(cache: Memory | None, kind: str = "llama", model_id: str | None = "tiny", **options: Any) -> HfBackend:
    made = tiny_backend(kind, **options)
    if cache is not None:
        made.reuse = reuse_for(made, cache, model_id)
    return made


REQUESTS = [
    Request((random_prompt(np.random.default_rng(seed), 90, [4, 3]), a_prompt(5, 6, 7)), (8, 9, 10), TargetLogProbs())
    for seed in range(3)
]


def scored(made: HfBackend, requests: list[Request] = REQUESTS) -> list[bytes]:
    return [scores.values.tobytes() for scores in made.score(chunk_of(requests))]


@pytest.mark.parametrize("kind", ["llama", "gemma3", "mamba"])
def test_a_second_run_makes_no_passes(kind: str) -> None:
    cache = Memory()
    first, second = backend(cache, kind), backend(cache, kind)
    assert scored(first) == scored(second) == scored(backend(None, kind))
    assert (first.n_tokens_run > 0, second.n_tokens_run) == (True, 0)
    hotter = [replace(request, reduction=MixtureLogProbs(1.5, 0.8)) for request in REQUESTS]
    assert scored(second, hotter) == scored(backend(None, kind), hotter)
    assert second.n_tokens_run == 0


def test_another_model_precision_or_other_batches_find_nothing() -> None:
    cache = Memory()
    scored(backend(cache))
    models: list[dict[str, Any]] = [{"model_id": "another"}, {"weights_sha256": "00"}, {"kind": "gpt2"}]
    batches: list[dict[str, Any]] = [{"share_prefixes": False}, {"tokens_per_batch": 7}, {"memory_bytes": 2**20}]
    others = [backend(cache, **options) for options in (*models, *batches)]
    halved = backend_of(fresh_model("llama", dtype=torch.bfloat16))
    halved.reuse = reuse_for(halved, cache, "tiny")
    for n_held, other in enumerate((*others, halved), start=2):
        expected, n_run = scored(other), other.n_tokens_run
        assert n_run > 0
        assert len(cache.held) == n_held
        assert scored(other) == expected
        assert other.n_tokens_run == n_run


@pytest.mark.parametrize("kind", few(["llama", "mistral"]))
@pytest.mark.parametrize("forgets", [(), (3,), (0, 2, 4), (-2, -1)])
def test_drawing_goes_on_where_the_cache_ends(kind: str, forgets: tuple[int, ...]) -> None:
    cache = Memory()
    rng = np.random.default_rng(3)
    item = item_of(random_prompt(rng, 90, [5, 4, 6]), "case")
    measure = Influence(samples=3, max_new_tokens=6)

    def measured(one: HfBackend) -> list[bytes]:
        (measurements,), _ = drive(one, [measure.trial(item)])
        return [measurement.values.tobytes() for measurement in measurements]

    expected = measured(backend(None, kind))
    assert measured(backend(cache, kind)) == expected
    keys = list(cache.held)
    assert len(keys) > 6
    for index in forgets:
        del cache.held[keys[index]]
    again = backend(cache, kind)
    assert measured(again) == expected
    assert (again.n_tokens_run == 0) == (not forgets)
    assert sorted(cache.held) == sorted(keys)


def test_training_ends_reuse() -> None:
    cache, model = Memory(), fresh_model("llama")
    made = backend_of(model)
    made.reuse = reuse_for(made, cache, "tiny")
    scored(made)
    with torch.no_grad():
        next(model.parameters()).mul_(1.5)
    assert scored(made) == scored(backend_of(model))
    assert cache.n_put == 1


def test_running_out_of_memory_keeps_nothing_that_was_cut_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Memory()
    made = backend(cache)
    passed, failures = made.forward.passed, [MemoryError()]

    def failing(*arguments: Any) -> Tensor:
        if failures and len(arguments[1]) > 1:
            raise failures.pop()
        return passed(*arguments)

    monkeypatch.setattr(made.forward, "passed", failing)
    alike = [Request((a_prompt(1, 2, first, 6, 7),), (8, 9, 10), TARGET) for first in range(10, 15)]
    scored(made, alike)
    assert (made.n_halvings, cache.n_put) == (1, 0)
    scored(made, alike)  # now cut to half the limits from its start
    assert cache.n_put == 1
    scored(backend(cache), alike)
    assert cache.n_put == 2


def test_a_back_end_is_freed_as_soon_as_nobody_holds_it() -> None:
    made = backend(Memory())
    scored(made)
    gone = weakref.ref(made)
    gc.disable()
    try:
        del made
        assert gone() is None
    finally:
        gc.enable()
