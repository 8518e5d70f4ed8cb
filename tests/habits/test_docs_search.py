"""What docs/search.md says in numbers is so."""

from __future__ import annotations

import math

from helpers.places import DOCS
from leakmeter.instruments.influence.search import Audit
from leakmeter.stats.hypergeometric import coverage, upper_limit

PAGE = (DOCS / "search.md").read_text(encoding="utf-8")
FLOWING = " ".join(PAGE.split())
ALPHA = 0.05


def row(*cells: object) -> str:
    return f"| {' | '.join(f'{cell:,}' if isinstance(cell, int) else str(cell) for cell in cells)} |"


def draws(n_left: int, most_missed: str) -> int:
    return Audit.parse(f"0.95:{most_missed}").draws(n_left)


def test_the_table_of_draws() -> None:
    head = ["0", "1", "2", "5", "10", "1 %", "5 %", "10 %"]
    rows = [
        [n_left, *(draws(n_left, most_missed.replace(" ", "")) for most_missed in head)]
        for n_left in (20, 50, 100, 200, 500, 1000, 5000)
    ]
    table = [["N", f"B = {head[0]}", *head[1:]], ["---"] * (1 + len(head)), *rows]
    assert "\n".join(row(*cells) for cells in table) in PAGE


def test_what_is_left_where_the_audit_finds_pieces() -> None:
    for n_left in (50, 100, 200, 500, 1000):
        audit = Audit(1 - ALPHA, 5.0)
        left = [upper_limit(n_left, audit.draws(n_left), n_found, audit.alpha) - n_found for n_found in range(5)]
        assert left[0] == audit.most_missed_of(n_left)
        assert left == sorted(left)
    assert "if 39 of 100 pieces were drawn, and two of these were above x" in FLOWING
    assert f"at most {upper_limit(100, 39, 2, ALPHA) - 2} of the {100 - 39} others are above x" in FLOWING


def test_the_shares_and_numbers_of_draws() -> None:
    shares = [f"{draws(5000, str(most_missed)) / 50:.0f} %" for most_missed in (0, 1, 5, 10)]
    assert "{} for B = 0, {} for B = 1, {} for 5, {} for 10".format(*shares) in FLOWING
    many = [draws(1_000_000, most_missed) for most_missed in ("5%", "10%", "1%")]
    assert "about {} for 5 %, {} for 10 %, {} for 1 %".format(*many) in FLOWING
    assert f"5 % of 19 pieces is 0, and {draws(19, '5%')} pieces are drawn" in FLOWING
    assert f"5 % of 39 pieces are {Audit(0.95, 5.0).most_missed_of(39)}" in FLOWING


def test_the_coverage_of_an_example() -> None:
    found = [coverage(100, n_exceeding, 39, ALPHA) for n_exceeding in range(101)]
    assert f"it is between {math.floor(min(found) * 1e4) / 1e4} and {max(found):.0f}" in FLOWING


def test_what_comes_of_listing_the_found_before_counting_them() -> None:
    limit = upper_limit(100, 39, 0, ALPHA)
    more_left = sum(math.comb(20, k) * math.comb(80, 39 - k) for k in range(20 - limit)) / math.comb(100, 39)
    assert f'"at most {limit}". It would be false in {100 * more_left:.2f} % of draws' in FLOWING
