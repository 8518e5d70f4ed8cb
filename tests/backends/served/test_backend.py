"""A chunk on its way to a server: what is asked, in which order, side by side, and how it comes back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from helpers.model_server import OPENAI, VLLM, ModelServer
from helpers.served_requests import TEXTS, asked
from leakmeter.backends.served import backend
from leakmeter.backends.served.answer import Question
from leakmeter.backends.served.backend import ServedBackend
from leakmeter.backends.served.dialect import SequenceToScore
from leakmeter.backends.served.in_order import in_order, waited
from leakmeter.backends.toy import Toy
from leakmeter.core.prompt import VIRTUAL, Piece, Prompt
from leakmeter.core.reductions import FullDistribution, Labels, TargetLogProbs
from leakmeter.core.request import Reduction, Request
from leakmeter.core.tree import chunk_of
from leakmeter.errors import CapabilityError

Load = Callable[..., ServedBackend]


def prompt(text: str, gap: int = 0) -> Prompt:
    return Prompt((Piece("frame", "frame", tuple(text.encode())), Piece("query", "query", (63,), gap)))


@settings(max_examples=examples(60))
@given(st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=8).map(tuple), min_size=1, max_size=8, unique=True))
def test_each_waits_for_the_first_that_shares_most_with_it(sequences: list[tuple[int, ...]]) -> None:
    questions = [Question(SequenceToScore(ids, ()), "top", range(1)) for ids in sequences]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(backend, "_WORTH_WAITING", 1)
        indices, after = backend._in_prefix_order(questions, waits=True)
    order = [sequences[index] for index in indices]
    assert order == sorted(sequences)
    for place, waits_for in enumerate(after):
        shared = [max(n for n in range(9) if order[place][:n] == other[:n]) for other in order[:place]]
        assert waits_for == (shared.index(max(shared)) if shared and max(shared) else -1)


def test_a_parent_is_answered_before_its_siblings_are_asked_for(served: Load) -> None:
    with ModelServer(OPENAI) as server:
        begun: list[tuple[str, int]] = []
        rows = server.rows

        def watched(ids: Sequence[int], call: object, **more: float) -> object:
            begun.append(("begin", len(ids)))
            found = rows(ids, call, **more)  # type: ignore[arg-type]
            begun.append(("end", len(ids)))
            return found

        loaded = served(server.model, concurrency=8)
        server.rows = watched  # type: ignore[method-assign,assignment]
        texts = [f"The same beginning of all of them, {'x' * n}" for n in range(1, 6)]
        loaded.score(asked(texts=texts))
    assert [what for what, _ in begun[:2]] == ["begin", "end"]


def test_the_same_sequence_is_sent_once(served: Load) -> None:
    one = Request((prompt("Twice."), prompt("Once.")), (65, 66), TargetLogProbs())
    other = Request((prompt("Twice."),), (65, 66), TargetLogProbs())
    with ModelServer(VLLM) as server:
        loaded = served(server.model)
        n_before = len(server.calls)
        first, second = loaded.score(chunk_of([one, other]))
        sent = server.calls[n_before:]
    assert len(sent) == 2
    np.testing.assert_array_equal(first.values[:1], second.values)
    assert loaded.n_tokens_run == sum(len(call.body["prompt"][0]) for call in sent)
    assert loaded.capabilities.shares == "sequences"


@pytest.mark.parametrize("reduction", [FullDistribution(), TargetLogProbs(0.5)], ids=repr)
def test_whole_rows_in_parts(reduction: Reduction, served: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "_ROW_BYTES", 8 * 257 * 10)
    with ModelServer(VLLM, max_top=-1) as server:
        answers = served(server.model).score(asked(reduction))
    for answer, own in zip(answers, Toy().score(asked(reduction)), strict=True):
        np.testing.assert_allclose(answer.values, own.values, rtol=0, atol=1e-12)


def test_what_cannot_be_sent_is_refused_and_likely_labels_take_one_request(served: Load) -> None:
    row = Toy().score(asked(FullDistribution(), "", TEXTS[:1]))[0].values[0, 0]
    likeliest = tuple(int(token) for token in np.argsort(-row)[:3])
    with ModelServer(VLLM) as server:
        loaded = served(server.model)
        n_before = len(server.calls)
        for one, words in (
            (prompt("Gap.", gap=2), "give --removal drop"),
            (Prompt((Piece("frame", "frame", (1, VIRTUAL)),)), "not the vectors of a soft prompt"),
        ):
            with pytest.raises(CapabilityError, match=words):
                loaded.score(chunk_of([Request((one,), (1,), TargetLogProbs())]))
        assert len(server.calls) == n_before
        loaded.score(chunk_of([Request(asked().requests[0].prompts[:1], (), Labels(likeliest))]))
        assert len(server.calls) == n_before + 1


@st.composite
def forests(draw: st.DrawFn) -> list[int]:
    """For each item one before it, or −1."""
    return [draw(st.integers(-1, i - 1)) for i in range(draw(st.integers(0, 12)))]


@settings(max_examples=examples(30))
@given(forests(), st.integers(1, 4))
def test_each_item_once_and_after_the_one_it_waits_for(after: list[int], n_threads: int) -> None:
    done: list[int] = []
    lock = threading.Lock()

    def work(index: int) -> int:
        with lock:
            assert after[index] in (-1, *done)
            done.append(index)
        return index * index

    assert in_order(work, list(range(len(after))), after, n_threads=n_threads) == [i * i for i in range(len(after))]
    assert sorted(done) == list(range(len(after)))


def test_one_thread_keeps_the_order_of_the_items() -> None:
    done: list[int] = []
    in_order(done.append, [3, 1, 2], n_threads=1)
    assert done == [3, 1, 2]


def test_items_are_done_side_by_side() -> None:
    barrier = threading.Barrier(3, timeout=5)
    in_order(lambda _: barrier.wait(), range(3), n_threads=3)


def test_the_first_error_ends_the_work() -> None:
    begun: list[int] = []

    def work(index: int) -> None:
        begun.append(index)
        raise ValueError(f"item {index}")

    with pytest.raises(ValueError, match="item 0"):
        in_order(work, range(50), n_threads=1)
    assert begun == [0]


def test_who_waits_is_told_that_the_work_has_ended() -> None:
    ends = threading.Event()

    def work(index: int) -> None:
        if index == 0:
            raise KeyError
        if not waited(30.0):
            ends.set()

    with pytest.raises(KeyError):
        in_order(work, [1, 0], n_threads=2)
    assert ends.wait(5.0)
