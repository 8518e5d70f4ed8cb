"""What libraries say when they read a model's files, as one line about the model."""

from __future__ import annotations

import errno
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Any, Final

from leakmeter.errors import LeakmeterError, ModelError

_MOST: Final = 200


class ForeignErrors:
    """Gives whatever a library raises while it reads files, of many kinds and lines, as a ModelError of one line.

    Errors of our own, and of the operating system, go on their way.

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
        if not isinstance(error, Exception) or isinstance(error, LeakmeterError):
            return
        name, text = type(error).__name__, " ".join(str(error).split())
        if name == "SafetensorError" and ("code: 28" in text or "No space left" in text):
            raise OSError(errno.ENOSPC, "no space left on device") from error
        if isinstance(error, OSError) and error.errno is not None:
            return
        raise ModelError(f"{self._what}: {text[:_MOST] or name}; {self._advice}") from error


def check_loaded(name: str, loaded: Mapping[str, Collection[Any]]) -> None:
    """Refuse weights that do not fit their configuration: what is missing would be random, and be measured.

    Args:
        name: what the user called the model.
        loaded: what `from_pretrained(..., output_loading_info=True, ignore_mismatched_sizes=True)` says beside the
            model. Tied weights do not count as missing there.

    Raises:
        ModelError: weights are missing, unexpected or of another shape.
    """
    found = {
        "missing": list(loaded["missing_keys"]),
        "unexpected": list(loaded["unexpected_keys"]),
        "of another shape": [key for key, *_ in loaded["mismatched_keys"]],
    }
    told = [
        f"{len(names)} {what} ({', '.join(sorted(names)[:3])}{', …' if len(names) > 3 else ''})"
        for what, names in found.items()
        if names
    ]
    if told:
        raise ModelError(
            f"the weights of '{name}' do not fit its configuration: {'; '.join(told)}; give weights and config.json "
            "that belong together"
        )
