"""How often a model keeps to what it knew, where a context says otherwise (Longpre et al. 2021)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from leakmeter.stats import stats

Kind = Literal["original", "context", "neither"]


@dataclass(frozen=True, slots=True)
class Memorised:
    """The greedy answers to a query, and what becomes of the one it has without a context."""

    answered: tuple[str, ...]
    """To the query alone, then behind each context; empty where none were written."""
    kinds: tuple[Kind | None, ...]
    """Whose answer is given behind each context; None where that is no question."""
    counts: dict[str, Any] | None
    """See `of_query`."""


def of_query(right: str | None, stated: Sequence[str | None], answered: Sequence[str]) -> Memorised:
    """Greedy answers to one query, told apart.

    The model knows the answer where the one it gives without a context begins with the right one, whatever its case and
    white space, and no letter or digit follows. Behind each context that states another answer it then gives the
    `original` one, that of the `context`, or `neither`, by the same rule, the longer of two that both fit.

    Args:
        right: the query's answer, where it is known.
        stated: what each context says the answer is.
        answered: greedy answers, that to the query alone first; empty where none were written.

    Returns:
        With counts: `knows`, `n_original`, `n_context`, `n_neither`, and `ratio`, original / (original + context), with
        Wilson's interval; null where neither occurs. None where no answers were written or the right one is not known.
    """
    unknown: tuple[Kind | None, ...] = (None,) * len(stated)
    if right is None or not answered:
        return Memorised(tuple(answered), unknown, None)
    knows = _begins(answered[0], right)
    kinds: tuple[Kind | None, ...] = unknown
    if knows:
        kinds = tuple(
            None if answer is None or _plain(answer) == _plain(right) else _kind(said, right, answer)
            for said, answer in zip(answered[1:], stated, strict=True)
        )
    return Memorised(tuple(answered), kinds, {"knows": knows, **_counted(kinds)})


def of_queries(cases: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """What queries say together; None where none of them has counts."""
    counts = [case["memorisation"] for case in cases if case["memorisation"] is not None]
    if not counts:
        return None
    kinds = [context["greedy_answer_is"] for case in cases for context in case["contexts"]]
    return {"n": len(counts), "n_knows": sum(one["knows"] for one in counts), **_counted(kinds)}


def _counted(kinds: Sequence[Kind | None]) -> dict[str, Any]:
    n_original, n_context, n_neither = (kinds.count(kind) for kind in ("original", "context", "neither"))
    n = n_original + n_context
    return {
        "n_original": n_original,
        "n_context": n_context,
        "n_neither": n_neither,
        "ratio": n_original / n if n else None,
        "ratio_interval": list(stats.interval_of_share(n_original, n)) if n else None,
    }


def _kind(said: str, right: str, stated: str) -> Kind:
    fits = [len(_plain(answer)) if _begins(said, answer) else 0 for answer in (right, stated)]
    if not any(fits):
        return "neither"
    return "original" if fits[0] > fits[1] else "context"


def _begins(said: str, answer: str) -> bool:
    text, start = _plain(said), _plain(answer)
    return bool(start) and text.startswith(start) and not text[len(start) : len(start) + 1].isalnum()


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
