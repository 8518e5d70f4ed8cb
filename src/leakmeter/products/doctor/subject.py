"""A model to be examined: behind a server, or in this process as if it were a dialect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from leakmeter.backends.served.backend import ServedBackend
from leakmeter.backends.served.connection import Connection
from leakmeter.backends.served.dialect import Abilities, Dialect, DrawnResponse, SequenceToScore, Served, TopRow
from leakmeter.core.backend import Backend, Tokenizer
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.reductions import FullDistribution, TargetLogProbs
from leakmeter.core.request import Reduction, Request
from leakmeter.core.tree import chunk_of
from leakmeter.overriding import override
from leakmeter.stats import logspace
from leakmeter.stats.arrays import FloatArray


@dataclass(frozen=True)
class CheckedModel:
    name: str
    dialect: Dialect
    tokenizer: Tokenizer
    served: Served
    together: Callable[[Sequence[tuple[int, ...]], tuple[int, ...]], FloatArray]
    """Prompts that share a response to its log-probabilities, (prompt, response), as a measurement asks for them."""
    connection: Connection | None = None
    """None where nothing is sent."""
    settings: Mapping[str, str] | None = None
    """How a model in this process computes; None where that is the server's affair."""

    @property
    def host(self) -> str:
        return self.connection.host if self.connection else self.name

    @property
    def is_local(self) -> bool:
        return self.settings is not None

    @classmethod
    def from_backend(cls, backend: Backend) -> CheckedModel:
        together = partial(_scored, backend, TargetLogProbs())
        if isinstance(backend, ServedBackend):
            return cls(backend.name, backend.dialect, backend.tokenizer, backend.served, together, backend.connection)
        dialect = InProcess(backend)
        settings = {"precision": backend.dtype, **backend.arithmetic}
        return cls(backend.name, dialect, backend.tokenizer, dialect.describe(), together, settings=settings)


class InProcess(Dialect):
    """A model in this process, asked as a server is."""

    name = "in process"
    reads_prefix_cache = True

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    @property
    def short_length(self) -> int | None:
        """Most tokens of a text that the model computes as short ones; None where it computes all alike."""
        return self.backend.short_length

    @override
    def describe(self) -> Served:
        return Served(self.backend.name, self.backend.weights_sha256, None, self.backend.window, None)

    @override
    def abilities(self) -> Abilities:
        return Abilities.everything()

    @override
    def target_log_probs(self, scored: SequenceToScore) -> FloatArray:
        (log_probs,) = _scored(self.backend, TargetLogProbs(), [scored.prompt], scored.response)
        return np.asarray(log_probs)

    @override
    def top_rows(self, scored: SequenceToScore, rows: range, k: int) -> list[TopRow]:
        order = [(row, np.argsort(-row, kind="stable")[:k]) for row in self.whole_rows(scored, rows)]
        return [dict(zip(top.tolist(), row[top].tolist(), strict=True)) for row, top in order]

    @override
    def whole_rows(self, scored: SequenceToScore, rows: range) -> FloatArray:
        return _scored(self.backend, FullDistribution(), [scored.prompt], scored.response)[0, rows.start : rows.stop]

    @override
    def generate(
        self, prompt: Sequence[int], *, n_tokens: int, temperature: float, seed: int, stop_ids: Sequence[int]
    ) -> DrawnResponse:
        """Token by token, out of whole rows."""
        rng = np.random.default_rng(seed)
        ids: list[int] = []
        log_probs: list[float] = []
        while len(ids) < n_tokens and not (ids and ids[-1] in stop_ids):
            (row,) = self.whole_rows(SequenceToScore((*prompt, *ids), ()), range(1))
            if temperature:
                weights = np.exp(np.asarray(logspace.log_softmax(row, temperature), dtype=np.float64))
                ids.append(int(rng.choice(len(row), p=weights / weights.sum())))
            else:
                ids.append(int(row.argmax()))
            log_probs.append(float(row[ids[-1]]))
        return DrawnResponse(tuple(ids), tuple(log_probs))


def _scored(
    backend: Backend, reduction: Reduction, prompts: Sequence[Sequence[int]], response: tuple[int, ...]
) -> FloatArray:
    probes = tuple(Prompt((Piece("probe", "frame", tuple(prompt)),)) for prompt in prompts)
    return backend.score(chunk_of([Request(probes, response, reduction)]))[0].values
