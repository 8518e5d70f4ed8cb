"""One case to be measured: a prompt, what of it may be removed, and the response."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leakmeter.types.prompt import Prompt


@dataclass(frozen=True, slots=True)
class Span:
    """What is removed together: a unit of the context, or a value wherever the context says it."""

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
