"""The nonce of a directory: random bits that nobody else has, kept so that an interrupted command goes on with them."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Final

from filelock import FileLock

from leakmeter.core.files import clear_left_over, make_private, store_errors, write_whole
from leakmeter.core.urls import check_directory
from leakmeter.errors import StoreError

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
