"""A run's quantities in a small file that may be committed, and a later run held against it.

    {"leakmeter_baseline": 1, "key": …, "runs": [{"measure": …, "settings": …, "cases": […], "quantities": {…}}]}

It holds no text, no id and no seed. Cases stand in it under keyed hashes (`storage.pseudonym`): the key is the user's
own, so that nobody else can try out what the ids might be. Where the key is another, as on a machine that checks a
repository, cases are paired by their order. Settings that are no plain word or number are hashed so too.

Numbers have four significant digits. Each is made of a private text all the same: who has the model, and guesses a
whole text, can see whether his guess gives the same number.
"""

from __future__ import annotations

import json
import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from leakmeter.core.files import check_readable
from leakmeter.core.plain import excerpt
from leakmeter.core.quantity import Check, Counterexample, Number, Quantity
from leakmeter.core.record import JsonObject
from leakmeter.engine.storage.pseudonym import pseudonym
from leakmeter.engine.storage.spec import is_word
from leakmeter.errors import DataError, UsageError
from leakmeter.products.gate.bounds import WORST_AT_MOST
from leakmeter.products.gate.compare import HIDDEN, ChangedSetting, differing, incomparable, is_seed
from leakmeter.products.gate.gate_words import left_out_sentence, regression_sentence, setting_line
from leakmeter.results.results import MeasuredCases, case_quantities
from leakmeter.stats.aggregates import aggregate
from leakmeter.stats.arrays import FloatArray, IntArray
from leakmeter.stats.ranks import paired_difference
from leakmeter.stats.stats import FEWEST_FOR_INTERVAL

_T = TypeVar("_T")
_VERSION: Final = 1
_DIGITS: Final = 4
_ROUNDING: Final = 0.5 * 10.0 ** (1 - _DIGITS)
"""Largest share of a number that rounding takes or adds."""
_HASHED: Final = "hashed:"


@dataclass(frozen=True, slots=True)
class Held:
    """A run's comparison with its baseline."""

    checks: tuple[Check, ...]
    settings: tuple[ChangedSetting, ...]
    """Those that differ from the baseline's."""
    n_unknown_settings: int
    """Settings that cannot be compared, since they were hashed with another key."""
    by_order: bool
    """Whether cases were paired by their order rather than by their ids."""
    n_only_now: int
    n_only_then: int


@dataclass(frozen=True, slots=True)
class KeptQuantity:
    """A quantity of a run's cases, in four significant digits."""

    unit: str
    values: tuple[float, ...]
    """Of each case; NaN where it has none."""
    noise_floor: float


@dataclass(frozen=True, slots=True)
class KeptRun:
    measure: str
    settings: Mapping[str, object]
    """By dotted names; see `_plain_settings`."""
    cases: tuple[str, ...]
    """Keyed hashes of their ids."""
    quantities: Mapping[str, KeptQuantity]


@dataclass(frozen=True, slots=True)
class Baseline:
    """Runs, in the order in which others are held against them."""

    key: str
    """A hash that shows whether two keys are the same."""
    runs: tuple[KeptRun, ...]

    def to_dict(self) -> JsonObject:
        runs = [
            {
                "measure": run.measure,
                "settings": dict(run.settings),
                "cases": list(run.cases),
                "quantities": {
                    name: {
                        "unit": kept.unit,
                        "values": [_spelled(value) for value in kept.values],
                        "noise_floor": _spelled(kept.noise_floor),
                    }
                    for name, kept in run.quantities.items()
                },
            }
            for run in self.runs
        ]
        return {"leakmeter_baseline": _VERSION, "key": self.key, "runs": runs}

    @classmethod
    def from_dict(cls, record: object) -> Baseline:
        """What `to_dict` made; `ValueError` of anything else."""
        whole = _checked(record, dict)
        if whole.get("leakmeter_baseline") != _VERSION:
            raise ValueError("another version")
        runs = (_read_run(_checked(run, dict)) for run in _checked(whole.get("runs"), list))
        return cls(_checked(whole.get("key"), str), tuple(runs))


def _read_run(record: JsonObject) -> KeptRun:
    measure = _checked(record.get("measure"), str)
    # Messages repeat it, and must not repeat a text of whoever forged the file.
    if not is_word(measure):
        raise ValueError("not the name of a measure")
    cases = tuple(_checked(case, str) for case in _checked(record.get("cases"), list))
    quantities = {}
    for name, value in _checked(record.get("quantities"), dict).items():
        quantity = _checked(value, dict)
        floor = quantity.get("noise_floor")
        values = tuple(map(_number, _checked(quantity.get("values"), list)))
        if len(values) != len(cases):
            raise ValueError("another number of values than of cases")
        quantities[name] = KeptQuantity(str(quantity.get("unit", "")), values, 0.0 if floor is None else _number(floor))
    if len(set(cases)) < len(cases):
        raise ValueError("cases without distinct ids")
    return KeptRun(measure, _checked(record.get("settings"), dict), cases, quantities)


