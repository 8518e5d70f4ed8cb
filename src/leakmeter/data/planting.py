"""Invented people to plant into a model, each in as many documents as is said, and others who are kept out of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from leakmeter.data.invented import document_of, invented_subjects
from leakmeter.errors import UsageError
from leakmeter.types.subject import Subject


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
    everyone = invented_subjects(n * len(repeats) + held_out, seed=seed, region=region)
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
    """People as JSON lines that `data.subjects` loads."""
    rows = []
    for one in subjects:
        row: dict[str, Any] = {
            **{name: getattr(one, name) for name in ("id", "name", "phone", "email", "address", "university")},
            "relationships": {of.kind: of.name for of in one.relationships},
        }
        rows.append(json.dumps({name: value for name, value in row.items() if value}, ensure_ascii=False))
    return "".join(f"{row}\n" for row in rows)
