"""Values of logs, which may be JSON within JSON, numbers as texts, and times of many kinds, as plain values."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeGuard

from leakmeter.data import foreign
from leakmeter.data.foreign import parsed
from leakmeter.data.traces.answer import Sampling

_LONGEST_ID: Final = 256


def is_record(value: object) -> TypeGuard[Mapping[Any, Any]]:
    return isinstance(value, dict)


def named(value: object) -> str | None:
    """An id as text; None where there is none. Of one that is far too long, or no valid Unicode, its hash."""
    if isinstance(value, str) and 0 < len(value) <= _LONGEST_ID and value.isascii():
        return value
    if isinstance(value, bool) or value is None or value == "":
        return None
    if isinstance(value, bytes):
        return value.hex()
    if not (isinstance(value, str | int | float) or type(value).__name__ == "UUID"):
        return None
    text = str(value)
    written = text.encode(errors="surrogatepass")
    is_good = len(text) <= _LONGEST_ID and (text.isascii() or written.decode(errors="replace") == text)
    return text if is_good else f"sha256:{hashlib.sha256(written).hexdigest()[:32]}"


def event_of(held: Mapping[Any, Any]) -> str:
    """A name for a record that has none: the hash of what it says."""
    written = json.dumps(held, sort_keys=True, default=str).encode()
    return f"sha256:{hashlib.sha256(written).hexdigest()[:32]}"


def at_path(held: object, path: str) -> Any:
    """The value at a path of names with dots between them; a name with dots of its own is tried whole first."""
    held = parsed(held)
    if not is_record(held):
        return None
    if path in held:
        return held[path]
    cut = len(path)
    while (cut := path.rfind(".", 0, cut)) > 0:
        if path[:cut] in held and (inner := at_path(held[path[:cut]], path[cut + 1 :])) is not None:
            return inner
    return None


def seconds(value: object) -> float | None:
    """A time as seconds since 1970: of ISO texts, datetimes, and numbers of seconds, milli-, micro- or nanoseconds."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, str):
        try:
            if value.isdigit():
                return seconds(int(value))
            return seconds(datetime.fromisoformat(value))
        except (ValueError, OverflowError):
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        value = float(value)
    except OverflowError:
        return None
    if not math.isfinite(value) or value <= 0:
        return None
    # Each unit is a thousand times the next; numbers of this century do not overlap.
    for unit, above in ((1e9, 1e17), (1e6, 1e14), (1e3, 1e11)):
        if value >= above:
            return value / unit
    return value


def moment(value: float | None) -> datetime | None:
    """Seconds since 1970 as a time, UTC, in microseconds."""
    try:
        return None if value is None else datetime.fromtimestamp(round(value, 6), UTC)
    except (ValueError, OverflowError, OSError):
        return None


def sampling_of(held: Mapping[Any, Any]) -> Sampling:
    """How an answer was drawn, of the parameters of its request, under the names that engines have for them."""
    # `format` is a form in a request of Ollama alone, and many logs have another field of that name.
    sampling = foreign.sampling_of({name: value for name, value in held.items() if name != "format"})
    n_beams, decoding = sampling.pop("num_beams", None), sampling.pop("decoding", None)
    return Sampling(**sampling, n_beams=n_beams, logged_decoding=decoding)
