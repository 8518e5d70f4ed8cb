"""Texts and names in what was read, with errors a person can act on."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from leakmeter.core.plain import half_pair
from leakmeter.errors import DataError

_KINDS = {type(None): "null", bool: "a truth value", int: "a number", float: "a number", list: "a list"}


def checked_text(value: object, field: str, where: str) -> str:
    """A JSON value that has to be text that can be written as UTF-8."""
    if not isinstance(value, str):
        kind = _KINDS.get(type(value), "an object")
        raise DataError(f"{where}: '{field}' is {kind}, expected text")
    if (at := half_pair(value)) is not None:
        raise DataError(f"{where}: '{field}' holds half a surrogate pair at character {at}")
    return value


def parsed_json(content: str | bytes, where: str) -> Any:
    """What JSON says, one value on one line or several; of bytes in UTF-8."""
    try:
        text = content if isinstance(content, str) else content.decode()
        return json.loads(text)
    except UnicodeDecodeError as error:
        raise DataError(f"{where} is not UTF-8 at byte {error.start + 1:,}") from None
    except json.JSONDecodeError as error:
        at = f"character {error.colno:,}" + (f" of line {error.lineno:,}" if "\n" in text.rstrip() else "")
        raise DataError(f"{where} is not JSON: {error.msg} at {at}") from None
    except (RecursionError, ValueError):
        raise DataError(f"{where} is JSON nested too deep, or with a number too long, to be read") from None


def unused(name: str, names: Collection[str]) -> str:
    """The name, numbered if it is taken."""
    out, number = name, 2
    while out in names:
        out, number = f"{name} ({number})", number + 1
    return out
