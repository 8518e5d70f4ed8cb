from __future__ import annotations

import json
import re
import sys
import traceback
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request

from leakmeter.commands import output
from leakmeter.core.limits import MOST_NEW_TOKENS, bounded
from leakmeter.core.plain import half_pair
from leakmeter.core.record import JsonObject
from leakmeter.errors import DataError, UnknownNameError, UsageError

_ROOT: Final = r"(?:/|~[/\\]|[A-Za-z]:[/\\]|\\\\)"
_QUOTED: Final = re.compile(rf"(['\"]){_ROOT}(?:[^'\"]*[/\\])?([^'\"/\\]+)[/\\]?\1")
_BARE: Final = re.compile(r"(?<![\w.:/\\'\"])(?:~?/(?:[\w.@+~=-]+/)+|[A-Za-z]:\\(?:[^\s'\"\\]+\\)*)([\w.@+~=-]*)")
_PACKAGE: Final = Path(__file__).resolve().parents[2]


def without_paths(text: str) -> str:
    """A message with the name alone of every file that it names by its place from the root on."""
    return _BARE.sub(r"…/\1", _QUOTED.sub(r"\1…/\2\1", text))


def error_of(status: int, why: str, param: str | None = None, code: str | None = None) -> JsonObject:
    """An error in OpenAI's shape."""
    kind = "insufficient_quota" if status == 429 else "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": why, "type": kind, "param": param, "code": code}}


def unforeseen(error: Exception) -> str:
    """One line about an unexpected error; the terminal shows where in the code it came about. Neither has the error's
    text, which may quote what was typed."""
    kind = type(error).__name__
    frames = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    own = [f"{file.relative_to(_PACKAGE.parent)}:{line}" for file, line in frames if file.is_relative_to(_PACKAGE)]
    others = [f"{file.name}:{line}" for file, line in frames[-1:] if not file.is_relative_to(_PACKAGE)]
    places = ", ".join([*own[-3:], *others])
    output.tell(f"a request ended in an internal error ({kind}) in {places}")
    return f"internal error ({kind}); the server's terminal shows where"


async def json_object(request: Request) -> JsonObject:
    """The body of a request, a JSON object of which every text is valid Unicode."""
    body = parsed_object(await request.body())
    try:
        # JSON can write half of a surrogate pair, which no answer and no file can.
        at = half_pair(json.dumps(body, ensure_ascii=False))
    except RecursionError:
        raise DataError("the body is nested too deep") from None
    if at is not None:
        raise DataError("the body has half of a surrogate pair, which is no valid Unicode")
    return body


def parsed_object(body: bytes) -> JsonObject:
    """A JSON object, without fields that are there twice and numbers that are none."""

    def unique(pairs: list[tuple[str, Any]]) -> JsonObject:
        if len(fields := dict(pairs)) < len(pairs):
            raise DataError("the body gives a field twice")
        return fields

    def constant(name: str) -> Any:
        raise DataError(f"the body has {name}, which is not JSON")

    try:
        value = json.loads(body, object_pairs_hook=unique, parse_constant=constant)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise DataError("the body has to be a JSON object")
    return value


def texts(body: JsonObject, *names: str, most: int) -> dict[str, str]:
    """Fields that are texts of at most so many characters; "" where one was not sent."""
    fields = {name: body.get(name, "") for name in names}
    for name, value in fields.items():
        if not isinstance(value, str) or len(value) > most:
            raise UsageError(f"{name} has to be text of at most {most:,} characters")
    return fields


def choice(value: str, noun: str, known: Collection[str]) -> str:
    """One of the values that the page offers, or "" where none was chosen."""
    if value and value not in known:
        raise UnknownNameError(noun, value[:40], known)
    return value


def whole(body: JsonObject, name: str, default: int) -> int:
    value = body.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(f"{name} has to be a whole number")
    return value


def number(body: JsonObject, name: str, default: float) -> float:
    """A field that is a number, of no more digits than a float holds."""
    value = body.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise UsageError(f"{name} has to be a number")
    return float(value)


def new_tokens(body: JsonObject) -> int:
    n_tokens = whole(body, "max_new_tokens", 40)
    good, name, value, expected = bounded("max-new-tokens", n_tokens, 1, MOST_NEW_TOKENS)
    if not good:
        raise UsageError(f"{name} is {value}; it has to be {expected}")
    return n_tokens
