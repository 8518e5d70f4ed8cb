"""Plain objects, as JSON can hold them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


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
