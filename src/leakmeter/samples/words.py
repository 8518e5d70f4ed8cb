"""What invented people's data and nulls are both made of: if each had words of its own, a model could tell them apart.

Where one word is far more usual than another, it is drawn from a group of words of like frequency, each as often as any
other: a value and its nulls are then drawn alike, without putting back.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

Gender = Literal["male", "female", "any"]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


N_COMMON: Final = 100
"""As many of the most frequent names are common; all others are rare."""
MALE: Final = ("father", "grandfather", "uncle", "husband", "brother", "son")
"""Relations whose names are men's."""
FEMALE: Final = ("mother", "grandmother", "aunt", "wife", "sister", "daughter")
EXCHANGES_OF_NOBODY: Final = ("555", "950", "958", "959")
"""Central office codes of North America that no area gives to subscribers: information, carrier access, line tests."""
LOCAL_PARTS: Final = (*("{first}.{last}", "{first}{last}", "{f}{last}", "{first}_{last}", "{f}.{last}", "{first}{l}"),)
"""Usual forms of what stands before the @."""
STREETS: Final = _words(
    """
    Adams Alder Aspen Beech Birch Bluff Brook Cedar Central Cherry Chestnut Church Clark Clinton College Cottonwood
    Cypress Dogwood Eagle Elm Evergreen Fairview Forest Franklin Garfield Grant Harrison Hawthorne Hickory Highland
    Holly Jackson Jefferson Juniper Lakeview Laurel Liberty Lincoln Linden Locust Madison Magnolia Main Maple Market
    Meadow Mill Monroe Mulberry Oak Orchard Pearl Pine Pleasant Poplar Prospect Railroad Redwood River Riverside
    Sherman Spring Spruce Sunset Sycamore Valley Walnut Washington Willow Wilson
    """
)
_FIRST: Final = _words(
    """
    amber anchor apex arbor atlas beacon blue bright bridge cobalt coral crest crown delta echo ember falcon fern
    frontier glacier golden granite green harbor hazel horizon iron ivory jade keystone lumen lunar maple meridian
    metro mosaic nova oak onyx orbit pacific pioneer prairie quartz redwood ridge rocket sage sierra silver solar
    sterling summit terra tidal union vector violet
    """
)
FIRM_KINDS: Final = _words(
    """
    advisors analytics apparel bank builders capital care clinic consulting creative design dental dynamics energy
    engineering farms finance foods freight gallery graphics group health homes insurance labs legal logistics media
    motors outdoors partners press realty records software solutions studio supply systems tech travel ventures works
    """
)
"""What companies do; one of somebody's name adds it to the name."""
FIRMS: Final = tuple(first + kind for first in _FIRST for kind in FIRM_KINDS)
"""Labels of invented companies' domains."""


@functools.cache
def universities() -> tuple[str, ...]:
    """Universities of the United States as they call themselves, the lines of `universities.txt`."""
    return tuple((Path(__file__).parent / "universities.txt").read_text(encoding="utf-8").splitlines())


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
