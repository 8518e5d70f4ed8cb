"""What fuzzers share: how long they run, how whole files are spoilt, and what has to hold of any outcome."""

from __future__ import annotations

import copy
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from leakmeter.errors import LeakmeterError

SECONDS: Final = float(os.environ.get("LEAKMETER_FUZZ_SECONDS", "5"))
"""Of all fuzzers together; `make fuzz` gives more."""
FIRST_SEED: Final = int(os.environ.get("LEAKMETER_FUZZ_SEED", "0"))
SECRET: Final = "Dora Haas lives in Graz, and her number is 555-0100"
"""Stands in values of files, and in no message; too long for the name of a field."""
LONGEST_SECONDS: Final = 30.0
"""For one input of a few kilobytes."""
MOST_GROWTH: Final = 2**30
"""Bytes by which one such input may raise the most memory that the process ever had."""
_AT_ONCE: Final = 20
_PIECES: Final = (
    *(b"\x00", b"\xff", b"\xef\xbb\xbf", b"\n", b"\r", b"\r\n", b'"', b"'", b",", b";", b"\t", b"{", b"}", b"[", b"]"),
    *(b"\\", b"\\ud800", b"\xed\xa0\x80", "\u2028".encode(), b"\x1b[31m", b"NaN", b"Infinity", b"1e999", b"-1"),
    b"null",
    *(b"9" * 30, b"9" * 5000, b"[" * 3000, b'{"a":' * 3000, b"true", b"\x7f\xff\xff\xff", b"\xff" * 8, b"#", b"="),
)
_ODD: Final = (
    *(None, True, False, 0, -1, 2**31, 2**63, 10**40, 10**400, 1.5, -0.0, 1e308, float("nan"), float("inf")),
    *("", " ", "\n", "\x00", "\ud800", "\u2028", SECRET, "x" * 5000, "{", "[1, 2]", '{"a": 1}', "1970-01-01"),
    *([], {}, [None], [[]], [{}], {"": ""}, {"a": {"b": [1]}}, [SECRET], {"text": SECRET}, [0, SECRET, None]),
)


def fuzz(strategy: st.SearchStrategy[Any], check: Callable[[Any], object], seconds: float) -> int:
    """Run `check` on what a strategy makes, some at a time, until the time is over; how many it was."""
    end = time.monotonic() + seconds
    n_checked = 0
    failed = False
    number = FIRST_SEED
    while True:

        @seed(number)
        @settings(
            max_examples=_AT_ONCE, database=None, deadline=None, phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(strategy)
        def some(value: Any) -> None:
            nonlocal n_checked, failed
            # A few, whatever the time: on a busy machine too every fuzzer has seen something. And what fails, fails
            # again, and is made smaller.
            if failed or n_checked < 3 or time.monotonic() < end:
                n_checked += 1
                failed = True
                check(value)
                failed = False

        some()
        number += 1
        if time.monotonic() >= end:
            return n_checked


def holds(work: Callable[[], object]) -> None:
    """Run something to a result or to an error for users, which is one line without what is private."""
    before = _most_memory()
    with _time_limit():
        text = "no error"
        try:
            work()
        except LeakmeterError as error:
            text = str(error)
    assert text.strip(), "an error that says nothing"
    assert not set(text) & set("\n\r"), f"not one line: {text!r}"
    assert SECRET not in text, f"private: {text!r}"
    assert len(text) < 5000, f"{len(text)} characters: {text[:200]!r}"
    assert _most_memory() - before < MOST_GROWTH, "memory"


@contextmanager
def _time_limit() -> Iterator[None]:
    def late(number: int, frame: object) -> None:
        raise AssertionError(f"no end within {LONGEST_SECONDS:g} s")

    known = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, known)


def _most_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@st.composite
def spoilt_bytes(draw: st.DrawFn, whole: tuple[bytes, ...]) -> bytes:
    """A whole file with bytes changed, cut out, doubled or put in; now and then anything."""
    if draw(st.integers(0, 15)) == 0:
        return draw(st.binary(max_size=300))
    content = bytearray(draw(st.sampled_from(whole)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(content)))
        what = draw(st.sampled_from(("put in", "byte", "cut out", "double", "end", "number")))
        n = draw(st.integers(1, 40))
        if what == "put in":
            content[at:at] = draw(st.sampled_from(_PIECES))
        elif what == "byte":
            content[at : at + 1] = bytes([draw(st.integers(0, 255))])
        elif what == "cut out":
            del content[at : at + n]
        elif what == "double":
            content[at:at] = content[at : at + n]
        elif what == "number":
            # A length, a count or an offset of a binary file.
            size = draw(st.sampled_from((1, 2, 4, 8)))
            number = draw(st.sampled_from((0, 1, 2 ** (8 * size - 1), 2 ** (8 * size) - 1)))
            content[at : at + size] = number.to_bytes(size, "little")
        else:
            del content[at:]
    return bytes(content)


@st.composite
def spoilt_values(draw: st.DrawFn, whole: tuple[Any, ...]) -> Any:
    """A value of JSON with some of its parts replaced, taken away, doubled or renamed."""
    value = copy.deepcopy(draw(st.sampled_from(whole)))
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(value))
        if not places:
            return draw(st.sampled_from(_ODD))
        holder, key = places[draw(st.integers(0, len(places) - 1))]
        what = draw(st.sampled_from(("replace", "replace", "replace", "take away", "double", "wrap")))
        if what == "replace":
            holder[key] = copy.deepcopy(draw(st.sampled_from(_ODD)))
        elif what == "take away":
            del holder[key]
        elif what == "wrap":
            holder[key] = [holder[key]] if draw(st.booleans()) else {"text": holder[key]}
        elif isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        else:
            holder[f"{key} "] = copy.deepcopy(holder[key])
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    for key in keys:
        yield value, key
        yield from _places(value[key])


def as_json(value: Any) -> bytes:
    """As Python writes it, which is more than JSON knows: NaN, and halves of surrogate pairs as escapes."""
    return json.dumps(value).encode()


def json_files(*whole: Any) -> st.SearchStrategy[bytes]:
    """Files of one JSON value: its parts spoilt, or its bytes."""
    return st.one_of(spoilt_values(whole).map(as_json), spoilt_bytes(tuple(map(as_json, whole))))
