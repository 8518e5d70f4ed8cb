"""Plain objects, as JSON can hold them, and plain text, as a terminal may be given it."""

from __future__ import annotations

import csv
import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final, TextIO, TypeVar

_Name = TypeVar("_Name", bound=str)

INFINITY: Final = "Infinity"
"""How JSON spells a number that is infinite, '-' before it where it is negative; `float` reads it. null is missing."""

# C0 but tab and newline, DEL, C1, line separators, bidirectional overrides and isolates, lone surrogates
# (which no UTF-8 file can hold).
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """`text` with each control character replaced by a picture of it: nothing for a terminal or the bidirectional
    algorithm to obey, and the same character offsets."""
    text = text.replace("\r\n", " \n").replace("\r", "\n")
    return _UNPRINTABLE.sub(_picture, text)


def as_unicode(name: str) -> str:
    """A name of the operating system's; bytes that are not UTF-8 become the replacement character."""
    return os.fsencode(name).decode(errors="replace")


def excerpt(text: str, characters: int) -> str:
    """`text` on one line, made visible, its middle cut out when it is longer than `characters`."""
    # Only the ends can be seen, so only the ends are looked at: a piece may be megabytes.
    if len(text) > 8 * characters:
        text = text[: 4 * characters] + " … " + text[-4 * characters :]
    line = " ".join(visible(text).split())
    if len(line) <= characters:
        return line
    tail = characters // 3
    return f"{line[: characters - tail - 1].rstrip()}…{line[-tail:].lstrip()}"


def distinct(names: Iterable[str], least: int = 12, most: int = 24) -> dict[str, str]:
    """Names, those of more than `most` characters (such as hashes) by their first: at least so many, and enough to tell
    all apart."""
    names = set(names)
    longest = max(map(len, names), default=0)
    n = next((n for n in range(least, longest) if len({name[:n] for name in names}) == len(names)), longest)
    return {name: f"{name[:n]}…" if len(name) > max(most, n) else name for name in names}


def n_listed(n: int, most: int) -> int:
    """How many of `n` a sentence lists that has room for `most`: 'and 1 more' takes as much room as the last one."""
    return n if n == most + 1 else min(n, most)


def plural(n: int, one: str, many: str) -> str:
    """The form of a word, or of a sentence, that goes with a number."""
    return one if n == 1 else many


def several(names: _Name | Iterable[_Name]) -> tuple[_Name, ...]:
    """One name, or several of them, as several: a text is never taken for its characters."""
    return (names,) if isinstance(names, str) else tuple(names)


def counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}{plural(n, '', 's')}"


def csv_writer(sink: TextIO) -> Any:
    """Writes rows of CSV with all texts quoted: a bare carriage return would end a row for some readers."""
    return csv.writer(sink, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)


def one_line(error: object) -> str:
    """What an error of a library says, on one line: some draw where it was on lines of their own."""
    return " ".join(str(error).split())


SELDOM: Final = "left out where it is None or empty"
"""Of a field's metadata: few results have it, and the others are written as if there were no such field."""


def to_plain(value: Any) -> Any:
    """The value as JSON can hold it; an infinite number becomes a text (see `INFINITY`), NaN None."""
    if is_dataclass(value) and not isinstance(value, type):
        pairs = ((field, getattr(value, field.name)) for field in fields(value))
        return {
            field.name: to_plain(part)
            for field, part in pairs
            if not (field.metadata.get(SELDOM) and (part is None or part == ()))
        }
    if isinstance(value, Mapping):
        return {name: to_plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else INFINITY if value > 0 else f"-{INFINITY}"
    return value


def to_json(value: Any, *, ascii_only: bool = False) -> str:
    """One line of JSON (see `to_plain`), with other letters as escapes for a terminal that lacks them."""
    return json.dumps(to_plain(value), ensure_ascii=ascii_only, allow_nan=False)


def _picture(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"


def half_pair(text: str) -> int | None:
    """Where a text has half of a surrogate pair, which no file and no answer can hold; None where it has none."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return error.start
    return None
