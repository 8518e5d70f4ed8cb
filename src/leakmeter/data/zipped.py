"""Files within a ZIP archive, one after another, each unpacked within limits; a log of inspect_ai is one.

A few kilobytes may unpack to more than any memory holds, and name millions of files: what comes out is counted, and the
list of files is not read where it is long. Zstandard, which inspect_ai packs with, is unpacked by pyarrow.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, Any, Final

from leakmeter.core.files import MOST_BYTES
from leakmeter.errors import DataError

_ZSTD: Final = 93
"""Number of the method, which Python knows from 3.14 on."""
_MOST_LIST_BYTES: Final = 2**25
"""Of the list of files, of which each takes 46 or more."""
_LONGEST_END: Final = 2**16 + 100
_CHUNK: Final = 2**20
_ENCRYPTED: Final = 1


def files_within(archive: IO[bytes], where: str, *, most: int = MOST_BYTES) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the files of an archive, in its order; of one name the last alone. `most` are the bytes of
    all that is unpacked.

    Raises:
        DataError: the archive is damaged, encrypted, packed in another way, or too large.
    """
    _check_list(archive, where)
    try:
        with zipfile.ZipFile(archive) as opened:
            infos = (info for info in opened.infolist() if info.filename and not info.is_dir())
            files = list({info.filename: info for info in infos}.values())
            for info in files:
                content = _unpacked(opened, archive, info, where, most)
                most -= len(content)
                yield info.filename, content
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, struct.error, NotImplementedError):
        # What is wrong may be said with bytes of a text.
        raise DataError(f"{where} cannot be unpacked; is it incomplete or damaged?") from None


def _check_list(archive: IO[bytes], where: str) -> None:
    size = archive.seek(0, io.SEEK_END)
    archive.seek(max(size - _LONGEST_END, 0))
    end = archive.read(_LONGEST_END)
    lengths = [0]
    if (at := end.rfind(b"PK\x05\x06")) >= 0 and len(end) >= at + 16:
        lengths += struct.unpack_from("<L", end, at + 12)
    # Of a large archive, the number stands in a longer record before.
    if (at := end.rfind(b"PK\x06\x06")) >= 0 and len(end) >= at + 48:
        lengths += struct.unpack_from("<Q", end, at + 40)
    length = max(held for held in lengths if held != 2**32 - 1)
    if length > _MOST_LIST_BYTES:
        raise DataError(f"{where} is an archive of too many files: their list has {length:,} bytes; split it")


def _unpacked(opened: zipfile.ZipFile, archive: IO[bytes], info: zipfile.ZipInfo, where: str, most: int) -> bytes:
    if info.flag_bits & _ENCRYPTED:
        raise DataError(f"{where} is encrypted; give it without a password")
    stream: Any
    if info.compress_type == _ZSTD:
        import pyarrow as pa

        stream = pa.CompressedInputStream(pa.BufferReader(_packed(archive, info)), "zstd")
    elif info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        stream = opened.open(info)
    else:
        raise DataError(f"{where} is packed with method {info.compress_type}; pack it with deflate or Zstandard")
    chunks: list[bytes] = []
    with stream:
        while chunk := stream.read(_CHUNK):
            most -= len(chunk)
            if most < 0:
                raise DataError(f"{where} unpacks to more bytes than are read; split it")
            chunks.append(chunk)
    return b"".join(chunks)


def _packed(archive: IO[bytes], info: zipfile.ZipInfo) -> bytes:
    """A file as it stands in the archive, behind a header with its name and other fields."""
    archive.seek(info.header_offset)
    header = archive.read(30)
    if len(header) < 30 or header[:4] != b"PK\x03\x04":
        raise zipfile.BadZipFile("a file's header is not where the list says")
    archive.seek(sum(struct.unpack_from("<HH", header, 26)), io.SEEK_CUR)
    return archive.read(info.compress_size)
