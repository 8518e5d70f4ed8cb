"""Files that a user names, read as text: regular ones, of a size that fits into memory."""

from __future__ import annotations

import stat
import tomllib
from importlib import resources
from pathlib import Path
from typing import Final

from leakmeter.core.json_object import JsonObject
from leakmeter.errors import DataError

MOST_BYTES: Final = 2**30


def check_readable(path: Path, noun: str, *, most: int | None = MOST_BYTES) -> None:
    """Refuse a directory, a device, a pipe, or a file of more than `most` bytes; None for a file that is read in parts.
    `noun` is for the message, such as 'context file'."""
    try:
        state = path.stat()
    except OSError as error:
        raise DataError(f"{noun} '{path}' cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise DataError(f"{noun} '{path}' cannot be read: it is not a file name") from None
    if stat.S_ISDIR(state.st_mode):
        raise DataError(f"{noun} '{path}' is a directory; give a file")
    if not stat.S_ISREG(state.st_mode):
        raise DataError(f"{noun} '{path}' is a device or a pipe; save its contents to a file, and give that")
    if most is not None and state.st_size > most:
        raise DataError(
            f"{noun} '{path}' has {state.st_size:,} bytes, and at most {most:,} are read; split it, or remove what is "
            "not needed"
        )


def read_text(path: Path, noun: str) -> str:
    """A UTF-8 file's text, without a byte-order mark."""
    check_readable(path, noun)
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{noun} '{path}' is not UTF-8: byte {error.object[error.start]:#04x} at offset {error.start:,}; "
            "save it as UTF-8 and try again"
        ) from None
    except OSError as error:
        raise DataError(f"{noun} '{path}' cannot be read: {error.strerror or error}") from None


def parsed_toml(text: str, where: str) -> JsonObject:
    """What a text of TOML says; refused also where it is so deep, or has numbers so long, that it cannot be read."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{where} is not TOML: {error}") from None
    except (RecursionError, ValueError):
        raise DataError(f"{where} is TOML nested too deep, or with a number too long, to be read") from None


def sample_path(name: str) -> Path:
    return Path(str(resources.files("leakmeter.samples").joinpath(name)))
