"""Whether a GGUF file can hold what its header tells of: a forged count has the libraries that read it fill all memory.

The layout is that of the format's specification: magic, version, numbers of tensors and of fields; fields of a name, a
type and a value; tensors of a name, their dimensions, a type and an offset.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Final

from leakmeter.errors import ModelError

if TYPE_CHECKING:
    from gguf import GGUFReader
    from transformers import PretrainedConfig

_SIZES: Final = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of a number, by the code of its type."""
_STRING, _ARRAY = 8, 9
_MOST_DIMENSIONS: Final = 8
_DEEPEST: Final = 8
_MOST_MADE_UP: Final = 2
"""Weights of the model for each in the file: a head may be the embedding once more, and buffers are in no file."""


def check_counts(path: Path) -> None:
    """Refuse a file whose header tells of more than the file holds."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        try:
            _Header(content).pass_over()
        except (struct.error, KeyError, ValueError, OverflowError):
            raise ModelError(
                f"'{path.name}' cannot be converted: its header tells of more than the file holds; fetch it again"
            ) from None


class _Header:
    def __init__(self, content: mmap.mmap) -> None:
        self._content = content
        self._at = 4
        (version,) = struct.unpack_from("<I", content, self._at)
        # Written with the other byte order, a small number stands in the upper half.
        self._order = ">" if version & 0xFFFF == 0 else "<"
        self._at += 4

    def pass_over(self) -> None:
        n_tensors, n_fields = self._number("Q"), self._number("Q")
        for _ in range(n_fields):
            self._string()
            self._value(self._number("I"), 0)
        for _ in range(n_tensors):
            self._string()
            n_dimensions = self._number("I")
            if n_dimensions > _MOST_DIMENSIONS:
                raise ValueError("dimensions")
            self._skip(8 * n_dimensions + 4 + 8)

    def _number(self, kind: str) -> int:
        (number,) = struct.unpack_from(self._order + kind, self._content, self._at)
        self._at += struct.calcsize(kind)
        return int(number)

    def _skip(self, n_bytes: int) -> None:
        if n_bytes > len(self._content) - self._at:
            raise ValueError("end of the file")
        self._at += n_bytes

    def _string(self) -> None:
        self._skip(self._number("Q"))

    def _value(self, kind: int, depth: int) -> None:
        if kind == _STRING:
            self._string()
        elif kind == _ARRAY and depth < _DEEPEST:
            inner, n = self._number("I"), self._number("Q")
            if inner in _SIZES:
                self._skip(n * _SIZES[inner])
            else:
                for _ in range(n):
                    self._value(inner, depth + 1)
        else:
            self._skip(_SIZES[kind])


def check_layers(reader: GGUFReader, name: str) -> None:
    """Refuse a header of more layers than the file has tensors: each would be set up, whatever it weighs."""
    for key, field in reader.fields.items():
        n_layers = field.contents() if key.endswith(".block_count") else None
        n_tensors = len(reader.tensors)
        if isinstance(n_layers, int) and n_layers > n_tensors:
            raise ModelError(
                f"'{name}' cannot be converted: its header tells of {n_layers:,} layers, and it has {n_tensors:,} "
                "tensors; fetch it again"
            )


def check_size(reader: GGUFReader, config: PretrainedConfig, name: str) -> None:
    """Refuse a header whose model is larger than the file's tensors: what is missing would be made up, at any size."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    n_told = sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))
    n_held = sum(int(tensor.n_elements) for tensor in reader.tensors)
    if n_told > _MOST_MADE_UP * n_held:
        raise ModelError(
            f"'{name}' cannot be converted: its header tells of a model of {n_told:,} weights, and it holds "
            f"{n_held:,}; fetch it again"
        )
