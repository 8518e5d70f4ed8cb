"""Labelled texts as the user gave them: exemplars of a prompt, and the queries that are classified beside them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

from leakmeter.core.record import JsonObject

EXEMPLAR: Final = "exemplar"
"""Ablation unit of prompts with exemplars."""


@dataclass(frozen=True, slots=True)
class Task:
    """A classification task: what its prompt says, and how its data are read."""

    name: str
    instruction: str
    """The prompt's first lines; may be empty."""
    fields: tuple[tuple[str, str], ...]
    """Of each input its column in the data and its heading in the prompt, such as ('text', 'Article')."""
    answer: str
    """Heading of the label in the prompt, such as 'Answer'."""
    labels: tuple[tuple[str, str], ...]
    """Of each label what the data call it and what the prompt calls it, such as ('ABBR', 'Abbreviation')."""
    label_column: str = "label"

    @property
    def words(self) -> tuple[str, ...]:
        """The labels as the prompt has them, each once, in order."""
        return tuple(dict.fromkeys(word for _, word in self.labels))


@dataclass(frozen=True, slots=True)
class Example:
    """A text with its label."""

    id: str
    """What it is called everywhere."""
    texts: tuple[str, ...]
    """One for each field of the task, in order, as given: white space around a text is part of it."""
    label: str | None
    """A word of the task; None for a query whose label is not known."""
    answer: str | None = None
    """Of a query: the label that was answered, a word of the task; None where that is not known."""

    @property
    def compared(self) -> tuple[str, ...]:
        """The texts without white space around them: two examples for which it is equal say the same."""
        return tuple(text.strip() for text in self.texts)


@dataclass(frozen=True, slots=True)
class ExemplarCase:
    """A query, and the exemplars that stand before it in order, no two of one id."""

    id: str
    exemplars: tuple[Example, ...]
    query: Example

    def record(self) -> JsonObject:
        """All of it, but for an answer that is not known."""
        return asdict(self, dict_factory=lambda pairs: {k: v for k, v in pairs if (k, v) != ("answer", None)})
