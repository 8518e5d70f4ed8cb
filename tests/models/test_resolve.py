from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from leakmeter.errors import ModelError, UnknownNameError, UsageError
from leakmeter.models import KNOWN_MODELS, KnownModel, resolve, weights_hash
from leakmeter.models.cache import file_sha256


def quiet(line: str) -> None:
    raise AssertionError(f"notified: {line}")


@pytest.fixture
def folder(tmp_path: Path, cache: Path) -> Path:
    made = tmp_path / "model"
    made.mkdir()
    (made / "config.json").write_text("{}")
    (made / "model.safetensors").write_bytes(b"weights")
    return made


def test_a_local_directory(folder: Path) -> None:
    found = resolve(str(folder), notify=quiet)
    assert (found.path, found.is_hub) == (str(folder), False)
    assert found.weights_sha256 == hashlib.sha256(b"weights").hexdigest()


def test_a_known_model_is_pulled_once(
    tiny_model: KnownModel, stub_converter: list[Path], told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KNOWN_MODELS, "tiny", tiny_model)
    with pytest.raises(ModelError, match="leakmeter models pull tiny"):
        resolve("tiny", notify=quiet, download=False)
    found = resolve("tiny", notify=told.append)
    assert found.weights_sha256 == tiny_model.gguf_sha256
    assert resolve("tiny", notify=quiet) == resolve("tiny", notify=quiet, download=False) == found


def test_a_gguf_file_is_converted_once_by_content(
    tmp_path: Path, cache: Path, stub_converter: list[Path], told: list[str]
) -> None:
    first, second = tmp_path / "a.gguf", tmp_path / "b.gguf"
    first.write_bytes(b"GGUF same")
    second.write_bytes(b"GGUF same")
    with pytest.raises(ModelError, match="not converted yet"):
        resolve(str(first), notify=quiet, download=False)
    found = resolve(str(first), notify=told.append)
    assert len(told) == 1
    assert resolve(str(second), notify=quiet).path == found.path
    second.write_bytes(b"<html>")
    with pytest.raises(ModelError, match="not a GGUF file"):
        resolve(str(second), notify=lambda line: None)
    assert len(stub_converter) == 1


def test_a_name_that_leads_nowhere_says_what_to_do(cache: Path) -> None:
    for name, kind, message in (
        ("smollm2-135", UnknownNameError, "did you mean 'smollm2-135m'"),
        ("nothing-like-it", UnknownNameError, "known: .*'smollm2-135m'"),
        ("./absent", ModelError, "no file or directory './absent'; check the path"),
        ("absent.gguf", ModelError, "no file or directory 'absent.gguf'"),
        ("org/name", ModelError, "write 'hf:org/name'"),
        *(("hf:name", UsageError, "write hf:ORG/NAME"), ("hf:a/b/c", UsageError, "write hf:ORG/NAME")),
        ("hf:bad name/a", UsageError, "cannot be a name on the hub"),
    ):
        with pytest.raises(kind, match=message) as caught:
            resolve(name, notify=quiet)
        assert "\n" not in str(caught.value)


def test_directories_that_lack_something_say_what(folder: Path) -> None:
    def refused(words: str, path: str | Path = folder) -> None:
        with pytest.raises(ModelError, match=words):
            resolve(str(path), notify=quiet)

    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    refused(r"pytorch_model.bin.*never loaded.*save_pretrained")
    (folder / "pytorch_model.bin").rename(folder / "model.safetensors")
    (folder / "config.json").unlink()
    refused(r"no config\.json")
    (folder / "model.safetensors").unlink()
    refused(r"no \*\.safetensors")
    (folder / "x.gguf").touch()
    refused(r"give the file itself: '.*x\.gguf'")
    refused("not a kind of file that can be loaded", __file__)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    index = {"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    refused(r"lacks 'model-2\.safetensors'")


def test_several_weight_files_hash_by_name_and_content(folder: Path) -> None:
    (folder / "other.safetensors").write_bytes(b"more")
    first = weights_hash(folder)
    (folder / "other.safetensors").rename(folder / "another.safetensors")
    second = weights_hash(folder)
    (folder / "another.safetensors").write_bytes(b"mere!")
    assert len({first, second, weights_hash(folder)}) == 3


def test_a_hash_is_remembered_until_the_file_changes(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = folder / "model.safetensors"
    right = file_sha256(file)
    with monkeypatch.context() as patch:
        patch.setattr(hashlib, "file_digest", lambda *_: pytest.fail("hashed again"))
        assert file_sha256(file) == right
    os.utime(file, ns=(1, 1))
    file.write_bytes(b"changed")
    assert file_sha256(file) == hashlib.sha256(b"changed").hexdigest()


def test_a_cache_that_cannot_be_written_costs_only_time(folder: Path, cache: Path) -> None:
    cache.write_text("a file where the directory should be")
    assert file_sha256(folder / "model.safetensors") == hashlib.sha256(b"weights").hexdigest()


def hub(monkeypatch: pytest.MonkeyPatch, cached: Path | None, downloaded: Path | None = None) -> list[dict[str, Any]]:
    """Replaces `snapshot_download`: what is cached, and what a download brings; returns the options given to it."""
    asked: list[dict[str, Any]] = []

    def snapshot_download(repository: str, **options: Any) -> str:
        asked.append(options)
        answer = cached if options.get("local_files_only") else downloaded
        if answer is None:
            raise LocalEntryNotFoundError("Got: ConnectError: name not known\nand more lines")
        return str(answer)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    return asked


def test_a_cached_hub_model_asks_no_network(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = hub(monkeypatch, folder)
    found = resolve("hf:org/name@main", notify=quiet)
    assert (found.path, found.is_hub, found.weights_sha256) == (str(folder), True, weights_hash(folder))
    assert [(options["local_files_only"], options["revision"]) for options in asked] == [(True, "main")]


def test_a_hub_model_is_fetched_without_pickles(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    half = tmp_path / "half"
    half.mkdir()
    (half / "config.json").write_text("{}")
    asked = hub(monkeypatch, half, folder)
    assert resolve("hf:org/name", notify=told.append).path == str(folder)
    assert told == ["fetching hf:org/name from the hub …"]
    assert "*.safetensors" in asked[1]["allow_patterns"]
    assert "*.bin" in asked[1]["ignore_patterns"]


def test_a_hub_out_of_reach_is_one_line(cache: Path, monkeypatch: pytest.MonkeyPatch, told: list[str]) -> None:
    hub(monkeypatch, None)
    with pytest.raises(ModelError, match=r"could not fetch 'hf:org/name'.*check the network") as caught:
        resolve("hf:org/name", notify=told.append)
    assert "\n" not in str(caught.value)
    found = resolve("hf:org/name", notify=quiet, download=False)
    assert (found.path, found.is_hub, found.weights_sha256) == ("org/name", True, None)
