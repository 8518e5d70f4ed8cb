"""Prepared cases that are not at hand, packed into few bytes: in memory, and if there are many in a nameless file."""

from __future__ import annotations

import hashlib
import io
import pickle
import weakref
import zlib
from collections.abc import Callable, Mapping
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any, Final

from leakmeter.core.item import Prepared
from leakmeter.overriding import override

if TYPE_CHECKING:
    from leakmeter.core.backend import Backend
    from leakmeter.core.item import Origin

MEMORY_BYTES: Final = 256_000_000
"""Of packed cases that stay in memory: some 10 million tokens. What is more goes to a file that has no name, can be
opened by this process alone, and is gone when it ends."""
_LEVEL: Final = 1
"""Of compression: higher ones take several times as long for a tenth less."""


class PackedCases:
    """Prepared cases by their numbers, each written once. What cannot be kept so is prepared again by whoever asks."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._file = SpooledTemporaryFile(max_size=memory_bytes)  # noqa: SIM115 (as long as the cases)
        self._places: dict[int, tuple[int, int, bytes]] = {}
        """Of each case its first byte, how many it has, and their hash: what anybody else wrote is not read."""
        weakref.finalize(self, self._file.close)

    def keep(self, number: int, prepared: Prepared, origin: Origin, backend: Backend) -> None:
        """Keep a case of this origin; not where it has something that cannot be packed, such as a function that another
        package has made on the spot, nor where there is no room for it."""
        written = io.BytesIO()
        shared = {id(each): name for name, each in _shared(origin, backend).items()}
        try:
            _Packer(written, shared).dump(prepared)
            packed = zlib.compress(written.getbuffer(), _LEVEL)
            self._file.seek(0, io.SEEK_END)
            at = self._file.tell()
            self._file.write(packed)
        except (pickle.PicklingError, AttributeError, TypeError, OSError):
            return
        self._places[number] = at, len(packed), _hash_of(packed)

    def read(self, number: int, origin: Origin, backend: Backend) -> Prepared | None:
        """The case that was kept under a number, which is of this origin; None where there is none."""
        if number not in self._places:
            return None
        at, n_bytes, its_hash = self._places[number]
        try:
            self._file.seek(at)
            packed = self._file.read(n_bytes)
        except OSError:
            return None
        if _hash_of(packed) != its_hash:
            return None
        prepared = _Unpacker(io.BytesIO(zlib.decompress(packed)), _shared(origin, backend)).load()
        assert isinstance(prepared, Prepared)
        return prepared


def _hash_of(packed: bytes) -> bytes:
    return hashlib.sha256(packed).digest()


def _shared(origin: Origin, backend: Backend) -> dict[str, Any]:
    """What is there anyhow, and is the same afterwards."""
    return {
        "backend": backend,
        "tokenizer": backend.tokenizer,
        "origin": origin,
        "case": origin.case,
        "settings": origin.settings,
        "measure": origin.measure,
    }


class _Packer(pickle.Pickler):
    def __init__(self, written: io.BytesIO, shared: Mapping[int, str]) -> None:
        super().__init__(written, protocol=pickle.HIGHEST_PROTOCOL)
        self._name_of: Callable[[int], str | None] = shared.get

    @override
    def persistent_id(self, obj: Any) -> str | None:
        return self._name_of(id(obj))


class _Unpacker(pickle.Unpickler):
    """Reads what this process has written, by its hash."""

    def __init__(self, read: io.BytesIO, shared: Mapping[str, Any]) -> None:
        super().__init__(read)
        self._shared = shared

    @override
    def persistent_load(self, pid: Any) -> Any:
        return self._shared[pid]
