"""What a directory must hold before anything is loaded from it; nothing here needs torch."""

from __future__ import annotations

import json
from pathlib import Path

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


def test_weights_named_by_their_index_are_fine(folder: Path) -> None:
    check_model_folder(folder, "own")


@pytest.mark.parametrize(
    "named",
    ["w.bin", "../outside/x.safetensors", "/x.safetensors", "sub/x.safetensors", ".safetensors", "a\\b.safetensors"],
)
def test_only_plain_safetensors_of_the_folder_itself_are_loaded(named: str, folder: Path) -> None:
    (folder / "w.bin").write_bytes(b"pickle")
    (folder / "sub").mkdir()
    (folder / "sub" / "x.safetensors").write_bytes(b"")
    index(folder, "one.safetensors", named)
    with pytest.raises(ModelError, match=r"only \*\.safetensors files of that folder itself"):
        check_model_folder(folder, "own")


@pytest.mark.parametrize(
    "content", ["null", "[]", "{", '{"weight_map": []}', '{"weight_map": {"a": 1}}', "[" * 100_000]
)
def test_an_index_that_is_none_is_one_line(content: str, folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_text(content)
    with pytest.raises(ModelError) as caught:
        check_model_folder(folder, "own")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["null", "[]", "{", '"llama"', '{"a":' * 100_000])
def test_a_configuration_that_is_none_is_one_line(content: str, folder: Path) -> None:
    (folder / "config.json").write_text(content)
    with pytest.raises(ModelError, match=r"config\.json of 'own'") as caught:
        check_model_folder(folder, "own")
    assert "\n" not in str(caught.value)


def test_weights_from_elsewhere_are_refused(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "llama", "transformers_weights": "other.safetensors"}')
    with pytest.raises(ModelError, match="transformers_weights"):
        check_model_folder(folder, "own")
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "/elsewhere"}')
    with pytest.raises(ModelError, match="adapter"):
        check_model_folder(folder, "own")


def test_weights_that_nothing_names_are_not_enough(folder: Path) -> None:
    (folder / "model.safetensors.index.json").unlink()
    with pytest.raises(ModelError, match=r"neither model\.safetensors nor"):
        check_model_folder(folder, "own")


def test_what_is_refused_is_refused_before_torch_is_imported(folder: Path, run_python: object) -> None:
    index(folder, "w.bin")
    script = (
        "import sys\nfrom leakmeter.cli import main\n"
        f"try:\n    main(['influence', '--model', {str(folder)!r}, '--context-file', {str(folder / 'config.json')!r}, "
        "'--query', 'x', '--response', 'y'])\n"
        "except SystemExit as ended:\n    print(ended.code, 'torch' in sys.modules)\n"
    )
    code, out, err = run_python(script)  # type: ignore[operator]
    assert (code, out.split()) == (0, ["2", "False"]), err


def test_every_weight_that_does_not_fit_is_counted_and_some_are_named() -> None:
    check_loaded("own", {"missing_keys": [], "unexpected_keys": set(), "mismatched_keys": []})
    keys = {f"layers.1.{i}" for i in range(5)}
    with pytest.raises(ModelError, match=r"5 missing \(layers\.1\.0, layers\.1\.1, layers\.1\.2, …\); 1 of another"):
        check_loaded("own", {"missing_keys": keys, "unexpected_keys": [], "mismatched_keys": [("a", 1, 2)]})


def test_a_hash_kept_by_size_and_time_looks_at_the_file_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

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
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    assert (weights_hash(folder), settings_hash(folder) != settings) == (weights, True)
    (folder / "README.md").write_text("of no account")
    assert settings_hash(folder) != settings
