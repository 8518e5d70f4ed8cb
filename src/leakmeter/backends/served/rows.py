"""What vLLM, SGLang and llama.cpp have in common: they read token ids, and give rows of log-probabilities by id."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from leakmeter.backends.served import answered
from leakmeter.backends.served.connection import Connection
from leakmeter.backends.served.dialect import SCORING, Control, Probed, Scored, Setting, TopRow
from leakmeter.core.request import FloatArray

UNTRUNCATED: Final = {"top_p": 1.0, "top_k": -1, "min_p": 0.0, "frequency_penalty": 0.0}
"""Where these are left out, vLLM and SGLang take them from the model's generation_config.json."""


def ids_for(scored: Scored, rows: range) -> tuple[int, ...]:
    """Token ids whose own rows are the wanted ones: for the row of what comes next, any token is put there."""
    ids = (*scored.prompt, *scored.response)
    return (*ids, ids[-1]) if len(scored.response) in rows else ids


class RowsDialect(ABC):
    """A dialect (see `dialect.Dialect`), but for what each server has of its own."""

    reads_prefix_cache = False
    controls: frozenset[Control] = frozenset({"temperature", "repetition_penalty", "presence_penalty"})

    def __init__(self, connection: Connection, model: str | None) -> None:
        """`model` is None for the only one that the server has."""
        self._connection, self._host, self._asked = connection, connection.host, model
        self._model = model or ""
        self._excess = 0.0  # nats that log-probabilities are too large by, all alike

    @abstractmethod
    def _rows(
        self, scored: Scored, rows: range, k: int, setting: Setting = SCORING
    ) -> tuple[list[dict[int, float]], int | None]:
        """Log-probabilities by token id of the k likeliest tokens of each row and of the token given there; how many
        tokens the server says it had cached."""

    def target_log_probs(self, scored: Scored) -> FloatArray:
        return self.probed_log_probs(scored, SCORING).log_probs

    def probed_log_probs(self, scored: Scored, setting: Setting) -> Probed:
        rows, n_cached = self._rows(scored, range(len(scored.response)), 0, setting)
        return Probed(answered.response_log_probs(rows, scored.response, self._host) - self._excess, n_cached)

    def top_rows(self, scored: Scored, rows: range, k: int) -> list[TopRow]:
        return [answered.top_row_of(row, k, self._host, self._excess) for row in self._rows(scored, rows, k)[0]]

    def tokenize(self, text: str) -> tuple[int, ...] | None:
        reply = self._connection.post("tokenize", {"model": self._model, "prompt": text, "add_special_tokens": False})
        with answered.reading(self._host):
            return answered.token_ids(reply["tokens"])
