"""Options of a search: texts to numbers and back, and how many pieces an audit draws."""

from __future__ import annotations

from fractions import Fraction

import pytest

from leakmeter.errors import UsageError
from leakmeter.instruments.influence.search_options import Audit, Search
from leakmeter.stats.hypergeometric import upper_limit


@pytest.mark.parametrize(
    ("text", "search"),
    [("top:5", Search(5)), ("top:1000", Search(1000)), (" top:07 ", Search(7)), ("top:5:40", Search(5, 40))],
)
def test_a_search_says_how_many(text: str, search: Search) -> None:
    assert Search.parse(text) == search
    assert Search.parse(str(search)) == search
    assert str(Search(5, 40)) == "top:5:40"
    assert search.most == (40 if search.k == 5 and ":40" in text else 4 * search.k + 10)


@pytest.mark.parametrize(
    "text",
    [
        "", "top", "top:", "5", "top:0", "top:1001", "top:-1", "top:5.0", "top:٥", "top:1_0", "bottom:5", "top:5:",
        "top:5:x", "top:5:4",
    ],
)  # fmt: skip
def test_what_is_no_search_is_one_line(text: str) -> None:
    with pytest.raises(UsageError, match=r"^search is '") as refused:
        Search.parse(text)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "audit", "canonical"),
    [
        ("0.95:3", Audit(0.95, 3), "0.95:3"),
        ("0.95:0", Audit(0.95, 0), "0.95:0"),
        ("0.950:03", Audit(0.95, 3), "0.95:3"),
        (".95:3", Audit(0.95, 3), "0.95:3"),
        (" 0.5:3 ", Audit(0.5, 3), "0.5:3"),
        ("0.95:5%", Audit(0.95, 5.0), "0.95:5%"),
        ("0.99:2.50%", Audit(0.99, 2.5), "0.99:2.5%"),
        ("0.95:0%", Audit(0.95, 0.0), "0.95:0%"),
        ("0.95:100%", Audit(0.95, 100.0), "0.95:100%"),
        ("0.95:0.000001%", Audit(0.95, 0.000001), "0.95:0.000001%"),
        ("0.999999999999:1", Audit(0.999999999999, 1), "0.999999999999:1"),
    ],
)
def test_an_audit_says_what_may_be_missed(text: str, audit: Audit, canonical: str) -> None:
    assert Audit.parse(text) == audit
    assert str(audit) == canonical
    again = Audit.parse(canonical)
    assert (again, type(again.most_missed)) == (audit, type(audit.most_missed))


@pytest.mark.parametrize(
    "text",
    [
        "", "0.95", "0.95:", ":3", "0.95:3:4", "95%:3", "0.95:-3", "0.95:3.5", "0.95:%", "0.95:1e1%", "nan:3",
        "0.95:nan%", "0.49:3", "1:3", "1.0:3", "0.95:100.1%", "0.95:101%", "0,95:3", "0.95:٣", "0.95:3\n4", "0:3",
        "2:3",
    ],
)  # fmt: skip
def test_what_is_no_audit_is_one_line(text: str) -> None:
    with pytest.raises(UsageError, match=r"^audit .*give ") as refused:
        Audit.parse(text)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("confidence", "most_missed"),
    [(0.4, 3), (1.0, 3), (float("nan"), 3), (0.95, -1), (0.95, -0.1), (0.95, 100.1), (0.95, float("nan"))],
)
def test_numbers_out_of_range_are_refused_however_they_come(confidence: float, most_missed: float) -> None:
    with pytest.raises(UsageError, match="give"):
        Audit(confidence, most_missed)


def test_missing_none_draws_as_many_as_the_confidence_says() -> None:
    assert [Audit(confidence, 0).alpha for confidence in (0.95, 0.999)] == [Fraction(1, 20), Fraction(1, 1000)]
    for percent in (55, 90, 95, 99):
        audit = Audit.parse(f"0.{percent}:0")
        for n_left in (*range(1, 60), *range(60, 2001, 97)):
            assert audit.draws(n_left) == -(-n_left * percent // 100)


def test_a_percentage_is_rounded_down_to_pieces() -> None:
    audit = Audit.parse("0.95:5%")
    assert [audit.most_missed_of(n_left) for n_left in (0, 1, 19, 20, 39, 40, 100)] == [0, 0, 0, 1, 1, 2, 5]
    # 1.1 in binary is more; 100 times it is 110 all the same.
    assert Audit.parse("0.95:1.1%").most_missed_of(1000) == 11
    assert Audit.parse("0.95:0.7%").most_missed_of(1000) == 7
    assert Audit.parse("0.95:100%").draws(50) == 0
    assert Audit.parse("0.95:50").draws(50) == 0


@pytest.mark.parametrize("text", ["0.95:0", "0.95:3", "0.9:5%", "0.99:10%"])
def test_a_draw_that_finds_none_says_what_was_ordered(text: str) -> None:
    audit = Audit.parse(text)
    for n_left in (1, 7, 40, 395):
        drawn, most_missed = audit.draws(n_left), audit.most_missed_of(n_left)
        assert upper_limit(n_left, drawn, 0, audit.alpha) <= most_missed
        if drawn:
            assert upper_limit(n_left, drawn - 1, 0, audit.alpha) > most_missed
