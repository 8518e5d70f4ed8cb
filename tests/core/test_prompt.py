"""Cutting and masking pieces by name."""

from __future__ import annotations

import pytest

from leakmeter.core.prompt import Piece, Prompt
from leakmeter.errors import UnknownNameError

PROMPT = Prompt(
    (
        Piece("open", "frame", (1, 2)),
        Piece("a", "context", (3, 4, 5)),
        Piece("b", "context", (6,)),
        Piece("a", "context", (7,)),
        Piece("query", "query", (8, 9)),
    )
)


def test_cutting_closes_up_and_takes_every_piece_of_the_name() -> None:
    cut = PROMPT.without("a")
    assert cut.ids.tolist() == [1, 2, 6, 8, 9]
    assert cut.positions.tolist() == [0, 1, 2, 3, 4]
    assert cut.next_position == 5
    assert PROMPT.only("b").ids.tolist() == [1, 2, 6, 8, 9]
    assert PROMPT.blank().ids.tolist() == [1, 2, 8, 9]


def test_an_unknown_name_is_refused_with_those_that_exist() -> None:
    with pytest.raises(UnknownNameError, match=r"no piece named 'c'.*'a', 'b'"):
        PROMPT.without("c")


def test_what_stands_behind_the_context_begins_after_its_last_token() -> None:
    assert PROMPT.n_before == 7
    assert PROMPT.without("a").n_before == 3
    # Where there is no context, everything does.
    assert PROMPT.blank().n_before == 0
    assert Prompt((Piece("open", "frame", (1, 2)), Piece("query", "query", (8, 9)))).n_before == 0
