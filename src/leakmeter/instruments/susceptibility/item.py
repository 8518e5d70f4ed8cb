"""A query and the contexts it is asked behind, tokenised: what is measured of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from leakmeter.core.item import Item
from leakmeter.core.prompt import Prompt
from leakmeter.overriding import override


@dataclass(frozen=True, slots=True)
class ContextSet:
    """The contexts that a query is asked behind, one at a time, and the answers that are told apart."""

    ids: tuple[str, ...]
    prompts: tuple[Prompt, ...]
    """The query behind each context."""
    weights: tuple[float, ...]
    """Of each context, adding up to 1."""
    answers: tuple[tuple[tuple[int, ...], ...], ...] = ()
    """Token ids of each form of each answer as it follows the query; empty for the whole vocabulary."""


@dataclass(frozen=True, slots=True)
class QueryItem(Item):
    """A query that is asked behind many contexts, one at a time; `prompt` is the query alone."""

    contexts: ContextSet = field(kw_only=True)

    @property
    @override
    def typical_prompts(self) -> tuple[Prompt, ...]:
        """The query behind the first context and behind the last, and alone."""
        return (*dict.fromkeys((self.contexts.prompts[0], self.contexts.prompts[-1])), self.prompt)
