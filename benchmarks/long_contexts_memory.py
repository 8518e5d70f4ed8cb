"""A model that remembers what it has scored: one way to search a context after another costs what is new in it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import Work, n_seen, operations_of, size_of
from leakmeter.backends.hf import HfBackend
from leakmeter.core.backend import Backend, Capabilities
from leakmeter.core.counting import CountingBackend
from leakmeter.core.prompt import Prompt
from leakmeter.core.reductions import TargetLogProbs
from leakmeter.core.request import Request, Scores
from leakmeter.core.tree import Branch, Chunk, chunk_of
from leakmeter.stats.arrays import FloatArray


class Working(CountingBackend):
    """Counts what a model would do, beside the tokens that it would run."""

    def __init__(self, backend: HfBackend) -> None:
        super().__init__(backend)
        self._size, self.work = size_of(backend.model), Work()

    def score(self, chunk: Chunk) -> list[Scores]:
        """As of the model, with numbers that mean nothing."""
        self.work.n_rows += sum(len(request.prompts) * len(request.rows) for request in chunk.requests)
        return super().score(chunk)

    def ran(self, run: Branch, start: int) -> None:
        """A sequence is run from its token `start` on."""
        super().ran(run, start)
        self.work.n_tokens += len(run.ids) - start
        self.work.n_seen += n_seen(start, len(run.ids))

    @property
    def operations(self) -> float:
        """Operations that these tokens, their attention and their rows need at least."""
        return operations_of(self._size, self.work)


class Remembering(Backend):
    """Answers requests about one response from what is known, and asks the model for the rest.

    What it counts (`n_tokens_run`, `operations`) is what the model would have run without this memory.

    Args:
        backend: the model.
        path: a file in which log-probabilities are kept, by hashes of prompts; made when there are any.
    """

    def __init__(self, backend: HfBackend, path: Path) -> None:
        self.backend = backend
        self.tokenizer: Any = backend.tokenizer
        self.name, self.dtype, self.window = backend.name, backend.dtype, backend.window
        self.weights_sha256 = backend.weights_sha256
        self._counting = Working(backend)
        self._path = path
        self._rows: dict[str, FloatArray] = {}
        if path.exists():
            with np.load(path) as kept:
                self._rows = dict(zip(kept["prompts"].tolist(), kept["rows"], strict=True))

    @property
    def capabilities(self) -> Capabilities:
        """What the model can do, as far as what is known here goes."""
        return Capabilities(hides_pieces=True, most_rows=self.backend.capabilities.most_rows)

    @property
    def identity(self) -> Mapping[str, str | None]:
        """The model's."""
        return self.backend.identity

    @property
    def operations(self) -> float:
        """Operations that these tokens, their attention and their rows need at least."""
        return self._counting.operations

    def forget_cost(self) -> None:
        """Count from 0 again."""
        self._counting.work = Work()
        self.n_tokens_run = 0

    def learn(self, prompt: Prompt, log_p: FloatArray) -> None:
        """Remember the response's log-probabilities behind a prompt, nats, (token,)."""
        self._rows[_key(prompt)] = log_p

    def score(self, chunk: Chunk) -> list[Scores]:
        """Answer each request, which has to be for log-probabilities of the response's tokens."""
        self._counting.score(chunk)
        self.n_tokens_run = self._counting.work.n_tokens
        self._ask(chunk.requests)
        answers = []
        for request in chunk.requests:
            rows = list(request.reduction.rows(len(request.response)))
            answers.append(Scores(np.stack([self._rows[_key(prompt)][rows] for prompt in request.prompts])))
        return answers

    def _ask(self, requests: Sequence[Request]) -> None:
        unknown = {_key(p): p for request in requests for p in request.prompts if _key(p) not in self._rows}
        if not unknown:
            return
        (scores,) = self.backend.score(
            chunk_of([Request(tuple(unknown.values()), requests[0].response, TargetLogProbs())])
        )
        self._rows.update(zip(unknown, scores.values, strict=True))
        np.savez(self._path, prompts=np.array(list(self._rows)), rows=np.stack(list(self._rows.values())))


def _key(prompt: Prompt) -> str:
    """What the model reads, and what it does not attend to."""
    told = (prompt.ids.tobytes(), prompt.positions.tobytes(), repr(prompt.hidden_tokens).encode())
    return hashlib.sha256(b"\0".join(told)).hexdigest()
