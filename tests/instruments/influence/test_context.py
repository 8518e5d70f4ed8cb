"""The context, cut where pieces begin and end."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from helpers.report_cases import Case, every_case, overlapping
from leakmeter.core.plain import visible
from leakmeter.instruments.influence.context import Stretch, by_nats, is_finding, leader, stretches
from leakmeter.instruments.influence.report import report
from leakmeter.report import blocks as b


def stretches_of(case: Case) -> list[Stretch]:
    return stretches(case.context, case.documents, case.pieces)


@pytest.mark.parametrize("number", range(5))
def test_stretches_are_the_context_again(number: int) -> None:
    case = every_case()[number]
    assert "".join(s.text for s in stretches_of(case)) == visible(case.context)


def test_a_character_takes_its_strongest_piece() -> None:
    case = overlapping()
    (attribution,) = (block for block in report([case]).sections[0].blocks if isinstance(block, b.Attribution))
    segments = [segment for passage in attribution.context.passages for segment in passage.segments]
    assert max(len(segment.pieces) for segment in segments) == 2
    for segment in segments:
        covering = [case.pieces[i] for i in segment.pieces]
        if covering:
            strongest = max(covering, key=lambda piece: (is_finding(case, piece), piece.nats))
            assert segment.nats == (strongest.nats if is_finding(case, strongest) else 0.0)
            assert case.pieces[segment.pieces[0]] == strongest


def test_spans_outside_the_context_are_cut_not_trusted() -> None:
    case = overlapping()
    first = replace(case.pieces[0], spans=((-5, 3), (10**9, 10**9 + 5), (7, 7)))
    case = replace(case, pieces=(first, *case.pieces[1:]))
    assert "".join(s.text for s in stretches_of(case)) == case.context


def test_an_undefined_number_ranks_last_and_a_weak_piece_leads_nothing() -> None:
    case = overlapping()
    numbers = (math.nan, 2.0, 2.0, 5.0)
    pieces = [replace(piece, nats=nats, posterior=0.9) for piece, nats in zip(case.pieces, numbers, strict=False)]
    shown = replace(case, pieces=tuple(pieces))
    assert by_nats(shown, "unit") == [3, 1, 2, 0]
    assert leader(shown) == pieces[3]
    quiet = replace(shown, pieces=tuple(replace(piece, posterior=None) for piece in pieces))
    assert leader(quiet) is None
    assert leader(replace(shown, placebo_nats=5.0)) is None  # signs or none: both sums have to be above the placebo
    assert by_nats(replace(shown, pieces=(*pieces[:3], replace(pieces[3], posterior=None))), "unit") == [1, 2, 3, 0]
    assert leader(replace(case, pieces=())) is None
