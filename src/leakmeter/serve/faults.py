"""What a request is told of an error: nothing of where things are on this machine."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Final

from leakmeter.commands import output
from leakmeter.core.json_object import JsonObject

_ROOT: Final = r"(?:/|~[/\\]|[A-Za-z]:[/\\]|\\\\)"
_QUOTED: Final = re.compile(rf"(['\"]){_ROOT}(?:[^'\"]*[/\\])?([^'\"/\\]+)[/\\]?\1")
_BARE: Final = re.compile(r"(?<![\w.:/\\'\"])(?:~?/(?:[\w.@+~=-]+/)+|[A-Za-z]:\\(?:[^\s'\"\\]+\\)*)([\w.@+~=-]*)")
_PACKAGE: Final = Path(__file__).resolve().parents[1]


def without_paths(text: str) -> str:
    """A message with the name alone of every file that it names by its place from the root on."""
    return _BARE.sub(r"…/\1", _QUOTED.sub(r"\1…/\2\1", text))


def error_of(status: int, why: str, param: str | None = None, code: str | None = None) -> JsonObject:
    """An error in OpenAI's shape."""
    kind = "insufficient_quota" if status == 429 else "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": why, "type": kind, "param": param, "code": code}}


def unforeseen(error: Exception) -> str:
    """One line about an error that nobody foresaw; the terminal of the server is told where in the code it came about.
    Neither has its text, which may quote what was typed."""
    kind = type(error).__name__
    frames = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    own = [f"{file.relative_to(_PACKAGE.parent)}:{line}" for file, line in frames if file.is_relative_to(_PACKAGE)]
    others = [f"{file.name}:{line}" for file, line in frames[-1:] if not file.is_relative_to(_PACKAGE)]
    places = ", ".join([*own[-3:], *others])
    output.tell(f"a request ended in an error that should not happen ({kind}); it came about in {places}")
    return f"an error that should not happen ({kind}); the terminal of the server says where"
