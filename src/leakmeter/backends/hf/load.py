"""A local model directory, or a model and tokenizer already in memory, to a back end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from leakmeter.backends.hf.backend import HfBackend
from leakmeter.errors import ModelError, UsageError
from leakmeter.models.local import FROM_DISK, WEIGHTS_FROM_DISK, check_loaded, foreign_errors

RUN_ADVICE = (
    f"so says transformers {transformers.__version__} of a few tokens; give a model that it runs on token ids alone, "
    "or another version of it"
)
_UNKNOWN = ("Transformers does not recognize this architecture", "Unrecognized configuration class")
_DTYPES = ("float32", "bfloat16", "float16")


def load_directory(
    path: Path,
    *,
    name: str,
    dtype: str | None,
    device: str | None,
    weights_sha256: str | None,
    memory_bytes: int | None = None,
) -> HfBackend:
    """Load a model from a directory of safetensors, without network, pickles or code of the model's own. By default on
    CUDA when it is there, in float32 on a CPU and bfloat16 on CUDA, with `machine.default_memory` beside the model."""
    where, precision = placement(dtype, device)
    failure = f"'{name}' could not be loaded"
    with without_bars(), foreign_errors(f"{failure} as a causal language model", loading_advice, disk_failure=failure):
        _check_fits(path, name, precision)
        model, loaded = AutoModelForCausalLM.from_pretrained(
            path, dtype=getattr(torch, precision), ignore_mismatched_sizes=True, **WEIGHTS_FROM_DISK
        )
        check_loaded(name, loaded)
        tokenizer = AutoTokenizer.from_pretrained(path, **FROM_DISK)
    try:
        model = model.to(where)
    except (RuntimeError, NotImplementedError, AssertionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelError(f"device '{where}' cannot be used: {reason}; try --device cpu") from error
    with foreign_errors(f"'{name}' does not run as a causal language model", RUN_ADVICE):
        return HfBackend(model, tokenizer, name=name, weights_sha256=weights_sha256, memory_bytes=memory_bytes)


@contextmanager
def without_bars() -> Iterator[None]:
    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers_logging.enable_progress_bar()


def loading_advice(error: Exception) -> str:
    """What to do about what the transformers library raised while it loaded a directory."""
    if isinstance(error, ImportError):
        return "install that, or give a model that does without"
    if any(words in str(error) for words in _UNKNOWN):
        return f"give a model that is a causal language model for transformers {transformers.__version__}, or update it"
    return "give a directory that save_pretrained wrote, whole and unchanged"


def outlined(path: Path, precision: str) -> Any:
    """A directory's model on the meta device, where a weight has a shape and no numbers."""
    config = AutoConfig.from_pretrained(path, **FROM_DISK)
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config, dtype=getattr(torch, precision))


def placement(dtype: str | None, device: str | None) -> tuple[str, str]:
    if dtype is not None and dtype not in _DTYPES:
        raise UsageError(f"dtype is '{dtype}'; it has to be one of {', '.join(_DTYPES)}")
    where = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if where.split(":")[0] not in ("cpu", "cuda", "mps"):
        raise UsageError(f"device is '{where}'; it has to be cpu, cuda, cuda:N or mps")
    if where.startswith("cuda") and not torch.cuda.is_available():
        raise ModelError(
            f"device '{where}' asked for, but torch {torch.__version__} sees no CUDA device; try --device cpu"
        )
    return where, dtype or ("float32" if where == "cpu" else "bfloat16")


def _check_fits(path: Path, name: str, precision: str) -> None:
    """Refuse a configuration that asks for many more weights than the files hold, before memory is taken for them."""
    n_bytes = sum(file.stat().st_size for file in path.glob("*.safetensors"))
    n_weights = sum(parameter.numel() for parameter in outlined(path, precision).parameters())
    # Packed weights take a quarter of a byte at the least.
    if n_weights > 8 * n_bytes:
        raise ModelError(
            f"the config.json of '{name}' asks for {n_weights:,} weights, and its files have {n_bytes:,} bytes; give "
            "weights and config.json that belong together"
        )


def from_objects(model: Any, tokenizer: Any, *, memory_bytes: int | None = None) -> HfBackend:
    if tokenizer is None:
        raise ModelError("a loaded model needs its tokenizer: give model=(model, tokenizer)")
    name = getattr(model.config, "_name_or_path", "") or type(model).__name__
    with foreign_errors(f"'{name}' does not run as a causal language model", RUN_ADVICE):
        return HfBackend(model, tokenizer, name=name, memory_bytes=memory_bytes)
