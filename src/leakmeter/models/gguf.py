"""A GGUF file becomes, once, a folder of float32 safetensors that loads in a second instead of twenty."""

from __future__ import annotations

import errno
import io
import json
import logging
import struct
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from leakmeter.errors import ModelError
from leakmeter.models.cache import (
    RECORD_NAME,
    Notify,
    build_once,
    disk_errors,
    file_sha256,
    fresh_sha256,
    is_whole,
    models_dir,
    weights_hash,
)

RECORD_FORMAT: Final = 1
_MAGIC: Final = b"GGUF"
_READER_ERRORS: Final = (
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    RuntimeError,
    ImportError,
    OSError,
    struct.error,
)
_CONVERTERS: Final = ("leakmeter", "transformers", "gguf", "torch", "safetensors")


def convert_file(gguf: Path, *, notify: Notify) -> Path:
    """Folder with the converted weights of a user's own .gguf file, made on first use; keyed by the file's SHA-256."""
    with disk_errors(gguf, "check that path"):
        gguf_sha256 = file_sha256(gguf)

    def build(scratch: Path) -> Path:
        notify(f"converting '{gguf.name}' once to '{folder}' …")
        folder_in_scratch = scratch / "converted"
        convert(gguf, folder_in_scratch, gguf_sha256=gguf_sha256, source={"file": gguf.name})
        return folder_in_scratch

    folder = folder_of(gguf_sha256)
    return build_once(folder, gguf_sha256, build, notify)


def cached_file(gguf: Path) -> Path | None:
    """Folder with the converted weights of a .gguf file if it is there already."""
    with disk_errors(gguf, "check that path"):
        gguf_sha256 = file_sha256(gguf)
    folder = folder_of(gguf_sha256)
    return folder if is_whole(folder, gguf_sha256) else None


def folder_of(gguf_sha256: str, label: str = "gguf") -> Path:
    """Where the converted weights of a GGUF file with this SHA-256 are kept."""
    return models_dir() / f"{label}-{gguf_sha256[:16]}"


def convert(gguf: Path, folder: Path, *, gguf_sha256: str, source: Mapping[str, Any]) -> None:
    """Writes the model and tokenizer of a GGUF file into `folder`: float32, safetensors, and the record last."""
    with gguf.open("rb") as file:
        magic = file.read(len(_MAGIC))
    if magic != _MAGIC:
        raise ModelError(f"'{gguf}' is no GGUF file: it starts with {magic!r}, expected {_MAGIC!r}; fetch it again")
    folder.mkdir()
    with _ForeignErrors(gguf), _quiet():
        _write_model(gguf, folder)
    record = {
        "format": RECORD_FORMAT,
        "source": dict(source),
        "gguf_sha256": gguf_sha256,
        "weights_sha256": weights_hash(folder, fresh_sha256),
        "converted_with": _versions(),
    }
    (folder / RECORD_NAME).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _write_model(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where = {"gguf_file": gguf.name, "local_files_only": True}
    model = AutoModelForCausalLM.from_pretrained(str(gguf.parent), dtype=torch.float32, **where)
    tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), **where)
    # The weights were de-quantised on loading; with the mark of a quantised model left on, saving is refused.
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))


def _versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for name in _CONVERTERS:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


class _ForeignErrors:
    """Gives the reader's errors, which are of many kinds and lines, as one line about the file."""

    def __init__(self, gguf: Path) -> None:
        self._gguf = gguf

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is None or kind is None:
            return
        text = " ".join(str(error).split())
        if kind.__name__ == "SafetensorError" and ("code: 28" in text or "No space left" in text):
            raise OSError(errno.ENOSPC, "no space left on device") from error
        if isinstance(error, OSError) and error.errno is not None:
            return
        # The tokenizers library raises bare Exception: that class itself is meant, not what derives from it.
        if kind is Exception or kind.__name__ == "SafetensorError" or isinstance(error, _READER_ERRORS):
            raise ModelError(
                f"'{self._gguf.name}' cannot be converted: {text[:200] or kind.__name__}; "
                "give a whole GGUF file of an architecture that transformers reads, or a directory with safetensors"
            ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences the progress bars, log lines and warnings of the libraries that convert, and restores them after."""
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
