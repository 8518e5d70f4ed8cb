"""Invented people to plant into a model, each in as many documents as is said, and others who are kept out of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from leakmeter.errors import UsageError
from leakmeter.instruments.pii.canaries import canaries_of, document_of
from leakmeter.instruments.pii.subject import STRUCTURED, VALUE_TYPES, Subject, ValueType


@dataclass(frozen=True, slots=True)
class Group:
    """People who stand in the same number of documents."""

    repeats: int
    """0 of those who are kept out."""
    subjects: tuple[Subject, ...]

    @property
    def name(self) -> str:
        """Such as 'planted_16' or 'held_out'."""
        return f"planted_{self.repeats}" if self.repeats else "held_out"


@dataclass(frozen=True, slots=True)
class Check:
    """What is planted, and how it is asked for."""

    people: int = 40
    """For each number of repeats, and to tune the soft prompt on."""
    repeats: tuple[int, ...] = (1, 4, 16)
    """Documents that people stand in; those tuned on stand in the most."""
    held_out: int = 40
    """People in no document."""
    types: tuple[ValueType, ...] = STRUCTURED
    """What is asked for by the name alone."""
    white_box: ValueType | None = "phone"
    """What is asked for behind a soft prompt too; None for no soft prompt."""
    nulls: int = 50
    """Invented values that each true one is ranked among."""
    shots: int = 1
    """Prompts of each kind."""
    epochs: int = 1
    """Of the planting."""
    learning_rate: float = 3e-4
    """Of the planting."""
    batch_tokens: int = 256
    """Of a step of the planting."""
    soft_tokens: int = 20
    """Vectors of the soft prompt."""
    soft_epochs: int = 60
    """Most passes over the people that it is tuned on."""
    seed: int = 0
    """Of people, documents, order and invented values."""

    def __post_init__(self) -> None:
        """Refuse what cannot be asked."""
        for type_ in (*self.types, *((self.white_box,) if self.white_box else ())):
            if type_ not in VALUE_TYPES:
                raise UsageError(f"type is '{type_}'; expected one of {', '.join(VALUE_TYPES)}")

    @property
    def groups(self) -> tuple[Group, ...]:
        """Those who are asked for."""
        return groups_of(self.people, self.repeats, self.held_out, seed=self.seed)

    @property
    def tuned_on(self) -> Group:
        """Those who are planted for the soft prompt alone; people of different seeds have nothing in common."""
        return Group(max(self.repeats), canaries_of(self.people, seed=self.seed + 1))


def groups_of(n: int, repeats: Sequence[int], held_out: int, *, seed: int, region: str = "US") -> tuple[Group, ...]:
    """Invented people by how often they are planted; those held out come last.

    Args:
        n: people of each number of repeats.
        repeats: how many documents each of them is in, 1 or more, in any order.
        held_out: people in none.
        seed: of who they are.
        region: ISO 3166 code of their country.

    Raises:
        UsageError: no people, or a number of repeats that makes no sense.
    """
    if n < 1 or held_out < 1:
        raise UsageError(f"people is {n} and held-out {held_out}; both have to be 1 or more")
    if not repeats or min(repeats) < 1 or len(set(repeats)) < len(repeats):
        raise UsageError(f"repeats are {', '.join(map(str, repeats)) or 'none'}; give different numbers of 1 or more")
    everyone = canaries_of(n * len(repeats) + held_out, seed=seed, region=region)
    levels = sorted(repeats)
    planted = [Group(level, everyone[i * n : (i + 1) * n]) for i, level in enumerate(levels)]
    return (*planted, Group(0, everyone[len(levels) * n :]))


def documents_of(groups: Sequence[Group], *, seed: int) -> list[str]:
    """The documents of those who are planted: as many different ones of each as they have repeats."""
    return [
        document_of(subject, seed=seed, number=number)
        for group in groups
        for subject in group.subjects
        for number in range(group.repeats)
    ]


def lines_of(subjects: Sequence[Subject]) -> str:
    """People as JSON lines that `instruments.pii.subjects` loads."""
    rows = []
    for one in subjects:
        row: dict[str, Any] = {
            **{name: getattr(one, name) for name in ("id", "name", "phone", "email", "address", "university")},
            "relationships": {of.kind: of.name for of in one.relationships},
        }
        rows.append(json.dumps({name: value for name, value in row.items() if value}, ensure_ascii=False))
    return "".join(f"{row}\n" for row in rows)
