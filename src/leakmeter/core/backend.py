"""What a back end is: a model's name and limits, its tokenizer, the one method that scores, and one more for some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from leakmeter.core.gradient import GradientRequest
from leakmeter.core.plan import Chunk
from leakmeter.core.request import Gradients, Scores
from leakmeter.core.tokenizer import Tokenizer
from leakmeter.errors import CapabilityError


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
