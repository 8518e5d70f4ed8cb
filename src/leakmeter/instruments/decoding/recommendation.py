"""Which setting of a sweep to ship: the knee of utility over leakage where there is one, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from leakmeter.core.request import FloatArray
from leakmeter.stats.frontier import NO_KNEE, KneeShares, efficient, gains_beyond_chance, knee_shares, knees
from leakmeter.studies.kind import Row
from leakmeter.studies.tables import HEADINGS, SYMBOLS, share_text

Verdict = Literal["knee", "no knee", "same utility", "same leakage", "one case", "one setting"]
_SETTLED: Final = 0.5  # of the resamples: below it, another setting or none is as likely


@dataclass(frozen=True, slots=True)
class Evidence:
    """A quantity of every case under every setting, and its means over resamples of the cases."""

    values: FloatArray
    """(case, setting)"""
    resampled: FloatArray
    """(resample, setting)"""

    @property
    def means(self) -> FloatArray:
        """Of each setting over the cases, (setting,)."""
        averages: FloatArray = self.values.mean(axis=0)
        return averages


@dataclass(frozen=True, slots=True)
class Choice:
    """Which setting to ship, by number, and why."""

    verdict: Verdict
    ship: int | None
    """The knee; without one the least leaking setting where nothing speaks for another, or None."""
    least: int
    """The setting that leaks least; of several the most useful."""
    best: int
    """The most useful setting; of several the one that leaks least."""
    efficient: tuple[int, ...]
    """Settings on the upper concave hull, from `least` to `best`."""
    shares: KneeShares | None
    """Where the knee lies in resamples; None for one case or one setting."""

    @property
    def is_settled(self) -> bool:
        """Whether there is a knee, and it is the knee in half of the resamples or more."""
        if self.verdict != "knee" or self.ship is None or self.shares is None:
            return False
        return self.shares.of_setting[self.ship] >= _SETTLED


def choose(leakage: Evidence, utility: Evidence) -> Choice:
    """Weigh leakage against utility.

    There is a knee only if some setting is more useful than the least leaking one by more than chance, and some leaks
    more by more than chance; else the knee would be one of noise.
    """
    leaks, uses = leakage.means, utility.means
    hull = efficient(leaks, uses)
    n_cases, n_settings = leakage.values.shape
    knee = int(knees(leaks, uses))
    shares = None if n_cases == 1 or n_settings == 1 else knee_shares(leakage.resampled, utility.resampled)

    def found(verdict: Verdict, ship: int | None) -> Choice:
        return Choice(verdict, ship, hull[0], hull[-1], tuple(hull), shares)

    if n_settings == 1:
        return found("one setting", None)
    if n_cases == 1:
        return found("one case", None)
    if not gains_beyond_chance(leaks, leakage.resampled, hull[0]):
        return found("same leakage", None)
    if not gains_beyond_chance(uses, utility.resampled, hull[0]):
        return found("same utility", hull[0])
    return found("no knee", None) if knee == NO_KNEE else found("knee", knee)


def sentence(choice: Choice, utility: str, kind: str, rows: Sequence[Row], n_cases: int) -> str:
    what = HEADINGS[utility]
    names = [f"{SYMBOLS[kind]} = {row[kind]:g}" for row in rows]
    best, least = names[choice.best], names[choice.least]
    if choice.verdict == "one setting":
        return f"{what}: one setting has nothing to be compared with; sweep several."
    if choice.verdict == "one case":
        return f"{what}: one case has no interval and speaks for no other; give more cases."
    if choice.verdict == "same leakage":
        return (
            f"{what}: no knee: leakage does not differ beyond its interval, so that it separates no settings; "
            f"the most useful was {best}."
        )
    if choice.verdict == "same utility":
        shown = "" if choice.best == choice.least else f" (most: {best}, by {_cost(rows, choice.least, utility)})"
        return (
            f"{what}: no knee: utility does not rise beyond its interval. No setting is more useful than the least "
            f"leaking, {least}, by more than chance{shown}; nothing in {n_cases} cases speaks for leaking more."
        )
    if choice.verdict == "no knee" or choice.ship is None or choice.shares is None:
        return (
            f"{what}: no knee: utility rises from {least} to {best}, and no setting in between gives more of it than "
            f"its share of the leakage; choose by the leakage you can bear. {_leaks(rows[choice.best], best)}."
        )
    share = choice.shares.of_setting[choice.ship]
    ship = names[choice.ship]
    others = sorted(
        (
            (fraction, name)
            for fraction, name in zip(choice.shares.of_setting, names, strict=True)
            if name != ship and fraction > 0.0
        ),
        key=lambda pair: -pair[0],
    )
    if choice.shares.none:
        others.append((choice.shares.none, "none"))
    beside = "; ".join(f"{name}: {share_text(fraction)}" for fraction, name in others[:3])
    sure = f"the knee in {share_text(share)} of resamples of {n_cases} cases{f' ({beside})' if beside else ''}"
    lead = f"ship {ship}, {sure}"
    if not choice.is_settled:
        lead = f"{ship} comes nearest to a knee, but is {sure}, which does not settle it"
    cost = f"it is {_cost(rows, choice.ship, utility)} below the best, {best}"
    return f"{what}: {lead}. {_leaks(rows[choice.ship], ship)}; {cost}."


def _leaks(row: Row, name: str) -> str:
    leakage = f"{name} leaks {row['nats']:.2f} nats a response{_interval(row['nats_low'], row['nats_high'], '.2f')}"
    if "guaranteed_nats_most" in row:
        leakage += f", where at most {row['guaranteed_nats_most']:g} were guaranteed"
    return leakage


def _cost(rows: Sequence[Row], number: int, utility: str) -> str:
    """How far a setting is below the best, in the hundredths that tables show."""
    row, name = rows[number], f"{utility}_less_best"
    low, high = -100.0 * row[f"{name}_high"], -100.0 * row[f"{name}_low"]
    return f"{-100.0 * row[name]:z.1f} points{_interval(low, high, 'z.1f')}"


def _interval(low: float, high: float, form: str) -> str:
    return "" if math.isnan(low) else f" [{low:{form}}, {high:{form}}]"
