"""A random secret of the user's, made on first use."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from filelock import FileLock

from leakmeter.core.written import make_private, write_whole

N_BYTES: Final = 32
_FOLDER: Final = "leakmeter"
"""Name of the user's directory of configuration, where nobody names another."""


def read_secret(path: Path) -> bytes:
    """The 32 bytes in a file of mode 0600; drawn and written first where there are none.

    The directory is made with mode 0700 if need be; one that is leakmeter's own is tightened, and another refused where
    others can write to it. A file of another length is replaced.

    Raises:
        OSError: the file can neither be read nor written.
    """
    with suppress(FileNotFoundError):
        secret = _read(path)
        if len(secret) == N_BYTES:
            return secret
    make_private(path.parent, named=path.parent.name != _FOLDER)
    # Two processes that start together have to end up with the same one.
    with FileLock(path.with_name(f".{path.name}.lock"), mode=0o600):
        with suppress(FileNotFoundError):
            secret = _read(path)
            if len(secret) == N_BYTES:
                return secret
        secret = os.urandom(N_BYTES)
        write_whole(path, secret)
        return secret


def _read(path: Path) -> bytes:
    with suppress(PermissionError):
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
    return path.read_bytes()
