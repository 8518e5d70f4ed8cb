from dataclasses import replace

import pytest

from helpers.report_cases import HOSTILE, every_case, overlapping
from leakmeter.core.plain import visible
from leakmeter.report.shade import excerpt, stretches, strongest


@pytest.mark.parametrize("number", range(5))
def test_stretches_are_the_context_again(number: int) -> None:
    case = every_case()[number]
    assert "".join(s.text for s in stretches(case)) == visible(case.context)


def test_a_character_takes_its_strongest_piece() -> None:
    case = overlapping()
    for stretch in stretches(case):
        top = strongest(case, stretch.units)
        if top is not None:
            assert case.pieces[top].nats == max(case.pieces[i].nats for i in stretch.units)
    assert max(len(s.units) for s in stretches(case)) == 2


def test_spans_outside_the_context_are_cut_not_trusted() -> None:
    case = overlapping()
    first = replace(case.pieces[0], spans=((-5, 3), (10**9, 10**9 + 5), (7, 7)))
    case = replace(case, pieces=(first, *case.pieces[1:]))
    assert "".join(s.text for s in stretches(case)) == case.context


def test_visible_keeps_length_and_leaves_nothing_to_obey() -> None:
    shown = visible(HOSTILE)
    assert len(shown) == len(HOSTILE)
    assert not any(
        ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or 0xD800 <= ord(c) < 0xE000 or c in "\u202e\u2066" for c in shown
    )
    assert visible("a\r\nb\rc\td") == "a \nb\nc\td"
    shown.encode()


def test_excerpts_are_short_whatever_comes() -> None:
    assert excerpt("one\n two", 20) == "one two"
    assert len(excerpt("word " * 10**6, 40)) <= 40
    assert excerpt("", 10) == ""
