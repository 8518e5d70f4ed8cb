"""What a back end is: a model's name and limits, its tokenizer, the one method that scores, and one more for some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from leakmeter.core.plan import Chunk
from leakmeter.core.record import JsonObject
from leakmeter.core.request import GradientRequest, Gradients, Scores
from leakmeter.errors import CapabilityError


@dataclass(frozen=True, slots=True)
class Encoded:
    """Token ids and the characters [start, end) each came from; zero-width or shared ranges are possible."""

    ids: tuple[int, ...]
    offsets: tuple[tuple[int, int], ...]


class Tokenizer(Protocol):
    """Text to ids and back, telling data from template."""

    @property
    def start_ids(self) -> tuple[int, ...]:
        """Ids that the model expects before a plain prompt, such as BOS; may be empty."""

    @property
    def stop_ids(self) -> frozenset[int]:
        """Ids that end a response."""

    @property
    def has_chat_template(self) -> bool:
        """Whether `render_chat` works."""

    def encode_data(self, text: str, *, first: bool) -> Encoded:
        """Encode untrusted text: strings that look like special tokens stay text.

        Args:
            text: any text.
            first: whether it stands at the very start of the prompt; some tokenizers put a space there.
        """

    def encode_joined(self, parts: Sequence[tuple[str, bool]]) -> Encoded:
        """Encode a whole prompt as one string, as a server does.

        Args:
            parts: text and whether it is a template's, in order. Special tokens are special where they lie within
                template text; strings in data that look like them stay text, also where template text completes them.

        Returns:
            Ids, without start tokens but for those that the template writes, and characters of the joined text. Without
            such strings in data the ids are those of the joined text.
        """

    def decode(self, ids: Sequence[int]) -> str:
        """Ids to text, special tokens included."""

    def render_chat(self, messages: Sequence[Mapping[str, str]], *, answer: bool) -> str:
        """Messages to the text of the model's chat template, followed by the opening of an answer if asked.

        Raises:
            UsageError: the template refuses these messages.
        """


def response_texts(ids: Sequence[int], tokenizer: Tokenizer) -> JsonObject:
    """A response's text, without what ended it, and the text that each token adds."""
    visible = ids[:-1] if ids and ids[-1] in tokenizer.stop_ids else ids
    tokens: list[str] = []
    # A character may take several tokens: it is shown at the one that completes it.
    start, shown = 0, ""
    for end in range(1, len(ids) + 1):
        text = tokenizer.decode(ids[start:end])
        if text.endswith("�") and end < len(ids):
            tokens.append("")
            continue
        tokens.append(text[len(shown) :])
        shown = text
        if end - start > 64:
            start, shown = end - 1, tokenizer.decode(ids[end - 1 : end])
    return {"text": tokenizer.decode(visible), "tokens": tokens}


@runtime_checkable
class Backend(Protocol):
    """Scores requests under one language model."""

    @property
    def name(self) -> str:
        """The model's name, as results carry it."""

    @property
    def weights_sha256(self) -> str | None:
        """Hash of the weights, or None where it is not known."""

    @property
    def identity(self) -> Mapping[str, str | None]:
        """Hashes of what else decides the numbers, by name: configuration, tokenizer, chat template."""

    @property
    def dtype(self) -> str:
        """Precision of the weights, such as 'float32'."""

    @property
    def window(self) -> int | None:
        """Most tokens a sequence may have, or None for no limit."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""

    @property
    def n_tokens_run(self) -> int:
        """Tokens put through the model so far."""

    @property
    def n_halvings(self) -> int:
        """How often memory ran out so far, and the work went on in smaller parts."""

    def score(self, chunk: Chunk) -> list[Scores]:
        """Answer every request of the chunk, in order.

        Raises:
            ScoreError: the model gave NaN for a request.
        """


@runtime_checkable
class DifferentiableBackend(Backend, Protocol):
    """A back end that also says how its distributions move with the vectors it reads."""

    def differentiate(self, requests: Sequence[GradientRequest], contexts: Chunk) -> list[Gradients]:
        """Answer every request, in order.

        Args:
            requests: what is asked.
            contexts: for each context of each request whose `runs_contexts` holds, in order, the tokens whose states
                are wanted; its runs say how they are found without running a token twice.

        Raises:
            CapabilityError: the model has no such place, or cannot be differentiated.
            ScoreError: the model gave NaN for a request.
        """


def check_differentiates(backend: object, name: str) -> None:
    """Refuse a back end without gradients; given its class, this can be asked before a model is loaded."""
    if not hasattr(backend, "differentiate"):
        raise CapabilityError(
            f"'{name}' gives no gradients, which Fisher susceptibility needs; give a model of the transformers "
            "library, or measure by Monte Carlo"
        )


class FeatureCache(Protocol):
    """Keeps arrays under keys from one run to the next; what was put in may be gone, but is never another."""

    def get(self, key: bytes) -> npt.NDArray[np.generic] | None:
        """The array put under a key, or None; not to be written to."""

    def put(self, key: bytes, array: npt.NDArray[Any]) -> None:
        """Keep an array of numbers under a key."""

    def remove(self, key: bytes) -> None:
        """Forget the array under a key, if there is one."""
