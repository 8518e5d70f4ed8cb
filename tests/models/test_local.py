"""What a directory must hold before anything is loaded from it; nothing here needs torch."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from leakmeter.errors import ModelError
from leakmeter.models.cache import file_sha256, settings_hash, weights_hash
from leakmeter.models.local import check_loaded, check_model_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with a configuration, two files of weights and their index."""
    made = tmp_path / "model"
    made.mkdir()
    (made / "config.json").write_text('{"model_type": "llama"}')
    for name in ("one.safetensors", "two.safetensors"):
        (made / name).write_bytes(name.encode())
    index(made, "one.safetensors", "two.safetensors")
    return made


def index(folder: Path, *files: object) -> None:
    told = {"weight_map": {f"weight {i}": file for i, file in enumerate(files)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(told))


def refused(folder: Path, words: str | None = None) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        check_model_folder(folder, "own")
    assert "\n" not in str(caught.value)


def test_only_plain_safetensors_of_the_folder_itself_are_loaded(folder: Path) -> None:
    check_model_folder(folder, "own")
    (folder / "w.bin").write_bytes(b"pickle")
    (folder / "sub").mkdir()
    (folder / "sub" / "x.safetensors").write_bytes(b"")
    outside = ("w.bin", "../outside/x.safetensors", "/x.safetensors", "sub/x.safetensors")
    for named in (*outside, ".safetensors", "a\\b.safetensors"):
        index(folder, "one.safetensors", named)
        refused(folder, r"only \*\.safetensors files of that folder itself")


def test_an_index_or_a_configuration_that_is_none_is_one_line(folder: Path) -> None:
    good = (folder / "model.safetensors.index.json").read_text()
    for content in ("null", "[]", "{", '{"weight_map": []}', '{"weight_map": {"a": 1}}', "[" * 100_000):
        (folder / "model.safetensors.index.json").write_text(content)
        refused(folder)
    (folder / "model.safetensors.index.json").write_text(good)
    for content in ("null", "[]", "{", '"llama"', '{"a":' * 100_000):
        (folder / "config.json").write_text(content)
        refused(folder, r"config\.json of 'own'")


def test_weights_from_elsewhere_or_that_nothing_names_are_refused(folder: Path) -> None:
    config = (folder / "config.json").read_text()
    (folder / "config.json").write_text('{"model_type": "llama", "transformers_weights": "other.safetensors"}')
    refused(folder, "transformers_weights")
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "/elsewhere"}')
    refused(folder, "adapter")
    (folder / "adapter_config.json").unlink()
    (folder / "config.json").write_text(config)
    (folder / "model.safetensors.index.json").unlink()
    refused(folder, r"neither model\.safetensors nor")


def test_what_is_refused_is_refused_before_torch_is_imported(folder: Path, run_python: Any) -> None:
    index(folder, "w.bin")
    words = ["--model", str(folder), "--context-file", str(folder / "config.json"), "--query", "x", "--response", "y"]
    script = (
        f"import sys\nfrom leakmeter.cli import main\ntry:\n    main(['influence', *{words}])\n"
        "except SystemExit as ended:\n    print(ended.code, 'torch' in sys.modules)\n"
    )
    code, out, err = run_python(script)
    assert (code, out.split()) == (0, ["2", "False"]), err


def test_every_weight_that_does_not_fit_is_counted_and_some_are_named() -> None:
    check_loaded("own", {"missing_keys": [], "unexpected_keys": set(), "mismatched_keys": []})
    keys = {f"layers.1.{i}" for i in range(5)}
    with pytest.raises(ModelError, match=r"5 missing \(layers\.1\.0, layers\.1\.1, layers\.1\.2, …\); 1 of another"):
        check_loaded("own", {"missing_keys": keys, "unexpected_keys": [], "mismatched_keys": [("a", 1, 2)]})


def test_a_hash_kept_by_size_and_time_looks_at_the_file_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKMETER_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"one")
    before, state = file_sha256(path), path.stat()
    path.write_bytes(b"two")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    changed = file_sha256(path)
    assert changed != before
    other = tmp_path / "other"
    other.write_bytes(b"six")
    os.utime(other, ns=(state.st_atime_ns, state.st_mtime_ns))
    other.replace(path)
    assert file_sha256(path) not in (before, changed)


def test_the_files_beside_the_weights_have_a_hash_of_their_own(folder: Path) -> None:
    weights, settings = weights_hash(folder), settings_hash(folder)
    (folder / "README.md").write_text("of no account")
    assert settings_hash(folder) == settings
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    assert (weights_hash(folder), settings_hash(folder) != settings) == (weights, True)
