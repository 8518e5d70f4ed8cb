"""The command line, called in this process or as a user calls it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PROGRAM = (sys.executable, "-c", "from leakmeter.cli import main; main()")
NOTE = "Anna Ek lives in Graz. Her phone is 555-010-7788. Bo asked twice.\nCall 555-010-7788 after four."


@dataclass(frozen=True)
class Ended:
    """What a command left."""

    code: int
    out: str
    err: str


@pytest.fixture
def note(tmp_path: Path) -> Path:
    """A context file, in a directory of its own."""
    folder = tmp_path / "texts"
    folder.mkdir()
    path = folder / "note.txt"
    path.write_text(NOTE, encoding="utf-8")
    return path


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    """`leakmeter ARGUMENTS` within this process, in an empty directory."""
    from leakmeter.cli import main

    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def call(*arguments: object) -> Ended:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Ended(int(ended.value.code or 0), out, err)

    return call


@pytest.fixture
def measure(cli: Callable[..., Ended], note: Path) -> Callable[..., Ended]:
    """`leakmeter influence` of the note with the toy model; more options win."""

    def call(*more: object, **options: object) -> Ended:
        given: dict[str, object] = {
            "context-file": note,
            "query": "Who?",
            "response": "Anna",
            "model": "toy",
            "out": "runs",
        }
        given |= {name.replace("_", "-"): value for name, value in options.items()}
        return cli(
            "influence",
            *(part for name, value in given.items() if value is not None for part in (f"--{name}", value)),
            *more,
        )

    return call


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`leakmeter ARGUMENTS` in a process of its own."""

    def call(*arguments: object, environment: dict[str, str] | None = None, **how: Any) -> Any:
        words: Sequence[str] = [str(argument) for argument in arguments]
        return subprocess.run(
            [*PROGRAM, *words],
            **{"capture_output": True, "text": True, "cwd": tmp_path, "check": False, **how},
            env={**os.environ, **(environment or {})},
        )

    return call
