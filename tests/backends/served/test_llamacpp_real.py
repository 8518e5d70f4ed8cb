"""llama.cpp's real server gives what transformers gives of the same float32 weights, to a thousandth of a nat."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.llama_gguf import write_llama, write_tiny_llama
from helpers.llama_server import llama_server
from leakmeter.backends.served import llamacpp
from leakmeter.backends.served.backend import ServedBackend
from leakmeter.backends.served.dialect import SequenceToScore
from leakmeter.backends.served.load import load_served
from leakmeter.core import registry
from leakmeter.core.drive import drive
from leakmeter.core.measure import Measurement
from leakmeter.engine.loading import load_backend
from leakmeter.errors import ModelError
from leakmeter.models import DEFAULT_MODEL, resolve

pytest.importorskip("xllamacpp")

NATS = 1e-3
"""Largest difference: a row of llama.cpp sums to e^1.5e-4, since its softmax adds up in float32; the rest is 1e-4."""
GIVEN = "The patient — né 🙂 — writes."
MEASURED: dict[str, tuple[str, str | None, dict[str, Any]]] = {
    "influence": ("influence", GIVEN, {}),
    "influence of drawn responses": ("influence", None, {"max_new_tokens": 3}),
    "influence, mixed": ("influence", "The clinic", {"cid_lambda": 1.5, "temperature": 0.7}),
    "redaction": ("redact", GIVEN, {}),
    "icl, whole sequences": ("icl", None, {"label_scoring": "whole-sequence"}),
    "icl, first tokens": ("icl", None, {"label_scoring": "first-token"}),
    "susceptibility, next token": ("susceptibility", None, {}),
    "pii": ("pii", None, {}),
}
SLOW = ("influence", "influence of drawn responses", "redaction", "pii")
OF_DEFAULT = ("influence", "icl, first tokens")


@dataclass(frozen=True)
class Model:
    folder: Path
    address: str
    here: Any

    def served(self) -> ServedBackend:
        return load_served(f"llamacpp:{self.address}", tokenizer=str(self.folder), notify=lambda line: None)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    folder = tmp_path_factory.mktemp("tiny")
    write_tiny_llama(folder)
    yield from running(folder, folder / "tiny.gguf", "gpt-2")


@pytest.fixture(scope="module")
def default(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    try:
        folder = Path(resolve(DEFAULT_MODEL, notify=lambda line: None).path)
    except ModelError as error:
        pytest.skip(f"the default model is not at hand: {error}")
    yield from running(folder, tmp_path_factory.mktemp("default") / "default.gguf", "smollm")


def running(folder: Path, gguf: Path, split: str) -> Iterator[Model]:
    write_llama(folder, gguf, split=split)
    # One thread: those of a pool wait for each other by turning, which a busy machine makes long.
    with llama_server(gguf, "--exact", "--slots", "2", "--window", "512", "--threads", "1") as address:
        yield Model(folder, address, load_backend(str(folder)))
    gguf.unlink()


@pytest.fixture(params=["cached", "uncached"])
def cached(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param == "uncached":
        monkeypatch.setattr(llamacpp, "_NOT_QUANTISED", ())
    return bool(request.param == "cached")


def measured(backend: Any, what: str) -> list[Measurement]:
    name, response, given = MEASURED[what]
    instrument = registry.instrument(name)
    example = instrument.example("one", response)
    measure = instrument.measure(**{**example.parameters, **given})
    item = example.settings.prepare(example.case, backend, measure).item
    (found,), _ = drive(backend, [measure.trial(item)])
    return found


def check_the_same(what: str, model: Model, *, cached: bool) -> None:
    there = model.served()
    assert there.dialect.reads_prefix_cache == cached
    theirs, ours = measured(there, what), measured(model.here, what)
    assert len(theirs) == len(ours) > 0
    for one, other in zip(theirs, ours, strict=True):
        assert replace(one, values=None) == replace(other, values=None)
        np.testing.assert_allclose(one.values, other.values, rtol=0, atol=NATS)


@pytest.mark.parametrize("what", [pytest.param(w, marks=pytest.mark.long) if w in SLOW else w for w in MEASURED])
def test_instruments_measure_the_same(what: str, tiny: Model, cached: bool) -> None:
    check_the_same(what, tiny, cached=cached)


@pytest.mark.long
@pytest.mark.parametrize("what", OF_DEFAULT)
def test_instruments_measure_the_same_of_the_default_model(what: str, default: Model) -> None:
    check_the_same(what, default, cached=True)


@pytest.mark.long
def test_every_token_can_be_given(tiny: Model, cached: bool) -> None:
    there = tiny.served()
    n_vocab = there.served.n_vocab or 0
    assert n_vocab > 256
    ids = np.random.default_rng(0).permutation(n_vocab)
    for start in range(0, n_vocab, 100):
        scored = SequenceToScore((5, 6), tuple(ids[start : start + 100].tolist()))
        rows = there.dialect.whole_rows(SequenceToScore((5, 6), scored.response), range(3))
        np.testing.assert_allclose(np.logaddexp.reduce(rows, axis=1), 0, atol=1e-12)
        found = there.dialect.target_log_probs(scored)
        np.testing.assert_allclose(found[:3], [rows[t, scored.response[t]] for t in range(3)], atol=NATS)
