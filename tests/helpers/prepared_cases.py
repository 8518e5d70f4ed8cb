"""Tokenizers of three kinds: bytes, byte-pair with a chat template, SentencePiece-like."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.places import SHARED
from leakmeter.backends.toy import ByteTokenizer
from leakmeter.core.case import Case, Document
from leakmeter.core.item import Prepared
from leakmeter.text.build import PromptSettings, prepare

STORIES = SHARED / "models" / "stories15m"


def _tokenizer_of(folder: str | Path) -> Any:
    from transformers import AutoTokenizer

    from leakmeter.backends.hf.tokenizer import HfTokenizer

    return HfTokenizer(AutoTokenizer.from_pretrained(folder, local_files_only=True), None)


@pytest.fixture(scope="session")
def chat_tokenizer() -> Any:
    """The default model's: byte-pair, with special tokens and a chat template."""
    from leakmeter.errors import ModelError
    from leakmeter.models import resolve

    try:
        return _tokenizer_of(resolve("smollm2-135m", notify=str, download=False).path)
    except ModelError as error:
        pytest.skip(f"the default model is not cached: {error}")


@pytest.fixture(scope="session")
def sentencepiece_tokenizer() -> Any:
    """One that writes a space before the first word and marks words with '▁'."""
    if not STORIES.is_dir():
        pytest.skip(f"no model in {STORIES}")
    return _tokenizer_of(STORIES)


@pytest.fixture(scope="session", params=["bytes", "chat", "sentencepiece"])
def tokenizer(request: pytest.FixtureRequest) -> Any:
    """Each of the three."""
    if request.param == "bytes":
        return ByteTokenizer()
    return request.getfixturevalue(f"{request.param}_tokenizer")


@pytest.fixture(scope="session")
def prepared() -> Callable[..., Prepared]:
    """A case in few words, prepared."""

    def make(
        context: str | list[str],
        *,
        tokenizer: Any = None,
        query: str = "Who?",
        response: str | None = "Anna",
        window: int | None = None,
        n_reserved: int = 5,
        messages: tuple[Any, ...] = (),
        **settings: Any,
    ) -> Prepared:
        texts = [context] if isinstance(context, str) else context
        documents = () if messages else tuple(Document(f"d{i}", text) for i, text in enumerate(texts, 1))
        case = Case("case", documents, query, response, messages)
        return prepare(
            case, tokenizer or ByteTokenizer(), PromptSettings(**settings), window=window, n_reserved=n_reserved
        )

    return make
