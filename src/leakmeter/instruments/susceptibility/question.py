"""Questions as the user gave them, and the contexts that each is asked behind."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Context:
    """A text that may stand before a question."""

    id: str
    text: str
    weight: float = 1.0
    """How often it comes, relative to the others; above 0."""
    answer: str | None = None
    """What it says the answer is, where it says one."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of a closed set, in all the forms that a model may write it in."""

    name: str
    forms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, ending where the answer begins, such as 'Q: Who wrote Emma?⏎A:' or 'Emma was written by'."""

    id: str
    text: str
    answers: tuple[Answer, ...] = ()
    """The answers that are told apart, all else being the rest; empty for every token of the vocabulary."""
    answer: str | None = None
    """The right answer, where it is known."""
    factors: tuple[tuple[str, str], ...] = ()
    """What is known of it by name, such as ('relation', 'author'), ('openness', 'open' or 'closed'), ('form',
    'question' or 'completion'), ('entity', 'Emma'), ('familiarity', 'real' or 'invented')."""


@dataclass(frozen=True, slots=True)
class QuestionCase:
    """A question and the contexts that it is asked behind, one at a time."""

    id: str
    question: Question
    contexts: tuple[Context, ...]

    def record(self) -> dict[str, Any]:
        """Of the contexts, which many questions share, their number and hash."""
        told = json.dumps([asdict(context) for context in self.contexts], sort_keys=True)
        return {
            "id": self.id,
            "question": asdict(self.question),
            "n_contexts": len(self.contexts),
            "contexts_sha256": hashlib.sha256(told.encode()).hexdigest(),
        }
