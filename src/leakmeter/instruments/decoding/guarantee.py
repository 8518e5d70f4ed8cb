"""What voids the guarantee of bounded decoding, refused before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from leakmeter.core.case import Case
from leakmeter.errors import UsageError
from leakmeter.instruments.decoding.measure import Decode
from leakmeter.privacy import accounting

_TOO_COARSE: Final = ("bfloat16", "float16")


def check_guarantee(measure: Decode, cases: Sequence[Case], delta: float) -> None:
    """Refuse a bound that cannot be kept or accounted for; without one, nothing."""
    accounting.check_delta(delta)
    if measure.epsilon is None:
        return
    accounting.basic([(measure.epsilon, 1)])
    for case in cases:
        if case.response is not None:
            raise UsageError(
                f"case '{case.id}' has a response; epsilon bounds what is drawn under it, so leave the response out"
            )


def check_precision(measure: Decode, dtype: str | None) -> None:
    """Refuse a precision whose noise a bound does not survive."""
    if measure.epsilon is not None and dtype in _TOO_COARSE:
        raise UsageError(
            f"dtype is '{dtype}'; epsilon is certified from logits, and their noise in that precision, which depends "
            "on the context, would void it; give float32"
        )


def precision_for(measure: Decode, model: Any, dtype: str | None) -> str | None:
    """The precision to load a model in: under a bound float32 where none was asked for, also on CUDA."""
    check_precision(measure, dtype)
    named = not isinstance(model, tuple) and model != "toy"
    return "float32" if measure.epsilon is not None and dtype is None and named else dtype
