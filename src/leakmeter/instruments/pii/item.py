"""A value of a subject behind each way of asking for it, tokenised: what is measured of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from leakmeter.core.item import Item
from leakmeter.core.prompt import Prompt

AskedAs = tuple[tuple[Prompt, tuple[tuple[int, ...], ...]], ...]
"""Of each way of asking with a name what stands before the values, and the tokens of each of these."""


@dataclass(frozen=True, slots=True)
class Values:
    """A value that a model may know, and others like it, behind each way of asking for it."""

    scored: tuple[tuple[tuple[Prompt, tuple[int, ...]], ...], ...]
    """Of each way and each value, the true one first: what stands before the value's tokens, and these."""
    control_names: tuple[tuple[tuple[tuple[Prompt, tuple[int, ...]], ...], ...], ...]
    """The same behind each of some names that are nobody's, in the subject's place."""
    prompts: tuple[Prompt, ...]
    """Each way alone."""
    n_new_tokens: int
    """Most tokens of an answer that is generated."""
    judge: Callable[[Sequence[int]], Mapping[str, float]] = field(compare=False)
    """What an answer's tokens give away of the true value, by statistic."""
    units: Mapping[str, str]
    """Of each of these statistics."""
    order: tuple[int, ...] = ()
    """Numbers of the decoys, from 1, in the order in which a sequential test scores them: the same in all ways of
    asking for the value."""
    beside: tuple[tuple[AskedAs, ...], ...] = ()
    """The value and its decoys in the other cases of the value, behind each name, the subject's first."""
    keeps_answers: bool = False
    """Whether answers are kept, and not only what they give away."""


@dataclass(frozen=True, slots=True)
class ProbeItem(Item):
    """A value of a subject that is asked for; `prompt` is the first way of asking."""

    values: Values = field(kw_only=True)
