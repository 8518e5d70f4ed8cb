"""Files that a user names, read as text; and what is written to disk: whole or not at all, for its owner alone, and
over nothing that somebody still needs.

A file is written under a random name beside its place, which must be new, and renamed into it: a kill leaves what was
there before or all of the new one, and a link that somebody else laid in a shared directory is not followed.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import secrets
import stat
import tomllib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from importlib import resources
from pathlib import Path
from typing import BinaryIO, Final

from leakmeter.core.record import JsonObject
from leakmeter.errors import DataError, StoreError

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
    return Path(str(resources.files("leakmeter.data.samples").joinpath(name)))


PARTIAL: Final = ".partial"
"""What the names of files end with that are not whole yet: NAME.PROCESS.RANDOM.partial."""
PRIVATE: Final = 0o600
_LARGEST_BYTES: Final = 2**31
"""Of a file of a run: a part has few cases."""

_LONGEST_NAME: Final = 40  # letters of the file's name within that of the partial one
# How a run's files begin that say what it is, and names of other directories that hold what was measured.
_TOLD: Final = re.compile(rb'\s*\{\s*"id":\s*"[^"]*-[0-9a-f]{16}",\s*"measure"')
_RUN: Final = re.compile(r"[a-z_]+-[0-9a-f]{16}")
_KEPT: Final = re.compile(r"(study-.+|frontier|icl-select|generate)-[0-9a-f]{16}")


class ForeignFileError(OSError):
    """What stands in the place of a file is none that leakmeter wrote."""


@contextmanager
def regular_file(path: Path) -> Iterator[BinaryIO]:
    """A regular file to read. `ForeignFileError` for anything else (opening a pipe would wait for ever), and for a file
    larger than any that leakmeter writes."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            is_folder = stat.S_ISDIR(status.st_mode)
            raise ForeignFileError(errno.EISDIR, "Is a directory" if is_folder else "no regular file", str(path))
        if status.st_size > _LARGEST_BYTES:
            raise ForeignFileError(errno.EFBIG, f"larger than {_LARGEST_BYTES // 2**20:,} MiB", str(path))
        with open(handle, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(handle)


def read_whole(path: Path) -> bytes:
    with regular_file(path) as file:
        return file.read()


def write_whole(path: Path, content: bytes, *, public: bool = False, lasting: bool = True) -> None:
    """Write a file whole or not at all, for its owner alone (mode 0600) unless it is `public`. A link at its place is
    replaced, and its target stays. Without `lasting` this holds if the process is killed, not if the machine stops."""
    with _renamed(path, public=public) as (handle, _), os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        if lasting:
            os.fsync(file.fileno())


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new file of mode 0600 to write to, renamed to `path` at the end; see `write_whole`."""
    with _renamed(path, public=False) as (handle, temporary):
        os.close(handle)
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())


@contextmanager
def _renamed(path: Path, *, public: bool) -> Iterator[tuple[int, Path]]:
    handle, temporary = _new_file(path, public=public)
    try:
        yield handle, temporary
        temporary.replace(path)
    except BaseException:
        # An interrupt too leaves nothing half-written.
        temporary.unlink(missing_ok=True)
        raise


def try_place(path: Path) -> None:
    """Raise `OSError` if no file can be written there; nothing is changed."""
    handle, temporary = _new_file(path, public=False)
    os.close(handle)
    temporary.unlink()
    if path.exists() and not os.access(path, os.W_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def clear_left_over(folder: Path, name: str = "") -> None:
    """Remove the partial files of processes that have ended: of the file `name`, or of all, in a directory that several
    processes may write to."""
    for path in folder.glob(f"{glob.escape(name[:_LONGEST_NAME])}*{PARTIAL}"):
        parts = path.name.removesuffix(PARTIAL).rsplit(".", 2)
        # Before names were random they ended with the process.
        writer = next((part for part in parts[:0:-1] if part.isdigit() and len(part) < 11), None)
        if writer is None or not _is_alive(int(writer)):
            path.unlink(missing_ok=True)


def make_private(folder: Path, *, named: bool = False) -> None:
    """Make a directory of mode 0700, and its parents, or make the existing one private. A directory that the user
    `named` may be a link or readable by others, and is left as it is. `OSError` where another user owns it, where it is
    a link and not named, or where others can write to a named one."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.name == "nt":
        return
    status = folder.stat() if named else folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise OSError(errno.ENOTDIR, "it is a link, which another user may have made", str(folder))
    if named and status.st_mode & 0o022:
        raise OSError(
            errno.EPERM,
            "other users can write to that directory; remove their permission, or name another directory",
            str(folder),
        )
    if not named and status.st_mode & 0o077:
        _check_owner(status, folder)
        folder.chmod(0o700)


@contextmanager
def made_for(folder: Path) -> Iterator[None]:
    """On an error, remove the directories that were made for `folder` if they are empty."""
    above = (*reversed(folder.parents), folder)
    missing = [directory for directory in above if not directory.exists()]
    try:
        yield
    except BaseException:
        with suppress(OSError):
            for directory in reversed(missing):
                directory.rmdir()
        raise


def remove_unused(folder: Path, beside: Collection[str] = (".lock",)) -> None:
    """Remove a directory that holds nothing but the files `beside`."""
    with suppress(OSError):
        names = {path.name for path in folder.iterdir()}
        if names <= set(beside):
            for name in names:
                (folder / name).unlink()
            folder.rmdir()


def open_private(path: Path, flags: int) -> int:
    """Open a file of mode 0600, made or tightened if need be. `OSError` for a link, a device, a pipe, or another user's
    file."""
    flags |= os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags, PRIVATE)
    try:
        if os.name != "nt":
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "it is a device or a pipe", str(path))
            _check_owner(status, path)
            os.fchmod(handle, PRIVATE)
    except BaseException:
        os.close(handle)
        raise
    return handle


