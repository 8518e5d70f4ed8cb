"""How far an extraction has come: what has to be on disk so that another process can go on."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from leakmeter.core.written import write_whole
from leakmeter.errors import DataError, StoreError, UsageError


@dataclass(frozen=True, slots=True)
class Source:
    """A file as it was when the extraction began."""

    path: str
    n_bytes: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class State:
    """What was read and written so far; no text."""

    files: tuple[Source, ...]
    settings: Mapping[str, str]
    """Whatever determines what is found."""
    file: int = 0
    """Number, from 0, of the file that is read next."""
    offset: int = 0
    """Where in it, in bytes of what was compressed."""
    line: int = 1
    """The line that begins there."""
    n_bytes_read: int = 0
    """Of the files on disk, all together."""
    n_bytes_written: int = 0
    """More than these in the output were never reported as written."""
    n_documents: int = 0
    n_subjects: int = 0
    n_duplicates: int = 0
    n_bad: int = 0
    problems: tuple[str, ...] = ()
    is_complete: bool = False


def source_of(path: Path) -> Source:
    """A file as it is now.

    Raises:
        DataError: there is none, or it may not be read.
    """
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
    except OSError as error:
        raise DataError(f"'{path}' cannot be read: {error.strerror or error}") from None
    return Source(str(path.absolute()), found.st_size, found.st_mtime_ns)


def begin(out: Path, files: Sequence[Source], settings: Mapping[str, str]) -> State:
    """The state to go on from: what an earlier call left for this output, or a new one.

    Raises:
        UsageError: the output is of something else.
        StoreError: the state cannot be read, or the output has lost what it says was written.
        OSError: it cannot be written.
    """
    path = state_path(out)
    if check_new(out):
        state = State(tuple(files), dict(settings))
        write_state(out, state)
        return state
    state = read_state(path)
    if (state.files, dict(state.settings)) != (tuple(files), dict(settings)):
        what = "other settings" if state.files == tuple(files) else "other files, or these were changed since"
        raise UsageError(f"'{out}' was begun with {what}; name another file, or remove it and '{path.name}'")
    n_bytes = out.stat().st_size if out.exists() else 0
    if n_bytes < state.n_bytes_written:
        raise StoreError(
            f"'{out}' has {n_bytes:,} bytes and {state.n_bytes_written:,} were written; remove it and '{path.name}', "
            "and begin again"
        )
    return state


def check_new(out: Path) -> bool:
    """Whether nothing was begun for an output.

    Raises:
        UsageError: there is a file already, which is of something else.
    """
    if state_path(out).exists():
        return False
    if out.exists():
        raise UsageError(f"'{out}' exists already, and not from an extraction that could go on; name another file")
    return True


def state_path(out: Path) -> Path:
    """Where the state of an output stands."""
    return out.with_name(out.name + ".state")


def write_state(out: Path, state: State) -> None:
    """Write a state so that its place holds either the one before or the whole new one."""
    write_whole(
        state_path(out), json.dumps(asdict(state), ensure_ascii=False, indent=1).encode("utf-8", "surrogateescape")
    )


def read_state(path: Path) -> State:
    """What `write_state` wrote.

    Raises:
        StoreError: it cannot be read, or is something else.
    """
    try:
        value: dict[str, Any] = json.loads(path.read_bytes().decode("utf-8", "surrogateescape"))
        files = tuple(Source(**file) for file in value.pop("files"))
        return State(files=files, problems=tuple(value.pop("problems")), **value)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreError(
            f"'{path}' cannot be read as the state of an extraction ({type(error).__name__}); remove it and its output"
        ) from None
