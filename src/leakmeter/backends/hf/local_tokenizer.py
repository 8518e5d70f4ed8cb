"""A tokenizer without its model, from a local directory."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from transformers import AutoTokenizer, GenerationConfig, PreTrainedTokenizerFast

from leakmeter.backends.hf.tokenizer import HfTokenizer
from leakmeter.errors import ModelError
from leakmeter.models.local import ForeignErrors

_ADVICE = "give a directory that a tokenizer's save_pretrained wrote"


def load_tokenizer(folder: Path, name: str) -> HfTokenizer:
    """The tokenizer of a directory with a tokenizer.json, with what its generation defaults say ends a response; a
    configuration beside it is used, weights are not."""
    try:
        with ForeignErrors(f"the tokenizer '{name}' could not be loaded", _ADVICE):
            return HfTokenizer(_library(folder), SimpleNamespace(generation_config=_defaults(folder)))
    except OSError as error:
        raise ModelError(f"the tokenizer '{name}' could not be loaded: {error.strerror or error}; {_ADVICE}") from error


def _library(folder: Path) -> Any:
    if any((folder / file).is_file() for file in ("tokenizer_config.json", "config.json")):
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    return PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))


def _defaults(folder: Path) -> Any:
    if not (folder / "generation_config.json").is_file():
        return None
    return GenerationConfig.from_pretrained(folder, local_files_only=True)
