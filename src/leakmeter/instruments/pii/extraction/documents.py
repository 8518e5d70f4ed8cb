"""Documents out of files: JSON lines and plain text, which may be larger than memory, and tables of other kinds.

A file is read in batches of about a megabyte. A batch knows where the next one begins, so that reading can go on there.
"""

from __future__ import annotations

import codecs
import gzip
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final, Literal, cast

import sentencex

from leakmeter.core.files import check_readable
from leakmeter.data.rows import Row, read_rows
from leakmeter.errors import DataError

MOST_LINE_BYTES: Final = 32 * 2**20
"""A longer line is not read."""
_TOO_LONG = f"it is longer than {MOST_LINE_BYTES:,} bytes"
_BATCH_BYTES = 2**20
_BATCH_ROWS = 256
Kind = Literal["lines", "text", "rows"]
_KINDS: Final[dict[str, Kind]] = {
    **dict.fromkeys((".jsonl", ".ndjson"), "lines"),
    **dict.fromkeys((".txt", ".text", ".md"), "text"),
    **dict.fromkeys((".json", ".csv", ".tsv", ".parquet"), "rows"),
}
_GZIP: Final = (".gz", ".gzip")
_ZSTD: Final = (".zst", ".zstd")


@dataclass(frozen=True, slots=True)
class Batch:
    """Lines of a file as its bytes."""

    file: int
    """The file's number, from 0."""
    kind: Kind
    line: int
    """Number of the first line, from 1."""
    lines: tuple[bytes | None, ...]
    """None for one that is too long."""
    next_line: int
    next_offset: int
    """Where the next batch begins, in bytes of what was compressed."""
    n_bytes_read: int
    """Of the file on disk, so far."""
    damage: str = ""
    """Why nothing can be read behind these lines."""


@dataclass(frozen=True, slots=True)
class Document:
    """A text, or a part of a long one, and where it stands."""

    line: int
    """Of JSON; of text, the line where it begins; from 1."""
    part: int
    """Of that line, from 1."""
    text: str


@dataclass(frozen=True, slots=True)
class Bad:
    """A line that is no document."""

    line: int
    reason: str
    """Without a word of the line."""


def kind_of(path: Path) -> Kind:
    """What a file holds, by its name.

    Raises:
        DataError: the name does not tell.
    """
    packed = path.suffix.lower()
    inner = path.with_suffix("") if packed in (*_GZIP, *_ZSTD) else path
    kind = _KINDS.get(inner.suffix.lower())
    if kind is None or (kind == "text" and packed in _ZSTD):
        raise DataError(
            f"'{path}' is of no known kind; expected one of {', '.join(_KINDS)}, or one of these with .gz or, but for "
            "text, .zst"
        )
    return "rows" if packed in _ZSTD else kind


def read_batches(path: Path, number: int, *, line: int = 1, offset: int = 0) -> Iterator[Batch]:
    """A file's batches, from a line that begins at an offset; the last one says so where the file is damaged.

    Raises:
        DataError: it cannot be read.
    """
    kind = kind_of(path)
    check_readable(path, "file of documents", most=None)
    if kind == "rows":
        yield from _row_batches(path, number, offset)
        return
    try:
        with path.open("rb") as raw, closing(_opened(raw)) as stream:
            stream.seek(offset)
            while True:
                batch = _read_batch(stream, raw, number, kind, line)
                if batch.lines or batch.damage:
                    yield batch
                if not batch.lines or batch.damage:
                    return
                line = batch.next_line
    except OSError as error:
        raise DataError(f"'{path}' cannot be read: {error.strerror or error}") from None


def _row_batches(path: Path, number: int, offset: int) -> Iterator[Batch]:
    """Batches of a table or a list, whose rows become lines of JSON; an offset is a number of rows."""
    n_bytes = path.stat().st_size
    rows = enumerate(read_rows(path, what="file of documents"), 1)
    more = (_line_of(row) for place, row in rows if place > offset)
    while lines := tuple(islice(more, _BATCH_ROWS)):
        first, offset = offset + 1, offset + len(lines)
        # How far a packed file was read is not known before its end.
        yield Batch(number, "lines", first, lines, offset + 1, offset, n_bytes if len(lines) < _BATCH_ROWS else 0)


def _line_of(row: Row) -> bytes:
    try:
        return json.dumps(row.fields).encode()
    except DataError:
        return b"null"


def documents_of(batch: Batch, field: str) -> Iterator[Document | Bad]:
    """The documents of a batch, and lines that hold none; empty lines are passed over.

    Args:
        batch: as read.
        field: of the JSON objects, the one that is the text.
    """
    if batch.kind == "text":
        yield from _of_text(batch)
    else:
        yield from _of_lines(batch, field)
    if batch.damage:
        yield Bad(batch.next_line, f"the file is damaged here or behind: {batch.damage}")


