"""What a dialect of a model server has to answer, and what it says beforehand that it cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, Self, runtime_checkable

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
    """Whole rows that nothing has a part in which the server has read before."""

    @classmethod
    def everything(cls) -> Self:
        return cls(targets=True, most_top=None, whole_rows=True, samples=True, token_ids=True, fresh_rows=True)

    @classmethod
    def of_targets(cls, most_top: int | None) -> Self:
        """Log-probabilities of given tokens, so many of the likeliest, and drawn responses."""
        return cls(targets=True, most_top=most_top, whole_rows=False, samples=True, token_ids=True)


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


TopRow = dict[int, float]
"""Raw log-probabilities (T = 1), nats, by token id: of a row's likeliest tokens, in order, and of the token given."""


@dataclass(frozen=True, slots=True)
class Drawn:
    ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    """Raw (T = 1), nats; empty where the server gives none."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Options of a request on which raw log-probabilities do not depend."""

    temperature: float = 1.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    reads_cache: bool | None = None
    """Whether states that were kept of earlier requests may be used; None as in a measurement."""

    @property
    def sampling(self) -> dict[str, float]:
        """The options of drawing, by the names that most servers use."""
        return {name: getattr(self, name) for name in ("temperature", "repetition_penalty", "presence_penalty")}


@dataclass(frozen=True, slots=True)
class Probed:
    log_probs: FloatArray
    """(response,), nats."""
    n_cached: int | None
    """Tokens whose states the server says it had kept; None where it says nothing."""


Control = Literal["temperature", "repetition_penalty", "presence_penalty", "cache"]


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
        """The k likeliest tokens of rows, and the response's token there, wherever it ranks. Row t predicts token t of
        the response; the last row predicts what comes next."""

    def whole_rows(self, scored: Scored, rows: range) -> FloatArray:
        """Log-probabilities over the whole vocabulary, nats, (row, vocab)."""

    def generate(
        self, prompt: Sequence[int], *, n_tokens: int, temperature: float, seed: int, stop_ids: Sequence[int]
    ) -> Drawn:
        """A response drawn by the server without truncation of its distribution; temperature 0 is greedy."""

    def tokenize(self, text: str) -> tuple[int, ...] | None:
        """Ids of a text as the server makes them, without start tokens; None where it does not say."""


@runtime_checkable
class ProbedDialect(Protocol):
    """What `leakmeter doctor`, and no measurement, asks of a dialect: it shows whether log-probabilities are raw."""

    controls: frozenset[Control]
    """What of a `Setting` a request can be given."""

    def probed_log_probs(self, scored: Scored, setting: Setting) -> Probed:
        """As `target_log_probs`, by the same request under a setting."""


SCORING: Final = Setting(temperature=0.0)
UNCACHED: Final = Setting(temperature=0.0, reads_cache=False)


def probed(dialect: Dialect, control: str) -> ProbedDialect | None:
    """The dialect, if its requests can be given a control."""
    return dialect if isinstance(dialect, ProbedDialect) and control in dialect.controls else None
