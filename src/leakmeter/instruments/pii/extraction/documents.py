"""Documents out of files: JSON lines and plain text, which may be larger than memory, and tables of other kinds."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from leakmeter.data.opened import open_data
from leakmeter.data.rows import read_rows
from leakmeter.data.text import parsed_json
from leakmeter.errors import DataError
from leakmeter.text.units import starts_in_characters

WHAT: Final = "file of documents"
MOST_LINE_BYTES: Final = 32 * 2**20
"""A longer line is not read, nor what is behind it."""
_CHUNK_BYTES = 2**20
Kind = Literal["lines", "text", "rows"]
_KINDS: Final[dict[str, Kind]] = {
    **dict.fromkeys((".jsonl", ".ndjson"), "lines"),
    **dict.fromkeys((".txt", ".text", ".md"), "text"),
    **dict.fromkeys((".json", ".csv", ".tsv", ".parquet"), "rows"),
}
_PACKED: Final = (".gz", ".gzip", ".zst", ".zstd")


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
    inner = path.with_suffix("") if path.suffix.lower() in _PACKED else path
    kind = _KINDS.get(inner.suffix.lower())
    if kind is None:
        raise DataError(
            f"'{path}' is of no known kind; expected one of {', '.join(_KINDS)}, or one of these with .gz or .zst"
        )
    return kind


def documents_of(path: Path, field: str) -> Iterator[tuple[Document | Bad, int]]:
    """The documents of a file, and its lines that hold none; empty lines are passed over.

    Each with how many bytes of the file on disk were read; 0 where that is not known. `field` of records is the text.
    """
    kind = kind_of(path)
    if kind == "rows":
        for row in read_rows(path, what=WHAT):
            value: object = None
            with suppress(DataError):
                value = row.fields
            yield from ((document, 0) for document in _of_record(row.number, value, field))
        return
    line = 1
    with (
        open_data(path, WHAT, most=sys.maxsize - 1, most_packed=None) as opened,
        io.BufferedReader(opened) as stream,
    ):
        lines = _lines(stream)
        try:
            for document in _of_text(lines) if kind == "text" else _of_lines(lines, field):
                line = document.line
                yield document, opened.n_packed
        except DataError as error:
            yield Bad(line, f"the file is damaged here or behind: {error}"), opened.n_packed


def _lines(stream: io.BufferedIOBase) -> Iterator[bytes]:
    while line := stream.readline(MOST_LINE_BYTES):
        if len(line) == MOST_LINE_BYTES and not line.endswith(b"\n"):
            raise DataError(f"a line is longer than {MOST_LINE_BYTES:,} bytes")
        yield line


def _of_lines(lines: Iterable[bytes], field: str) -> Iterator[Document | Bad]:
    for number, content in enumerate(lines, 1):
        if not content.strip():
            continue
        try:
            value = parsed_json(content.decode("utf-8-sig" if number == 1 else "utf-8"), "it")
        except UnicodeDecodeError as error:
            yield Bad(number, f"it is not UTF-8 at byte {error.start + 1:,}")
        except DataError as error:
            yield Bad(number, str(error))
        else:
            yield from _of_record(number, value, field)


def _of_record(line: int, value: object, field: str) -> Iterator[Document | Bad]:
    if not isinstance(value, Mapping):
        yield Bad(line, "it is not a JSON object")
    elif not isinstance(text := value.get(field), str):
        yield Bad(line, f"it has no text in field '{field}'")
    else:
        for number, (_, part) in enumerate(parts(clean(text)), 1):
            yield Document(line, number, part)


def _of_text(lines: Iterable[bytes]) -> Iterator[Document]:
    first_line = 1
    for chunk in _chunks(lines):
        text = chunk.decode("utf-8-sig" if first_line == 1 else "utf-8", errors="replace")
        line, number, done = first_line, 0, 0
        for start, part in parts(text):
            n_lines = text.count("\n", done, start)
            line, number, done = line + n_lines, 1 if n_lines else number + 1, start
            if part.strip():
                yield Document(line, number, part)
        first_line += chunk.count(b"\n")


def _chunks(lines: Iterable[bytes]) -> Iterator[bytes]:
    """About a megabyte each: what no blank line divides is one document's, within reason."""
    chunk: list[bytes] = []
    n_bytes = 0
    for line in lines:
        chunk.append(line)
        n_bytes += len(line)
        if n_bytes >= _CHUNK_BYTES * (2 if line.strip() else 1):
            yield b"".join(chunk)
            chunk, n_bytes = [], 0
    yield b"".join(chunk)


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
    starts = [low + at for at in starts_in_characters("sentence", text[low:high])]
    first = max(at for at in starts if at <= start)
    last = min((at for at in starts if at >= end), default=high)
    sentence = text[first:last]
    return first + len(sentence) - len(sentence.lstrip()), first + len(sentence.rstrip())


def _cut(text: str, low: int, high: int) -> int:
    """Behind the last blank line, line or space that ends between two places; the second place where there is none."""
    for mark in ("\n\n", "\n", " "):
        position = text.rfind(mark, low, high)
        if position >= 0:
            return position + len(mark)
    return high
