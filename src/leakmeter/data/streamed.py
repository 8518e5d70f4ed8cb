"""Records of files of any size, one after another: JSON lines, JSON, CSV, TSV, Parquet, also packed.

Of a file no more than a record is in memory at a time, or of Parquet a few rows. A JSON file that is one list or one
record is read whole, and may not be large; so is a table of text. Unlike with `rows`, reading can go on where it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from leakmeter.core.files import check_readable
from leakmeter.data.mapping import parsed_json
from leakmeter.data.opened import STDIN, ZIP, Opened, named, open_data, open_stdin
from leakmeter.data.rows import PARQUET, DataRow, kind_of_name, parquet_rows, parsed_row, read_rows
from leakmeter.errors import DataError

MOST_LINE: Final = 2**25
"""Longest record, bytes."""
MOST_WHOLE: Final = 2**28
"""Largest JSON file that is not in lines, bytes."""
MOST_PARTS: Final = 2**24
"""Of which it may consist: each takes far more memory than its bytes."""
MOST_BLANK: Final = 2_000_000
"""Lines without a record, of which a small packed file may have any number."""
_CHUNK = 2**20
_BOM = b"\xef\xbb\xbf"
_AS_LINES = "write one record per line, as with: jq -c '.[]'"


def records_of(
    source: str | Path, start: int, on_bytes: Callable[[int], None], noun: str = "log", *, is_lines: bool = False
) -> Iterator[DataRow]:
    """The records of a file, or of standard input ('-'), from where `DataRow.end` said; `on_bytes` gets how many
    bytes of the file were read, and `is_lines` says that it is JSON lines, whatever the first is. A damaged file is
    read as far as it goes."""
    may_be_whole = not (is_lines or start)
    if str(source) == STDIN:
        yield from _of_bytes(open_stdin(noun), named(source, noun), "standard input", start, on_bytes, may_be_whole)
        return
    path = Path(source)
    check_readable(path, noun, most=None)
    with path.open("rb") as file:
        begins = file.read(len(PARQUET))
    if begins == PARQUET:
        yield from _of_parquet(path, start, on_bytes, named(path, noun))
    elif begins == ZIP or kind_of_name(path) in ("csv", "tsv", "parquet"):
        # A Parquet file that is packed begins with something else, and can be read whole alone, as can an archive.
        for row in read_rows(path, noun=noun):
            if row.number > start:
                yield replace(row, source=path.name, end=row.number)
        on_bytes(path.stat().st_size)
    else:
        with open_streamed(path, noun) as opened:
            yield from _of_bytes(opened, named(source, noun), path.name, start, on_bytes, may_be_whole)


def open_streamed(path: Path, noun: str) -> Opened:
    return open_data(path, noun, most=2**62, most_packed=None)


def _of_bytes(
    opened: Opened, noun: str, name: str, start: int, on_bytes: Callable[[int], None], may_be_whole: bool
) -> Iterator[DataRow]:
    at = 0
    while at < start:
        if not (skipped := opened.read(min(_CHUNK, start - at))):
            raise DataError(f"{noun} has {at:,} bytes, and was already read up to byte {start:,}; is it another file?")
        at += len(skipped)
    first = bare = b""
    while b"\n" not in bare and len(first) < _CHUNK and (piece := opened.piece(_CHUNK)):
        first += piece
        bare = first.removeprefix(_BOM).lstrip()
    if may_be_whole and (bare.startswith(b"[") or bare.split(b"\n", 1)[0].rstrip() == b"{"):
        yield from _whole(first, opened, noun, name, on_bytes)
        return
    behind = f" behind byte {start:,}" if start else ""
    n_blank = 0
    for number, (line, end, is_finished) in enumerate(lines_of(opened, on_bytes, first, start), 1):
        stripped = b"" if line is None else line.removeprefix(_BOM).strip() if number == 1 else line.strip()
        if line is not None and not stripped:
            n_blank += 1
            if n_blank > MOST_BLANK:
                raise DataError(f"{noun} has more than {MOST_BLANK:,} blank lines; remove them")
            continue
        row = DataRow(number, f"line {number}{behind}", name, end=end)
        if line is None:
            problem = DataError(f"{row.where} is longer than {MOST_LINE:,} bytes")
            yield replace(row, problem=problem, is_too_long=True)
            continue
        row = _record(parsed_row(row, stripped))
        # A line that is still being written is to be read again.
        yield row if is_finished or row.problem is None else replace(row, end=end - len(line))


def lines_of(
    opened: Opened, on_bytes: Callable[[int], None], chunk: bytes = b"", at: int = 0
) -> Iterator[tuple[bytes | None, int, bool]]:
    """Lines without their ends, None of one that is too long; the byte behind each; and whether it is finished.
    `chunk` is what was read of the file already, from the byte `at`."""
    held: list[bytes] = []
    n_held = 0
    while chunk or (chunk := opened.piece(_CHUNK)):
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
        chunk = b""
    if n_held:
        yield (b"".join(held) if n_held <= MOST_LINE else None), at + n_held, False


def _whole(first: bytes, opened: Opened, noun: str, name: str, on_bytes: Callable[[int], None]) -> Iterator[DataRow]:
    parts, n_bytes = [first], len(first)
    while chunk := opened.read(_CHUNK):
        n_bytes += len(chunk)
        if n_bytes > MOST_WHOLE:
            raise DataError(
                f"{noun} is one JSON value of more than {MOST_WHOLE:,} bytes, the most that is read; {_AS_LINES}"
            )
        parts.append(chunk)
    on_bytes(opened.n_packed)
    content = b"".join(parts).removeprefix(_BOM)
    if sum(map(content.count, (b",", b":", b"[", b"{"))) > MOST_PARTS:
        raise DataError(
            f"{noun} is one JSON value of more than {MOST_PARTS:,} parts, the most that is read; {_AS_LINES}"
        )
    try:
        value = parsed_json(content, noun)
    except DataError:
        value = None
    if not isinstance(value, list | dict):
        raise DataError(f"{noun} is neither JSON lines nor a JSON list of records")
    records = value if isinstance(value, list) else [value]
    for number, record in enumerate(records, 1):
        # Reading cannot go on within the value.
        row = DataRow(number, f"record {number}", name, end=n_bytes if number == len(records) else 0)
        yield _record(replace(row, content=record))


def _record(row: DataRow) -> DataRow:
    if row.problem is not None or isinstance(row.content, dict):
        return row
    return replace(row, content=None, problem=DataError(f"{row.where} is not a JSON object"))


def _of_parquet(path: Path, start: int, on_bytes: Callable[[int], None], where: str) -> Iterator[DataRow]:
    size, number = path.stat().st_size, start
    for n_before, n_rows, records, _ in parquet_rows(path, where, 64, start=start):
        for number, row in enumerate(records, n_before + 1):
            if number > start:
                yield DataRow(number, f"record {number}", path.name, row, end=number, is_table=True)
        on_bytes(size * number // max(n_rows, 1))
