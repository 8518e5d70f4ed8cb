"""Which exemplars say the same."""

from __future__ import annotations

import pytest

from leakmeter.text.exemplar import Example
from leakmeter.text.exemplar_prompts import _repeats


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("ana@x.example wrote.", "Bo wrote.", "ana@x.example is here."), [[2], [], [0]]),
        (("It is ana@x.example", "ana@x.example", "Bo."), [[1], [0], []]),
        (("Bo.", " Bo. ", "Cid."), [[1], [0], []]),
        (("Bo.",), [[]]),
    ],
)
def test_values_at_the_beginning_and_at_the_end_are_those_of_their_own_exemplar(
    texts: tuple[str, ...], expected: list[list[int]]
) -> None:
    assert _repeats([Example(str(n), (text,), "yes") for n, text in enumerate(texts)]) == expected
