"""Compare two runs of one measure: settings that differ, and how far each quantity moved, case by case."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final, Literal

import numpy as np

from leakmeter.core.quantity import AnyQuantity, Quantity, RunQuantity, Sense, Worse
from leakmeter.core.record import JsonObject
from leakmeter.errors import UnknownNameError, UsageError
from leakmeter.products.gate.gate_words import left_out_sentence
from leakmeter.results.results import MeasuredCases, case_quantities
from leakmeter.stats.aggregates import aggregate
from leakmeter.stats.ranks import PairedDifference, holm, paired_difference

ComparisonVerdict = Literal["worse", "better", "higher", "lower", "no finding"]
"""'higher' and 'lower' of numbers of which neither is better."""
HIDDEN: Final = "not shown"
"""Stands for a setting that has to stay secret."""
_LEVEL: Final = 0.05
_ROUNDING: Final = 1e-6
"""Share of a case's number by which it may differ without a change."""
_UNTESTED: Final = dict.fromkeys(("interval", "p_value", "holm_p_value", "rank_biserial", "noise_floor"))


@dataclass(frozen=True, slots=True)
class ChangedSetting:
    """A setting that differs between two runs; None where one lacks it."""

    name: str
    first: object
    second: object


@dataclass(frozen=True, slots=True)
class Moved:
    """How far a quantity of cases moved, second run less first, in its unit."""

    quantity: str
    unit: str
    about: str
    worse: Worse
    sense: Sense
    first: float
    """Mean over pairs; NaN where a −∞ and an ∞ are among them."""
    second: float
    difference: PairedDifference
    holm_p: float
    """p of the signed-rank test, by Holm's rule among the quantities that were compared."""
    noise_floor: float
    """Mean over pairs of both runs' floors: amount by which noise alone may move the difference."""
    n_pairs: int
    n_missing: int
    """Pairs in which one has no such number, or a lower bound only."""
    predicate: str = ""
    """See `core.quantity.Quantity`."""

    @property
    def verdict(self) -> ComparisonVerdict:
        """Direction in which the mean differs: its interval leaves out 0, it is above the noise, and p agrees, as it is
        shown, among all quantities. Where a difference is infinite, neither is needed; 'no finding' for both sides."""
        up, down = self.difference.is_above(self.noise_floor), self.difference.is_below(self.noise_floor)
        is_finite = bool(np.isfinite(self.difference.differences).all())
        if up == down or (is_finite and self.holm_p >= _LEVEL):
            return "no finding"
        if self.sense == "neither":
            return "higher" if up else "lower"
        return "worse" if up == (self.worse == "more") else "better"


@dataclass(frozen=True, slots=True)
class WholeMoved:
    """A quantity of a run as a whole, in both runs; it has no interval."""

    quantity: str
    unit: str
    about: str
    worse: Worse
    sense: Sense
    first: float | None
    """None where the run has none."""
    second: float | None


@dataclass(frozen=True, slots=True)
class ChangedNumber:
    """A quantity of a case that is another in the second run."""

    quantity: str
    unit: str
    first: float
    second: float


