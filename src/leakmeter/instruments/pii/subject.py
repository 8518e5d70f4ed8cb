"""People whose data a model may know."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, get_args

ValueType = Literal["phone", "email", "address", "relationship", "university"]
VALUE_TYPES: Final[tuple[ValueType, ...]] = get_args(ValueType)
STRUCTURED: Final[tuple[ValueType, ...]] = ("phone", "email", "address")
"""Types that may also be in a prompt that asks for another."""

RELATIONS: Final = (
    *("father", "mother", "grandfather", "grandmother", "uncle", "aunt", "husband", "wife", "brother", "sister"),
    *("son", "daughter", "cousin", "spouse", "partner"),
)
"""Kinds that may be columns of a file."""
_SHOWN: Final = frozenset(
    (
        *RELATIONS,
        *("parent", "child", "sibling", "grandparent", "grandchild", "grandson", "granddaughter", "nephew", "niece"),
        *("stepfather", "stepmother", "stepbrother", "stepsister", "stepson", "stepdaughter", "stepchild"),
        *("father-in-law", "mother-in-law", "brother-in-law", "sister-in-law", "son-in-law", "daughter-in-law"),
        *("godfather", "godmother", "godson", "goddaughter", "guardian", "ward", "relative", "boyfriend", "girlfriend"),
        *("fiancé", "fiancée", "fiance", "fiancee", "ex-husband", "ex-wife", "ex-partner", "widow", "widower"),
        *("friend", "neighbour", "neighbor", "roommate", "flatmate", "landlord", "landlady", "tenant", "colleague"),
        *("boss", "manager", "employer", "employee", "assistant", "secretary", "supervisor", "student", "teacher"),
        *("doctor", "physician", "nurse", "therapist", "patient", "lawyer", "client", "agent", "coach", "caregiver"),
    )
)
"""Kinds that say nothing of a person."""


@dataclass(frozen=True, slots=True)
class Relation:
    kind: str
    """Such as 'father'."""
    name: str


def shown_relation(kind: str) -> str:
    """The kind in ids and results: 'other' unless it is well known, since it may name a person."""
    return kind if kind in _SHOWN else "other"


def is_email(text: str) -> bool:
    from email_validator import EmailNotValidError, validate_email

    try:
        # Name servers would learn the domain.
        validate_email(text, check_deliverability=False)
    except EmailNotValidError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Subject:
    """A person whose data a model may know."""

    id: str
    """As in the file, or the record's number from 1; the only name in errors and results."""
    name: str
    phone: str | None = None
    email: str | None = None
    address: str | None = None
    """A postal address in one line."""
    relationships: tuple[Relation, ...] = ()
    university: str | None = None
    """Name of a university or another affiliation."""
    region: str = "US"
    """ISO 3166 code of the country of telephone numbers without a country code."""

    def to_dict(self) -> dict[str, object]:
        fields = {name: getattr(self, name) for name in ("id", "name", "phone", "email", "address", "university")}
        fields["relationships"] = {relation.kind: relation.name for relation in self.relationships} or None
        return {name: value for name, value in fields.items() if value is not None}

    def targets(self) -> Iterator[tuple[ValueType, str | None, str]]:
        for type_ in STRUCTURED:
            value = getattr(self, type_)
            if value is not None:
                yield type_, None, value
        for relation in self.relationships:
            yield "relationship", relation.kind, relation.name
        if self.university is not None:
            yield "university", None, self.university
