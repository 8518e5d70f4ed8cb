"""Records of files of any size, one after another: JSON lines, JSON, CSV, TSV, Parquet, also packed.

Of a file no more than a record is in memory at a time, or of Parquet a few rows. A JSON file that is one list or one
record is read whole, and may not be large; so is a table of text. Unlike with `rows`, reading can go on where it ended.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from leakmeter.core.files import check_readable
from leakmeter.data.opened import STDIN, named, open_data, open_stdin
from leakmeter.data.rows import kind_of_name, parquet_rows, read_rows
from leakmeter.errors import DataError

Problem = Literal["malformed", "too-long"]

MOST_LINE: Final = 2**25
"""Longest record, bytes."""
MOST_WHOLE: Final = 2**28
"""Largest JSON file that is not in lines, bytes."""
MOST_PARTS: Final = 2**24
"""Of which it may consist: each takes far more memory than its bytes."""
_UNBOUNDED = 2**62
_CHUNK = 2**20
_ROWS = 64
_PARQUET = b"PAR1"
_BOM = b"\xef\xbb\xbf"
_WHAT = "log"
_AS_LINES = "write a record a line, as with: jq -c '.[]'"


@dataclass(frozen=True, slots=True)
class Streamed:
    """A record, or why it is none."""

    where: str
    given: Any = None
    problem: Problem | None = None
    end: int = 0
    """Bytes up to the end of it, unpacked; of Parquet and of tables of text, rows."""


class _Bytes(Protocol):
    @property
    def n_packed(self) -> int: ...

    def read(self, size: int, /) -> bytes: ...


def records_of(source: str | Path, start: int, on_bytes: Callable[[int], None]) -> Iterator[Streamed]:
    """The records of a file, or of standard input ('-'), from where `Streamed.end` said; `on_bytes` gets how many
    bytes of the file were read."""
    if str(source) == STDIN:
        yield from _of_bytes(open_stdin(_WHAT), named(source, _WHAT), "standard input", start, on_bytes)
        return
    path = Path(source)
    check_readable(path, _WHAT, most=None)
    with path.open("rb") as file:
        is_parquet = file.read(len(_PARQUET)) == _PARQUET
    if is_parquet:
        yield from _of_parquet(path, start, on_bytes)
        return
    if kind_of_name(path) in ("csv", "tsv"):
        yield from _of_table(path, start, on_bytes)
        return
    with open_data(path, _WHAT, most=_UNBOUNDED, most_packed=None) as opened:
        yield from _of_bytes(opened, named(source, _WHAT), path.name, start, on_bytes)


def _of_bytes(opened: _Bytes, what: str, name: str, start: int, on_bytes: Callable[[int], None]) -> Iterator[Streamed]:
    at = 0
    while at < start:
        if not (skipped := opened.read(min(_CHUNK, start - at))):
            raise DataError(f"{what} has {at:,} bytes, and was read up to byte {start:,} before; is it another file?")
        at += len(skipped)
    first = opened.read(_CHUNK)
    if not start:
        bare = first.removeprefix(_BOM).lstrip()
        if bare.startswith(b"[") or bare.split(b"\n", 1)[0].rstrip() == b"{":
            yield from _whole(first, opened, what, name, on_bytes)
            return
    behind = f" behind byte {start:,}" if start else ""
    for number, (line, end, is_finished) in enumerate(_lines(first, opened, start, on_bytes), 1):
        where = f"{name}, line {number}{behind}"
        if line is None:
            yield Streamed(where, None, "too-long", end)
            continue
        stripped = line.removeprefix(_BOM).strip() if number == 1 else line.strip()
        if not stripped:
            continue
        parsed = _parsed(stripped)
        if isinstance(parsed, dict):
            yield Streamed(where, parsed, end=end)
        else:
            # A line that is still being written is to be read again.
            yield Streamed(where, None, "malformed", end if is_finished else end - len(line))


def _lines(
    chunk: bytes, opened: _Bytes, at: int, on_bytes: Callable[[int], None]
) -> Iterator[tuple[bytes | None, int, bool]]:
    """Lines, None of one that is too long; the byte behind each; and whether it is finished."""
    held: list[bytes] = []
    n_held = 0
    while chunk:
        on_bytes(opened.n_packed)
        first, *others = chunk.split(b"\n")
        for piece in others:
            n_held += len(first)
            at += n_held + 1
            held.append(first)
            yield (b"".join(held) if n_held <= MOST_LINE else None), at, True
            held, n_held, first = [], 0, piece
        n_held += len(first)
        # What is too long is not kept, and is counted to its end.
        held = [*held, first] if n_held <= MOST_LINE else []
        chunk = opened.read(_CHUNK)
    if n_held:
        yield (b"".join(held) if n_held <= MOST_LINE else None), at + n_held, False


def _whole(first: bytes, opened: _Bytes, what: str, name: str, on_bytes: Callable[[int], None]) -> Iterator[Streamed]:
    """The records of a file that is one list, or one record on several lines."""
    parts, n_bytes = [first], len(first)
    while chunk := opened.read(_CHUNK):
        n_bytes += len(chunk)
        if n_bytes > MOST_WHOLE:
            raise DataError(
                f"{what} is one JSON value of more than {MOST_WHOLE:,} bytes, which is not read; {_AS_LINES}"
            )
        parts.append(chunk)
    on_bytes(opened.n_packed)
    content = b"".join(parts).removeprefix(_BOM)
    if sum(map(content.count, (b",", b":", b"[", b"{"))) > MOST_PARTS:
        raise DataError(f"{what} is one JSON value of more than {MOST_PARTS:,} parts, which is not read; {_AS_LINES}")
    value = _parsed(content)
    if not isinstance(value, list | dict):
        raise DataError(f"{what} is neither JSON lines nor a JSON list of records")
    records = value if isinstance(value, list) else [value]
    for number, record in enumerate(records, 1):
        # Reading cannot go on within the value.
        where, end = f"{name}, record {number}", n_bytes if number == len(records) else 0
        yield Streamed(where, record, end=end) if isinstance(record, dict) else Streamed(where, None, "malformed", end)


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line.decode())
    except (ValueError, RecursionError):
        return None


def _of_parquet(path: Path, start: int, on_bytes: Callable[[int], None]) -> Iterator[Streamed]:
    size, number = path.stat().st_size, start
    for n_before, n_rows, records, _ in parquet_rows(path, named(path, _WHAT), _ROWS, start=start):
        for number, row in enumerate(records, n_before + 1):
            if number > start:
                yield Streamed(f"{path.name}, record {number}", row, end=number)
        on_bytes(size * number // max(n_rows, 1))


def _of_table(path: Path, start: int, on_bytes: Callable[[int], None]) -> Iterator[Streamed]:
    for row in read_rows(path, what=_WHAT):
        if row.number > start:
            where = f"{path.name}, {row.place}"
            yield Streamed(where, row.given, None if row.problem is None else "malformed", row.number)
    on_bytes(path.stat().st_size)
