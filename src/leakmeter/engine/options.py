"""How a model is loaded, as options: of functions, of commands and of whoever loads it.

Commands that do not have all take parts of them. They have a module of their own, which is short: help on a command
reads its source for each of the classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Self

from leakmeter.errors import UnknownNameError, as_keyword


@dataclass(frozen=True, kw_only=True)
class PrecisionOptions:
    """In which numbers a model computes, and where."""

    dtype: str | None = None
    """float32, bfloat16 or float16; float32 on a CPU and bfloat16 on CUDA by default."""
    device: str | None = None
    """cpu, cuda, cuda:1 …; CUDA where there is one by default."""


@dataclass(frozen=True, kw_only=True)
class LocalOptions(PrecisionOptions):
    """How a model computes that is loaded here."""

    memory: str | None = None
    """Memory limit of the engine, without the model's weights, such as 512MiB; by default 1GiB on a CPU and a quarter
    of a GPU's memory. A single sequence, or a single row of prompts that are reduced together, may take more."""


@dataclass(frozen=True, kw_only=True)
class _ScoreCacheOptions:
    model_id: str | None = None
    """What the score cache calls a loaded (model, tokenizer) pair, which it otherwise leaves alone."""
    cache: bool = True
    """Keep scores, and use those that were kept, in the user's score cache."""


@dataclass(frozen=True, kw_only=True)
class TokenizerOptions:
    """What reads the texts of a served model here."""

    tokenizer: Any = None
    """Tokenizer of a served model: a known name, hf:ORG/NAME, a directory with its tokenizer.json, or a .gguf file."""


@dataclass(frozen=True, kw_only=True)
class RemoteOptions(TokenizerOptions):
    """Where a served model may be."""

    allow_remote: bool = False
    """Send contexts, queries and responses to a served model on another machine."""


@dataclass(frozen=True, kw_only=True)
class ServedOptions(RemoteOptions):
    """How a served model is asked."""

    concurrency: int | None = None
    """Maximum number of simultaneous requests to a served model; 8 by default."""


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """How many threads and processes measure, and where."""

    threads: int | None = None
    """CPU threads of this process or of each worker; by default all cores here and 1 in a worker. Their number affects
    the last digits."""
    on: str | None = None
    """Measure on workers: ray for this machine or the cluster of RAY_ADDRESS, or ray:ADDRESS. Contexts, queries and
    responses are sent to them."""
    workers: int | None = None
    """Number of workers that load the model and measure, with --on; 2 by default."""
    gpus_per_worker: float | None = None
    """GPUs of each worker, possibly a fraction of one; none by default."""
    allow_mixed: bool = False
    """Allow workers on different kinds of machines, which changes the last digits."""


@dataclass(frozen=True, kw_only=True)
class ModelOptions(WorkerOptions, ServedOptions, _ScoreCacheOptions, LocalOptions):
    """How a model is loaded: options of functions and of commands, and keywords of `load_backend`, which says more of
    each."""

    @property
    def machine(self) -> dict[str, str | None]:
        """Those that decide last digits, by name."""
        return {"dtype": self.dtype, "device": self.device, "memory": self.memory}

    @classmethod
    def named(cls, options: Mapping[str, Any]) -> Self:
        """Of keywords; `UnknownNameError` where one is no option."""
        for name in options:
            if name not in MODEL_OPTIONS:
                raise UnknownNameError("option", name, MODEL_OPTIONS)
        return cls(**options)


MODEL_OPTIONS: Final = tuple(field.name for field in fields(ModelOptions))
_FLAGS: Final = tuple(field.name for field in fields(ModelOptions) if field.type == "bool")


def as_argument(name: str, value: str | None) -> str | None:
    """An option of a model as Python writes it, for `errors.options_named`; None for another."""
    return as_keyword(name, value, is_flag=name in _FLAGS) if name in ("model", *MODEL_OPTIONS) else None
