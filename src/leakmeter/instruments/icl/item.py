"""A query behind its exemplars, tokenised: what is measured of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from leakmeter.core.item import ContextItem
from leakmeter.core.prompt import Prompt


@dataclass(frozen=True, slots=True)
class Answers:
    """The closed set of answers a query may get, and how likely each is of itself."""

    labels: tuple[str, ...]
    ids: tuple[tuple[int, ...], ...]
    """Token ids of each label as it follows the prompt."""
    gold: int | None
    """Number of the right label; None where it is not known."""
    content_free: Mapping[str, Mapping[str, Prompt]]
    """Content-free inputs by name ('blank', 'n/a') to prompts that have one in the query's place: under '' with all
    exemplars, under a span's name without that span."""
    given: int | None = None
    """Number of the label that was answered; None where that is not known."""


@dataclass(frozen=True, slots=True)
class ExemplarItem(ContextItem):
    """A query that is classified behind exemplars, which are the spans."""

    answers: Answers = field(kw_only=True)
