"""Which exemplars say the same, and where something else stands in their place."""

from __future__ import annotations

import pytest

from leakmeter.backends.toy import ByteTokenizer
from leakmeter.core.prompt import CONTEXT, Piece
from leakmeter.text.exemplars import LabelledText, Task, Writer, _repeats


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("ana@x.example wrote.", "Bo wrote.", "ana@x.example is here."), [[2], [], [0]]),
        (("It is ana@x.example", "ana@x.example", "Bo."), [[1], [0], []]),
        (("Bo.", " Bo. ", "Cid."), [[1], [0], []]),
        (("Bo.",), [[]]),
    ],
)
def test_values_are_those_of_their_own_exemplar(texts: tuple[str, ...], expected: list[list[int]]) -> None:
    assert _repeats([LabelledText(str(n), (text,), "yes") for n, text in enumerate(texts)]) == expected


@pytest.mark.parametrize("instruction", ["", "Sort the news."])
@pytest.mark.parametrize("start", [(), (256,)])
def test_what_is_put_in_their_place_stands_before_the_query(instruction: str, start: tuple[int, ...]) -> None:
    task = Task("news", instruction, (("text", "Text"),), "Answer", (("1", "World"),))
    writer = Writer(task, (), ByteTokenizer(start_ids=start), chat=False)
    bare = writer.prompt((), ("Late goal.",))
    piece = Piece("placebo", CONTEXT, (1, 2, 3))
    prompt = writer.prompt_around(piece, ("Late goal.",))
    assert prompt.without("placebo") == bare
    before = [*start, *instruction.encode()]
    assert prompt.ids.tolist() == [*before, *piece.ids, *bare.ids.tolist()[len(before) :]]
