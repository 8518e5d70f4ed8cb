"""What a gate looked at and found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["holds", "broken", "undecided"]


@dataclass(frozen=True, slots=True)
class Number:
    """One number of many cases."""

    value: float
    """NaN where it is undefined: a mean of −∞ and ∞."""
    interval: tuple[float, float] | None
    """95 % interval over the cases; None where it has none."""
    unit: str
    n: int
    """Cases, or pairs of cases, that it is made of."""
    is_lower_bound: bool = False
    """Whether it is only the least that it can be, since this is so of a case; there is no interval then."""


@dataclass(frozen=True, slots=True)
class Item:
    """One case of a run that speaks against a claim; by its number, since an id may tell of its text."""

    number: int
    """Among the cases of the run, from 1."""
    value: float
    """Its own, in the unit of the check's number."""


@dataclass(frozen=True, slots=True)
class Check:
    """One claim about a run, and whether it holds."""

    claim: str
    """'influence.disclosures.personal <= 0', or 'influence is not worse than the baseline'."""
    run: int
    """Number of the run, from 1."""
    quantity: str
    about: str
    """One sentence of what the quantity means."""
    holds: bool
    found: Number
    """What is held against the claim; of a baseline the mean of now − then over pairs."""
    n_missing: int
    """Cases that do not have the quantity."""
    explained: str
    """One sentence of what was found."""
    worst: tuple[Item, ...] = ()
    """Of a broken claim the cases that speak most against it, worst first."""
    undecided: bool = False
    """Whether it neither holds nor is broken, as far as the cases are known."""
    n_lower_bounds: int = 0
    """Cases of whose number only a lower bound is known."""

    @property
    def verdict(self) -> Verdict:
        return "holds" if self.holds else "undecided" if self.undecided else "broken"