def check_place(path: Path, noun: str, inputs: Iterable[object] = ()) -> None:
    """Refuse to write over an input, into a directory among the inputs, or into a run; links are followed (see
    `files_among`)."""
    place = _resolved(path)
    for source in files_among(inputs):
        other = _resolved(source)
        if place == other or _is_same(path, source):
            raise StoreError(
                f"{noun} '{path}' is '{source}', which is an input of this command and would be overwritten; give "
                "another name"
            )
        if other in place.parents and place.exists():
            raise StoreError(
                f"{noun} '{path}' is a file of '{source}', which is an input of this command; give another name"
            )
    check_outside_runs(path, noun)


def check_outside_runs(path: Path, noun: str) -> None:
    """Refuse a place within a run's directory, and over a file of a study, a sweep, a plan or an audit."""
    place = _resolved(path)
    for folder in (place, *place.parents):
        if _is_run(folder):
            raise StoreError(f"{noun} '{path}' is inside the run '{folder.name}'; give a place outside it")
        if folder != place and _KEPT.fullmatch(folder.name) and place.exists():
            raise StoreError(f"{noun} '{path}' is a file of '{folder.name}'; give another name")


def _is_run(folder: Path) -> bool:
    for name in ("spec.json", "begun.json"):
        with suppress(OSError), regular_file(folder / name) as file:
            if _TOLD.match(file.read(4096)):
                return True
    return bool(_RUN.fullmatch(folder.name)) and any(folder.glob("measurements-*.parquet"))


@contextmanager
def store_errors(failed: str) -> Iterator[None]:
    """Errors of the operating system in one line: 'FAILED: why'."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"{failed}: {error.strerror or error}") from error


def files_among(value: object) -> Iterator[Path]:
    """Existing files and directories among values: paths, names of files with or without '@', lists of these, and
    dataclasses with such fields."""
    # A text need not be one that could name a file.
    with suppress(OSError, ValueError):
        if isinstance(value, Path) and value.exists():
            yield value
        elif isinstance(value, str) and Path(value.removeprefix("@")).is_file():
            yield Path(value.removeprefix("@"))
    if isinstance(value, (str, Path)):
        return
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from files_among(getattr(value, field.name))
    elif isinstance(value, Iterable) and not isinstance(value, bytes):
        for item in value:
            yield from files_among(item)


def _new_file(path: Path, *, public: bool) -> tuple[int, Path]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    while True:
        name = f"{path.name[:_LONGEST_NAME]}.{os.getpid()}.{secrets.token_hex(8)}{PARTIAL}"
        temporary = path.with_name(name)
        with suppress(FileExistsError):
            return os.open(temporary, flags, 0o666 if public else PRIVATE), temporary


def _check_owner(status: os.stat_result, path: Path) -> None:
    if status.st_uid != os.geteuid():
        raise OSError(errno.EPERM, "it belongs to another user", str(path))


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        # A loop of links leads nowhere.
        return path.absolute()


def _is_same(path: Path, other: Path) -> bool:
    with suppress(OSError):
        return path.samefile(other)
    return False


def _is_alive(process: int) -> bool:
    if os.name == "nt":
        # There, to ask would be to end it.
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True
