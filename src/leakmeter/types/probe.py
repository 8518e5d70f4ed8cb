"""What a model is asked about a subject: prompts that end where a value begins, the value, and others like it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from leakmeter.types.subject import ValueType

ProbeKind = Literal["twin", "triplet", "quadruplet", "relationship", "university"]


@dataclass(frozen=True, slots=True)
class ProbeCase:
    """One value of one subject, asked for in one way."""

    id: str
    """Subject, kind and type, and what else is needed to tell it apart: nothing personal."""
    subject: str
    """Id of the subject."""
    kind: ProbeKind
    type: ValueType
    prompts: tuple[str, ...]
    """One for each template, in order, without the value."""
    value: str
    nulls: tuple[str, ...]
    """Values of the same type that are nobody's, as like the true one as the subject's other data makes it."""
    relation: str | None = None
    """What the one asked for is to the subject, of a relationship."""
    region: str = "US"
    """ISO 3166 code of the country of a telephone number without a country code."""
