"""Baselines: what is kept of a run, what not, and runs held against it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from helpers.measured_runs import run
from leakmeter.core.quantity import Check, Counterexample
from leakmeter.errors import DataError, UsageError
from leakmeter.products.gate.baseline import Baseline, Held, baseline_of, hold_against, left_out_lines, read_baseline
from leakmeter.products.gate.compare import HIDDEN, ChangedSetting
from leakmeter.results.results import MeasuredCases

KEY, OTHER_KEY = b"k" * 32, b"o" * 32
LEAKS = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def written(*runs: MeasuredCases, names: tuple[str, ...] = ("leak",), key: bytes = KEY) -> str:
    return json.dumps(baseline_of(runs, names, key).to_dict(), ensure_ascii=False, allow_nan=False)


def kept(*runs: MeasuredCases, **how: Any) -> Baseline:
    """As it comes back from a file."""
    return Baseline.from_dict(json.loads(written(*runs, **how), parse_int=float))


def check_of(now: MeasuredCases, then: MeasuredCases, **how: Any) -> Check:
    (check,) = held(now, then, **how).checks
    return check


def held(now: MeasuredCases, then: MeasuredCases, *, key: bytes = KEY, **how: Any) -> Held:
    return hold_against(now, 1, kept(then, **how), key)


def moved_by(*amounts: float) -> list[float]:
    return [leak + amount for leak, amount in zip(LEAKS, amounts, strict=True)]


def test_an_unchanged_run_is_no_worse_for_all_that_was_rounded() -> None:
    leaks = [math.pi * 10**n for n in range(-6, 6)]
    check = check_of(run(leaks), run(leaks))
    assert check.holds
    assert 0.0 != check.found.value == pytest.approx(0.0, abs=5e-4 * sum(leaks) / len(leaks))


def test_worse_beyond_its_interval_is_broken() -> None:
    check = check_of(run(moved_by(1, 0.5, 2, 1.5, 0.5, 1)), run(LEAKS))
    assert (check.claim, check.quantity, check.holds) == ("leak is not worse than the baseline", "leak", False)
    assert (check.found.value, check.found.n) == (pytest.approx(6.5 / 6, rel=1e-12), 6)
    assert check.worst[:2] == (Counterexample(3, 2.0, "case 2"), Counterexample(4, 1.5, "case 3"))
    assert check.explained.startswith(
        "leak went from 3.50 to 4.58 on average, by 1.08 (0.50 to 2.00) nats over 6 cases, too few"
    )
    assert check.explained.endswith("worse by more than chance and noise allow.")


def test_of_many_pairs_the_interval_decides_and_of_few_all_have_to_be_worse() -> None:
    now = [leak + amount for leak, amount in zip(LEAKS * 2, (1, 0.5, 2, 1.5, 0.5, -0.25) * 2, strict=True)]
    many = check_of(run(now), run(LEAKS * 2))
    assert not many.holds
    assert many.found.interval is not None
    assert check_of(run(now[:6]), run(LEAKS)).holds
    assert not check_of(run(now[:5]), run(LEAKS[:5])).holds


@pytest.mark.parametrize("amounts", [(1, -1, 1, -1, 1, -0.5), (-1, -1, -1, -1, -1, -1)])
def test_within_its_interval_and_better_hold(amounts: tuple[float, ...]) -> None:
    check = check_of(run(moved_by(*amounts)), run(LEAKS))
    assert (check.holds, check.worst) == (True, ())
    assert check.explained.endswith("no worse than chance and noise allow.")


def test_noise_is_no_regression_and_less_is_worse_where_the_quantity_says_so() -> None:
    worse = moved_by(1, 1, 1, 1, 1, 1)
    assert check_of(run(worse, floor=0.6), run(LEAKS, floor=0.6)).holds
    assert not check_of(run(worse, floor=0.3), run(LEAKS, floor=0.3)).holds
    # Of one case the floor alone decides.
    assert not check_of(run([3.0]), run([2.0])).holds
    assert check_of(run([3.0], floor=0.6), run([2.0], floor=0.6)).holds
    right, wrong = (run(LEAKS, right=[value] * 6) for value in (1.0, 0.0))
    assert not check_of(wrong, right, names=("leak.right",)).holds
    assert check_of(right, wrong, names=("leak.right",)).holds


def test_infinite_now_is_enough_and_infinite_then_is_no_regression() -> None:
    check = check_of(run([*LEAKS[:5], math.inf]), run(LEAKS))
    assert (check.holds, check.worst) == (False, (Counterexample(6, math.inf, "case 5"),))
    assert check_of(run(LEAKS), run([*LEAKS[:5], math.inf])).holds
    assert check_of(run([math.inf, 1.0]), run([math.inf, 1.0])).holds
    assert not check_of(run([math.inf, 1.0]), run([1.0, math.inf])).holds


def test_missing_is_missing() -> None:
    check = check_of(run([None, 2.0, 3.0]), run([1.0, None, 3.0]))
    assert (check.found.n, check.n_missing) == (1, 2)
    with pytest.raises(UsageError, match="no case of run 1 has leak now and in the baseline"):
        held(run([None, 2.0]), run([1.0, None]))


def test_cases_are_paired_by_id_and_told_where_they_come_and_go() -> None:
    now = run([9.0, 3.0, 1.0], ids=["new", "c", "a"])
    found = held(now, run([1.0, 2.0, 3.0], ids=["a", "b", "c"]))
    assert (found.by_order, found.n_only_now, found.n_only_then) == (False, 1, 1)
    assert found.checks[0].found.value == 0.0
    with pytest.raises(UsageError, match="no case of the run is in the baseline"):
        held(run([1.0], ids=["x"]), run([1.0], ids=["y"]))


def test_with_another_key_cases_are_paired_by_their_order() -> None:
    then = run(LEAKS, ids=list("abcdef"))
    found = held(run(LEAKS, ids=list("uvwxyz")), then, key=OTHER_KEY)
    assert found.by_order
    assert found.checks[0].holds
    with pytest.raises(UsageError, match="the baseline has 6 cases and the run 2; their ids were hashed with another"):
        held(run([1.0, 2.0]), then, key=OTHER_KEY)


def test_other_settings_are_told_not_hidden() -> None:
    then = run(LEAKS)
    assert held(run(LEAKS), then).settings == ()
    found = held(run(LEAKS, dtype="float32", temperature=0.5, seed=9, template="my own words"), then)
    assert found.settings == (
        ChangedSetting("model.dtype", "float64", "float32"),
        ChangedSetting("params.seed", HIDDEN, HIDDEN),
        ChangedSetting("params.temperature", 1.0, 0.5),
        ChangedSetting("prompts.template", "plain", HIDDEN),
    )
    assert found.n_unknown_settings == 0
    # With another key two hashes say nothing.
    unknown = held(run(LEAKS, seed=9, dtype="float32"), then, key=OTHER_KEY)
    assert unknown.settings == (ChangedSetting("model.dtype", "float64", "float32"),)
    assert unknown.n_unknown_settings == 1


def test_nothing_of_texts_ids_paths_or_seeds_is_in_it() -> None:
    ids = ["Anna Ek, 555-010-7788", "Bo"]
    some = run([1 / 3, math.inf], ids=ids, seed=271828, template="Say of Anna: {}", texts="Anna lives in Graz")
    text = written(some)
    for private in ("Anna", "555", "Bo", "271828", "Graz", "3333333"):
        assert private not in text
    assert "0.3333" in text
    other = written(some, key=OTHER_KEY)
    assert not set(json.loads(text)["runs"][0]["cases"]) & set(json.loads(other)["runs"][0]["cases"])


def test_what_is_kept(tmp_path: Path) -> None:
    # Nothing says how sure a run as a whole is.
    for names, expected in (
        ((), ["leak"]),
        (("leak.right",), ["leak.right"]),
        (("leak.right", "leak"), ["leak", "leak.right"]),
        (("leak.whole",), ["leak"]),
    ):
        assert list(kept(run(LEAKS, right=[1.0] * 6), names=names).runs[0].quantities) == expected
    told = json.loads(written(run([1.0, None, math.inf, -math.inf]), names=()))
    path = tmp_path / "baseline.json"
    path.write_text(json.dumps(told), encoding="utf-8")
    assert read_baseline(path).to_dict() == told
    assert told["runs"][0]["quantities"]["leak"]["values"] == [1.0, None, "inf", "-inf"]
    gone = Baseline.from_dict(json.loads(written(run(LEAKS)).replace('"leak": {', '"gone": {'), parse_int=float))
    with pytest.raises(UsageError, match="the baseline has a quantity that leak does not have"):
        hold_against(run(LEAKS), 1, gone, KEY)


def test_runs_are_held_against_those_of_the_same_place() -> None:
    told = kept(run([1.0, 2.0]), run([5.0, 6.0]))
    assert not hold_against(run([5.0, 6.0]), 1, told, KEY).checks[0].holds
    assert hold_against(run([5.0, 6.0]), 2, told, KEY).checks[0].holds
    with pytest.raises(UsageError, match="run 3 is a run of leak, and the baseline has leak, leak, in this order"):
        hold_against(run([5.0]), 3, told, KEY)
    with pytest.raises(UsageError, match="run 1 is a run of lake, and the baseline has leak, leak"):
        hold_against(run([5.0], measure="lake"), 1, told, KEY)


def _hostile(**changes: Any) -> str:
    told = json.loads(written(run([1.0, 2.0]), names=()))
    told["runs"][0] |= changes
    return json.dumps(told)


def test_what_is_no_baseline_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    refused = r"^(baseline '.*' cannot be read: it is not JSON|'.*' is not a baseline of .*)$"
    no_quantities: list[Any] = [None, {}, {"values": 5}, {"values": [1.0]}]
    no_quantities += [{"values": [1.0, bad]} for bad in ("5", True, [], {}, "nan")]
    no_quantities += [{"values": [1.0, 2.0], "noise_floor": "much"}]
    for text in (
        *("", "[]", "{}", "null", "7", '{"leakmeter_baseline": 2, "key": "a", "runs": []}', "[" * 100_000),
        *('{"leakmeter_baseline": 1}', '{"leakmeter_baseline": 1, "key": 5, "runs": []}', '{"a": NaN}'),
        *(_hostile(cases=bad) for bad in ("ab", ["a"], ["a", "a"], [{}, []])),
        *(_hostile(measure=None), _hostile(settings=[]), _hostile(quantities=[])),
        *(_hostile(quantities={"leak": bad}) for bad in no_quantities),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match=refused):
            read_baseline(path)
    # Numbers of a thousand digits and no floor do no harm.
    path.write_text(_hostile(quantities={"leak": {"values": [1.0, 10**1000]}}), encoding="utf-8")
    assert hold_against(run([1.0, 2.0]), 1, read_baseline(path), KEY).checks[0].holds
    for name, why in (("none.json", "there is no baseline"), (".", "is a directory; give a file")):
        with pytest.raises(DataError, match=why):
            read_baseline(tmp_path / name)


def test_a_lower_bound_is_left_out_and_counted() -> None:
    """Now and then; 100 more would be worse by far."""
    worse = [*LEAKS[:-1], LEAKS[-1] + 100.0]
    check = check_of(run(worse, least=[5]), run(LEAKS))
    assert (check.holds, check.found.n, check.n_missing, check.n_lower_bounds) == (True, 5, 0, 1)
    assert check.explained.endswith("allow. 1 case is left out: only a lower bound is known (not all was scored).")
    check = check_of(run(worse), run(LEAKS, least=[5]))
    assert (check.holds, check.found.n, check.n_missing) == (True, 5, 1)
    assert left_out_lines(run(LEAKS, least=[0, 1]), {"leak"}) == [
        "leak: 2 cases are left out: only a lower bound is known (not all was scored)"
    ]
    with pytest.raises(UsageError, match=r"6 cases are left out: only a lower bound is known .*; score all$"):
        held(run(LEAKS, least=range(6)), run(LEAKS))
