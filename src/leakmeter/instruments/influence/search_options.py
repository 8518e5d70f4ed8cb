"""Options of a search for the strongest pieces: how many to list, and what may be missed with which confidence."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final

from leakmeter.core.limits import bounded
from leakmeter.errors import UsageError
from leakmeter.overriding import override
from leakmeter.stats.hypergeometric import decimal_fraction, draws_needed

MOST_LISTED: Final = 1000
"""Pieces that a search may list."""
_SEARCH: Final = re.compile(r"top:([0-9]{1,9})(?::([0-9]{1,9}))?")
_AUDIT: Final = re.compile(r"([0-9]?\.[0-9]{1,12}|[0-9]):(?:([0-9]{1,9})|([0-9]{1,3}(?:\.[0-9]{1,9})?)%)")


@dataclass(frozen=True, slots=True)
class Search:
    """How many of the strongest pieces a search is for, and how many it scores at most; as text 'top:5' or 'top:5:40'.

    It scores more than K exactly: until the K-th has more than the rest is taken to reach.
    """

    k: int
    given_most: int | None = None
    """M of 'top:K:M'; None where it is not said."""

    def __post_init__(self) -> None:
        good, _, value, expected = bounded("top", self.k, 1, MOST_LISTED)
        if not good:
            raise UsageError(f"search is 'top:{value}'; K has to be {expected}")
        if self.given_most is not None and self.given_most < self.k:
            raise UsageError(f"search is '{self}'; M, the most pieces to score exactly, has to be K = {self.k} or more")

    @property
    def most(self) -> int:
        """Pieces that are scored exactly at most before an audit: M, or 4 K + 10."""
        return 4 * self.k + 10 if self.given_most is None else self.given_most

    @classmethod
    def parse(cls, text: str) -> Search:
        """'top:5' or 'top:5:40' to a search.

        >>> Search.parse("top:5")
        Search(k=5, given_most=None)
        """
        match = _SEARCH.fullmatch(text.strip())
        if match is None:
            raise UsageError(
                f"search is {text!r}; give top:K, such as top:5 for the five strongest pieces, or top:K:M to score M "
                "exactly at most"
            )
        return cls(int(match[1]), None if match[2] is None else int(match[2]))

    @override
    def __str__(self) -> str:
        return f"top:{self.k}" + ("" if self.given_most is None else f":{self.given_most}")


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit is to say: with which confidence at most how many pieces are missed; as text '0.95:3' or '0.95:5%'.

    How many pieces are drawn follows from it, before the draw.
    """

    confidence: float
    """At least 0.5 and below 1, read as the decimal that it prints as."""
    most_missed: int | float
    """B, pieces that are not listed and may exceed the threshold, if the audit finds none: an int is a count; a float
    is a percentage of the pieces left, rounded down to whole pieces."""

    def __post_init__(self) -> None:
        if not 0.5 <= self.confidence < 1.0:
            raise UsageError(
                f"audit has confidence {self.confidence:.12g}; give at least 0.5 and less than 1, such as 0.95"
            )
        if isinstance(self.most_missed, int):
            if self.most_missed < 0:
                raise UsageError(f"audit may miss {self.most_missed} pieces; give a whole number of 0 or more")
        elif not 0.0 <= self.most_missed <= 100.0:
            raise UsageError(f"audit may miss {self.most_missed:.12g} % of the pieces; give 0 to 100")

    @classmethod
    def parse(cls, text: str) -> Audit:
        """'0.95:3' or '0.95:5%' to an audit.

        >>> Audit.parse("0.95:3"), Audit.parse("0.95:5%")
        (Audit(confidence=0.95, most_missed=3), Audit(confidence=0.95, most_missed=5.0))
        """
        match = _AUDIT.fullmatch(text.strip())
        if match is None:
            raise UsageError(
                f"audit is {text!r}; give CONFIDENCE:B with a number of pieces or a percentage of those left, such as "
                "0.95:3 or 0.95:5%"
            )
        return cls(float(match[1]), float(match[3]) if match[2] is None else int(match[2]))

    @property
    def alpha(self) -> Fraction:
        """Probability of a false statement: 1 − confidence, as decimals.

        >>> Audit(0.95, 3).alpha
        Fraction(1, 20)
        """
        return 1 - decimal_fraction(self.confidence)

    def most_missed_of(self, n_left: int) -> int:
        """B as a number of pieces of N not scored exactly when the list was frozen; a percentage is rounded down.

        >>> Audit(0.95, 5.0).most_missed_of(59)
        2
        """
        if isinstance(self.most_missed, int):
            return self.most_missed
        return math.floor(decimal_fraction(self.most_missed) * n_left / 100)

    def draws(self, n_left: int) -> int:
        """Pieces to draw of N left, so that finding none above the threshold leaves B at most; for one round.

        >>> Audit(0.95, 0).draws(100), Audit(0.95, 5.0).draws(100)
        (95, 39)
        """
        return draws_needed(n_left, self.most_missed_of(n_left), self.alpha)

    @override
    def __str__(self) -> str:
        if isinstance(self.most_missed, int):
            return f"{self.confidence!r}:{self.most_missed}"
        return f"{self.confidence!r}:{Decimal(repr(self.most_missed)).normalize():f}%"
