"""What measuring a case took, and what a server is sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from leakmeter.core.measure import Texts
from leakmeter.core.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultCost(Record):
    """What measuring a case took: its share, where several were scored together."""

    requests: int
    """Number of prompts that were scored."""
    tree_tokens: int
    """Number of tokens put through the model."""
    naive_tokens: int
    """Number of tokens that one full pass for each prompt would have run."""
    seconds: float
    """Time that measuring the case took, seconds."""
    out_of_memory_retries: int
    """Number of times that memory ran out, and the work went on in smaller parts."""
    scored_together: int | None
    """Number of cases that were scored together; None where each was scored alone."""

    @classmethod
    def from_texts(cls, texts: Texts) -> Self:
        cost = texts["cost"]
        return cls(
            **{name: cost[name] for name in ("requests", "tree_tokens", "naive_tokens", "seconds")},
            out_of_memory_retries=cost["out_of_memory_retries"],
            scored_together=cost.get("scored_together"),
        )


@dataclass(frozen=True, slots=True)
class Sent:
    n_requests: int = 0
    n_tokens: int = 0
    """Of all prompts, with the responses that are scored behind them."""
    is_upper_bound: bool = False
    """Whether some of it depends on what the server answers."""

    def __add__(self, other: Sent) -> Sent:
        is_upper_bound = self.is_upper_bound or other.is_upper_bound
        return Sent(self.n_requests + other.n_requests, self.n_tokens + other.n_tokens, is_upper_bound)
