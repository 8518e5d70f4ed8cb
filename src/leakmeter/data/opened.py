"""Files of data as bytes: from a path or standard input, unpacked, and never more of them than fit into memory."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from pathlib import Path
from typing import Any, Final

from leakmeter.core.files import MOST_BYTES, check_readable
from leakmeter.errors import DataError
from leakmeter.overriding import override

STDIN: Final = "-"
"""What stands for standard input where a path is expected."""
_MOST_TIMES: Final = 1000
"""As many times its size a file may unpack to."""
_ANYWAY: Final = 2**30
"""Bytes that even a small file may unpack to."""
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
ZIP: Final = b"PK\x03\x04"
"""What a ZIP archive begins with."""


class Opened(io.BufferedIOBase):
    """A file's bytes, unpacked if it is compressed, which ends in an error where they become too many. A few kilobytes
    may unpack to more than any memory holds, so that the limit is on what comes out."""

    def __init__(self, raw: Any, inner: Any, where: str, most: int) -> None:
        self._raw = raw
        self._inner = inner
        self._where = where
        self._most = most
        self._held = b""
        self.n_bytes = 0

    @property
    def n_packed(self) -> int:
        """Bytes of the file, as it is, that were read so far."""
        return int(self._raw.tell()) if self._raw.seekable() else self.n_bytes

    def starts_with(self, start: bytes) -> bool:
        """Whether the first bytes, of a few, are these; to be asked before anything is read."""
        if not self._held:
            self._held = self._read(len(start))
        return self._held.startswith(start)

    @property
    def whole(self) -> Any:
        """The file as it is, to be read anywhere, in place of all else."""
        return self._raw

    @override
    def readable(self) -> bool:
        return True

    @override
    def read(self, size: int | None = -1, /) -> bytes:
        held, self._held = self._held, b""
        if size is None or size < 0:
            return held + self._read(self._most + 1)
        return held or self._read(size)

    @override
    def read1(self, size: int = -1, /) -> bytes:
        return self.read(size)

    def piece(self, size: int) -> bytes:
        """What can be had at once: of a damaged file, in the end all that stands before the damage."""
        held, self._held = self._held, b""
        return held or self._read(size, at_once=True)

    def _read(self, size: int, *, at_once: bool = False) -> bytes:
        limit = min(size, self._most + 1 - self.n_bytes)
        try:
            out: bytes = self._inner.read1(limit) if at_once else self._inner.read(limit)
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise DataError(f"{self._where} cannot be decompressed: {error}; is it incomplete or damaged?") from None
        self.n_bytes += len(out)
        if self.n_bytes > self._most:
            raise DataError(
                f"{self._where} has more than {self._most:,} bytes, the most that is read; split it, or remove what "
                "is not needed"
            )
        if self.n_bytes > _ANYWAY and self.n_bytes > _MOST_TIMES * self.n_packed:
            raise DataError(
                f"{self._where} decompresses to more than {_MOST_TIMES:,} times its size; if that is intended, "
                "decompress it and give the result"
            )
        return out

    @override
    def close(self) -> None:
        self._inner.close()
        self._raw.close()
        super().close()


def open_data(
    source: str | Path,
    noun: str,
    *,
    most: int = MOST_BYTES,
    most_packed: int | None = MOST_BYTES,
    archives: bool = False,
) -> Opened:
    """A file or standard input ('-', read whole), by its content unpacked from gzip or Zstandard. At most `most` bytes
    are unpacked, `most_packed` are in the file, None for one that is read in parts. That it is damaged or holds more
    (`DataError`) is found later, from reading. Who asks for `archives` gets those of ZIP as they are."""
    where = named(source, noun)
    if str(source) == STDIN:
        # One byte more than may be read, so that `Opened` sees that there are too many.
        raw: Any = io.BytesIO(_stdin(where).read(most + 1))
    else:
        check_readable(Path(source), noun, most=most_packed and min(most, most_packed))
        try:
            raw = Path(source).open("rb", buffering=2**18)  # noqa: SIM115 (closed with what is returned)
        except OSError as error:
            raise DataError(f"{where} cannot be read: {error.strerror or error}") from None
    start = raw.read(len(_ZSTD))
    raw.seek(0)
    return _unpacked(raw, start, where, most, archives=archives)


def open_stdin(noun: str) -> Opened:
    """Standard input as it comes, unpacked; the rest of it is not in memory."""
    where = named(STDIN, noun)
    stream = _stdin(where)
    raw = stream if hasattr(stream, "peek") else io.BufferedReader(stream)
    return _unpacked(raw, raw.peek(len(_ZSTD))[: len(_ZSTD)], where, sys.maxsize - 1)


def _unpacked(raw: Any, start: bytes, where: str, most: int, *, archives: bool = False) -> Opened:
    inner: Any = raw
    if start == ZIP and not archives:
        raw.close()
        raise DataError(f"{where} is a ZIP archive; unpack it and give a file within")
    if start.startswith(_GZIP):
        inner = gzip.GzipFile(fileobj=raw)
    elif start == _ZSTD:
        import pyarrow as pa

        inner = pa.CompressedInputStream(pa.PythonFile(raw, "r"), "zstd")
    return Opened(raw, inner, where, most)


def named(source: str | Path, noun: str) -> str:
    """What a file is called in errors."""
    return "standard input" if str(source) == STDIN else f"{noun} '{source}'"


def _stdin(where: str) -> Any:
    if sys.stdin is None or sys.stdin.isatty():
        raise DataError(f"{where} is a terminal; pipe the data in, or give a file")
    return sys.stdin.buffer
