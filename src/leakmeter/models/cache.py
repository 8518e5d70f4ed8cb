"""The user's cache: where it is, SHA-256 of big files remembered, and folders that appear whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from leakmeter.core.files import make_private, write_whole
from leakmeter.errors import ModelError

if TYPE_CHECKING:
    from filelock import BaseFileLock

Notify = Callable[[str], None]

CACHE_VARIABLE: Final = "LEAKMETER_CACHE"
SCORES_VARIABLE: Final = "LEAKMETER_SCORES"
CONFIG_VARIABLE: Final = "LEAKMETER_CONFIG"
RECORD_NAME: Final = "leakmeter.json"
"""The record a converted folder carries; it is written last, so its presence means the folder is finished."""
RECORD_FORMAT: Final = 2
"""Of converted folders. In those of format 1 all byte-level tokenizers split text alike, whatever their files said."""


def cache_dir() -> Path:
    """Directory of all that can be fetched or computed again; the environment variable LEAKMETER_CACHE moves it."""
    import platformdirs

    return _named_by(CACHE_VARIABLE) or platformdirs.user_cache_path("leakmeter")


def scores_dir() -> Path | None:
    """Directory of the score cache; LEAKMETER_SCORES moves it, or turns it off by the word 'off': then None."""
    return None if os.environ.get(SCORES_VARIABLE) == "off" else _named_by(SCORES_VARIABLE) or cache_dir() / "scores"


def config_dir() -> Path:
    """Directory of the score cache's secret; LEAKMETER_CONFIG moves it. It is not in the cache, even where that was
    moved, so that a copy of the cache does not contain it."""
    import platformdirs

    return _named_by(CONFIG_VARIABLE) or platformdirs.user_config_path("leakmeter")


def _named_by(variable: str) -> Path | None:
    path = os.environ.get(variable)
    return Path(path).expanduser().absolute() if path else None


def models_dir() -> Path:
    return cache_dir() / "models"


def folder_of(gguf_sha256: str, label: str = "gguf") -> Path:
    return models_dir() / f"{label}-{gguf_sha256[:16]}"


def file_sha256(path: Path) -> str:
    """SHA-256 of a file in hex, remembered in the cache while the file is unchanged. The time of status change tells
    of a file that was overwritten and had its time of modification put back."""
    state = path.stat()
    seen = {
        "path": str(path.resolve()),
        "n_bytes": state.st_size,
        "mtime_ns": state.st_mtime_ns,
        "ctime_ns": state.st_ctime_ns,
        "inode": state.st_ino,
        "device": state.st_dev,
    }
    key = hashlib.sha256(str(seen["path"]).encode()).hexdigest()
    memory = cache_dir() / "hashes" / f"{key}.json"
    with suppress(OSError, ValueError):
        remembered = json.loads(memory.read_text("utf-8"))
        if isinstance(remembered, dict) and remembered.get("seen") == seen:
            return str(remembered["sha256"])
    digest = fresh_sha256(path)
    # Only a time-saver: a cache that cannot be written costs a second per run, not an error.
    with suppress(OSError):
        make_private(memory.parent)
        write_whole(memory, json.dumps({"seen": seen, "sha256": digest}).encode())
    return digest


def fresh_sha256(path: Path) -> str:
    """SHA-256 of a file in hex, computed now, for what must be checked, or is about to move."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def weights_hash(path: Path, hash_file: Callable[[Path], str] = file_sha256) -> str:
    """SHA-256 in hex that names the weights in a model's directory. A lone `model.safetensors` gives the file's own
    SHA-256, so that `sha256sum` shows the same number. Several files give the SHA-256 over the lines "name, NUL, the
    file's SHA-256", in order of name."""
    files = sorted(path.glob("*.safetensors"))
    if not files:
        raise ModelError(f"'{path}' holds no *.safetensors file; give a directory that does")
    if [file.name for file in files] == ["model.safetensors"]:
        return hash_file(files[0])
    lines = "".join(f"{file.name}\0{hash_file(file)}\n" for file in files)
    return hashlib.sha256(lines.encode()).hexdigest()


def settings_hash(path: Path, *, recursive: bool = False) -> str:
    """SHA-256 in hex over name and content of the files that transformers reads beside the weights; if `recursive`, of
    all files, in sub-directories too, as other libraries keep them."""
    entries = path.rglob("*") if recursive else path.iterdir()
    suffixes = None if recursive else (".json", ".jinja", ".model", ".txt", ".tiktoken")
    files = sorted(file for file in entries if file.is_file() and (suffixes is None or file.suffix in suffixes))
    lines = "".join(f"{file.relative_to(path).as_posix()}\0{file_sha256(file)}\n" for file in files)
    return hashlib.sha256(lines.encode()).hexdigest()


def is_whole(folder: Path, gguf_sha256: str) -> bool:
    """Whether a converted folder is finished, stems from this GGUF file and holds the weights it was made with."""
    try:
        record = json.loads((folder / RECORD_NAME).read_text("utf-8"))
        return bool(
            record["format"] == RECORD_FORMAT
            and record["gguf_sha256"] == gguf_sha256
            and (folder / "config.json").is_file()
            and record["weights_sha256"] == weights_hash(folder)
        )
    except (OSError, ValueError, KeyError, TypeError, ModelError):
        return False


def build_once(final: Path, gguf_sha256: str, build: Callable[[Path], Path], notify: Notify) -> Path:
    """Return the folder `final`; make it first if it is not there whole. `build` gets an empty scratch directory beside
    `final` and returns the finished folder in it, which is then renamed into place. A process killed at any moment
    leaves a scratch directory, which the next one removes."""
    if is_whole(final, gguf_sha256):
        return final
    with disk_errors(final.parent):
        final.parent.mkdir(parents=True, exist_ok=True)
        with _locked(final, notify):
            if is_whole(final, gguf_sha256):
                return final
            for left_over in final.parent.glob(f".{final.name}.*.tmp"):
                shutil.rmtree(left_over, ignore_errors=True)
            scratch = Path(tempfile.mkdtemp(prefix=f".{final.name}.", suffix=".tmp", dir=final.parent))
            try:
                finished = build(scratch)
                if final.exists():
                    notify(f"'{final}' was damaged, changed, or made by an earlier version; replacing it")
                    final.rename(scratch / "replaced")
                finished.rename(final)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    return final


@contextmanager
def disk_errors(where: Path, remedy: str = f"move the cache with {CACHE_VARIABLE}=DIR") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        path = error.filename or where
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            message = f"the disk of '{where}' is full; free some space, or {remedy}"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            message = f"no permission for '{path}'; {remedy}"
        else:
            message = f"cannot use '{path}': {error.strerror or error}; {remedy}"
        raise ModelError(message) from error


@contextmanager
def _locked(final: Path, notify: Notify) -> Iterator[None]:
    from filelock import FileLock, Timeout

    lock: BaseFileLock = FileLock(final.parent / f".{final.name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        notify(f"another process is making '{final.name}'; waiting for it …")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
