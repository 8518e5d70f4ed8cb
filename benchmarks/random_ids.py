"""Prompts of random token ids: what a text says does not change what it takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leakmeter.core.prompt import Piece, Prompt

N_VOCAB = 30_000
"""The ids are below it, and a model's vocabulary has to be as large."""


def ids(rng: np.random.Generator, n: int) -> tuple[int, ...]:
    """Token ids, none of the first hundred, among which special ones are."""
    return tuple(int(i) for i in rng.integers(100, N_VOCAB, size=n))


def pieces(rng: np.random.Generator, n: int, size: int) -> list[Piece]:
    """Context pieces of a size."""
    return [Piece(f"c{i}", "context", ids(rng, size)) for i in range(n)]


@dataclass(frozen=True)
class QuerySet:
    """Queries, each of them asked behind every context."""

    contexts: list[Piece]
    queries: list[Piece]

    @classmethod
    def drawn(cls, n_contexts: int = 256, n_queries: int = 8) -> QuerySet:
        """Contexts of 24 tokens, queries of 12."""
        rng = np.random.default_rng(2)
        return cls(pieces(rng, n_contexts, 24), [Piece("q", "query", ids(rng, 12)) for _ in range(n_queries)])

    def behind(self, query: Piece) -> tuple[Prompt, ...]:
        """A query behind each context."""
        return tuple(Prompt((context, query)) for context in self.contexts)
