"""Soft prompts: vectors in front of prompts.

    positions   0        1 … length       length + 1 …
    input       BOS      the vectors      prompt, value      BOS only where the tokenizer puts one

Rows are padded at their end, so that no mask is needed.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from leakmeter.backends.hf.backend import HfBackend
from leakmeter.backends.hf.places import virtual_tokens
from leakmeter.backends.hf.tokenizer import HfTokenizer
from leakmeter.core.backend import Backend
from leakmeter.errors import DataError, UsageError, WindowError
from leakmeter.instruments.pii.prompts import ProbeSettings
from leakmeter.instruments.pii.tuning.training import name_of, read_tensors, write_tensors

_FORMAT: Final = 1
_WHAT: Final = "a file with a soft prompt of leakmeter"
_TOKENS_PER_PASS: Final = 2048

IdSequence = Sequence[int]
TuningExample = tuple[IdSequence, IdSequence]
"""Token ids of a prompt, without the model's start tokens, and of the value behind it."""


@dataclass(frozen=True, slots=True, eq=False)
class SoftPrompt:
    """Vectors that stand in front of a prompt, as if they were embeddings of tokens."""

    vectors: Tensor
    """(vector, width), float32, on the CPU."""
    start_ids: tuple[int, ...]
    """Tokens before the vectors: those that the tokenizer puts in front of a text."""
    model: str
    """Name of the model they were tuned on."""
    tokenizer_sha256: str
    """Of its vocabulary; see `training.tokenizer_sha256`."""
    seed: int
    epoch: int
    """After which epoch of the tuning; 0 for vectors that were not tuned."""

    @property
    def length(self) -> int:
        return len(self.vectors)

    @property
    def width(self) -> int:
        return self.vectors.shape[1]

    def save(self, path: Path) -> None:
        """Write a safetensors file of mode 0600; the vectors tell of the values they were tuned to."""
        record = {
            "format": _FORMAT,
            "length": self.length,
            "width": self.width,
            "model": self.model,
            "tokenizer_sha256": self.tokenizer_sha256,
            "seed": self.seed,
            "epoch": self.epoch,
        }
        write_tensors(path, {"vectors": self.vectors}, record)


def load_soft_prompt(path: Path, model: Any, tokenizer: Any) -> SoftPrompt:
    """A soft prompt for a model, which need not be the model it was tuned on.

    The start tokens are those of this tokenizer.
    """
    loaded, width = _read(path), int(model.get_input_embeddings().weight.shape[-1])
    if loaded.width != width:
        raise DataError(
            f"'{path}' holds vectors of width {loaded.width}, tuned on '{loaded.model}', and '{name_of(model)}' "
            f"takes width {width}; tune one on this model"
        )
    return replace(loaded, start_ids=HfTokenizer(tokenizer, model).start_ids)


def check_examples(model: Any, examples: Sequence[TuningExample], length: int, start_ids: tuple[int, ...]) -> None:
    """Refuse examples whose value is empty, whose prompt begins with start tokens, or that do not fit."""
    window: int | None = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    for number, (prompt, value) in enumerate(examples, 1):
        if len(value) == 0:
            raise UsageError(f"the value of example {number} has no tokens; leave that example out")
        if start_ids and tuple(prompt[: len(start_ids)]) == start_ids:
            raise UsageError(
                f"the prompt of example {number} begins with the model's start tokens, which precede the soft prompt; "
                "leave them out"
            )
        n_tokens = len(start_ids) + length + len(prompt) + len(value)
        if window is not None and n_tokens > window:
            raise WindowError(
                f"example {number} takes {n_tokens} tokens with its soft prompt of {length}, and the model's window "
                f"holds {window}; shorten it"
            )


def lead_of(model: Any, vectors: Tensor, start_ids: tuple[int, ...]) -> Tensor:
    """(start token and vector, width), in the model's precision."""
    start = model.get_input_embeddings()(torch.tensor(start_ids, dtype=torch.int64, device=model.device))
    return torch.cat([start, vectors.to(start)])


def value_logits(model: Any, lead: Tensor, batch: Sequence[TuningExample]) -> tuple[Tensor, Tensor]:
    """Logits next to each token of the values, (token, vocab) in float32, and the tokens' ids; value after value."""
    # A value's last token need not be run.
    inputs = _embedded(model, lead, [(*prompt, *value[:-1]) for prompt, value in batch])
    firsts = [len(lead) + len(prompt) - 1 for prompt, _ in batch]
    n_kept = inputs.shape[1] - min(firsts)
    # Some models return no more logits than they are asked for.
    keep = {"logits_to_keep": n_kept} if "logits_to_keep" in inspect.signature(model.forward).parameters else {}
    logits = model(inputs_embeds=inputs, use_cache=False, **keep).logits[:, -n_kept:]
    rows = [row for row, (_, value) in enumerate(batch) for _ in value]
    columns = [
        first - min(firsts) + t for first, (_, value) in zip(firsts, batch, strict=True) for t in range(len(value))
    ]
    ids = torch.tensor([token for _, value in batch for token in value], device=model.device)
    return logits[rows, columns].float(), ids


def batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Indices of rows that are run together, shortest first."""
    some: list[int] = []
    for number in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if some and (len(some) + 1) * lengths[number] > _TOKENS_PER_PASS:
            yield some
            some = []
        some.append(number)
    if some:
        yield some


def _read(path: Path) -> SoftPrompt:
    """Without start tokens."""
    tensors, record = read_tensors(path, _WHAT)
    vectors = tensors.get("vectors")
    if vectors is None or record.get("format") != _FORMAT:
        raise DataError(f"'{path}' is not {_WHAT}, or of another version (this one reads format {_FORMAT})")
    return SoftPrompt(vectors, (), record["model"], record["tokenizer_sha256"], record["seed"], record["epoch"])


def _embedded(model: Any, lead: Tensor, rows: Sequence[IdSequence]) -> Tensor:
    """(row, column, width): the lead and then each row's tokens, padded at the end."""
    ids = torch.zeros((len(rows), max(map(len, rows))), dtype=torch.int64)
    for into, row in zip(ids, rows, strict=True):
        into[: len(row)] = torch.tensor(row, dtype=torch.int64)
    tokens = model.get_input_embeddings()(ids.to(model.device))
    return torch.cat([lead.expand(len(rows), -1, -1), tokens], dim=1)


def behind(path: Path, settings: ProbeSettings) -> ProbeSettings:
    n_tokens = _read(path).length
    try:
        checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise DataError(f"soft prompt '{path}' cannot be read: {error.strerror or error}") from None
    return replace(settings, soft_prompt=checksum, soft_tokens=n_tokens)


@contextmanager
def reading_soft_prompt(backend: Backend, path: Path) -> Iterator[None]:
    """Meanwhile the model reads the vectors of a soft prompt in the place of virtual tokens."""
    if not isinstance(backend, HfBackend):
        raise UsageError(f"'{backend.name}' does not accept vectors; give a model of the transformers library")
    prompt = load_soft_prompt(path, backend.model, backend.tokenizer.library)
    with virtual_tokens(backend.model, prompt.vectors):
        yield
