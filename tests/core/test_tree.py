"""Prompts that are cut by name, and the prefix tree of many against a trie built one token at a time."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from helpers.examples import examples
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.reductions import FullDistribution, MixtureLogProbs, NextTokenSample, TargetLogProbs
from leakmeter.core.request import Request
from leakmeter.core.tree import Chunk, chunk_of
from leakmeter.errors import UnknownNameError, UsageError

CONTEXT = (Piece("a", "context", (3, 4, 5)), Piece("b", "context", (6,)), Piece("a", "context", (7,)))
PROMPT = Prompt((Piece("open", "frame", (1, 2)), *CONTEXT, Piece("query", "query", (8, 9))))


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


Node = tuple[int, int]  # position, id


def fed(prompt: Prompt, response: Sequence[int], row: int) -> list[Node]:
    """The (position, id) pairs that a model has read when it predicts what follows row `row`, one at a time."""
    out: list[Node] = []
    at = 0
    for piece in (*prompt.pieces, Piece("response", "frame", tuple(response[:row]))):
        at += piece.gap
        out += [(at + i, token) for i, token in enumerate(piece.ids)]
        at += len(piece.ids)
    return out


def n_trie_nodes(requests: Sequence[Request]) -> int:
    nodes: set[tuple[Node, ...]] = set()
    for request in requests:
        last = request.reduction.rows(len(request.response)).stop - 1
        for prompt in request.prompts:
            path = tuple(fed(prompt, request.response, max(last, 0)))
            nodes.update(path[: i + 1] for i in range(len(path)))
    return len(nodes)


def check(chunk: Chunk, requests: Sequence[Request]) -> None:
    assert chunk.requests == tuple(requests)
    assert chunk.n_tree_tokens == n_trie_nodes(requests)
    for index, branch in enumerate(chunk.branches):
        assert -1 <= branch.parent < index
        assert 0 <= branch.fork < len(branch.ids) == len(branch.positions)
        assert branch.n_tail == len(branch.ids) - branch.fork
        if branch.parent < 0:
            assert branch.fork == 0
        else:
            parent = chunk.branches[branch.parent]
            assert branch.fork <= len(parent.ids)
            np.testing.assert_array_equal(branch.ids[: branch.fork], parent.ids[: branch.fork])
            np.testing.assert_array_equal(branch.positions[: branch.fork], parent.positions[: branch.fork])
            # A fork below the parent's own would rather have been the grandparent's.
            assert branch.fork >= parent.fork
        assert len(branch.row_tokens) == len(branch.row_slots) > 0
        assert (branch.row_tokens >= branch.fork).all()
        assert (branch.row_tokens < len(branch.ids)).all()
        assert len(set(branch.row_tokens.tolist())) == len(branch.row_tokens)
    owner = {
        int(slot): (branch, int(token))
        for branch in chunk.branches
        for token, slot in zip(branch.row_tokens, branch.row_slots, strict=True)
    }
    assert sorted(owner) == list(range(chunk.n_slots))
    assert sum(len(branch.row_slots) for branch in chunk.branches) == chunk.n_slots
    # The same question is answered by the same slot, another question by another.
    by_path: dict[tuple[Node, ...], int] = {}
    for request, slots in zip(requests, chunk.slots, strict=True):
        rows = request.reduction.rows(len(request.response))
        assert slots.shape == (len(request.prompts), len(rows))
        for i, prompt in enumerate(request.prompts):
            for j, row in enumerate(rows):
                branch, token = owner[int(slots[i, j])]
                path = tuple(fed(prompt, request.response, row))
                assert list(zip(branch.positions[: token + 1], branch.ids[: token + 1], strict=True)) == list(path)
                assert by_path.setdefault(path, int(slots[i, j])) == slots[i, j]
    assert len(by_path) == chunk.n_slots


# Two ids and short pieces: prefixes meet often.
IDS = st.lists(st.integers(0, 1), max_size=4).map(tuple)


@st.composite
def prompts(draw: st.DrawFn) -> Prompt:
    pieces = [Piece("open", "frame", draw(st.lists(st.integers(0, 1), min_size=1, max_size=2).map(tuple)))]
    for i in range(draw(st.integers(0, 3))):
        ids = draw(IDS)
        pieces.append(Piece(f"c{i}", "context", ids, gap=draw(st.sampled_from([0, 0, 0, 1, 2])) if ids else 0))
    pieces.append(Piece("query", "query", draw(IDS)))
    if draw(st.booleans()):
        pieces.append(Piece("gap", "frame", (), gap=draw(st.integers(1, 2))))  # as `masking` leaves at the end
    return Prompt(tuple(pieces))


WANTS = st.sampled_from(
    [TargetLogProbs(), MixtureLogProbs(1.5), FullDistribution(), NextTokenSample(0.5), NextTokenSample(0.5, 1.5)]
)


@st.composite
def request_lists(draw: st.DrawFn) -> list[Request]:
    pool = draw(st.lists(prompts(), min_size=1, max_size=4))
    out = []
    for _ in range(draw(st.integers(1, 4))):
        some = tuple(draw(st.lists(st.sampled_from(pool), min_size=1, max_size=3)))
        response = draw(st.lists(st.integers(0, 1), min_size=1, max_size=4).map(tuple))
        out.append(Request(some, response, draw(WANTS), draw(st.integers(0, 2))))
    return out


@seed(3)
@settings(max_examples=examples(300))
@given(request_lists())
def test_every_slot_is_its_prefix_and_no_token_is_run_twice(requests: list[Request]) -> None:
    check(chunk_of(requests), requests)


def test_a_full_pass_reads_all_but_the_last_token_of_a_response() -> None:
    prompts = (Prompt((Piece("a", "frame", (5, 6, 7)),)), Prompt((Piece("a", "frame", (5, 6)),)))
    for n in (1, 2, 3):
        request = Request(prompts, tuple(range(n)), TargetLogProbs())
        assert chunk_of([request]).n_full_pass_tokens == 3 + 2 + 2 * (n - 1)
    assert chunk_of([request]).round == 0


@seed(4)
@settings(max_examples=examples(100))
@given(request_lists(), st.randoms(use_true_random=False))
def test_the_order_of_requests_does_not_change_the_tree(requests: list[Request], random: Random) -> None:
    shuffled = list(requests)
    random.shuffle(shuffled)
    one, other = chunk_of(requests), chunk_of(shuffled)
    assert one.n_tree_tokens == other.n_tree_tokens
    assert one.n_slots == other.n_slots
    assert one.n_full_pass_tokens == other.n_full_pass_tokens

    def shape(chunk: Chunk) -> list[tuple[bytes, bytes, int]]:
        return [(branch.ids.tobytes(), branch.positions.tobytes(), branch.fork) for branch in chunk.branches]

    assert shape(one) == shape(other)


def test_empty_prompts_and_responses_are_refused() -> None:
    for prompt, response, words in ((Prompt(()), (1,), "the prompt is empty"), (PROMPT, (), "has no tokens")):
        with pytest.raises(UsageError, match=words):
            chunk_of([Request((prompt,), response, TargetLogProbs())])


def test_many_nested_prefixes_do_not_recurse() -> None:
    prompts_ = tuple(Prompt((Piece("f", "frame", (1,) * n + (2,)),)) for n in range(1, 1100))
    chunk = chunk_of([Request(prompts_, (0,), TargetLogProbs())])
    assert chunk.n_tree_tokens == 1099 + 1099