def baseline_of(runs: Sequence[MeasuredCases], names: Container[str], key: bytes) -> Baseline:
    """A baseline of the quantities in `names`; of a run that has none of these, of its main one."""
    kept_runs = []
    for run in runs:
        # Quantities of a run as a whole have no interval, and no baseline.
        of_cases = case_quantities(run)
        quantities = {
            quantity.name: KeptQuantity(
                quantity.unit,
                tuple(_rounded(value) for value in run.values(quantity).tolist()),
                _rounded(run.floor(quantity, range(len(run.cases)))),
            )
            for quantity in [quantity for quantity in of_cases if quantity.name in names] or of_cases[:1]
        }
        cases = tuple(pseudonym(key, "baseline", id_) for id_ in run.ids)
        kept_runs.append(KeptRun(run.measure, _plain_settings(run, key), cases, quantities))
    return Baseline(_key_name(key), tuple(kept_runs))


def left_out_lines(run: MeasuredCases, names: Container[str]) -> list[str]:
    return [
        f"{quantity.name}: {left_out_sentence(n_lower, 'case', quantity.lower_bound.why)}"
        for quantity in case_quantities(run)
        if quantity.name in names
        and quantity.lower_bound is not None
        and (n_lower := int(run.lower_bounds(quantity).sum()))
    ]


def read_baseline(path: Path) -> Baseline:
    if path.exists():
        check_readable(path, "baseline")
    try:
        # Every number a float: one of a thousand digits is infinite then, rather than too large for all that follows.
        record = json.loads(path.read_bytes(), parse_int=float, parse_constant=_refused)
    except FileNotFoundError:
        raise DataError(f"there is no baseline '{path}'; write one with --write-baseline") from None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(
            f"baseline '{path}' cannot be read: {getattr(error, 'strerror', None) or 'it is not JSON'}"
        ) from None
    try:
        return Baseline.from_dict(record)
    except ValueError:
        raise DataError(
            f"'{path}' is not a baseline of this version of leakmeter; write one with --write-baseline"
        ) from None


