"""What is one platform's own is left out on others."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from leakmeter.core import files


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `core.files` sees of `os` where there are no owners, no modes and no links to be followed."""
    without = {"fchmod", "geteuid", "getuid", "O_NOFOLLOW", "kill"}
    seen = {name: value for name, value in vars(os).items() if name not in without}
    monkeypatch.setattr(files, "os", SimpleNamespace(**{**seen, "name": "nt"}))


@pytest.mark.usefixtures("windows")
def test_files_are_written_whole_without_posix(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    files.make_private(path.parent)
    for content in (b"one", b"two"):
        files.write_whole(path, content)
        assert path.read_bytes() == content
    with files.replacing(path) as temporary:
        temporary.write_bytes(b"three")
    assert [*path.parent.iterdir()] == [path]
    os.close(files.open_private(path, os.O_RDWR))
    assert files._is_alive(1)


def test_what_is_linuxs_own_is_left_out_on_a_mac(monkeypatch: pytest.MonkeyPatch) -> None:
    from leakmeter.backends.hf import machine
    from leakmeter.cli import process

    monkeypatch.setattr(sys, "platform", "darwin")
    assert not process.keep_freed_memory()
    assert machine._malloc_trim() is None
    read_text = Path.read_text

    def without_proc(path: Path, *given: object, **named: object) -> str:
        if str(path).startswith("/proc/"):
            raise FileNotFoundError(path)
        return read_text(path, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "read_text", without_proc)
    machine._processor.cache_clear()
    try:
        assert machine._processor().split(", ")[0]
    finally:
        machine._processor.cache_clear()
