"""What a back end is: a model's name and limits, its tokenizer, and the one method that scores."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from leakmeter.types.chunk import Chunk
from leakmeter.types.request import Scores
from leakmeter.types.tokenizer import Tokenizer


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


class FeatureCache(Protocol):
    """Keeps arrays under keys from one run to the next; what was put in may be gone, but is never another."""

    def get(self, key: bytes) -> npt.NDArray[np.generic] | None:
        """The array put under a key, or None; not to be written to."""

    def put(self, key: bytes, array: npt.NDArray[Any]) -> None:
        """Keep an array of numbers under a key."""
