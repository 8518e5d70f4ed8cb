"""Secrets of the user's, and what stands for a person's data in a run: a keyed hash, which tells equal from different;
and the nonce of a directory, random bits that an interrupted command goes on with.

Hashes of telephone numbers without a key, or with the key beside them, are tried out in minutes. So the key stays in
the user's own configuration, in a file of mode 0600.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from filelock import FileLock

from leakmeter.core.files import clear_left_over, make_private, read_whole, store_errors, write_whole
from leakmeter.core.urls import check_directory
from leakmeter.errors import StoreError

FILE: Final = "subjects.secret"
N_BYTES: Final = 32
_FOLDER: Final = "leakmeter"
"""Name of the user's directory of configuration, where nobody names another."""


def subject_key(directory: Path) -> bytes:
    """The user's key, made on first use."""
    try:
        return read_secret(directory / FILE)
    except OSError as error:
        raise StoreError(
            f"the key for pseudonyms of personal data can neither be read nor written in '{directory}' "
            f"({error.strerror}); make that directory writable, or name another in LEAKMETER_CONFIG"
        ) from None


def pseudonym(key: bytes, *parts: str) -> str:
    """128 bits of an HMAC-SHA-256 of texts, as hexadecimal digits; which text is which matters."""
    content = b"".join(len(part).to_bytes(8, "little") + part for part in (text.encode() for text in parts))
    return hmac.new(key, content, hashlib.sha256).hexdigest()[:32]


def read_secret(path: Path, *, replaces_damaged: bool = False) -> bytes:
    """The 32 bytes in a file of mode 0600, drawn where there is none. The directory is made with mode 0700; leakmeter's
    own is tightened, and another refused where others can write to it. `OSError` where the file can neither be read
    nor written; `StoreError` where it has another number of bytes, unless it `replaces_damaged` ones: what was made
    with the secret is lost then."""

    def kept() -> bytes | None:
        with suppress(FileNotFoundError):
            secret = _read(path)
            if len(secret) == N_BYTES:
                return secret
            if not replaces_damaged:
                raise StoreError(
                    f"'{path}' has {len(secret):,} bytes instead of {N_BYTES}; restore it from a copy, or remove it to "
                    "begin anew: nothing that was made with it can be compared then"
                )
        return None

    if (secret := kept()) is not None:
        return secret
    make_private(path.parent, named=path.parent.name != _FOLDER)
    # Two processes that start together have to end up with the same one.
    with FileLock(path.with_name(f".{path.name}.lock"), mode=0o600):
        if (secret := kept()) is None:
            secret = os.urandom(N_BYTES)
            write_whole(path, secret)
        return secret


def _read(path: Path) -> bytes:
    with suppress(PermissionError):
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
    return read_whole(path)


NONCE_FILES: Final = (".lock", "secret.json")
"""Files of a directory that keeps a nonce, which are of no use without a run."""


def drawn_nonce() -> int:
    """As many random bits as a bounded decoding draws for itself."""
    return secrets.randbits(128)


def made_directory(path: Path) -> Path:
    check_directory(path)
    with store_errors(f"directory '{path}' cannot be made"):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        make_private(path)
        clear_left_over(path)
    return path


def kept_nonce(directory: Path) -> int:
    """The directory's nonce; drawn when it is first asked for, and the directory made."""
    made_directory(directory)
    path = directory / "secret.json"
    try:
        # Of two commands that begin at once, one draws.
        with store_errors(f"the nonce of '{directory}' cannot be kept"), FileLock(directory / ".lock"):
            if not path.exists():
                write_whole(path, json.dumps({"nonce": drawn_nonce()}).encode())
            return int(json.loads(path.read_bytes())["nonce"])
    except (ValueError, KeyError, TypeError):
        raise StoreError(f"'{path}' holds no nonce; remove that directory and run again") from None
