"""What of a measurement can be averaged, compared and bounded: numbers with a name, a unit and a worse side; where
they stand in a result, and what a check of them found."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar

from leakmeter.core.measure import NATS
from leakmeter.core.plain import SELDOM

CaseResult = Any
"""A result of the instrument's own kind (see `results.result.Result`)."""
Worse = Literal["more", "less"]
Sense = Literal["leak", "quality", "neither"]
"""What a larger or smaller number says of a run beside another: that it leaks more, that it is worse, or only that the
number is higher."""
T = TypeVar("T")

SHARE: Final = "share of "
"""What units of shares begin with; what follows is what they are shares of."""
SHARE_OF_CASES: Final = f"{SHARE}cases"
"""Unit of what is 1 or 0 of each case."""
COUNTED: Final = {"disclosures": "disclosure", "values": "value"}
"""Units of what is counted in an answer, with the word for one."""


@dataclass(frozen=True, slots=True)
class LowerBound:
    """When the number of a case is only the least that it can be."""

    holds: Callable[[CaseResult], bool]
    """A result to whether its number is."""
    why: str
    """A clause: why it is not known."""
    advice: str
    """What to do to know it, or what to look at instead: an imperative."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """One number of a case."""

    name: str
    """The measure's alone, 'influence', for what one thinks of first; else with a part behind, 'influence.worst_piece'.
    That part is no aggregate ('mean', 'p95' …)."""
    unit: str
    about: str
    """One sentence of what it means."""
    compute: Callable[[CaseResult], float | None]
    """A result to the number: None where it has none, ∞ where it is infinite."""
    worse: Worse = "more"
    """Which way is worse for those whose data it is about, or for the answers."""
    floor: Callable[[CaseResult], float | None] | None = None
    """A result to the amount by which other ways to compute the same move the number; None where it is unknown."""
    lower_bound: LowerBound | None = None
    """When the number is a lower bound only: never compared as a value, and no reason for an upper bound to hold."""
    usual: str | None = None
    """The aggregate that is meant where none is named; None where that would be a guess."""
    sense: Sense = "leak"
    predicate: str = ""
    """Of a count (see `COUNTED`), what answers with any do: 'disclose personal or secret data', whose verb takes an 's'
    for one answer."""
    decides: bool = False
    """Whether it decides if an answer may be shown: of two runs, cases in which it changed come before all others."""
    part_of: str = ""
    """Quantity that counts this and more: where all cases have as much of both, two runs are compared by that alone."""


@dataclass(frozen=True, slots=True)
class RunQuantity:
    """One number of all cases of a run together, of which a single case has none."""

    name: str
    """As a `Quantity`'s."""
    unit: str
    about: str
    compute: Callable[[Sequence[CaseResult]], float | None]
    """Results, one or more, to the number: None where they have none, ∞ where it is infinite."""
    worse: Worse = "more"
    sense: Sense = "leak"
    of: Callable[[Sequence[CaseResult]], int] | None = None
    """Of a share (see `SHARE`), results to how many there are of what it is a share of."""

    def number(self, cases: Sequence[CaseResult]) -> Number | None:
        """The number of these cases together."""
        value = self.compute(cases)
        if value is None:
            return None
        return Number(value, None, self.unit, len(cases), n_shared=None if self.of is None else self.of(cases))


AnyQuantity = Quantity | RunQuantity


@dataclass(frozen=True, slots=True)
class SoFar:
    """What progress says of the cases that are done: a number, and never a text."""

    words: str
    """With {} where the number goes, and {s} behind a noun that it counts."""
    compute: Callable[[CaseResult], float | None]
    """A result to its number; None where it has none."""
    combine: Callable[[Iterable[float]], float] = max
    """The number of two or more cases: the largest, or `sum`."""


def clusters_of(cases: Iterable[CaseResult]) -> list[Hashable]:
    """What each case is alike within, such as its conversation; its place of one that stands alone."""
    return [place if case.cluster is None else case.cluster for place, case in enumerate(cases)]


def add_case(findings: dict[str, float], case: CaseResult) -> None:
    for finding in case.so_far:
        words, number = finding.words, finding.compute(case)
        if number is not None:
            findings[words] = finding.combine((findings[words], number)) if words in findings else number


def watched(
    parts: Iterable[T],
    make: Callable[[Iterable[T]], Iterator[CaseResult]],
    findings: dict[str, float],
    *,
    is_of_run: bool,
) -> Iterator[CaseResult]:
    """The results that `make` makes of a run's parts, each added to the findings. Where a result has numbers of the
    whole run (`is_of_run`), a part alone is added as soon as it is done."""

    def taken() -> Iterator[T]:
        for part in parts:
            if is_of_run:
                add_case(findings, next(make([part])))
            yield part

    for result in make(taken()):
        if not is_of_run:
            add_case(findings, result)
        yield result


Quantities = tuple[AnyQuantity, ...]
NumberOf = Callable[[CaseResult], float | None]


def at(*path: str) -> NumberOf:
    """The number at a path of attributes; None where one of them is None."""

    def number(case: CaseResult) -> float | None:
        inner: Any = case
        for name in path:
            inner = getattr(inner, name)
            if inner is None:
                return None
        return float(inner)

    return number


def most(numbers: Iterable[float]) -> float | None:
    return max(numbers, default=None)


NOISE: Final = at("noise_floor_nats")
"""Of sums over a response."""

PARTLY_READ: Final = LowerBound(
    lambda case: case.is_partly_read is not None,
    "another version of leakmeter measured a case and kept more of its numbers than this one reads, such as how far "
    "they may be off",
    "measure the case again",
)


def less_unread(compute: NumberOf, floor: NumberOf = NOISE) -> NumberOf:
    """The number; of a case that is read in part, the least that it can be: all that is left above its noise."""

    def number(case: CaseResult) -> float | None:
        value, noise = compute(case), floor(case) if PARTLY_READ.holds(case) else None
        return value if value is None or noise is None else max(0.0, value - noise)

    return number


def of_response(name: str, about: str, compute: NumberOf, lower_bound: LowerBound = PARTLY_READ) -> Quantity:
    """A sum over a response, nats, with noise; `lower_bound` holds where `PARTLY_READ` does."""
    return Quantity(name, NATS, about, less_unread(compute), floor=NOISE, lower_bound=lower_bound)


CheckVerdict = Literal["holds", "broken", "undecided"]


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
    extremes: tuple[float, float] | None = None
    """Least and most of the cases, where they are too few for an interval of their mean."""
    n_shared: int | None = field(default=None, metadata={SELDOM: True})
    """Of a share, how many there are of what it is a share of, where these are not the cases."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """One case of a run that speaks against a claim."""

    number: int
    """Among the cases of the run, from 1; a file for others has it in the place of the id, which may tell of a text."""
    value: float
    """Its own, in the unit of the check's number."""
    id: str | None = None
    """The case's, hostile and private as a text; None of what is no case."""


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
    worst: tuple[Counterexample, ...] = ()
    """Of a broken claim the cases that speak most against it, worst first."""
    undecided: bool = False
    """Whether it neither holds nor is broken, as far as the cases are known."""
    n_lower_bounds: int = 0
    """Cases of whose number only a lower bound is known."""

    @property
    def verdict(self) -> CheckVerdict:
        return "holds" if self.holds else "undecided" if self.undecided else "broken"
