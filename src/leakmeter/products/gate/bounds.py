"""Bounds on quantities of runs: read as users write them, and held against the numbers."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from leakmeter.core.quantity import COUNTED, AnyQuantity, Check, Counterexample, RunQuantity
from leakmeter.errors import UnknownNameError, UsageError
from leakmeter.overriding import override
from leakmeter.products.gate.gate_words import (
    allowed_text,
    bound_sentence,
    counted_text,
    found_text,
    undecided_sentence,
    undecided_text,
)
from leakmeter.results.results import MeasuredCases
from leakmeter.stats.aggregates import EXTREMES, FORMS
from leakmeter.stats.arrays import FloatArray

WORST_AT_MOST: Final = 5
"""Cases of a broken claim that are named."""
_UPPER: Final = {"<=": operator.le, "<": operator.lt}
_LOWER: Final = {">=": operator.ge, ">": operator.gt}
_BOUND: Final = re.compile(r"\s*([\w.\-]+)\s*(<=|>=|<|>)\s*([^\s<>=]+)\s*")
_EXAMPLES: Final = {"max": "influence.disclosures.personal <= 0", "min": "icl.accuracy >= 0.8"}


@dataclass(frozen=True, slots=True)
class Bound:
    """An upper or lower limit of an aggregate of a quantity."""

    name: str
    """QUANTITY or QUANTITY.AGGREGATE."""
    operator: str
    limit: float

    @property
    def is_upper(self) -> bool:
        return self.operator in _UPPER

    def allows(self, value: float) -> bool:
        """False for NaN."""
        return bool((_UPPER | _LOWER)[self.operator](value, self.limit))

    @override
    def __str__(self) -> str:
        return f"{self.name} {self.operator} {self.limit:.12g}"


def parse_bound(text: str, option: str) -> Bound:
    """A bound such as 'influence.disclosures.personal <= 0', of the option 'max' for upper or 'min' for lower ones."""
    match = _BOUND.fullmatch(text)
    form = f"--{option} takes QUANTITY.AGGREGATE {' or '.join(_UPPER if option == 'max' else _LOWER)} NUMBER"
    try:
        limit = float(match[3]) if match else math.nan
    except ValueError:
        limit = math.nan
    if match is None or not math.isfinite(limit):
        raise UsageError(f"'{text}' is not a bound; {form}, such as \"{_EXAMPLES[option]}\"")
    bound = Bound(match[1], match[2], limit)
    if bound.is_upper != (option == "max"):
        other = "min" if option == "max" else "max"
        raise UsageError(f"'{text}' has the wrong direction; {form}, or use --{other}")
    return bound


def check_bounds(runs: Sequence[MeasuredCases], bounds: Sequence[Bound], *, confident: bool = False) -> list[Check]:
    """Check each bound in every run that has its quantity.

    Where `confident`, the whole interval has to be within the bound. Extremes, and quantities of a run as a whole, have
    none and are judged by their value; the mean of few cases has none and does not hold. Of some cases only a lower
    bound of a quantity may be known. An aggregate grows with each of its numbers, so that one of lower bounds is a
    lower bound: it may break an upper bound and reach a lower one, and else decides nothing.
    """
    checks = []
    for bound in bounds:
        matches = [(number, run, named) for number, run in enumerate(runs, 1) if (named := run.named(bound.name))]
        if not matches:
            raise unknown_quantity(bound.name, {quantity.name for run in runs for quantity in run.quantities})
        checks += [_check(bound, run, number, *named, confident) for number, run, named in matches]
    return checks


def unknown_quantity(name: str, names: Iterable[str]) -> UsageError:
    return UsageError(f"{UnknownNameError('quantity', name, names)}, and after each of them .{', .'.join(FORMS)}")


def _check(
    bound: Bound, run: MeasuredCases, number: int, quantity: AnyQuantity, named: str | None, confident: bool
) -> Check:
    about = str(bound), number, quantity.name, quantity.about
    if isinstance(quantity, RunQuantity):
        if named is not None:
            raise UsageError(f"{quantity.name} belongs to the run as a whole; leave out '.{named}'")
        observed = quantity.number(run.cases)
        if observed is None:
            raise _no_case_has(quantity, number, run)
        holds = bound.allows(observed.value)
        found = found_text(bound.name, observed)
        sentence = bound_sentence(found, observed, bound.operator, bound.limit, is_within=holds, holds=holds)
        return Check(*about, holds, observed, 0, sentence)
    how = named or quantity.usual
    if how is None:
        some = f"{quantity.name}.{'max' if bound.is_upper else 'min'}"
        raise UsageError(
            f"'{quantity.name}' has one number per case; write {some}, {quantity.name}.p95 …, to name the aggregate: "
            f"{', '.join(FORMS)}"
        )
    values = run.least_values(quantity)
    known_values = values[~np.isnan(values)]
    observed = run.number(quantity, how)
    if observed is None:
        raise _no_case_has(quantity, number, run)
    n_lower = int(run.lower_bounds(quantity).sum())
    # What is known of lower bounds alone is no interval of the true numbers, but may break a bound.
    interval = run.interval(quantity, how)
    is_within = holds = bound.allows(observed.value)
    if confident and how not in EXTREMES:
        holds = holds and interval is not None and bound.allows(interval[1 if bound.is_upper else 0])
    undecided = n_lower > 0 and holds == bound.is_upper
    unknown = ""
    if undecided and quantity.lower_bound is not None:
        unknown = undecided_text(n_lower, quantity.lower_bound.why, quantity.lower_bound.advice)
    if how == "max" and quantity.unit in COUNTED:
        allowed = allowed_text(bound.operator, bound.limit)
        sentence = f"{counted_text(quantity, observed, known_values, allowed)}{f'; {unknown}' if unknown else ''}."
    elif unknown:
        sentence = undecided_sentence(
            found_text(bound.name, observed, how), observed, bound.operator, bound.limit, unknown
        )
    else:
        sentence = bound_sentence(
            found_text(bound.name, observed, how), observed, bound.operator, bound.limit,
            is_within=is_within, holds=holds, has_interval=interval is not None,
        )  # fmt: skip
    n_missing = len(run.cases) - observed.n
    worst = () if holds or undecided else _worst(bound, values, run.ids)
    return Check(*about, holds and not undecided, observed, n_missing, sentence, worst, undecided, n_lower)


def _worst(bound: Bound, values: FloatArray, ids: Sequence[str]) -> tuple[Counterexample, ...]:
    """Cases that break the bound by themselves."""
    order = np.argsort(-values if bound.is_upper else values, kind="stable")[:WORST_AT_MOST]
    return tuple(
        Counterexample(int(i) + 1, float(values[i]), ids[i])
        for i in order
        if not np.isnan(values[i]) and not bound.allows(values[i])
    )


def _no_case_has(quantity: AnyQuantity, number: int, run: MeasuredCases) -> UsageError:
    return UsageError(
        f"none of the {len(run.cases)} cases of run {number} has {quantity.name}, so the bound cannot be checked"
    )
