"""Directories of runs that somebody else wrote: pipes, devices, links and huge files in the place of a run's own."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.examples import few

FILES = ("spec.json", "cases-00000.json", "measurements-00000.parquet")


@pytest.fixture
def ends() -> Iterator[None]:
    """A command that waits for a pipe would wait for ever."""

    def late(number: int, frame: object) -> None:
        raise AssertionError("the command did not end")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**31 + 1)


LAID: dict[str, Callable[[Path], object]] = {
    "a pipe": lambda path: os.mkfifo(path),
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a huge file": huge,
    "a directory": Path.mkdir,
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
@pytest.mark.usefixtures("ends")
@pytest.mark.parametrize("file", few(FILES))
def test_what_is_no_file_is_named_and_nobody_waits(
    file: str, measure: Callable[..., Any], cli: Callable[..., Any]
) -> None:
    assert measure().code == 0
    (run,) = Path("runs").iterdir()
    for name, lay in LAID.items():
        (run / file).rmdir() if (run / file).is_dir() else (run / file).unlink()
        lay(run / file)
        verified = cli("runs", "verify", run)
        assert (verified.code, verified.err, file in verified.out) == (1, "", True), name
        for words in (
            ("runs", "show", run),
            ("report", run, "--html", "page.html"),
            ("gate", run, "--max", "influence.max <= 1e9"),
            ("runs", "query", "select * from measurements", "--runs", run),
            ("runs", "query", "select * from cases", "--runs", run),
        ):
            ended = cli(*words)
            assert ended.code in (0, 2), (name, words)
            assert "internal error" not in ended.err
            assert ended.err.count("\n") == (ended.code == 2)
            assert ended.code == 0 or file in ended.err
        assert cli("runs", "list", "--runs", "runs").code == 0
        assert cli("gate", "--latest", "--runs", "runs", "--max", "influence.max <= 1e9").code == 2
