"""Errors of libraries that read a model's files, as one line about the model."""

from __future__ import annotations

import errno
import struct
from types import TracebackType
from typing import Final

from leakmeter.errors import ModelError

_KINDS: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
)
_MOST: Final = 200


class ForeignErrors:
    """Gives what a reader of files raises, which is of many kinds and lines, as a ModelError of one line.

    Args:
        what: begins the line, such as "'own.gguf' cannot be converted".
        advice: ends it: what to do.
    """

    def __init__(self, what: str, advice: str) -> None:
        self._what = what
        self._advice = advice

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is None or kind is None:
            return
        text = " ".join(str(error).split())
        is_safetensors = kind.__name__ == "SafetensorError"
        if is_safetensors and ("code: 28" in text or "No space left" in text):
            raise OSError(errno.ENOSPC, "no space left on device") from error
        if isinstance(error, OSError) and error.errno is not None:
            return
        # The tokenizers library raises bare Exception: that class itself is meant, not what derives from it.
        if kind is Exception or is_safetensors or isinstance(error, _KINDS):
            raise ModelError(f"{self._what}: {text[:_MOST] or kind.__name__}; {self._advice}") from error
