"""Documents out of files: JSON lines and plain text, which may be larger than memory, and tables of other kinds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from leakmeter.data.rows import kind_of_name, read_rows, suffix_of
from leakmeter.data.streamed import MOST_LINE, lines_of, open_streamed, records_of
from leakmeter.errors import DataError

WHAT: Final = "file of documents"
_CHUNK_BYTES = 2**20
_TEXT: Final = (".txt", ".text", ".md")


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


def check_kind(path: Path) -> None:
    if suffix_of(path) not in _TEXT and kind_of_name(path) is None:
        kinds = ", ".join((*_TEXT, ".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet"))
        raise DataError(f"'{path}' is of no known kind; expected one of {kinds}, or one of these with .gz or .zst")


def documents_of(path: Path, field: str) -> Iterator[tuple[Document | Bad, int]]:
    """The documents of a file, and its lines that hold none; empty lines are passed over. `field` of records is the
    text. Each with how many bytes of the file on disk were read; 0 where that is not known."""
    line, n_bytes = 1, 0

    def on_bytes(n: int) -> None:
        nonlocal n_bytes
        n_bytes = n

    try:
        for document in _of_text(path, on_bytes) if suffix_of(path) in _TEXT else _of_records(path, field, on_bytes):
            line = document.line
            yield document, n_bytes
    except DataError as error:
        yield Bad(line, f"the file is damaged here or behind: {error}"), n_bytes


def _of_records(path: Path, field: str, on_bytes: Callable[[int], None]) -> Iterator[Document | Bad]:
    kind = kind_of_name(path)
    # A JSON file may hold its records by their ids, or in columns.
    whole = read_rows(path, what=WHAT) if kind == "json" else None
    for row in whole or records_of(path, 0, on_bytes, WHAT, is_lines=kind == "jsonl"):
        if row.problem is not None or not isinstance(row.given, Mapping):
            yield Bad(row.number, row.reason if row.problem else "it is not a JSON object")
        elif not isinstance(text := row.given.get(field), str):
            yield Bad(row.number, f"it has no text in field '{field}'")
        else:
            for number, (_, part) in enumerate(parts(clean(text)), 1):
                yield Document(row.number, number, part)


def _of_text(path: Path, on_bytes: Callable[[int], None]) -> Iterator[Document]:
    first_line = 1
    for chunk in _chunks(path, on_bytes):
        text = chunk.decode("utf-8-sig" if first_line == 1 else "utf-8", errors="replace")
        line, number, done = first_line, 0, 0
        for start, part in parts(text):
            n_lines = text.count("\n", done, start)
            line, number, done = line + n_lines, 1 if n_lines else number + 1, start
            if part.strip():
                yield Document(line, number, part)
        first_line += chunk.count(b"\n")


def _chunks(path: Path, on_bytes: Callable[[int], None]) -> Iterator[bytes]:
    """About a megabyte each: what no blank line divides is one document's, within reason."""
    chunk: list[bytes] = []
    n_bytes = 0
    with open_streamed(path, WHAT) as opened:
        for line, _, is_finished in lines_of(opened, on_bytes):
            if line is None:
                raise DataError(f"a line is longer than {MOST_LINE:,} bytes")
            chunk.append(line + b"\n" if is_finished else line)
            n_bytes += len(chunk[-1])
            if n_bytes >= _CHUNK_BYTES * (2 if line.strip() else 1):
                yield b"".join(chunk)
                chunk, n_bytes = [], 0
    yield b"".join(chunk)


MOST_CHARACTERS: Final = 50_000
"""Of a part. What stands further apart is not told of one person, and finders are slow in what is long."""
_SURROGATES = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """The text with halves of surrogate pairs replaced, so that it can be written."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def parts(text: str, most: int = MOST_CHARACTERS) -> Iterator[tuple[int, str]]:
    """Where each part begins, and the part: cut behind a blank line, else a line, else between words."""
    start = 0
    while len(text) - start > most:
        low, end = start + most // 2, start + most
        cuts = ((text.rfind(mark, low, end), len(mark)) for mark in ("\n\n", "\n", " "))
        end = next((at + length for at, length in cuts if at >= 0), end)
        yield start, text[start:end]
        start = end
    yield start, text[start:]