@dataclass(frozen=True, slots=True)
class ChangedCase:
    """A case of both runs some of whose quantities differ by more than the noise of both."""

    id: str
    has_other_texts: bool
    numbers: tuple[ChangedNumber, ...]
    """One or more, in the order of the quantities."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Pairs of cases that are not compared, since one run has only a lower bound of the quantity."""

    quantity: str
    n_pairs: int
    why: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs of one measure."""

    measure: str
    n_pairs: int
    """Cases with the same id."""
    n_only_first: int
    n_only_second: int
    n_other_texts: int
    """Pairs whose texts differ."""
    settings: tuple[ChangedSetting, ...]
    """Those that differ."""
    incomparable: tuple[ChangedSetting, ...]
    """Those of them that make the numbers mean different things: there is no verdict then."""
    moved: tuple[Moved, ...]
    """Quantities of cases that some pair has."""
    whole: tuple[WholeMoved, ...]
    """Quantities of runs as a whole."""
    left_out: tuple[LeftOut, ...] = ()
    """Pairs that are not compared although both have the quantity."""
    changed: tuple[ChangedCase, ...] = ()
    """Those of the pairs: first those in which a quantity that decides changed, most first, then the largest change of
    the first quantity."""
    deciding: Mapping[str, str] = field(default_factory=dict)
    """Quantities that decide if an answer may be shown, compared or not, with their predicates."""

    def to_dict(self) -> JsonObject:
        """One plain object; 'first' is A, 'second' B, differences are B − A.

        Numbers may be infinite, or NaN where they have no meaning; a quantity of a run as a whole has no interval. Of
        runs that cannot be compared nothing says how far a quantity moved.
        """
        counts = ("measure", "n_pairs", "n_only_first", "n_only_second", "n_other_texts")
        return {
            **{name: getattr(self, name) for name in counts},
            "settings": [asdict(entry) for entry in self.settings],
            "incomparable": [asdict(entry) for entry in self.incomparable],
            "left_out": [asdict(entry) for entry in self.left_out],
            "changed": [] if self.incomparable else [asdict(entry) for entry in self.changed],
            "deciding": dict(self.deciding),
            "quantities": [*map(self._row, self.moved), *map(self._row, self.whole)],
        }

    def _row(self, moved: Moved | WholeMoved) -> JsonObject:
        row: JsonObject = {
            name: getattr(moved, name) for name in ("quantity", "unit", "about", "worse", "sense", "first", "second")
        }
        if isinstance(moved, Moved):
            difference = moved.difference
            row |= {
                "difference": difference.mean,
                "interval": None if difference.interval is None else list(difference.interval),
                "p_value": difference.p_value,
                "holm_p_value": moved.holm_p,
                "rank_biserial": difference.rank_biserial,
                **{name: getattr(moved, name) for name in ("noise_floor", "n_pairs", "n_missing", "verdict")},
                "predicate": moved.predicate,
            }
        else:
            change = None if moved.first is None or moved.second is None else moved.second - moved.first
            row |= {
                "difference": change,
                **_UNTESTED,
                "n_pairs": self.n_pairs,
                "n_missing": self.n_pairs if change is None else 0,
                "verdict": "",
                "predicate": "",
            }
        return {**row, "difference": None, **_UNTESTED, "verdict": ""} if self.incomparable else row


def compare(first: MeasuredCases, second: MeasuredCases, names: Sequence[str] = (), *, seed: int = 0) -> Comparison:
    """Pair the cases of two runs of one measure by their ids, and compare the named quantities, by default all."""
    if first.measure != second.measure:
        raise UsageError(f"the runs measure {first.measure} and {second.measure}; compare two runs of the same measure")
    quantities = {quantity.name: quantity for quantity in first.quantities}
    for name in names:
        if name not in quantities:
            raise UnknownNameError("quantity", name, [quantity.name for quantity in first.quantities])
    place = {id_: number for number, id_ in enumerate(second.ids)}
    pairs = [(number, place[id_]) for number, id_ in enumerate(first.ids) if id_ in place]
    if not pairs:
        raise UsageError("the two runs have no case id in common")
    chosen = [quantities[name] for name in dict.fromkeys(names)] or [
        quantity
        for quantity in first.quantities
        if isinstance(quantity, RunQuantity) or not _is_whole(quantity, quantities.get(quantity.part_of), first, second)
    ]
    moved, left_out = list[Moved](), list[LeftOut]()
    for quantity in case_quantities(first):
        if quantity not in chosen:
            continue
        if (change := _moved(first, second, pairs, quantity, seed)) is not None:
            moved.append(change)
        if quantity.lower_bound is not None:
            ones, twos = first.lower_bounds(quantity), second.lower_bounds(quantity)
            if n_pairs := sum(bool(ones[i] or twos[j]) for i, j in pairs):
                left_out.append(LeftOut(quantity.name, n_pairs, quantity.lower_bound.why))
    texts = {case.get("id"): case for case in first.spec.get("cases") or ()}
    other_texts = {case.get("id") for case in second.spec.get("cases") or () if texts.get(case.get("id"), case) != case}
    together = holm([change.difference.p_value for change in moved])
    of_first, of_second = first.settings(), second.settings()
    settings = differing(of_first, of_second)
    deciding = [quantity for quantity in case_quantities(first) if quantity.decides]
    moved_names = {change.quantity for change in moved}
    missing = [entry.name for entry in chosen if isinstance(entry, Quantity) and entry.name not in moved_names]
    if names and missing:
        reasons = "".join(
            f"; {left_out_sentence(omitted.n_pairs, 'pair', omitted.why)}"
            for omitted in left_out
            if omitted.quantity == missing[0]
        )
        raise UsageError(f"none of the {len(pairs)} pairs of cases has {missing[0]} in both runs{reasons}")
    of_runs = (
        WholeMoved(
            quantity.name,
            quantity.unit,
            quantity.about,
            quantity.worse,
            quantity.sense,
            quantity.compute([first.cases[i] for i, _ in pairs]),
            quantity.compute([second.cases[j] for _, j in pairs]),
        )
        for quantity in chosen
        if isinstance(quantity, RunQuantity)
    )
    return Comparison(
        first.measure,
        len(pairs),
        len(first.cases) - len(pairs),
        len(second.cases) - len(pairs),
        len(other_texts),
        tuple(settings),
        incomparable(settings, of_first, of_second, second.defining),
        tuple(replace(change, holm_p=p) for change, p in zip(moved, together, strict=True)),
        # What neither run has is no line, unless it was asked for.
        tuple(moved for moved in of_runs if names or (moved.first, moved.second) != (None, None)),
        tuple(left_out),
        _changed(
            first, second, pairs, [entry for entry in chosen if isinstance(entry, Quantity)], deciding, other_texts
        ),
        {entry.name: entry.predicate for entry in deciding},
    )


def _is_whole(part: Quantity, whole: AnyQuantity | None, *runs: MeasuredCases) -> bool:
    """Whether all cases of the runs have as much of a part as of the whole."""
    return isinstance(whole, Quantity) and all(np.array_equal(run.values(part), run.values(whole)) for run in runs)


def _changed(
    first: MeasuredCases,
    second: MeasuredCases,
    pairs: Sequence[tuple[int, int]],
    quantities: Sequence[Quantity],
    deciding: Sequence[Quantity],
    other_texts: Container[object],
) -> tuple[ChangedCase, ...]:
    """A case that discloses what it did not before is among them, whichever quantities were asked for."""
    numbers: dict[int, list[ChangedNumber]] = {}
    largest: dict[int, tuple[float, ...]] = {}
    decisive: dict[int, float] = {}
    for quantity in (*quantities, *(entry for entry in deciding if entry not in quantities)):
        ones, twos = first.values(quantity), second.values(quantity)
        for i, j in pairs:
            before, after = float(ones[i]), float(twos[j])
            change = 0.0 if before == after else abs(after - before)
            least = _ROUNDING * min(abs(before), abs(after))
            # NaN, of what one of them lacks, is no change.
            if change > max(first.floor(quantity, [i]) + second.floor(quantity, [j]), least):
                numbers.setdefault(i, []).append(ChangedNumber(quantity.name, quantity.unit, before, after))
                largest[i] = (*largest.get(i, ()), -change)
                if quantity.decides:
                    decisive[i] = max(decisive.get(i, 0.0), change)
    main = quantities[0].name if quantities else ""
    order = sorted(numbers, key=lambda i: (-decisive.get(i, 0.0), numbers[i][0].quantity != main, largest[i]))
    ids = first.ids
    return tuple(ChangedCase(ids[i], ids[i] in other_texts, tuple(numbers[i])) for i in order)


def differing(first: Mapping[str, object], second: Mapping[str, object]) -> list[ChangedSetting]:
    """Settings that are not the same in both. A seed is hidden: a privacy guarantee may depend on its secrecy."""
    names = dict.fromkeys([*first, *second])
    return [
        ChangedSetting(name, *(HIDDEN if is_seed(name) else settings.get(name) for settings in (first, second)))
        for name in names
        if first.get(name) != second.get(name)
    ]


def incomparable(
    settings: Sequence[ChangedSetting],
    first: Mapping[str, object],
    second: Mapping[str, object],
    defining: Container[str],
) -> tuple[ChangedSetting, ...]:
    """Settings that both runs have and that make their numbers mean different things."""
    return tuple(
        setting for setting in settings if setting.name in defining and setting.name in first and setting.name in second
    )


def is_seed(name: str) -> bool:
    return name.rpartition(".")[2].endswith(("seed", "nonce"))


def _moved(
    first: MeasuredCases, second: MeasuredCases, pairs: Sequence[tuple[int, int]], quantity: Quantity, seed: int
) -> Moved | None:
    """None where no pair has the quantity."""
    ones, twos = first.values(quantity), second.values(quantity)
    both = [(i, j) for i, j in pairs if not np.isnan(ones[i]) and not np.isnan(twos[j])]
    if not both:
        return None
    left, right = (list(numbers) for numbers in zip(*both, strict=True))
    difference = paired_difference(twos[right], ones[left], seed=seed, clusters=first.clusters(left))
    return Moved(
        quantity.name,
        quantity.unit,
        quantity.about,
        quantity.worse,
        quantity.sense,
        aggregate(ones[left], "mean"),
        aggregate(twos[right], "mean"),
        difference,
        difference.p_value,
        first.floor(quantity, left) + second.floor(quantity, right),
        len(both),
        len(pairs) - len(both),
        quantity.predicate,
    )
