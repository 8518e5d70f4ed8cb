"""A GGUF file becomes, once, a folder of float32 safetensors that loads in a second instead of twenty.

Before that its header is read: a forged count has the libraries that read it fill all memory. The layout is that of the
format's specification: magic, version, numbers of tensors and of fields; fields of a name, a type and a value; tensors
of a name, their dimensions, a type and an offset.
"""

from __future__ import annotations

import io
import json
import logging
import mmap
import re
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from leakmeter.core.long_work import heartbeat
from leakmeter.core.record import JsonObject
from leakmeter.errors import ModelError
from leakmeter.models import progress_bars
from leakmeter.models.cache import (
    RECORD_FORMAT,
    RECORD_NAME,
    Notify,
    build_once,
    disk_errors,
    file_sha256,
    folder_of,
    fresh_sha256,
    is_whole,
    weights_hash,
)
from leakmeter.models.gguf_tokenizer import TokenizerHeader, as_llama_cpp
from leakmeter.models.local import check_loaded, foreign_errors

if TYPE_CHECKING:
    from gguf import GGUFReader
    from transformers import PretrainedConfig


_MAGIC: Final = b"GGUF"
_ADVICE: Final = "give a whole GGUF file of an architecture that transformers reads, or a directory with safetensors"


def converted_file(gguf: Path, *, notify: Notify, make: bool) -> Path | None:
    """Folder with the converted weights of a user's own .gguf file, keyed by the file's SHA-256. Where it is not there
    yet, it is made if `make`, and None otherwise."""
    with disk_errors(gguf, "check that path"):
        gguf_sha256 = file_sha256(gguf)
    folder = folder_of(gguf_sha256)
    if not make:
        return folder if is_whole(folder, gguf_sha256) else None

    def build(scratch: Path) -> Path:
        notify(f"converting '{gguf.name}' once to '{folder}' …")
        folder_in_scratch = scratch / "converted"
        with heartbeat(notify, f"converting '{gguf.name}'"):
            convert(gguf, folder_in_scratch, gguf_sha256=gguf_sha256, source={"file": gguf.name})
        return folder_in_scratch

    return build_once(folder, gguf_sha256, build, notify)


def convert(gguf: Path, folder: Path, *, gguf_sha256: str, source: JsonObject) -> None:
    """Writes the model and tokenizer of a GGUF file into `folder`: float32, safetensors, and the record last."""
    with gguf.open("rb") as file:
        magic = file.read(len(_MAGIC))
    if magic != _MAGIC:
        raise ModelError(f"'{gguf}' is not a GGUF file: it starts with {magic!r}, expected {_MAGIC!r}; fetch it again")
    folder.mkdir()
    with foreign_errors(f"'{gguf.name}' cannot be converted", _ADVICE), _quiet():
        _write_model(gguf, folder)
    converters = ("leakmeter", "transformers", "gguf", "torch", "safetensors")
    record = {
        "format": RECORD_FORMAT,
        "source": dict(source),
        "gguf_sha256": gguf_sha256,
        "weights_sha256": weights_hash(folder, fresh_sha256),
        "converted_with": {name: version(name) for name in converters},
    }
    (folder / RECORD_NAME).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _write_model(gguf: Path, folder: Path) -> None:
    progress_bars.import_quietly()
    import torch
    from gguf import GGUFReader
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    _check_counts(gguf)
    reader = GGUFReader(gguf)
    _check_layers(reader, gguf.name)
    header = TokenizerHeader.from_reader(reader, gguf.name)
    where = {"gguf_file": gguf.name, "local_files_only": True}
    config = AutoConfig.from_pretrained(str(gguf.parent), **where)
    _check_size(reader, config, gguf.name)
    model, loaded = AutoModelForCausalLM.from_pretrained(
        str(gguf.parent),
        config=config,
        dtype=torch.float32,
        output_loading_info=True,
        ignore_mismatched_sizes=True,
        **where,
    )
    # The library passes over the layers that a configuration of fewer has no place for.
    layers = (re.match(r"blk\.(\d+)\..*", tensor.name) for tensor in reader.tensors)
    beyond = {layer[0] for layer in layers if layer and int(layer[1]) >= model.config.num_hidden_layers}
    check_loaded(gguf.name, {**loaded, "unexpected_keys": {*loaded["unexpected_keys"], *beyond}})
    tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), **where)
    # The weights were de-quantised on loading; with the mark of a quantised model left on, saving is refused.
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    if header.adds_start is not None:
        tokenizer.add_bos_token = header.adds_start
    model.save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))
    path = folder / "tokenizer.json"
    spec = as_llama_cpp(json.loads(path.read_text("utf-8")), header)
    path.write_text(json.dumps(spec, ensure_ascii=False, indent=2), encoding="utf-8")


@contextmanager
def _quiet() -> Iterator[None]:
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars
    from transformers.utils import logging as library_logging

    loggers = [logging.getLogger(name) for name in ("transformers", "gguf", "accelerate")]
    library_logging.get_verbosity()  # sets the library's logger up, which would otherwise happen later and undo ours
    levels = [logger.level for logger in loggers]
    bars, hub_bars_off = library_logging.is_progress_bar_enabled(), are_progress_bars_disabled()
    library_logging.disable_progress_bar()
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        # The bar of de-quantising asks no setting; it writes to whatever sys.stderr is.
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        if bars:
            library_logging.enable_progress_bar()
        (disable_progress_bars if hub_bars_off else enable_progress_bars)()


_SIZES: Final = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of a number, by the code of its type."""
_STRING, _ARRAY = 8, 9
_DEEPEST: Final = 8
_MOST_MADE_UP: Final = 2
"""Weights of the model for each in the file: a head may be the embedding once more, and buffers are in no file."""


def _check_counts(path: Path) -> None:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        try:
            _Header(content).pass_over()
        except (struct.error, KeyError, ValueError, OverflowError):
            raise ModelError(
                f"'{path.name}' cannot be converted: its header describes more than the file holds; fetch it again"
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
            if n_dimensions > 8:
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


def _check_layers(reader: GGUFReader, name: str) -> None:
    """Refuse a header of more layers than the file has tensors: each would be set up, whatever it weighs."""
    for key, field in reader.fields.items():
        n_layers = field.contents() if key.endswith(".block_count") else None
        n_tensors = len(reader.tensors)
        if isinstance(n_layers, int) and n_layers > n_tensors:
            raise ModelError(
                f"'{name}' cannot be converted: its header declares {n_layers:,} layers, and it has {n_tensors:,} "
                "tensors; fetch it again"
            )


def _check_size(reader: GGUFReader, config: PretrainedConfig, name: str) -> None:
    """Refuse a header whose model is larger than the file's tensors: what is missing would be made up, at any size."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    n_declared = sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))
    n_held = sum(int(tensor.n_elements) for tensor in reader.tensors)
    if n_declared > _MOST_MADE_UP * n_held:
        raise ModelError(
            f"'{name}' cannot be converted: its header declares {n_declared:,} weights, and it holds "
            f"{n_held:,}; fetch it again"
        )
