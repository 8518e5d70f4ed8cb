"""What stands for a person's data in a run: a keyed hash, which tells equal from different and nothing else.

Hashes of telephone numbers without a key, or with the key beside them, are tried out in minutes. So the key stays in
the user's own configuration, in a file of mode 0600.
"""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path
from typing import Final

from leakmeter.errors import StoreError
from leakmeter.runs.secret import read_secret

FILE: Final = "subjects.secret"
_HEX_DIGITS: Final = 32


def subject_key(directory: Path) -> bytes:
    """The user's key, made on first use.

    Args:
        directory: of the user's configuration.

    Raises:
        StoreError: it can neither be read nor written.
    """
    try:
        return read_secret(directory / FILE)
    except OSError as error:
        raise StoreError(
            f"the key that stands in for personal data can neither be read nor written in '{directory}' "
            f"({error.strerror}); make that directory writable, or name another in LEAKMETER_CONFIG"
        ) from None


def pseudonym(key: bytes, *parts: str) -> str:
    """128 bits of an HMAC-SHA-256 of texts, as hexadecimal digits; which text is which matters."""
    told = b"".join(len(part).to_bytes(8, "little") + part for part in (text.encode() for text in parts))
    return hmac.new(key, told, hashlib.sha256).hexdigest()[:_HEX_DIGITS]
