"""A chunk: requests, and the order in which their distinct prefix-tree tokens are to be run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from leakmeter.core.prompt import IntArray
from leakmeter.core.request import Request


@dataclass(frozen=True, slots=True)
class Run:
    """One pass over the tokens of a sequence that no earlier run has covered."""

    ids: IntArray
    """Token ids of the whole sequence, (token,)."""
    positions: IntArray
    """Their positions, (token,)."""
    parent: int
    """Index of the run whose sequence this one forks from; −1 for none."""
    fork: int
    """Number of leading tokens shared with the parent's sequence, already run there."""
    row_tokens: IntArray
    """Indices into the sequence, each ≥ fork, whose logits are wanted, (row,)."""
    row_slots: IntArray
    """Where in the chunk's rows each of them goes, (row,)."""

    @property
    def n_tail(self) -> int:
        """Tokens this run has to put through the model."""
        return len(self.ids) - self.fork


@dataclass(frozen=True, slots=True)
class Chunk:
    """Requests answered together. A back end may follow `runs` or, if it cannot fork, ignore them."""

    requests: tuple[Request, ...]
    runs: tuple[Run, ...]
    slots: tuple[IntArray, ...]
    """For each request, the slot of each prompt's wanted rows: (prompt, row)."""
    n_slots: int
    round: int = 0
    """How many chunks of the same trials came before: what a back end keeps in memory outlives a round, not trials."""

    def answers(self) -> Iterator[tuple[Request, IntArray]]:
        """Each request with its slots."""
        return zip(self.requests, self.slots, strict=True)

    @property
    def n_tree_tokens(self) -> int:
        """Distinct tokens of the prefix tree: what has to be run."""
        return sum(run.n_tail for run in self.runs)

    @property
    def n_full_pass_tokens(self) -> int:
        """Tokens that one full pass for each prompt would run."""
        return n_full_pass_tokens(self.requests)

    @property
    def n_token_pass_tokens(self) -> int:
        """Tokens that one full pass for each prompt and wanted row would run."""
        return sum(
            len(prompt.ids) + row
            for request in self.requests
            for row in request.reduction.rows(len(request.response))
            for prompt in request.prompts
        )


def n_full_pass_tokens(requests: Sequence[Request]) -> int:
    """Tokens that one full pass for each prompt of the requests would run."""
    return sum(
        len(prompt.ids) + max(request.reduction.rows(len(request.response)).stop - 1, 0)
        for request in requests
        for prompt in request.prompts
    )
