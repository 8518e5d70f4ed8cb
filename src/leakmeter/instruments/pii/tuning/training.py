"""What tuning and fine-tuning share: tensors in whole files, what AdamW remembers, and hashes that name things."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from leakmeter.core.files import PRIVATE, replacing, store_errors
from leakmeter.core.record import JsonObject
from leakmeter.errors import CapabilityError, DataError, StoreError

_RECORD: Final = "leakmeter"


@contextmanager
def storing(path: Path) -> Iterator[None]:
    """Turns an error of the disk into a line about a path."""
    with store_errors(f"'{path}' cannot be written"):
        try:
            yield
        except SafetensorError as error:
            raise StoreError(f"'{path}' cannot be written: {' '.join(str(error).split())[:200]}") from error


def write_tensors(path: Path, tensors: Mapping[str, Tensor], record: JsonObject) -> None:
    """Write tensors and a record as a safetensors file of mode 0600, whole or not at all."""
    metadata = {_RECORD: json.dumps(record, sort_keys=True)}
    with storing(path), replacing(path) as temporary:
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, temporary, metadata)
        temporary.chmod(PRIVATE)


def read_tensors(path: Path, noun: str) -> tuple[dict[str, Tensor], JsonObject]:
    """What `write_tensors` wrote; `noun` is for errors."""
    try:
        with safe_open(path, framework="pt") as file:
            record = json.loads((file.metadata() or {})[_RECORD])
            # The file has keys, but is no mapping that could be looped over.
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except OSError as error:
        raise DataError(f"'{path}' cannot be read: {error.strerror or error}; give {noun}") from None
    except (SafetensorError, KeyError, ValueError):
        raise DataError(f"'{path}' is not {noun}") from None
    return tensors, record


def remembered(optimiser: torch.optim.AdamW, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights and the optimiser's state of each: all that further steps depend on."""
    return {
        f"{part}.{name}": value
        for name, weight in weights.items()
        for part, value in (("weight", weight), *optimiser.state.get(weight, {}).items())
    }


def recall(optimiser: torch.optim.AdamW, weights: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    for key, value in tensors.items():
        part, _, name = key.partition(".")
        if part == "weight":
            weights[name].data.copy_(value)
        else:
            # AdamW counts steps on the CPU, wherever the weights are.
            where = "cpu" if part == "step" else weights[name].device
            optimiser.state[weights[name]][part] = value.to(where)


def check_trainable(model: Any, name: str) -> None:
    """Refuse weights that take no gradients: they are quantised, or were made in torch.inference_mode."""
    for weight in model.parameters():
        if not weight.is_floating_point():
            raise CapabilityError(
                f"weights of '{name}' are {str(weight.dtype).removeprefix('torch.')}, which allows no gradients; load "
                "the model in float32"
            )
        if weight.is_inference():
            raise CapabilityError(
                f"the weights of '{name}' were made in torch.inference_mode, which rules gradients out; load it outside"
            )


def name_of(model: Any) -> str:
    """The name of the model's directory, without its parents."""
    return Path(getattr(model.config, "_name_or_path", "")).name or type(model).__name__


def digest(value: Any) -> str:
    """SHA-256 in hex of a value as JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def tokenizer_sha256(tokenizer: Any) -> str:
    """Of the vocabulary."""
    return digest(tokenizer.get_vocab())


def weights_sha256(model: Any) -> str:
    """Of the weights in memory, which need not be those of the file they were read from."""
    checksum = hashlib.sha256()
    for name, weight in model.named_parameters():
        checksum.update(f"{name}\0{tuple(weight.shape)}\0{weight.dtype}\0".encode())
        checksum.update(weight.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return checksum.hexdigest()
