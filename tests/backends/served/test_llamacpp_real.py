"""llama.cpp's real server gives what transformers gives of the same float32 weights, to a thousandth of a nat."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.llama_gguf import write_llama
from helpers.llama_server import llama_server
from leakmeter.backends.served import ServedBackend, llamacpp
from leakmeter.backends.served.load import load_served
from leakmeter.core import registry
from leakmeter.core.drive import drive
from leakmeter.core.instrument import Example
from leakmeter.core.measurement import Measurement
from leakmeter.errors import ModelError
from leakmeter.models import DEFAULT_MODEL, resolve
from leakmeter.runs.loading import load_backend

pytest.importorskip("xllamacpp")

NATS = 1e-3
"""Between the engines. A row of llama.cpp sums to e^1.5e-4, since its softmax adds up in float32; the rest is 1e-4."""
GIVEN = "The patient writes to the clinic — né 🙂"
MEASURED: dict[str, tuple[str, str | None, dict[str, Any]]] = {
    "influence": ("influence", GIVEN, {}),
    "influence of drawn responses": ("influence", None, {"max_new_tokens": 3}),
    "influence, mixed": ("influence", "The clinic", {"cid_lambda": 1.5, "temperature": 0.7}),
    "redaction": ("redaction", GIVEN, {}),
    "icl, whole sequences": ("icl", None, {"label_scoring": "whole-sequence"}),
    "icl, first tokens": ("icl", None, {"label_scoring": "first-token"}),
    "susceptibility, next token": ("susceptibility", None, {}),
    "pii": ("pii", None, {}),
}


@pytest.fixture(scope="module")
def folder() -> Path:
    try:
        return Path(resolve(DEFAULT_MODEL, notify=lambda line: None).path)
    except ModelError as error:
        pytest.skip(f"the default model is not at hand: {error}")


@pytest.fixture(scope="module")
def address(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = tmp_path_factory.mktemp("gguf") / "smollm2-f32.gguf"
    write_llama(folder, path, split="smollm")
    with llama_server(path, "--exact", "--slots", "2", "--window", "512") as address:
        yield address
    path.unlink()


@pytest.fixture(scope="module")
def here() -> Any:
    return load_backend(DEFAULT_MODEL)


@pytest.fixture(params=["cached", "uncached"])
def there(request: pytest.FixtureRequest, address: str, monkeypatch: pytest.MonkeyPatch) -> ServedBackend:
    if request.param == "uncached":
        monkeypatch.setattr(llamacpp, "_NOT_QUANTISED", ())
    backend = load_served(f"llamacpp:{address}", tokenizer=DEFAULT_MODEL, notify=lambda line: None)
    assert backend.dialect.reads_prefix_cache == (request.param == "cached")
    return backend


def small(example: Example, name: str) -> Example:
    """An example with fewer values to score, since each costs requests."""
    return replace(example, settings=replace(example.settings, decoys=3)) if name == "pii" else example  # type: ignore[type-var]


def measured(backend: Any, name: str, response: str | None, given: dict[str, Any]) -> list[Measurement]:
    instrument = registry.instrument(name)
    example = small(instrument.example("one", response), name)
    measure = instrument.measure(**{**example.parameters, **given})
    item = example.settings.prepare(example.case, backend, measure).item
    (found,), _ = drive(backend, [measure.trial(item)])
    return found


@pytest.mark.long
@pytest.mark.parametrize("what", MEASURED)
def test_instruments_measure_the_same(what: str, there: ServedBackend, here: Any) -> None:
    name, response, given = MEASURED[what]
    theirs, ours = measured(there, name, response, given), measured(here, name, response, given)
    assert [(one.sample, one.piece, one.statistic) for one in theirs] == [
        (one.sample, one.piece, one.statistic) for one in ours
    ]
    for one, other in zip(theirs, ours, strict=True):
        print(what, one.statistic, one.unit, one.piece, abs(one.values - other.values).max(initial=0))
        np.testing.assert_allclose(one.values, other.values, rtol=0, atol=NATS)
