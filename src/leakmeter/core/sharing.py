"""How many tokens a model runs of the chunks of some trials, by what it runs once; no model is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from leakmeter.core.backend import Backend, Sharing
from leakmeter.core.plain import counted
from leakmeter.core.tree import Branch, Chunk


class TokenCounter:
    """Counts what a model that shares so would run of some trials: chunk after chunk, since a round goes on with what
    an earlier one has kept."""

    def __init__(self, shares: Sharing) -> None:
        self.shares = shares
        self.n_tokens = 0
        """Of all chunks so far."""
        self._kept: dict[bytes, Branch] = {}

    def count(self, chunk: Chunk) -> int:
        """Tokens of the chunk that are run."""
        n_tokens = self._n_tokens(chunk)
        self.n_tokens += n_tokens
        return n_tokens

    def _n_tokens(self, chunk: Chunk) -> int:
        if self.shares == "nothing":
            return chunk.n_full_pass_tokens
        continued = {int(s) for r, slots in chunk.answers() if r.reduction.continues for s in slots[:, -1]}
        n_tokens = 0
        for branch in chunk.branches:
            n_tokens += len(branch.ids) - self._start(branch)
            if self.shares != "prefixes":
                # A pass that has to end on the way is another one from the first token.
                n_tokens += sum(branch.ends)
        self._kept = {
            _key(branch): branch for branch in chunk.branches if not continued.isdisjoint(branch.row_slots.tolist())
        }
        return n_tokens

    def _start(self, branch: Branch) -> int:
        """Leading tokens that need not be run: the parent's, or those of a sequence that the last round kept."""
        if self.shares != "prefixes":
            return 0
        if branch.hidden:
            return branch.fork
        # At least the first wanted row has to be run again.
        most = int(branch.row_tokens.min()) if len(branch.row_tokens) else len(branch.ids) - 1
        # A response that was drawn further begins with all of what was kept: no need to compare with each.
        if _key(branch, most) in self._kept:
            return most
        return max([branch.fork, *(_n_shared(branch, kept, most) for kept in self._kept.values())])


_MORE: Final = 1.05
"""Factor from which it is said how many times as many tokens are run."""


@dataclass(frozen=True, slots=True)
class FullPasses:
    """What the first cases take of a model that runs each sequence in full."""

    model: str
    n_cases: int
    n_tokens: int
    n_forked_tokens: int
    """What they would take of a model whose states can be forked."""

    @property
    def words(self) -> str:
        cases = "the first case" if self.n_cases == 1 else f"the first {self.n_cases:,} cases"
        times = self.n_tokens / max(1, self.n_forked_tokens)
        as_many = f"{times:.1f} times as many as the" if times >= _MORE else "where there would be"
        return (
            f"{counted(self.n_tokens, 'token')} for {cases}, {as_many} {self.n_forked_tokens:,} of a model whose "
            "states can be forked"
        )


class FullPassCounter:
    """Counts what is asked of a model whose prompts share no work, while it is asked."""

    def __init__(self, backend: Backend) -> None:
        self._model = backend.name
        self._own, self._forked = TokenCounter(backend.capabilities.shares), TokenCounter("prefixes")
        self.n_gradient_tokens = 0
        """The same for all models."""

    def look(self, chunk: Chunk) -> None:
        """Called with each chunk before it is scored."""
        self._own.count(chunk)
        self._forked.count(chunk)

    def counted(self, n_cases: int) -> FullPasses:
        own, forked = (counter.n_tokens + self.n_gradient_tokens for counter in (self._own, self._forked))
        return FullPasses(self._model, n_cases, own, forked)


def _key(branch: Branch, n: int | None = None) -> bytes:
    return b"".join([bytes([branch.apart]), branch.ids[:n].tobytes(), branch.positions[:n].tobytes()])


def _n_shared(branch: Branch, other: Branch, most: int) -> int:
    if branch.apart != other.apart:
        return 0
    n = min(len(other.ids), most)
    same = (other.ids[:n] == branch.ids[:n]) & (other.positions[:n] == branch.positions[:n])
    return n if same.all() else int(np.argmin(same))
