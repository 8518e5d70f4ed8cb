"""A run's quantities in a small file that may be committed, and a later run held against it.

    {"leakmeter_baseline": 1, "key": …, "runs": [{"measure": …, "settings": …, "cases": […], "quantities": {…}}]}

It holds no text, no id and no seed. Cases stand in it under keyed hashes (`runs.pseudonym`): the key is the user's
own, so that nobody else can try out what the ids might be. Where the key is another, as on a machine that checks a
repository, cases are paired by their order. Settings that are no plain word or number are hashed so too.

Numbers have four significant digits. Each is made of a private text all the same: who has the model, and guesses a
whole text, can see whether his guess gives the same number.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from leakmeter.core.check import Check, Item, Number
from leakmeter.core.files import check_readable
from leakmeter.core.quantity import Quantity
from leakmeter.errors import DataError, UsageError
from leakmeter.report.shade import excerpt
from leakmeter.runs.bounds import WORST_AT_MOST
from leakmeter.runs.compare import HIDDEN, Setting, differing, is_seed
from leakmeter.runs.gate_words import regression_sentence
from leakmeter.runs.measured import Measured, case_quantities
from leakmeter.runs.pseudonym import pseudonym
from leakmeter.stats.aggregates import aggregate
from leakmeter.stats.paired_difference import paired_difference
from leakmeter.stats.stats import FloatArray

_VERSION: Final = 1
_DIGITS: Final = 4
_ROUNDING: Final = 0.5 * 10.0 ** (1 - _DIGITS)
"""Largest share of a number that rounding takes or adds."""
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_HASHED: Final = "hashed:"
_INFINITE: Final = ("inf", "-inf")


@dataclass(frozen=True, slots=True)
class Held:
    """What a run was held against."""

    checks: tuple[Check, ...]
    settings: tuple[Setting, ...]
    """What was set otherwise than in the baseline; None where the baseline, or the run, does not have it."""
    n_unknown_settings: int
    """Settings of which nothing can be said, since they were hashed with another key."""
    by_order: bool
    """Whether cases were paired by their order rather than by their ids."""
    n_only_now: int
    n_only_then: int


def baseline_of(runs: Sequence[Measured], names: Container[str], key: bytes) -> dict[str, Any]:
    """Runs to what is kept of them.

    Args:
        runs: in the order in which they will be held against it.
        names: of quantities of cases; of a run that has none of them its main one is kept.
        key: of the user.
    """
    return {
        "leakmeter_baseline": _VERSION,
        "key": _key_name(key),
        "runs": [
            {
                "measure": run.measure,
                "settings": {name: _plain(name, value, key) for name, value in run.settings().items()},
                "cases": [pseudonym(key, "baseline", id_) for id_ in run.ids],
                "quantities": {
                    one.name: {
                        "unit": one.unit,
                        "values": [_rounded(value) for value in run.values(one)],
                        "noise_floor": _rounded(run.floor(one, range(len(run.cases)))),
                    }
                    for one in _kept(run, names)
                },
            }
            for run in runs
        ],
    }


def _kept(run: Measured, names: Container[str]) -> list[Quantity]:
    """Quantities of cases; those of a run as a whole have no interval, and no baseline."""
    of_cases = case_quantities(run)
    return [one for one in of_cases if one.name in names] or of_cases[:1]


def read_baseline(path: Path) -> dict[str, Any]:
    """What `baseline_of` made, from a file.

    Raises:
        DataError: there is no such file, or it is no baseline.
    """
    if path.exists():
        check_readable(path, "baseline")
    try:
        # Every number a float: one of a thousand digits is infinite then, rather than too large for all that follows.
        told = json.loads(path.read_bytes(), parse_int=float, parse_constant=_refused)
    except FileNotFoundError:
        raise DataError(f"there is no baseline '{path}'; write one with --write-baseline") from None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"baseline '{path}' cannot be read: {getattr(error, 'strerror', None) or 'no JSON'}") from None
    if not isinstance(told, dict) or told.get("leakmeter_baseline") != _VERSION or not _is_whole(told):
        raise DataError(f"'{path}' is no baseline as this version of leakmeter writes it; --write-baseline writes one")
    return told


def _refused(constant: str) -> float:
    raise ValueError(f"{constant} is no JSON")


def _is_whole(told: Mapping[str, Any]) -> bool:
    """Whether everything that is read from a baseline is there, and what it should be."""
    if not isinstance(told.get("key"), str) or not isinstance(told.get("runs"), list):
        return False
    for run in told["runs"]:
        if not isinstance(run, dict) or not isinstance(run.get("measure"), str):
            return False
        cases, settings, quantities = (run.get(name) for name in ("cases", "settings", "quantities"))
        if not (isinstance(cases, list) and isinstance(settings, dict) and isinstance(quantities, dict)):
            return False
        if not all(isinstance(case, str) for case in cases) or len(set(cases)) < len(cases):
            return False
        if not all(_is_series(one, len(cases)) for one in quantities.values()):
            return False
    return True


def _is_series(one: Any, n: int) -> bool:
    if not isinstance(one, dict) or not isinstance(one.get("values"), list) or len(one["values"]) != n:
        return False
    return all(
        value is None or isinstance(value, float) or (isinstance(value, str) and value in _INFINITE)
        for value in (*one["values"], one.get("noise_floor"))
    )


def hold_against(run: Measured, number: int, told: Mapping[str, Any], key: bytes, *, seed: int = 0) -> Held:
    """Hold a run against its baseline.

    A quantity is worse where the mean of now − then over pairs of cases is on its worse side by more than its 95 %
    interval and the noise floor; of one pair there is no interval, and the noise floor alone decides. A case that was
    finite and is infinitely bad now is enough.

    Args:
        run: now.
        number: of the run, from 1.
        told: a baseline; see `read_baseline`.
        key: of the user.
        seed: of the bootstrap.

    Raises:
        UsageError: the baseline has no such run, or no case of it can be paired.
    """
    if number > len(told["runs"]) or told["runs"][number - 1]["measure"] != run.measure:
        measures = excerpt(", ".join(one["measure"] for one in told["runs"]), 100) or "nothing"
        raise UsageError(
            f"run {number} is of {run.measure}, and the baseline is of {measures}, in this order; give runs as it was "
            "written of, or write another"
        )
    before = told["runs"][number - 1]
    by_order = told["key"] != _key_name(key)
    pairs = _pairs(run, before["cases"], key, by_order)
    checks = []
    for name, kept in before["quantities"].items():
        quantity = next((one for one in case_quantities(run) if one.name == name), None)
        if quantity is None:
            raise UsageError(f"the baseline has a quantity that {run.measure} does not have; write another baseline")
        checks.append(_regression(run, number, quantity, kept, pairs, seed))
    now = {name: _plain(name, value, key) for name, value in run.settings().items()}
    unknown = {name for name in now if by_order and _is_hashed(now[name]) and _is_hashed(before["settings"].get(name))}
    settings = [
        Setting(one.name, _shown(one.first), _shown(one.second))
        for one in differing(before["settings"], now)
        if one.name not in unknown
    ]
    only_now, only_then = len(run.cases) - len(pairs), len(before["cases"]) - len(pairs)
    return Held(tuple(checks), tuple(settings), len(unknown), by_order, only_now, only_then)


def _pairs(run: Measured, cases: Sequence[str], key: bytes, by_order: bool) -> list[tuple[int, int]]:
    """Numbers of cases now and then, from 0."""
    if by_order:
        if len(cases) != len(run.cases):
            raise UsageError(
                f"the baseline has {len(cases)} cases and the run {len(run.cases)}; their ids were hashed with another "
                "key, and by their order only as many can be paired: bring the key along, or write another baseline"
            )
        return [(i, i) for i in range(len(cases))]
    place = {hashed: j for j, hashed in enumerate(cases)}
    found = [(i, place.get(pseudonym(key, "baseline", id_))) for i, id_ in enumerate(run.ids)]
    pairs = [(i, j) for i, j in found if j is not None]
    if not pairs:
        raise UsageError("no case of the run is in the baseline; write another with --write-baseline")
    return pairs


def _regression(
    run: Measured, number: int, quantity: Quantity, kept: Mapping[str, Any], pairs: Sequence[tuple[int, int]], seed: int
) -> Check:
    then = np.asarray([_number(value) for value in kept["values"]])
    now = run.values(quantity)
    both = [(i, j) for i, j in pairs if not np.isnan(now[i]) and not np.isnan(then[j])]
    if not both:
        raise UsageError(f"no case of run {number} has {quantity.name} now and in the baseline; write another baseline")
    mine, theirs = (np.asarray(of) for of in zip(*both, strict=True))
    difference = paired_difference(now[mine], then[theirs], seed=seed)
    finite = then[theirs][np.isfinite(then[theirs])]
    rounding = _ROUNDING * float(np.abs(finite).mean()) if finite.size else 0.0
    floor = run.floor(quantity, mine.tolist()) + float(kept.get("noise_floor") or 0.0) + rounding
    is_worse = difference.is_above(floor) if quantity.worse == "more" else difference.is_below(floor)
    found = Number(difference.mean, difference.interval, quantity.unit, len(both))
    means = (aggregate(of, "mean") for of in (then[theirs], now[mine]))
    return Check(
        f"{quantity.name} is no worse than the baseline",
        number,
        quantity.name,
        quantity.about,
        not is_worse,
        found,
        len(pairs) - len(both),
        regression_sentence(quantity.name, found, floor, *means, holds=not is_worse),
        _worst(quantity, mine, difference.differences, floor) if is_worse else (),
    )


def _worst(quantity: Quantity, numbers: Any, differences: FloatArray, floor: float) -> tuple[Item, ...]:
    """Cases that went furthest the wrong way."""
    wrong = differences if quantity.worse == "more" else -differences
    order = np.argsort(-wrong, kind="stable")[:WORST_AT_MOST]
    return tuple(Item(int(numbers[i]) + 1, float(differences[i])) for i in order if wrong[i] > floor)


def _key_name(key: bytes) -> str:
    """What tells whether two keys are the same, and nothing else of them."""
    return pseudonym(key, "baseline key")


def _plain(name: str, value: Any, key: bytes) -> Any:
    """A setting as it is where it is a number or a word, which a choice is; else its hash."""
    is_word = isinstance(value, str) and _WORD.fullmatch(value) is not None
    is_number = isinstance(value, int | float) and math.isfinite(value)
    if value is None or ((is_word or is_number) and not is_seed(name)):
        return value
    return _HASHED + pseudonym(key, "baseline setting", name, json.dumps(value, sort_keys=True))


def _shown(value: Any) -> Any:
    return HIDDEN if _is_hashed(value) else value


def _is_hashed(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(_HASHED)


def _rounded(value: float) -> float | str | None:
    """Four significant digits; JSON has no words for infinity and for what is missing."""
    if np.isnan(value):
        return None
    return str(float(value)) if np.isinf(value) else float(f"{value:.{_DIGITS}g}")


def _number(value: float | str | None) -> float:
    return np.nan if value is None else float(value)