def _of_text(batch: Batch) -> Iterator[Document | Bad]:
    encoding = "utf-8-sig" if batch.line == 1 else "utf-8"
    text = b"".join(b"\n" if line is None else line for line in batch.lines).decode(encoding, errors="replace")
    yield from (Bad(number, _TOO_LONG) for number, line in enumerate(batch.lines, batch.line) if line is None)
    line, number, done = batch.line, 0, 0
    for start, part in parts(text):
        n_lines = text.count("\n", done, start)
        line, number, done = line + n_lines, 1 if n_lines else number + 1, start
        if part.strip():
            yield Document(line, number, part)


def _of_lines(batch: Batch, field: str) -> Iterator[Document | Bad]:
    for number, content in enumerate(batch.lines, batch.line):
        if content is not None and not content.strip():
            continue
        try:
            text = _text_of(content, field, is_first=number == 1)
        except DataError as error:
            yield Bad(number, str(error))
            continue
        for n_before, (_, part) in enumerate(parts(clean(text))):
            yield Document(number, n_before + 1, part)


def _opened(raw: BinaryIO) -> BinaryIO:
    is_compressed = raw.read(2) == b"\x1f\x8b"
    raw.seek(0)
    return cast(BinaryIO, gzip.GzipFile(fileobj=raw, mode="rb")) if is_compressed else raw


def _read_batch(stream: BinaryIO, raw: BinaryIO, number: int, kind: Kind, first_line: int) -> Batch:
    lines: list[bytes | None] = []
    line, n_bytes, is_done, damage = first_line, 0, False, ""
    while not is_done:
        try:
            read = stream.readline(MOST_LINE_BYTES)
            is_long = len(read) == MOST_LINE_BYTES and not read.endswith(b"\n")
            if is_long:
                _skip_line(stream)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            damage = str(error)
            break
        if not read:
            break
        lines.append(None if is_long else read)
        line += 1
        n_bytes += len(read)
        # Of text, what no blank line divides is one document's, within reason.
        is_done = n_bytes >= _BATCH_BYTES * (1 if kind == "lines" or not read.strip() else 2)
    return Batch(number, kind, first_line, tuple(lines), line, 0 if damage else stream.tell(), raw.tell(), damage)


def _skip_line(stream: BinaryIO) -> None:
    while (read := stream.readline(_BATCH_BYTES)) and not read.endswith(b"\n"):
        pass


def _text_of(line: bytes | None, field: str, *, is_first: bool) -> str:
    if line is None:
        raise DataError(_TOO_LONG)
    try:
        value = json.loads(line.removeprefix(codecs.BOM_UTF8) if is_first else line)
    except json.JSONDecodeError as error:
        raise DataError(f"it is not JSON: {error.msg} at character {error.pos + 1:,}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"it is not UTF-8 at byte {error.start + 1:,}") from None
    except (RecursionError, ValueError):
        raise DataError("it is JSON nested too deep, or with a number too long, to be read") from None
    if not isinstance(value, dict):
        raise DataError("it is not a JSON object")
    if not isinstance(value.get(field), str):
        raise DataError(f"it has no text in field '{field}'")
    return str(value[field])


MOST_CHARACTERS: Final = 50_000
"""Of a part. What stands further apart is not told of one person, and finders are slow in what is long."""
_MOST_AROUND = 600
BLANK_LINE: Final = re.compile(r"\n[ \t\r]*\n")
_SURROGATES = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """The text with halves of surrogate pairs replaced, so that it can be written."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def parts(text: str, most: int = MOST_CHARACTERS) -> Iterator[tuple[int, str]]:
    """Where each part begins, and the part: cut behind a blank line, else a line, else between words."""
    start = 0
    while len(text) - start > most:
        end = _cut(text, start + most // 2, start + most)
        yield start, text[start:end]
        start = end
    yield start, text[start:]


def sentence_around(text: str, start: int, end: int) -> tuple[int, int]:
    """Characters [start, end) of the sentence, or sentences, that a place lies in.

    A sentence does not go over a blank line, nor further than 600 characters either way.
    """
    low, high = max(0, start - _MOST_AROUND), min(len(text), end + _MOST_AROUND)
    for blank in BLANK_LINE.finditer(text, low, start):
        low = blank.end()
    if blank_after := BLANK_LINE.search(text, end, high):
        high = blank_after.start()
    around = text[low:high]
    starts = [low + boundary["start_index"] for boundary in sentencex.get_sentence_boundaries("en", around)]
    first = max((at for at in starts if at <= start), default=low)
    last = min((at for at in starts if at >= end), default=high)
    said = text[first:last]
    return first + len(said) - len(said.lstrip()), first + len(said.rstrip())


def _cut(text: str, low: int, high: int) -> int:
    """Behind the last blank line, line or space that ends between two places; the second place where there is none."""
    for mark in ("\n\n", "\n", " "):
        found = text.rfind(mark, low, high)
        if found >= 0:
            return found + len(mark)
    return high
