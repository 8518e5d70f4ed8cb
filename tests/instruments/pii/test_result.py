"""Numbers of people's values to verdicts: ranks, p-values by person, tests over persons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from leakmeter.core.measure import COUNT, NATS, Measurement
from leakmeter.errors import UsageError
from leakmeter.instruments.pii.result import Match, PiiResult, summary
from leakmeter.stats.ranks import holm

COST = {"tree_tokens": 10, "naive_tokens": 30, "requests": 5, "seconds": 1.0, "out_of_memory_retries": 0}
PHONE = ("exact_match", "location_code", "first_7", "first_8", "first_9", "edit_distance")


def texts(subject: str = "1", type_: str = "phone", given: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    kind = ("twin", "triplet", "quadruplet")[len(given)] if type_ in ("phone", "email", "address") else type_
    asked = f"{subject}: {type_}" + (f" by {' and '.join(given)}" if given else "")
    return {
        "id": asked, "subject": subject, "kind": kind, "type": type_, "relation": None, "given": list(given),
        "model": "toy", "weights_sha256": None, "dtype": "float64", "n_templates": 2, "n_nulls": 4,
        "nulls_share_place": None, "n_references": 2, "responses": [], "cost": COST, **more,
    }  # fmt: skip


def result(told: dict[str, Any], made: list[Measurement], beams: Sequence[int] = ()) -> PiiResult:
    (found,) = PiiResult.from_run([(told, made)], {"beams": tuple(beams)})
    return found


def case(values: Sequence[float], **more: Any) -> PiiResult:
    """Of one template and values of one token each, the true one first."""
    return result(texts(n_nulls=len(values) - 1, **more), measurements([values], [[1] * len(values)]))


def test_one_person_has_no_test_and_nobody_no_summary() -> None:
    (row,) = summary([case([-1.0, -2.0, -3.0])]).types
    assert row.signed_rank_p is None
    assert row.difference_interval_nats is None
    with pytest.raises(UsageError):
        summary([])


def measurements(
    likelihoods: Any, lengths: Any, found: Sequence[Sequence[float]] = (), elsewhere: Any = None
) -> list[Measurement]:
    made = []
    for template, (row, n) in enumerate(zip(likelihoods, lengths, strict=True)):
        made.append(Measurement("", template, "", "log_likelihood", NATS, np.asarray(row, dtype=float)))
        made.append(Measurement("", template, "", "n_tokens", COUNT, np.asarray(n, dtype=float)))
        others = np.zeros(len(row)) if elsewhere is None else np.asarray(elsewhere[template], dtype=float)
        made.append(Measurement("", template, "", "reference_log_likelihood", NATS, others))
    for template, row in enumerate(found):
        for statistic, value in zip(PHONE, row, strict=True):
            made.append(Measurement("", template, "beam 2", statistic, "hit", np.asarray([value])))
    return made


def test_the_best_over_templates_counts_of_decoys_too() -> None:
    likelihoods = [[-10.0, -12.0, -30.0, -30.0, -9.0], [-8.0, -6.0, -30.0, -30.0, -30.0]]
    lengths = [[4, 4, 5, 4, 4], [4, 4, 5, 4, 4]]
    made = result(texts(), measurements(likelihoods, lengths))
    assert made.log_likelihood_nats == -8.0
    assert made.decoy_log_likelihoods_nats == (-6.0, -30.0, -30.0, -9.0)
    assert made.normalised_log_likelihood_nats == -2.0
    assert made.decoy_normalised_log_likelihoods_nats == (-1.5, -6.0, -7.5, -2.25)
    assert (made.association_nats, made.decoy_associations_nats) == (-8.0, (-6.0, -30.0, -30.0, -9.0))
    assert (made.rank, made.p_value, made.share_of_decoys_below) == (2, 0.4, 0.75)
    assert made.exposure_bits == pytest.approx(np.log2(5 / 2))
    assert made.exposure_ceiling_bits == pytest.approx(np.log2(5))
    assert [one.rank for one in made.templates] == [2, 2]
    assert made.exposure == made.exposure_bits
    assert made.to_frame()["rank"].tolist() == [2, 2]


def test_what_is_likely_behind_other_names_too_is_no_sign() -> None:
    values = [-1.0, *np.linspace(-5.0, -4.0, 40)]
    popular = result(texts(n_nulls=40), measurements([values], [[1] * 41], elsewhere=[[-0.5, *np.full(40, -5.0)]]))
    assert popular.p_value_of_likelihood == popular.p_value_of_normalised_likelihood == 1 / 41
    assert popular.association_nats == -0.5
    assert popular.p_value > 0.5
    assert "after other names too" in popular.warnings[0]
    known = result(texts(n_nulls=40), measurements([values], [[1] * 41], elsewhere=[np.full(41, -5.0)]))
    assert known.p_value == 1 / 41
    assert not known.warnings


def test_what_was_generated_is_the_best_over_templates() -> None:
    found = [[0.0, 1.0, 0.0, 0.0, 0.0, 5.0], [0.0, 0.0, np.nan, 0.0, 0.0, 3.0]]
    made = result(texts(n_nulls=1), measurements([[-1.0, -2.0]] * 2, [[1, 1]] * 2, found), (2,))
    (generated,) = made.generated
    assert generated.best == dict(zip(PHONE, (0.0, 1.0, 0.0, 0.0, 0.0, 3.0), strict=True))
    assert generated.templates["first_7"] == (0.0, None)
    assert generated.answers is None


def test_a_person_is_judged_by_all_their_values_together() -> None:
    nulls = [-2.0] * 60
    cases = [
        case([-1.0, *nulls]), case([-3.0, *nulls], given=("email",)), case([-3.0, *nulls], type_="email"),
        case([-3.0, *nulls], subject="2 by two"), case([-2.5, *nulls], subject="2 by two", given=("address",)),
    ]  # fmt: skip
    told = summary(cases)
    first, second = told.subjects
    assert [value.type for value in first.values] == ["phone", "email"]
    assert first.values[0].kinds == ("twin", "triplet")
    ps = [value.p_value for value in first.values]
    assert ps == [1 / 61, 1.0]
    assert [value.holm_p for value in first.values] == holm(ps)
    assert (first.at_risk, second.at_risk) == (True, False)
    assert [value.association_nats for value in second.values] == [-2.5]
    assert (told.n_at_risk, told.n_subjects, told.share_at_risk) == (1, 2, 0.5)


def generating(subject: str, values: Sequence[float], *said: float, **more: Any) -> PiiResult:
    """A case of which each template generates the value word for word, or does not."""
    found = [[exact, 0.0, 0.0, 0.0, 0.0, 9.0] for exact in said]
    made = measurements([values] * len(said), [[1] * len(values)] * len(said), found)
    return result(texts(subject, n_templates=len(said), n_nulls=len(values) - 1, **more), made, (2,))


def test_what_is_generated_from_the_name_alone_is_at_risk_whatever_its_p() -> None:
    unlikely = [-9.0, *[-2.0] * 60]
    said, unsaid = generating("1", unlikely, 0.0, 1.0), generating("2", unlikely, 0.0, 0.0)
    # Behind other values of the person it is not the name that brings it out.
    behind, unlike = generating("3", unlikely, 1.0, given=("email",)), generating("5", unlikely, np.nan)
    known = generating("6", [-1.0, *[-2.0] * 60], 0.0)
    assert said.p_value == 1.0
    assert [one.extracted for one in (said, unsaid, behind, unlike)] == [True, False, None, None]
    assert case(unlikely, subject="4").extracted is None
    told = summary([said, unsaid, behind, unlike, known])
    assert [one.extracted for one in told.subjects] == [True, False, False, False, False]
    assert [one.known for one in told.subjects] == [False, False, False, False, True]
    assert [one.at_risk for one in told.subjects] == [True, False, False, False, True]
    assert (told.n_known, told.n_extracted, told.n_at_risk) == (1, 1, 2)
    assert told.share_at_risk == pytest.approx(2 / 5)
    assert [one.values[0].extracted for one in told.subjects] == [True, False, None, None, False]
    # Of both, once.
    both = summary([generating("1", [-1.0, *[-2.0] * 60], 1.0)])
    assert (both.n_known, both.n_extracted, both.n_at_risk) == (1, 1, 1)


def test_what_misleads_the_likelihoods_p_is_said() -> None:
    domains, towns = "invented values have other domains", "invented values have other towns"
    values = [-1.0, *np.linspace(-5.0, -4.0, 40)]
    for type_, shared, note in (
        *(("email", False, domains), ("email", True, None), ("address", False, towns), ("address", True, None)),
        ("phone", None, None),
    ):
        assert case(values, type_=type_, nulls_share_place=shared).likelihood_note == note


def many(rng: np.random.Generator, n: int, above: float) -> list[PiiResult]:
    rows = rng.normal(size=(n, 51)).tolist()
    return [case([true + above, *others], subject=str(i)) for i, (true, *others) in enumerate(rows)]


@pytest.mark.long
def test_of_a_model_that_knows_nobody_the_tests_say_so_as_often_as_they_may() -> None:
    rng = np.random.default_rng(0)
    found = [summary(many(rng, 15, 0.0)).types[0] for _ in range(150)]
    for name in ("ranks_p", "signed_rank_p", "rank_sum_p"):
        share = np.mean([getattr(row, name) <= 0.05 for row in found])
        assert share <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / len(found)), name
    assert np.mean([row.share_low_p for row in found]) < 0.06


TRIPLETS = (("email",), ("address",))


def asked_in_two_ways(rng: np.random.Generator, n: int) -> list[PiiResult]:
    """Triplets of telephone numbers that nobody knows, whose associations hardly depend on the way of asking."""
    alike = rng.normal(size=(n, 1, 41))
    rows = (np.sqrt(0.9) * alike + np.sqrt(0.1) * rng.normal(size=(n, 2, 41))).tolist()
    return [
        case(row, subject=str(i), given=given)
        for i, ways in enumerate(rows)
        for row, given in zip(ways, TRIPLETS, strict=True)
    ]


def test_a_value_that_a_kind_asks_for_in_several_ways_is_tested_once() -> None:
    rng, n_runs = np.random.default_rng(0), 200
    found = [summary(asked_in_two_ways(rng, 20)).kinds for _ in range(n_runs)]
    assert {(row.kind, row.n) for (row,) in found} == {("triplet", 20)}
    for name in ("ranks_p", "signed_rank_p", "rank_sum_p"):
        share = np.mean([getattr(row, name) <= 0.05 for (row,) in found])
        assert share <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / n_runs), name


def test_of_the_ways_of_asking_the_best_counts() -> None:
    nulls = [-2.0] * 60
    (row,) = summary([case([-3.0, *nulls], given=TRIPLETS[0]), case([-1.0, -0.5, *nulls[1:]], given=TRIPLETS[1])]).kinds
    assert (row.n, row.mean_nats, row.share_low_p) == (1, -1.0, 1.0)
    found = [[0.0, 1.0, 0.0, 0.0, 0.0, 5.0]], [[0.0, 0.0, np.nan, 0.0, 0.0, 3.0]]
    said = [generating("2", [-1.0, -2.0], 1.0, given=TRIPLETS[0])]
    for given, statistics in zip(TRIPLETS, found, strict=True):
        said.append(
            result(texts(given=given, n_nulls=1), measurements([[-1.0, -2.0]] * 2, [[1, 1]] * 2, statistics * 2), (2,))
        )
    (generated,) = summary(said).kinds[0].generated
    matches = generated.matches
    assert [(matches[name].n, matches[name].share) for name in PHONE[:3]] == [(2, 0.5), (2, 0.5), (2, 0.0)]
    assert matches["edit_distance"].mean == 6.0


def test_of_a_model_that_knows_everybody_they_say_so_too() -> None:
    told = summary(many(np.random.default_rng(1), 40, 1.5))
    (row,) = told.types
    for name in ("ranks", "signed_rank", "rank_sum"):
        assert getattr(row, f"{name}_p") < 1e-3
        assert getattr(row, f"{name}_holm_p") == getattr(row, f"{name}_p")
    assert row.rank_biserial > 0.5
    assert row.cliffs_delta > 0.5
    assert 3 < row.subjects_needed < 40
    low, high = row.difference_interval_nats
    assert low < 1.5 < high
    (of_kind,) = told.kinds
    assert (of_kind.type, of_kind.kind, of_kind.n) == ("phone", "twin", 40)


def test_shares_of_what_was_generated_have_intervals() -> None:
    made = [generating(str(i), [-1.0, -2.0], float(i == 0)) for i in range(4)]
    (generated,) = summary(made).kinds[0].generated
    assert generated.beams == 2
    exact = generated.matches["exact_match"]
    assert (exact.share, exact.n) == (0.25, 4)
    assert exact.interval[0] < 0.25 < exact.interval[1]
    assert generated.matches["edit_distance"] == Match(n=4, share=None, interval=None, mean=9.0)
