"""A model without its weights: tokenizer, window and size, from the files beside them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from leakmeter.backends.hf.attention import windows_by_kind
from leakmeter.backends.hf.layers import attention_widths
from leakmeter.backends.hf.machine import default_memory
from leakmeter.backends.hf.pasts import RECURRENT
from leakmeter.backends.hf.schedule import Limits, limits_for, most_rows, token_bytes
from leakmeter.backends.hf.tokenizer import HfTokenizer
from leakmeter.core.cost import ModelSize
from leakmeter.errors import ModelError, UsageError
from leakmeter.models.local import FROM_DISK, foreign_errors

RUN_ADVICE = (
    f"so says transformers {transformers.__version__} of a few tokens; give a model that it runs on token ids alone, "
    "or another version of it"
)
_UNKNOWN = ("Transformers does not recognize this architecture", "Unrecognized configuration class")
_DTYPES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True, slots=True)
class Outline:
    """All of a model that a prediction needs."""

    tokenizer: HfTokenizer
    window: int | None
    size: ModelSize
    most_rows: int
    """Rows of a chunk whose features fit in memory."""
    forks: bool
    """Whether nothing in the configuration says that states cannot be forked; only trying can tell that they can."""
    hides: bool
    """Whether nothing says that no piece can be hidden from what comes after it."""
    device: torch.device
    dtype: torch.dtype


def outline_directory(
    path: Path, *, name: str, dtype: str | None, device: str | None, memory_bytes: int | None = None
) -> Outline:
    """Outline a model's directory, without reading weights; defaults are those of `load_directory`."""
    where, precision = placement(dtype, device)
    failure = f"'{name}' could not be read"
    with foreign_errors(f"{failure} as a causal language model", loading_advice, disk_failure=failure):
        model = outlined(path, precision)
        tokenizer = AutoTokenizer.from_pretrained(path, **FROM_DISK)
        target, config = torch.device(where), model.config.get_text_config()
        limits = limits_for(target.type, memory_bytes or default_memory(target), token_bytes(model))
        forks = windows_by_kind(model) is not None and attention_widths(config)[0] > 0
        return Outline(
            tokenizer=HfTokenizer(tokenizer, model),
            window=getattr(config, "max_position_embeddings", None),
            size=size_of(model, limits),
            most_rows=most_rows(limits, config.hidden_size * model.dtype.itemsize),
            forks=forks,
            hides=forks and RECURRENT.isdisjoint(getattr(config, "layer_types", None) or ()),
            device=target,
            dtype=getattr(torch, precision),
        )


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


def size_of(model: Any, limits: Limits) -> ModelSize:
    """Count a model's weights, which may be on the meta device."""
    config = model.config.get_text_config()
    embedding = model.get_input_embeddings().weight
    output = model.get_output_embeddings()
    head = embedding if output is None else output.weight
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    n_outside = embedding.numel() + (0 if head is embedding else head.numel())
    query_width, key_width = attention_widths(config)
    return ModelSize(
        n_layer_parameters=n_parameters - n_outside,
        n_head_parameters=head.numel(),
        n_vocab=config.vocab_size,
        n_layers=config.num_hidden_layers,
        query_width=query_width,
        state_width=2 * key_width,
        bytes_per_number=model.dtype.itemsize,
        n_pass_tokens=limits.tokens_per_pass,
        n_slice_logits=limits.logits_per_slice,
        most_state_bytes=limits.state_bytes,
    )
