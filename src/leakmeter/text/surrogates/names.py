"""First names and surnames by how frequent they are."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final, Literal

Gender = Literal["male", "female", "any"]

N_COMMON: Final = 100
"""As many of the most frequent names are common; all others are rare."""
MALE: Final = ("father", "grandfather", "uncle", "husband", "brother", "son")
"""Relations whose names are men's."""
FEMALE: Final = ("mother", "grandmother", "aunt", "wife", "sister", "daughter")


@functools.cache
def given_names(gender: Gender) -> tuple[str, ...]:
    """First names of the United States, the most frequent first."""
    from faker.providers.person.en_US import Provider

    male, female = Provider.first_names_male, Provider.first_names_female
    named = {"male": (male,), "female": (female,), "any": (male, female)}[gender]
    shares: dict[str, float] = {}
    for table in named:
        for name, share in table.items():
            shares[name] = shares.get(name, 0.0) + share
    return tuple(sorted(shares, key=lambda name: (-shares[name], name)))


@functools.cache
def surnames() -> tuple[str, ...]:
    """Surnames of the United States, the most frequent first."""
    from faker.providers.person.en_US import Provider

    shares = {name: share for name, share in Provider.last_names.items() if name.isascii() and name.isalpha()}
    return tuple(sorted(shares, key=lambda name: (-shares[name], name)))


def gender_of(kind: str) -> Gender:
    """Whose names a relation has; 'any' where its kind does not say."""
    kind = kind.casefold()
    return "male" if kind in MALE else "female" if kind in FEMALE else "any"


def alike(name: str, ranked: Sequence[str]) -> Sequence[str]:
    """Names as frequent as this one: the common ones for a common one, else the rare ones.

    Args:
        name: in any case; one that is not among them is rare.
        ranked: the most frequent first.
    """
    common = ranked[:N_COMMON]
    return common if name.casefold() in {one.casefold() for one in common} else ranked[N_COMMON:]
