"""Nested records compared: numbers within the noise of another processor's arithmetic, everything else exactly."""

from __future__ import annotations

import math
from typing import Any, Final

RELATIVE: Final = 1e-9
"""The toy's float64 log-probabilities differed by at most 1.1e-13 between processors; float32 enters none of them."""
ABSOLUTE: Final = 1e-11
"""In the number's own unit. Sums that cancel to zero leave about 1e-15 times the terms."""


def differences(value: Any, expected: Any, *, relative: float = RELATIVE, absolute: float = ABSOLUTE) -> list[str]:
    """Where two values of dictionaries, lists and plain values differ, a line each; none where they agree.

    Whole numbers, texts and truth values have to be equal.
    """
    return [
        f"{path or 'value'}: {mine!r} is not {other!r}"
        for path, mine, other in _pairs(value, expected, "")
        if not _agree(mine, other, relative, absolute)
    ]


def _pairs(value: Any, expected: Any, path: str) -> list[tuple[str, Any, Any]]:
    if isinstance(value, dict) and isinstance(expected, dict) and list(value) == list(expected):
        return [pair for key in value for pair in _pairs(value[key], expected[key], f"{path}.{key}")]
    if isinstance(value, list) and isinstance(expected, list) and len(value) == len(expected):
        both = enumerate(zip(value, expected, strict=True))
        return [pair for i, (mine, other) in both for pair in _pairs(mine, other, f"{path}[{i}]")]
    return [(path, value, expected)]


def _agree(value: Any, expected: Any, relative: float, absolute: float) -> bool:
    if type(value) is float and type(expected) is float:
        return value == expected or math.isclose(value, expected, rel_tol=relative, abs_tol=absolute)
    return type(value) is type(expected) and bool(value == expected)
