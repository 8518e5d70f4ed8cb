"""What tuning and fine-tuning share: tensors in whole files, what AdamW remembers, and hashes that name things."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from leakmeter.core.json_object import JsonObject
from leakmeter.core.written import PRIVATE, replacing, store_errors
from leakmeter.errors import CapabilityError, DataError, StoreError

_RECORD: Final = "leakmeter"
_STEPS: Final = "step"


@contextmanager
def storing(path: Path) -> Iterator[None]:
    """Turns what goes wrong on a disk into one line about a path."""
    with store_errors(f"'{path}' cannot be written"):
        try:
            yield
        except SafetensorError as error:
            raise StoreError(f"'{path}' cannot be written: {' '.join(str(error).split())[:200]}") from error


def sync(path: Path) -> None:
    """Have a file's content on the disk before something is renamed over what was there."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def write_tensors(path: Path, tensors: Mapping[str, Tensor], record: JsonObject) -> None:
    """Write tensors and a record as one safetensors file of mode 0600: its place holds all of it or what was there."""
    metadata = {_RECORD: json.dumps(record, sort_keys=True)}
    with storing(path), replacing(path) as temporary:
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, temporary, metadata)
        temporary.chmod(PRIVATE)


def read_tensors(path: Path, noun: str) -> tuple[dict[str, Tensor], JsonObject]:
    """What `write_tensors` wrote; `noun` is for the message."""
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
    """Weights and what the optimiser keeps of each, by a name for each: all that further steps depend on."""
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
            where = "cpu" if part == _STEPS else weights[name].device
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
    """What a model is called where nobody gave a name: its directory's, without the way there."""
    return Path(getattr(model.config, "_name_or_path", "")).name or type(model).__name__


def digest(value: Any) -> str:
    """SHA-256 in hex of what can be written as JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def tokenizer_sha256(tokenizer: Any) -> str:
    """SHA-256 in hex of a vocabulary: which token has which id."""
    return digest(tokenizer.get_vocab())


def weights_sha256(model: Any) -> str:
    """SHA-256 in hex of the weights in memory, which need not be those of the file they were read from."""
    checksum = hashlib.sha256()
    for name, weight in model.named_parameters():
        checksum.update(f"{name}\0{tuple(weight.shape)}\0{weight.dtype}\0".encode())
        checksum.update(weight.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return checksum.hexdigest()
