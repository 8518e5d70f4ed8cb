"""What a dialect of a model server has to answer, and what it says beforehand that it cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from leakmeter.core.request import FloatArray


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a server gives of a model."""

    targets: bool
    """Log-probabilities of given response tokens."""
    most_top: int | None
    """Largest K of the likeliest tokens of a row; 0 for none, None for the whole vocabulary."""
    whole_rows: bool
    """Log-probabilities of the whole vocabulary, of as many rows as are asked."""
    samples: bool
    """Whole responses drawn by the server."""
    token_ids: bool
    """Prompts as token ids; without them nothing but text can be sent."""
    fresh_rows: bool = False
    """Whole rows that nothing has a part in which the server has read before; said by the back end."""


@dataclass(frozen=True, slots=True)
class Served:
    """What a server says of itself and its model."""

    model: str
    revision: str | None
    """Of the weights, or a hash or path that the server tells; None where it tells none."""
    server_version: str | None
    window: int | None
    """Most tokens of prompt and response."""
    n_vocab: int | None


@dataclass(frozen=True, slots=True)
class Scored:
    """Token ids to be scored: a prompt, and the response after it."""

    prompt: tuple[int, ...]
    response: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopRow:
    """The likeliest tokens of a row, and the token that was given."""

    ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    """Raw (T = 1), nats, of the ids."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A response that the server drew."""

    ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    """Raw (T = 1), nats; empty where the server gives none."""


class Dialect(Protocol):
    """A server's requests and answers; made with a `connection.Connection` and the name of the model, or none."""

    name: str
    reads_prefix_cache: bool
    """Whether what a server has read before spares it work on the requests that are made here."""

    def describe(self) -> Served:
        """Ask the server what it serves."""

    def capabilities(self) -> Capabilities:
        """What it gives; known before any request of a measurement."""

    def target_log_probs(self, scored: Scored) -> FloatArray:
        """Raw log-probabilities of the response's tokens, nats, (response,)."""

    def top_rows(self, scored: Scored, rows: range, k: int) -> list[TopRow]:
        """The k likeliest tokens of rows (row t predicts response token t, the last one what comes next).

        The token given at a row stands in it too, wherever it ranks.
        """

    def whole_rows(self, scored: Scored, rows: range) -> FloatArray:
        """Log-probabilities over the whole vocabulary, nats, (row, vocab)."""

    def generate(
        self, prompt: Sequence[int], *, n_tokens: int, temperature: float, seed: int, stop_ids: Sequence[int]
    ) -> Drawn:
        """A response drawn by the server without truncation of its distribution; temperature 0 is greedy."""

    def tokenize(self, text: str) -> tuple[int, ...] | None:
        """Ids of a text as the server makes them, without start tokens; None where it does not say."""
