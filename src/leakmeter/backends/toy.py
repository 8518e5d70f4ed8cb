"""A tiny exact language model in float64, without torch: the oracle of the tests and a model for trying things out.

log p(v | tokens) ∝ last[token_n, v] + Σ_j seen[token_j, v] / (1 + position_n − position_j), over the last `reach`
positions. It is small enough to enumerate, feels order, repetition and gaps in positions, and with `reach=1` it is
deaf to all but the token before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from leakmeter.core.backend import Backend, Capabilities, Encoded, Tokenizer
from leakmeter.core.prompt import Prompt
from leakmeter.core.request import Scores
from leakmeter.core.tree import Chunk
from leakmeter.errors import ScoreError, UsageError
from leakmeter.overriding import override
from leakmeter.stats.arrays import FloatArray, IntArray

_STOP = 256


class Toy(Backend):
    """The toy language model.

    Args:
        n_vocab: number of tokens; 257 for text, which is read as UTF-8 bytes and an end token.
        reach: positions back that a token still sees.
        seed: of its weights.
        scale: size of its weights; 0 makes every distribution uniform.
    """

    capabilities = Capabilities(hides_pieces=True)

    def __init__(self, n_vocab: int = 257, *, reach: int = 10_000, seed: int = 0, scale: float = 1.0) -> None:
        self._last, self._seen = _weights(n_vocab, seed, scale)
        self._reach = reach
        self.name = "toy"
        self.dtype = "float64"
        self.tokenizer: Tokenizer = ByteTokenizer()

    def logits(self, ids: IntArray, positions: IntArray) -> FloatArray:
        """Logits of what follows the last of the tokens, (vocab,)."""
        distance = positions[-1] - positions
        near = ids
        # Positions grow, so that the first token is the farthest; mostly all are near, and nothing is copied.
        if distance[0] >= self._reach:
            seen = distance < self._reach
            near, distance = ids[seen], distance[seen]
        pulled: FloatArray = self._last[ids[-1]] + (1.0 / (1.0 + distance)) @ self._seen.take(near, axis=0)
        return pulled

    @override
    def score(self, chunk: Chunk) -> list[Scores]:
        self.n_tokens_run += chunk.n_full_pass_tokens
        answers = []
        for request in chunk.requests:
            logits = np.stack([self._rows(prompt, request.response, request.rows) for prompt in request.prompts])
            values = np.asarray(request.reduction.reduce(logits, request.targets), dtype=np.float64)
            if np.isnan(values).any():
                raise ScoreError("the model gave NaN")
            answers.append(Scores(values))
        return answers

    def _rows(self, prompt: Prompt, response: tuple[int, ...], rows: range) -> FloatArray:
        ids = np.concatenate([prompt.ids, np.asarray(response, dtype=np.int64)])
        after = prompt.next_position + np.arange(len(response), dtype=np.int64)
        positions = np.concatenate([prompt.positions, after])
        ends = [len(prompt.ids) + row for row in rows]
        seen = np.ones(len(ids), dtype=bool)
        for start, stop in prompt.hidden_tokens:
            seen[start:stop] = False

        def logits(end: int) -> FloatArray:
            # A row of the context's own last token has still seen what is hidden from those behind it.
            visible = seen[:end] if end > prompt.n_before else slice(None)
            return self.logits(ids[:end][visible], positions[:end][visible])

        return np.stack([logits(end) for end in ends])


@lru_cache(maxsize=8)
def _weights(n_vocab: int, seed: int, scale: float) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    last, seen = (scale * rng.normal(size=(n_vocab, n_vocab)) for _ in range(2))
    last.setflags(write=False)
    seen.setflags(write=False)
    return last, seen


@dataclass(frozen=True, slots=True)
class ByteTokenizer:
    """One token a UTF-8 byte; 256 ends a response."""

    start_ids: tuple[int, ...] = (10,)
    stop_ids: frozenset[int] = frozenset({_STOP})
    has_chat_template: bool = False
    n_vocab: int = _STOP + 1

    def encode_data(self, text: str, *, first: bool) -> Encoded:
        """Bytes of the text, each with the range of its character."""
        if text.isascii():
            return Encoded(tuple(text.encode()), tuple((i, i + 1) for i in range(len(text))))
        pairs = [(byte, (i, i + 1)) for i, char in enumerate(text) for byte in char.encode()]
        return Encoded(tuple(byte for byte, _ in pairs), tuple(at for _, at in pairs))

    def encode_joined(self, parts: Sequence[tuple[str, bool]]) -> Encoded:
        return self.encode_data("".join(text for text, _ in parts), first=True)

    def decode(self, ids: Sequence[int]) -> str:
        """Bytes to text; what is no UTF-8 becomes the replacement character."""
        return bytes(i for i in ids if i < _STOP).decode(errors="replace")

    def render_chat(self, messages: Sequence[Mapping[str, Any]], *, answer: bool) -> str:
        """Refuse: the toy has no chat template."""
        raise UsageError("the toy model has no chat template; give --template plain")