def _refused(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def _checked(value: object, kind: type[_T]) -> _T:
    if not isinstance(value, kind):
        raise ValueError(f"a {type(value).__name__} in the place of a {kind.__name__}")
    return value


def hold_against(run: MeasuredCases, number: int, baseline: Baseline, key: bytes) -> Held:
    """Check a run, by its number from 1, against its baseline.

    A quantity is worse where the mean of now − then over pairs of cases is on its worse side by more than its 95 %
    interval and the noise floor; of few pairs, which have no interval, all have to be worse. A case that was finite and
    is infinitely bad now is enough.
    """
    if number > len(baseline.runs) or baseline.runs[number - 1].measure != run.measure:
        measures = excerpt(", ".join(baseline_run.measure for baseline_run in baseline.runs), 100) or "nothing"
        raise UsageError(
            f"run {number} is a run of {run.measure}, and the baseline has {measures}, in this order; give the same "
            "measures in the same order, or write another baseline"
        )
    before = baseline.runs[number - 1]
    by_order = baseline.key != _key_name(key)
    own = _plain_settings(run, key)
    unknown = {name for name in own if by_order and _is_hashed(own[name]) and _is_hashed(before.settings.get(name))}
    then = dict(before.settings)
    changed = [setting for setting in differing(then, own) if setting.name not in unknown]
    settings = [
        ChangedSetting(
            setting.name, *(HIDDEN if _is_hashed(value) else value for value in (setting.first, setting.second))
        )
        for setting in changed
    ]
    if clashes := incomparable(settings, then, own, run.defining):
        text = "; ".join(setting_line(setting.name, setting.first, setting.second) for setting in clashes)
        raise UsageError(
            f"run {number} and the baseline have numbers that mean different things ({text}); measure with the "
            "baseline's settings, or write another with --write-baseline"
        )
    pairs = _pairs(run, before.cases, key, by_order)
    quantities = {quantity.name: quantity for quantity in case_quantities(run)}
    checks = []
    for name, kept in before.quantities.items():
        if name not in quantities:
            raise UsageError(f"the baseline has a quantity that {run.measure} does not have; write another baseline")
        checks.append(_regression(run, number, quantities[name], kept, pairs))
    only_now, only_then = len(run.cases) - len(pairs), len(before.cases) - len(pairs)
    return Held(tuple(checks), tuple(settings), len(unknown), by_order, only_now, only_then)


def _pairs(run: MeasuredCases, cases: Sequence[str], key: bytes, by_order: bool) -> list[tuple[int, int]]:
    """Numbers of cases now and then, from 0."""
    if by_order:
        if len(cases) != len(run.cases):
            raise UsageError(
                f"the baseline has {len(cases)} cases and the run {len(run.cases)}; their ids were hashed with "
                "another key, so cases can only be paired by order, and their numbers differ; use the baseline's key, "
                "or write another baseline"
            )
        return [(i, i) for i in range(len(cases))]
    place = {hashed: j for j, hashed in enumerate(cases)}
    candidates = [(i, place.get(pseudonym(key, "baseline", id_))) for i, id_ in enumerate(run.ids)]
    pairs = [(i, j) for i, j in candidates if j is not None]
    if not pairs:
        raise UsageError("no case of the run is in the baseline; write another with --write-baseline")
    return pairs


def _regression(
    run: MeasuredCases, number: int, quantity: Quantity, kept: KeptQuantity, pairs: Sequence[tuple[int, int]]
) -> Check:
    then = np.asarray(kept.values)
    values = run.values(quantity)
    both = [(i, j) for i, j in pairs if not np.isnan(values[i]) and not np.isnan(then[j])]
    lower = run.lower_bounds(quantity)
    n_lower = sum(bool(lower[i]) for i, _ in pairs)
    partial = quantity.lower_bound if n_lower else None
    left_out = "" if partial is None else left_out_sentence(n_lower, "case", partial.why)
    if not both:
        advice = "write another baseline" if partial is None else f"{left_out}; {partial.advice}"
        raise UsageError(f"no case of run {number} has {quantity.name} now and in the baseline; {advice}")
    mine, theirs = (np.asarray(side) for side in zip(*both, strict=True))
    difference = paired_difference(values[mine], then[theirs], seed=0, clusters=run.clusters(mine.tolist()))
    finite = then[theirs][np.isfinite(then[theirs])]
    rounding = _ROUNDING * float(np.abs(finite).mean()) if finite.size else 0.0
    floor = run.floor(quantity, mine.tolist()) + kept.noise_floor + rounding
    is_worse = difference.is_above(floor) if quantity.worse == "more" else difference.is_below(floor)
    extremes = (float(difference.differences.min()), float(difference.differences.max()))
    is_few = len(set(run.clusters(mine.tolist()))) < FEWEST_FOR_INTERVAL
    has_extremes = difference.interval is None and len(both) > 1 and is_few
    change = Number(
        *(difference.mean, difference.interval, quantity.unit, len(both)), extremes=extremes if has_extremes else None
    )
    means = (aggregate(side, "mean") for side in (then[theirs], values[mine]))
    sentence = regression_sentence(quantity.name, change, floor, *means, holds=not is_worse)
    return Check(
        f"{quantity.name} is not worse than the baseline",
        number,
        quantity.name,
        quantity.about,
        not is_worse,
        change,
        len(pairs) - len(both) - n_lower,
        " ".join(filter(None, (sentence, left_out and f"{left_out}."))),
        _worst(quantity, mine, difference.differences, floor, run.ids) if is_worse else (),
        n_lower_bounds=n_lower,
    )


def _worst(
    quantity: Quantity, numbers: IntArray, differences: FloatArray, floor: float, ids: Sequence[str]
) -> tuple[Counterexample, ...]:
    wrong = differences if quantity.worse == "more" else -differences
    order = np.argsort(-wrong, kind="stable")[:WORST_AT_MOST]
    return tuple(
        Counterexample(int(numbers[i]) + 1, float(differences[i]), ids[int(numbers[i])])
        for i in order
        if wrong[i] > floor
    )


def _key_name(key: bytes) -> str:
    return pseudonym(key, "baseline key")


def _plain_settings(run: MeasuredCases, key: bytes) -> dict[str, object]:
    """Settings that are a number or one word, as a choice is, as they are, and others hashed."""
    settings: dict[str, object] = {}
    for name, value in run.settings().items():
        is_plain = is_word(value) if isinstance(value, str) else isinstance(value, int | float) and math.isfinite(value)
        settings[name] = value
        if value is not None and (is_seed(name) or not is_plain):
            settings[name] = _HASHED + pseudonym(key, "baseline setting", name, json.dumps(value, sort_keys=True))
    return settings


def _is_hashed(value: object) -> bool:
    return isinstance(value, str) and value.startswith(_HASHED)


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _spelled(value: float) -> float | str | None:
    """JSON has no words for infinity and for what is missing."""
    return None if math.isnan(value) else str(value) if math.isinf(value) else value


def _number(value: object) -> float:
    if isinstance(value, float) or (isinstance(value, str) and value in ("inf", "-inf")):
        return float(value)
    if value is not None:
        raise ValueError("neither a number nor infinite nor missing")
    return math.nan
