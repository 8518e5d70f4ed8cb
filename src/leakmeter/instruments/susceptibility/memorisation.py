"""How often a model keeps to what it knew, where a context says otherwise (Longpre et al. 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from leakmeter.core.record import Record
from leakmeter.stats import stats

Kind = Literal["original", "context", "neither"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counts(Record):
    n_original: int
    """Contexts behind which the answer is the one that the model gives without them."""
    n_context: int
    """Contexts behind which it is the context's."""
    n_neither: int
    ratio: float | None
    """original / (original + context); None where neither occurs."""
    ratio_interval: tuple[float, float] | None
    """Wilson's, 95 %."""

    @classmethod
    def counted(cls, kinds: Sequence[Kind | None], **more: Any) -> Self:
        n_original, n_context = kinds.count("original"), kinds.count("context")
        n = n_original + n_context
        return cls(
            n_original=n_original,
            n_context=n_context,
            n_neither=kinds.count("neither"),
            ratio=n_original / n if n else None,
            ratio_interval=stats.interval_of_share(n_original, n) if n else None,
            **more,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Memorisation(_Counts):
    """Whose answers to one query are given behind contexts that state another."""

    knows: bool
    """Whether the right answer is given without a context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorisationOfAll(_Counts):
    """The same of many queries."""

    n: int
    """Queries whose right answer is known."""
    n_knows: int
    """Of these, those to which it is given without a context."""


def kinds_of(right: str | None, stated: Sequence[str | None], answered: Sequence[str]) -> tuple[Kind | None, ...]:
    """Whose answer a model gives to a query behind each context; None where that is no question.

    The model knows the answer where the one it gives without a context begins with the right one, whatever its case and
    white space, and no letter or digit follows. Behind each context that states another answer it then gives the
    `original` one, that of the `context`, or `neither`, by the same rule, the longer of two that both fit. Greedy
    answers are that to the query alone first; empty where none were written.
    """
    if right is None or not answered or not begins(answered[0], right):
        return (None,) * len(stated)
    return tuple(
        None if answer is None or _plain(answer) == _plain(right) else _kind(reply, right, answer)
        for reply, answer in zip(answered[1:], stated, strict=True)
    )


def begins(said: str, answer: str) -> bool:
    """Whether a text gives an answer; see `kinds_of`."""
    text, start = _plain(said), _plain(answer)
    return bool(start) and text.startswith(start) and not text[len(start) : len(start) + 1].isalnum()


def _kind(said: str, right: str, stated: str) -> Kind:
    fits = [len(_plain(answer)) if begins(said, answer) else 0 for answer in (right, stated)]
    if not any(fits):
        return "neither"
    return "original" if fits[0] > fits[1] else "context"


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
