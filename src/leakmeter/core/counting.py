"""A back end that counts what another would run, for `--dry-run`: no model is asked.

Trials are driven to their ends on answers that have the right shape and are drawn at random: whatever a measure asks is
counted, and what it asks for next depends on them as it would on a model's. A response that is still to be drawn counts
with all the tokens it may have: nothing that is drawn ends it, and responses drawn side by side part at their first
token.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from leakmeter.core.backend import Backend, Capabilities, Sharing
from leakmeter.core.cost import Sent
from leakmeter.core.drive import drive
from leakmeter.core.request import (
    DrawRequest,
    GradientRequest,
    Gradients,
    Request,
    Responses,
    Scores,
    Trial,
    VectorPlace,
)
from leakmeter.core.sharing import TokenCounter
from leakmeter.core.tree import Chunk
from leakmeter.overriding import override
from leakmeter.stats.arrays import FloatArray

_BYTES: Final = 256  # tokens that every tokenizer has
_ANY_VOCAB: Final = 2**18  # a reduction may name any token
_N_ROWS: Final = 4  # of two prompts, from which answers are made
_SPREAD_NATS: Final = 3.0
_RANDOMNESS: Final = ("uniform", "random")
"""Fields of reductions that draw."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What trials that are scored together ask for."""

    n_prompts: int
    n_tokens_run: int
    n_full_pass_tokens: int
    """That a full pass for each prompt would run."""
    n_token_pass_tokens: int
    """That a full pass for each prompt and wanted row would run."""
    is_upper_bound: bool
    """Whether a response is still to be drawn: it counts with the most it may take."""
    sent: Sent
    """Of a served model."""


class CountingBackend(Backend):
    """Counts what `backend` would run."""

    def __init__(self, backend: Backend, shares: Sharing | None = None) -> None:
        """`shares` stands for what `backend` runs once."""
        self.backend = backend
        self._shares = shares
        self.name, self.dtype, self.window = backend.name, backend.dtype, backend.window
        self.tokenizer = backend.tokenizer
        self.sent = Sent()
        self.seed = 0
        """Of the answers."""
        self.first: Request | None = None
        """What was asked for first."""
        self._answers: dict[tuple[object, ...], FloatArray] = {}
        self._begin()

    @property
    @override
    def capabilities(self) -> Capabilities:
        own = self.backend.capabilities
        return own if self._shares is None else replace(own, shares=self._shares)

    @property
    @override
    def device(self) -> str:
        return self.backend.device

    @property
    @override
    def refusal(self) -> Callable[[Chunk], None] | None:
        return self.backend.refusal

    @override
    def check_place(self, place: VectorPlace) -> None:
        self.backend.check_place(place)

    @override
    def score(self, chunk: Chunk) -> list[Scores]:
        self.check(chunk)
        if self.first is None:
            self.first = chunk.requests[0]
        if chunk.round == 0:
            self._begin()
        if self.capabilities.is_remote:
            sent = self.backend.to_be_sent(chunk.requests)
            self.sent += sent
            self.n_tokens_run += sent.n_tokens
        else:
            self._count(chunk)
        return [self._answer(request, token) for request, token in zip(chunk.requests, self._free, strict=False)]

    @override
    def draw(self, requests: Sequence[DrawRequest]) -> list[Responses]:
        n_drawn = sum(len(request.seeds) for request in requests)
        n_tokens = sum(len(request.seeds) * len(request.prompt.ids) for request in requests)
        self.n_tokens_run += n_tokens
        self.sent += Sent(n_drawn, n_tokens)
        return [
            Responses(tuple((next(self._free),) * request.max_new_tokens for _ in request.seeds))
            for request in requests
        ]

    @override
    def differentiate(self, requests: Sequence[GradientRequest], contexts: Chunk) -> list[Gradients]:
        self._count(contexts)
        self.n_tokens_run += sum(request.n_tokens for request in requests)
        shapes = [(r.directions.n_exact + r.directions.n_probes, len(r.sigmas), 2) for r in requests]
        return [Gradients(self._random.exponential(size=shape), entropy=0.0, log_mass=0.0) for shape in shapes]

    def _begin(self) -> None:
        self._random = np.random.default_rng(self.seed)
        # Each is drawn once in a trial: responses part at once, also from those of earlier rounds.
        self._free: Iterator[int] = (token for token in itertools.count() if token not in self.tokenizer.stop_ids)
        self._counter = TokenCounter(self.capabilities.shares)

    def _count(self, chunk: Chunk) -> None:
        self.n_tokens_run += self._counter.count(chunk)

    def _answer(self, request: Request, token: int) -> Scores:
        """What the reduction keeps of random rows; of one that draws, the token drawn, whatever the entry means."""
        made = self._made(request)
        n_prompts = 1 if made.shape[0] == 1 else len(request.prompts)
        shape = (n_prompts, len(request.rows))
        if _draws(request):
            return Scores(np.full((*shape, *made.shape[2:]), float(token)))
        prompts, rows = (self._random.integers(n, size=shape) for n in made.shape[:2])
        return Scores(made[prompts, rows])

    def _made(self, request: Request) -> FloatArray:
        """(1 or 2 prompts, row, ...)."""
        reduction: Any = request.reduction
        # No shape depends on the randomness of a reduction that draws, which differs at each step.
        names = [field.name for field in fields(reduction) if field.name not in _RANDOMNESS]
        key = (type(reduction), repr([getattr(reduction, name) for name in names]))
        if key not in self._answers:
            least = max([_BYTES, *(stop + 1 for stop in self.tokenizer.stop_ids)])
            try:
                made = _reduced(request, least)
            except IndexError:
                made = _reduced(request, _ANY_VOCAB)
            self._answers[key] = made
        return self._answers[key]


def count(backend: CountingBackend, trials: Sequence[Trial[Any]]) -> Counts:
    """Count what trials that are scored together take."""
    n_token_pass_tokens, is_drawn = 0, False
    backend.sent = Sent()

    def look(chunk: Chunk) -> None:
        nonlocal n_token_pass_tokens, is_drawn
        n_token_pass_tokens += chunk.n_token_pass_tokens
        is_drawn |= any(map(_draws, chunk.requests))

    _, cost = drive(backend, trials, on_plan=look)
    return Counts(
        n_prompts=cost.n_prompts,
        n_tokens_run=cost.n_tokens_run,
        n_full_pass_tokens=cost.n_full_pass_tokens,
        n_token_pass_tokens=n_token_pass_tokens + cost.n_gradient_tokens,
        is_upper_bound=is_drawn or cost.n_drawn > 0 or backend.sent.is_upper_bound,
        sent=backend.sent,
    )


def _reduced(request: Request, n_vocab: int) -> FloatArray:
    with np.errstate(all="ignore"):
        kept = request.reduction.reduce(_logits(n_vocab), np.arange(_N_ROWS))
    return np.asarray(kept, dtype=np.float64)


@lru_cache(maxsize=2)
def _logits(n_vocab: int) -> npt.NDArray[np.float32]:
    """(prompt, row, vocab)."""
    drawn = np.random.default_rng(0).standard_normal((2, _N_ROWS, n_vocab), dtype=np.float32)
    return drawn * np.float32(_SPREAD_NATS)


def _draws(request: Request) -> bool:
    """Whether a token is drawn: the response goes on, and the row behind it is wanted."""
    n_response = len(request.response)
    return request.reduction.continues and request.reduction.rows(n_response).start == n_response
