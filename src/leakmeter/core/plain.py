"""Plain objects, as JSON can hold them, and plain text, as a terminal may be given it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

# C0 but tab and newline, DEL, C1, line separators, bidirectional overrides and isolates, lone surrogates
# (which no UTF-8 file can hold).
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """`text` with every control character replaced by a picture of it; as long as before.

    What passes has nothing that a terminal or the bidirectional algorithm would obey, and its character offsets stay
    true.
    """
    text = text.replace("\r\n", " \n").replace("\r", "\n")
    return _UNPRINTABLE.sub(_picture, text)


def to_json(value: Any, *, ascii_only: bool = False) -> str:
    """One line of JSON, with null for every number that is infinite or NaN: JSON has no words for these.

    Args:
        value: mappings, lists, texts and numbers.
        ascii_only: write other letters as escapes, for a terminal that lacks them.
    """
    return json.dumps(_finite(value), ensure_ascii=ascii_only, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _picture(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"
