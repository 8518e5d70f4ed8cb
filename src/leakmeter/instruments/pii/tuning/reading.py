"""A soft prompt of a file in front of a back end's prompts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from leakmeter.backends.hf.backend import HfBackend
from leakmeter.backends.hf.virtual import virtual_tokens
from leakmeter.core.backend import Backend
from leakmeter.errors import DataError, UsageError
from leakmeter.instruments.pii.tuning.vectors import length_of, load_soft_prompt


def soft_prompt_facts(path: Path) -> dict[str, Any]:
    """What prompts behind a soft prompt are made of: its hash and its length.

    Raises:
        DataError: there is no soft prompt in the file.
    """
    n_tokens = length_of(path)
    try:
        return {"soft_prompt": hashlib.sha256(path.read_bytes()).hexdigest(), "soft_tokens": n_tokens}
    except OSError as error:
        raise DataError(f"soft prompt '{path}' cannot be read: {error.strerror or error}") from None


@contextmanager
def reading_soft_prompt(backend: Backend, path: Path) -> Iterator[None]:
    """While it lasts, the model reads the vectors of a soft prompt in the place of virtual tokens.

    Raises:
        UsageError: the model is none of the transformers library.
        DataError: there is no soft prompt in the file, or one of another width.
    """
    if not isinstance(backend, HfBackend):
        raise UsageError(f"'{backend.name}' reads no vectors; give a model of the transformers library")
    prompt = load_soft_prompt(path, backend.model, backend.tokenizer.library)
    with virtual_tokens(backend.model, prompt.vectors):
        yield
