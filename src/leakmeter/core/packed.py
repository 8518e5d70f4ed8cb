"""Prepared cases that are not at hand, packed into few bytes of memory.

The bytes are pickles of this process, which never leave its memory: nobody else can write what is read here.
"""

from __future__ import annotations

import io
import pickle
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from leakmeter.core.item import Prepared
from leakmeter.overriding import override

if TYPE_CHECKING:
    from leakmeter.core.backend import Backend
    from leakmeter.core.item import Origin

MEMORY_BYTES: Final = 256_000_000
"""Of packed cases: some 10 million tokens. What is more is prepared again when it is measured."""
_LEVEL: Final = 1
"""Of compression: higher ones take several times as long for a tenth less."""


class PackedCases:
    """Prepared cases by their numbers, each packed once. What cannot be kept so is prepared again by whoever asks."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._n_bytes_free = memory_bytes
        self._packed: dict[int, bytes] = {}

    def keep(self, number: int, prepared: Prepared, origin: Origin, backend: Backend) -> None:
        """Keep a case of this origin; not where it has something that cannot be packed, such as a function that another
        package has made on the spot, nor where there is no room for it."""
        written = io.BytesIO()
        shared = {id(each): name for name, each in _shared(origin, backend).items()}
        try:
            _Packer(written, shared).dump(prepared)
        except (pickle.PicklingError, AttributeError, TypeError):
            return
        packed = zlib.compress(written.getbuffer(), _LEVEL)
        if len(packed) <= self._n_bytes_free:
            self._n_bytes_free -= len(packed)
            self._packed[number] = packed

    def read(self, number: int, origin: Origin, backend: Backend) -> Prepared | None:
        """The case that was kept under a number, which is of this origin; None where there is none."""
        packed = self._packed.get(number)
        if packed is None:
            return None
        prepared = _Unpacker(io.BytesIO(zlib.decompress(packed)), _shared(origin, backend)).load()
        assert isinstance(prepared, Prepared)
        return prepared


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
    """Reads what this process has packed."""

    def __init__(self, read: io.BytesIO, shared: Mapping[str, Any]) -> None:
        super().__init__(read)
        self._shared = shared

    @override
    def persistent_load(self, pid: Any) -> Any:
        return self._shared[pid]
