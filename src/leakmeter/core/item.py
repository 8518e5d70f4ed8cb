"""One case to be measured: a prompt, what of it may be removed, and the response."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from leakmeter.core.prompt import Prompt

PLACEBO: Final = "placebo"
"""Name of the irrelevant piece of the prompts that have one."""


@dataclass(frozen=True, slots=True)
class EntityTexts:
    """What an entity is, in words: a value or a person that a context says in one or more places."""

    type: str
    """'phone', 'email', 'address', 'date', 'person', or a type of the user's."""
    value: str
    """Normal form, such as E.164 of a telephone number."""
    text: str
    """Its fullest mention, as the context has it."""
    invented: str | None = None
    """What is put in the place of the fullest mention, where the entity is swapped too."""


@dataclass(frozen=True, slots=True)
class Span:
    """What is removed together: a unit of the context, or a value or person wherever the context says it."""

    name: str
    kind: str
    """'unit' or 'value'."""
    ranges: tuple[tuple[int, int], ...]
    """Characters [start, end) of the context, in order."""
    pieces: tuple[str, ...]
    """Names of the prompt's pieces that hold its tokens."""
    document: str | None
    """Name of the document or message it lies in; None where it spans several."""
    n_tokens: int
    repeats: tuple[str, ...] = ()
    """Names of other units that say a value which this one says."""
    entity: EntityTexts | None = None
    """For a unit of personal data: what it is."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers a query may get, where it has a closed set of them, and how likely each is of itself."""

    labels: tuple[str, ...]
    ids: tuple[tuple[int, ...], ...]
    """Token ids of each label as it follows the prompt."""
    gold: int | None
    """Number of the right label; None where it is not known."""
    content_free: Mapping[str, Mapping[str, Prompt]]
    """Content-free inputs by name ('blank', 'n/a') to prompts that have one in the query's place: under '' with all
    exemplars, under a span's name without that span."""


@dataclass(frozen=True, slots=True)
class ContextSet:
    """The contexts that a question is asked behind, one at a time, and the answers that are told apart."""

    ids: tuple[str, ...]
    prompts: tuple[Prompt, ...]
    """The question behind each context."""
    weights: tuple[float, ...]
    """Of each context, adding up to 1."""
    answers: tuple[tuple[tuple[int, ...], ...], ...] = ()
    """Token ids of each form of each answer as it follows the question; empty for the whole vocabulary."""


@dataclass(frozen=True, slots=True)
class Values:
    """A value that a model may know, and others like it, behind each way of asking for it."""

    scored: tuple[tuple[tuple[Prompt, tuple[int, ...]], ...], ...]
    """Of each way and each value, the true one first: what stands before the value's tokens, and these."""
    references: tuple[tuple[tuple[tuple[Prompt, tuple[int, ...]], ...], ...], ...]
    """The same of each of some people who are not there, in the person's place."""
    asked: tuple[Prompt, ...]
    """Each way alone."""
    n_new_tokens: int
    """Most tokens of an answer that is generated."""
    judge: Callable[[Sequence[int]], Mapping[str, float]] = field(compare=False)
    """What an answer's tokens give away of the true value, by statistic."""
    units: Mapping[str, str]
    """Of each of these statistics."""
    keeps_answers: bool = False
    """Whether answers are kept, and not only what they give away."""


@dataclass(frozen=True, slots=True)
class Item:
    """One case: everything a measure needs, tokenised once."""

    id: str
    prompt: Prompt
    spans: tuple[Span, ...]
    cuts: Mapping[str, Prompt]
    """The prompt without each span, under the removal policy."""
    alone: Mapping[str, Prompt]
    """The blank prompt with each span put back."""
    blank: Prompt
    """The prompt without any context: a function of the template and the query only."""
    placebos: tuple[Prompt, ...]
    """The prompt with an irrelevant piece of a unit's typical length put in, at several places."""
    response: tuple[int, ...] | None
    """Token ids; None where the response is to be sampled."""
    stop_ids: frozenset[int] = frozenset()
    swaps: Mapping[str, Prompt] = field(default_factory=dict)
    """The prompt with an invented value in the place of a span, for spans that are swapped too."""
    cut_together: Callable[[Collection[str]], Prompt] | None = field(default=None, compare=False)
    """Makes the prompt without several spans, under the removal policy; None where none was made."""
    window: int | None = None
    """Most tokens that a prompt and what follows it may have; None for any number."""
    answers: Answers | None = None
    """For a query that is classified beside exemplars, which are the spans then."""
    contexts: ContextSet | None = None
    """For a question that is asked behind many contexts, one at a time; `prompt` is the question alone then."""
    values: Values | None = None
    """For a value of a person that is asked for; `prompt` is the first way of asking then."""

    def without(self, names: Collection[str]) -> Prompt:
        """The prompt without spans, all of them together; the prompt itself without none.

        Args:
            names: of spans, which may overlap.
        """
        if not names:
            return self.prompt
        if len(names) == 1:
            (name,) = names
            return self.cuts[name]
        if self.cut_together is None:
            raise ValueError(f"case '{self.id}' was made without what cuts {len(names)} spans together")
        return self.cut_together(names)
