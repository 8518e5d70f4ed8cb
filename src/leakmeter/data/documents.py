"""Documents of files of any size, one after another: of plain text, and of records with a field that holds one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from leakmeter.core.files import check_readable
from leakmeter.data.rows import kind_of_name, read_rows, suffix_of
from leakmeter.data.streamed import MOST_LINE, lines_of, open_streamed, records_of
from leakmeter.errors import DataError

WHAT: Final = "file of documents"
TEXT_SUFFIXES: Final = (".txt", ".text", ".md")
_CHUNK_BYTES: Final = 2**20


@dataclass(frozen=True, slots=True)
class DocumentText:
    line: int
    """From 1; of text, the line where it begins."""
    part: int
    """Number of this part of a long document, from 1."""
    text: str


@dataclass(frozen=True, slots=True)
class Bad:
    line: int
    reason: str
    """Without a word of the line."""


def check_documents(files: Iterable[Path]) -> None:
    """Refuse files that are of no known kind, or cannot be read."""
    for path in files:
        if suffix_of(path) not in TEXT_SUFFIXES and kind_of_name(path) is None:
            kinds = ", ".join((*TEXT_SUFFIXES, ".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet"))
            raise DataError(f"'{path}' is of no known kind; expected one of {kinds}, or one of these with .gz or .zst")
        check_readable(path, WHAT, most=None)


def documents_of(
    files: Sequence[Path], field: str, progress: Callable[[int, int], None] = lambda n_bytes, n_total: None
) -> Iterator[tuple[int, DocumentText | Bad]]:
    """Documents and bad lines, each with the number of its file, from 1. `field` of records is the text; `progress`
    gets how many bytes of the files were read, and of how many."""
    sizes = [path.stat().st_size for path in files]
    n_bytes = 0

    def on_bytes(n: int) -> None:
        nonlocal n_bytes
        n_bytes = n

    for number, path in enumerate(files, 1):
        line, n_bytes = 1, 0
        read = _of_text(path, on_bytes) if suffix_of(path) in TEXT_SUFFIXES else _of_records(path, field, on_bytes)
        try:
            for document in read:
                line = document.line
                progress(sum(sizes[: number - 1]) + n_bytes, sum(sizes))
                yield number, document
        except DataError as error:
            yield number, Bad(line, f"the file is damaged here or later: {error}")


def _of_records(path: Path, field: str, on_bytes: Callable[[int], None]) -> Iterator[DocumentText | Bad]:
    kind = kind_of_name(path)
    # A JSON file may hold its records by their ids, or in columns.
    whole = read_rows(path, noun=WHAT) if kind == "json" else None
    for row in whole or records_of(path, 0, on_bytes, WHAT, is_lines=kind == "jsonl"):
        if row.problem is not None or not isinstance(row.content, Mapping):
            yield Bad(row.number, row.reason if row.problem else "it is not a JSON object")
        elif not isinstance(text := row.content.get(field), str):
            yield Bad(row.number, f"it has no text in field '{field}'")
        else:
            for number, (_, part) in enumerate(parts(clean(text)), 1):
                yield DocumentText(row.number, number, part)


def _of_text(path: Path, on_bytes: Callable[[int], None]) -> Iterator[DocumentText]:
    first_line = 1
    for chunk in _chunks(path, on_bytes):
        text = chunk.decode("utf-8-sig" if first_line == 1 else "utf-8", errors="replace")
        line, number, counted_to = first_line, 0, 0
        for start, part in parts(text):
            n_lines = text.count("\n", counted_to, start)
            line, number, counted_to = line + n_lines, 1 if n_lines else number + 1, start
            if part.strip():
                yield DocumentText(line, number, part)
        first_line += chunk.count(b"\n")


def _chunks(path: Path, on_bytes: Callable[[int], None]) -> Iterator[bytes]:
    """About a megabyte each; if possible, cut at a blank line."""
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
"""Of a part. A person's data are not further apart, and finders are slow in long texts."""
_SURROGATES = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """Replaces halves of surrogate pairs, which cannot be written."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def parts(text: str, most: int = MOST_CHARACTERS) -> Iterator[tuple[int, str]]:
    """Where each part begins, and the part: cut after a blank line, else after a line, else between words."""
    start = 0
    while len(text) - start > most:
        low, end = start + most // 2, start + most
        cuts = ((text.rfind(mark, low, end), len(mark)) for mark in ("\n\n", "\n", " "))
        end = next((at + length for at, length in cuts if at >= 0), end)
        yield start, text[start:end]
        start = end
    yield start, text[start:]
