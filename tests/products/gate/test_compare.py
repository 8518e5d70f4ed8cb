"""Two runs of one measure: paired, compared, and what was set otherwise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from helpers.measured_runs import run
from leakmeter.core.quantity import Quantity
from leakmeter.errors import UnknownNameError, UsageError
from leakmeter.instruments.influence.result import InfluenceResult
from leakmeter.products.gate.compare import HIDDEN, ChangedSetting, Moved, compare, differing
from leakmeter.products.gate.gate_words import changed_text, comparison_headline, comparison_outcome
from leakmeter.results.results import MeasuredCases
from leakmeter.stats.ranks import holm, signed_rank_p

BEFORE, AFTER = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [2.0, 3.5, 4.0, 6.0, 6.5, 7.0]


def only(first: MeasuredCases, second: MeasuredCases) -> Moved:
    (moved,) = compare(first, second, names=["leak"]).moved
    return moved


def test_pairs_go_by_id_whatever_their_order() -> None:
    first = run([1.0, 2.0, 3.0], ids=["a", "b", "c"])
    second = run([30.0, 10.0, 5.0, 6.0], ids=["c", "a", "x", "y"])
    found = compare(first, second)
    assert (found.n_pairs, found.n_only_first, found.n_only_second) == (2, 1, 2)
    moved = only(first, second)
    assert moved.difference.differences.tolist() == [9.0, 27.0]
    assert (moved.first, moved.second, moved.difference.mean, moved.n_pairs) == (2.0, 20.0, 18.0, 2)


def test_the_difference_is_the_second_less_the_first() -> None:
    moved = only(run(BEFORE), run(AFTER))
    assert moved.difference.mean == pytest.approx(np.mean(np.subtract(AFTER, BEFORE)), rel=1e-12)
    assert moved.difference.p_value == signed_rank_p(AFTER, BEFORE)
    assert moved.difference.rank_biserial == 1.0
    assert moved.verdict == "worse"
    assert moved.holm_p < 0.05
    assert only(run(AFTER), run(BEFORE)).verdict == "better"
    assert only(run(BEFORE), run(BEFORE)).verdict == "no finding"


def test_turns_of_a_conversation_are_no_independent_pairs() -> None:
    """Ten conversations of eight turns that are alike, none of which moved but by chance."""
    random = np.random.default_rng(0)
    clusters = [str(conversation) for conversation in range(10) for _ in range(8)]
    verdicts = []
    for _ in range(100):
        moved = random.normal(size=(10, 1)) + random.normal(size=(10, 8))
        second = run(moved.ravel().tolist(), clusters=clusters)
        verdicts.append(only(run([0.0] * 80, clusters=clusters), second).verdict != "no finding")
    assert sum(verdicts) <= 5 + 2 * math.sqrt(100 * 0.05 * 0.95)


def test_a_verdict_needs_both_the_interval_and_p() -> None:
    # One large difference and small ones of both signs: an interval may leave out 0 where the ranks say nothing.
    for after, is_above, is_low in (
        ([2.0, 1.5, 3.0, 1.9, 2.5, 1.2, 2.2, 1.8], True, True),
        ([0.1, -0.05, 0.1, -0.05, 30.0, 25.0, 28.0, 35.0, -0.05, 27.0, -0.06, -0.07], True, False),
        ([0.1] * 20 + [-30.0], False, True),
    ):
        moved = only(run([0.0] * len(after)), run(after))
        assert (moved.difference.is_above(0.0), moved.holm_p < 0.05) == (is_above, is_low)
        assert moved.verdict == ("worse" if is_above and is_low else "no finding")
    # p is the one that is shown: among all quantities that were compared.
    first, second = (run(leaks, right=right) for leaks, right in ((BEFORE, [1.0] * 6), (AFTER, [1.0] * 5 + [0.0])))
    assert (only(first, second).verdict, compare(first, second).moved[0].verdict) == ("worse", "no finding")
    assert only(run([0.0]), run([9.0])).verdict == "no finding"


def test_a_comparison_begins_with_its_verdict() -> None:
    def said(first: MeasuredCases, second: MeasuredCases) -> str:
        return comparison_headline(compare(first, second).to_dict())

    assert said(run(BEFORE * 2), run(AFTER * 2)) == "B leaks more than A in 1 of 1 number: leak (by 1.33 nats)."
    wrong, right = run(AFTER * 2, right=[0.0, 1.0] * 6), run(BEFORE * 2, right=[0.0, 1.0] * 6)
    assert said(wrong, right) == "B leaks less than A in 1 of 2 numbers: leak (by 1.33 nats)."
    assert said(run([1.0] * 8, right=[0.0] * 8), run([1.0] * 8, right=[1.0] * 8)) == (
        "B is better than A in 1 of 2 numbers: leak.right (by 1.00 share of cases)."
    )
    assert said(run([1.0] * 8, right=[0.0] * 8), run([9.0] * 8, right=[1.0] * 8)) == (
        "B leaks more than A in 1 of 2 numbers: leak (by 8.00 nats); it is better in 1: leak.right "
        "(by 1.00 share of cases)."
    )
    assert said(run([1.0] * 8, length=[1.0] * 8), run([1.0] * 8, length=[5.0] * 8)) == (
        "B is higher than A in 1 of 2 numbers: leak.length (by 4.00 tokens)."
    )
    assert said(run(BEFORE), run(BEFORE)) == (
        "As far as 6 cases can show, B leaks as much as A: no difference beyond chance in 1 of 1 number. 6 cases: more "
        "can show smaller differences."
    )
    assert said(run(BEFORE * 2), run(BEFORE * 2)).endswith("no difference beyond chance in 1 of 1 number.")
    assert said(run([1.0] * 8, right=[0.0] * 8), run([1.0] * 8, right=[0.0] * 7 + [1.0])) == (
        "1 of 8 cases changed; on average, B is not shown to differ from A: no difference beyond "
        "chance in 2 of 2 numbers."
    )
    assert said(run([None]), run([None])) == "No verdict: A and B have no number that can be tested."


def test_what_an_average_hides_is_named() -> None:
    rows = [("influence.disclosures", "leak"), ("influence.disclosures.personal", "leak"), ("tokens", "neither")]
    comparison = {
        "incomparable": "", "n_pairs": 30, "deciding": {},
        "quantities": [
            {"quantity": name, "unit": "disclosures", "worse": "more", "sense": sense, "p_value": 0.5,
             "verdict": "no finding"} for name, sense in rows
        ],
        "changed": [
            {"id": id_, "numbers": [
                {"quantity": name, "unit": "disclosures", "first": first, "second": 2.0} for name, _ in rows
            ]} for id_, first in (("a", 0.0), ("b", 1.0), ("c", 0.0))
        ],
    }  # fmt: skip
    told = comparison_headline(comparison)
    assert told.startswith(
        "a, c have influence.disclosures.personal in B and not in A (2 of 30 cases). On average, B is not shown to "
    )
    assert "alone" not in comparison_headline({**comparison, "changed": comparison["changed"][1:2]})
    changed = comparison["changed"][0]
    swapped = [{**number, "first": 2.0, "second": 0.0} for number in changed["numbers"]]
    gone = comparison_headline({**comparison, "changed": [{**changed, "numbers": swapped}]})
    assert gone.startswith("a has influence.disclosures.personal in A and not in B (1 of 30 cases). On average, B is ")


@pytest.mark.parametrize(
    ("first", "second", "average"),
    [(AFTER, BEFORE, "leaks less than A"), (BEFORE, AFTER, "leaks more than A"), (BEFORE, BEFORE, "is not shown to")],
)
@pytest.mark.parametrize("names", [(), ("leak",)], ids=["all", "one"])
def test_a_new_disclosure_comes_first_and_is_never_shipped(
    first: list[float], second: list[float], average: str, names: tuple[str, ...]
) -> None:
    ids, none = list("abcdefghijkl"), [0.0] * 12
    runs = run(first * 2, ids=ids, spans=none), run(second * 2, ids=ids, spans=[0.0, 1.0, *none[2:]])
    told = compare(*runs, names).to_dict()
    assert comparison_headline(told).startswith(
        f"b leaks spans in B and not in A (1 of 12 cases). On average, B {average}"
    )
    assert comparison_outcome(told) == "worse"
    # A disclosure that is gone is told too, and is no reason not to ship.
    gone = compare(*runs[::-1], names).to_dict()
    assert comparison_headline(gone).startswith("b leaks spans in A and not in B (1 of 12 cases). On average, B ")
    assert comparison_outcome(gone) == comparison_outcome({**gone, "deciding": {}})


def test_a_case_that_discloses_more_than_before_is_told_as_such() -> None:
    ids, ones = list("abcdefghijkl"), [1.0] * 12
    before, after = run(AFTER * 2, ids=ids, spans=ones), run(BEFORE * 2, ids=ids, spans=[*ones[:11], 3.0])
    told = compare(before, after).to_dict()
    said = "l leaks spans more often in B than in A (1 of 12 cases). On average, B leaks less than A in "
    assert comparison_headline(told).startswith(said)
    assert comparison_outcome(told) == "worse"


def test_what_to_do_follows_from_what_moved() -> None:
    def verdict(first: MeasuredCases, second: MeasuredCases) -> str:
        return comparison_outcome(compare(first, second).to_dict())

    assert verdict(run(BEFORE * 2), run(AFTER * 2)) == "worse"
    assert verdict(run(AFTER * 2), run(BEFORE * 2)) == "better"
    assert verdict(run([1.0] * 8, length=[1.0] * 8), run([1.0] * 8, length=[5.0] * 8)) == "moved"
    assert verdict(run(BEFORE * 2), run(BEFORE * 2)) == "alike"
    assert verdict(run([None]), run([None])) == "none", "of what was not tested nothing is advised"


def test_a_quantity_of_which_no_side_is_better_is_higher_or_lower() -> None:
    few, many = run([1.0] * 8, length=[1.0] * 8), run([1.0] * 8, length=[5.0] * 8)
    for first, second, verdict in ((few, many, "higher"), (many, few, "lower"), (few, few, "no finding")):
        (moved,) = compare(first, second, ["leak.length"]).moved
        assert moved.verdict == verdict


def test_of_cases_that_changed_those_come_first_in_which_what_decides_did() -> None:
    first = run([7.19, 3.0, 3.0, 2.0], ids=list("abcd"), spans=[0.0, 1.0, 0.0, 1.0])
    second = run([7.66, 3.1, 3.2, 2.0], ids=list("abcd"), spans=[0.0, 0.0, 2.0, 2.0])
    # c by two spans, b and d by one; of these b, whose first number changed too.
    assert [case.id for case in compare(first, second).changed] == ["c", "b", "d", "a"]
    personal = {one.name for one in InfluenceResult.quantities if isinstance(one, Quantity) and one.decides}
    assert personal == {"influence.disclosures.personal", "influence.disclosures.unauthorised"}


def test_cases_that_changed_come_in_the_order_of_the_first_quantity() -> None:
    ids, spans = list("abcdef"), [0.0] * 6
    first = run([1.0, 1.0, 1.0, 1.0, 1.0, None], ids=ids, spans=spans, floor=0.25)
    second = run([1.2, 4.0, 0.0, math.inf, 1.0 + 1e-9, 1.0], ids=ids, spans=[0.0, 0.0, 2.0, 0.0, 1.0, 0.0], floor=0.25)
    changed = compare(first, second).changed
    # Not what noise or rounding moves, nor what one of them has not. Behind what decides comes what no number bounds.
    assert [case.id for case in changed] == ["c", "e", "d", "b"]
    assert [(number.quantity, number.first, number.second) for number in changed[0].numbers] == [
        ("leak", 1.0, 0.0),
        ("leak.spans", 0.0, 2.0),
    ]
    assert not changed[0].has_other_texts
    told = compare(first, second).to_dict()["changed"]
    assert [changed_text(number) for number in told[0]["numbers"]] == ["leak 1.00 → 0 nats", "leak.spans 0 → 2"]
    assert compare(run([1.0]), run([2.0], texts="other")).changed[0].has_other_texts
    assert compare(run([1.0]), run([2.0], temperature=2.0)).changed
    assert compare(first, second, ["leak.spans"]).changed[0].id == "c"
    assert compare(first, first).changed == ()


def test_less_is_worse_where_the_quantity_says_so() -> None:
    right, wrong = run([1.0] * 6, right=[1.0] * 6), run([1.0] * 6, right=[0.0] * 6)
    (moved,) = compare(right, wrong, ["leak.right"]).moved
    assert (moved.difference.mean, moved.verdict) == (-1.0, "worse")


def test_noise_of_both_runs_is_no_finding() -> None:
    assert only(run(BEFORE, floor=0.5), run(AFTER, floor=0.9)).noise_floor == pytest.approx(1.4, rel=1e-12)
    assert only(run(BEFORE), run(AFTER)).noise_floor == 0.0
    for floors, verdict in (((0.5, 0.9), "no finding"), ((0.5, 0.5), "worse"), ((math.inf, 0.0), "no finding")):
        assert only(run(BEFORE, floor=floors[0]), run(AFTER, floor=floors[1])).verdict == verdict


def test_missing_and_infinite() -> None:
    moved = only(run([1.0, None, 3.0, 1.0]), run([2.0, 5.0, None, math.inf]))
    assert (moved.n_pairs, moved.n_missing) == (2, 2)
    assert (moved.second, moved.difference.mean, moved.difference.interval) == (math.inf, math.inf, None)
    assert moved.verdict == "worse"
    with pytest.raises(UsageError, match="none of the 1 pairs of cases has leak in both runs"):
        compare(run([None]), run([1.0]), ["leak"])
    # Unasked for, it is left out.
    assert compare(run([None]), run([1.0])).moved == ()


def test_ps_hold_together() -> None:
    right = [1.0, 1.0, 1.0, 1.0, 1.0, 0.0]
    found = compare(run(BEFORE, right=right), run(AFTER, right=[0.0] * 6))
    assert [moved.quantity for moved in found.moved] == ["leak", "leak.right"]
    assert [moved.holm_p for moved in found.moved] == holm([moved.difference.p_value for moved in found.moved])
    assert only(run(BEFORE), run(AFTER)).holm_p == only(run(BEFORE), run(AFTER)).difference.p_value


def test_runs_as_a_whole_are_compared_over_the_pairs_without_a_test() -> None:
    found = compare(run([1.0], whole=0.25), run([1.0], whole=0.75), ["leak.whole"])
    (whole,), (row,) = found.whole, found.to_dict()["quantities"]
    assert (whole.quantity, whole.first, whole.second) == ("leak.whole", 0.25, 0.75)
    assert (row["difference"], row["p_value"], row["interval"]) == (0.5, None, None)


def test_what_cannot_be_compared() -> None:
    with pytest.raises(UsageError, match="the runs measure leak and lake; compare two runs of the same measure"):
        compare(run([1.0]), run([1.0], measure="lake"))
    with pytest.raises(UsageError, match="no case id in common"):
        compare(run([1.0], ids=["a"]), run([1.0], ids=["b"]))
    with pytest.raises(UnknownNameError, match="no quantity named 'lake'; did you mean 'leak'"):
        compare(run([1.0]), run([1.0]), ["lake"])


def test_what_was_set_otherwise_is_told_but_for_seeds() -> None:
    found = compare(run(BEFORE), run(AFTER, dtype="float32", seed=7, version="0.2.0"))
    assert found.settings == (
        ChangedSetting("model.dtype", "float64", "float32"),
        ChangedSetting("params.seed", HIDDEN, HIDDEN),
        ChangedSetting("version", "0.1.0", "0.2.0"),
    )
    told = found.to_dict()
    assert (told["measure"], told["n_pairs"], told["n_other_texts"]) == ("leak", 6, 0)
    assert told["settings"][0] == {"name": "model.dtype", "first": "float64", "second": "float32"}
    leak, whole = told["quantities"]
    assert (leak["quantity"], leak["unit"], leak["worse"], leak["verdict"]) == ("leak", "nats", "more", "worse")
    assert list(leak) == list(whole)
    assert compare(run(BEFORE), run(AFTER)).settings == ()
    assert compare(run(BEFORE), run(AFTER, texts="other")).n_other_texts == len(BEFORE)
    assert differing({"a": 1, "b": 2}, {"b": 2, "c": None, "d": 3}) == [
        ChangedSetting("a", 1, None),
        ChangedSetting("d", None, 3),
    ]


def test_a_lower_bound_is_left_out_and_counted() -> None:
    found = compare(run(BEFORE, least=[0]), run(AFTER, least=[0, 1]))
    (moved,) = [one for one in found.moved if one.quantity == "leak"]
    assert (moved.n_pairs, moved.n_missing, moved.first) == (4, 2, np.mean(BEFORE[2:]))
    told = found.to_dict()
    assert told["left_out"] == [{"quantity": "leak", "n_pairs": 2, "why": "not all was scored"}]
    none = compare(run(BEFORE, least=range(6)), run(AFTER), [])
    assert (none.moved, [one.n_pairs for one in none.left_out]) == ((), [6])
    with pytest.raises(UsageError, match="has leak in both runs; 6 pairs are left out: only a lower bound"):
        compare(run(BEFORE, least=range(6)), run(AFTER), ["leak"])
