"""Draws of exemplars: without replacement, nested over shots, paired over levels, never the query itself."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakmeter.errors import UsageError
from leakmeter.instruments.icl.draw import choose_queries, draw_cases, fixed_cases
from leakmeter.text.exemplar import Example


def examples(n: int, prefix: str = "p") -> list[Example]:
    return [Example(f"{prefix}{i}", (f"Text {prefix}{i}.",), "AB"[i % 2]) for i in range(n)]


@given(n_pool=st.integers(3, 30), n_queries=st.integers(1, 6), shots=st.integers(1, 3), seed=st.integers(0, 2**64))
def test_draws_are_without_replacement_nested_and_of_the_querys_number_alone(
    n_pool: int, n_queries: int, shots: int, seed: int
) -> None:
    pool, queries = examples(n_pool), examples(n_queries, "q")
    cases = draw_cases(pool, queries, shots=shots, seed=seed)
    assert [case.id for case in cases] == [query.id for query in queries]
    assert [case.query for case in cases] == queries
    for case in cases:
        assert len({example.id for example in case.exemplars}) == shots
    more = draw_cases(pool, queries, shots=3, seed=seed)
    assert [case.exemplars for case in cases] == [case.exemplars[:shots] for case in more]
    # Neither how many queries there are nor what the others say matters.
    others = draw_cases(pool, [*examples(n_queries - 1, "other"), queries[-1]], shots=shots, seed=seed)
    assert others[-1] == cases[-1]
    assert draw_cases(pool, queries[:1], shots=shots, seed=seed) == cases[:1]


def test_seeds_and_queries_have_draws_of_their_own() -> None:
    pool, queries = examples(1000), examples(20, "q")
    one, two = (draw_cases(pool, queries, shots=4, seed=seed) for seed in (0, 1))
    drawn = [case.exemplars for case in (*one, *two)]
    assert len(set(drawn)) == len(drawn)
    assert draw_cases(pool, queries, shots=4, seed=0) == one


def test_every_exemplar_is_as_likely_at_every_place() -> None:
    pool, n = examples(5), 4000
    cases = draw_cases(pool, examples(n, "q"), shots=3, seed=3)
    for place in range(3):
        counts = Counter(case.exemplars[place].id for case in cases)
        # Within 4 standard deviations of a fifth.
        assert all(abs(counts[example.id] - n / 5) < 4 * (n * 0.16) ** 0.5 for example in pool)


def test_a_query_is_never_its_own_exemplar() -> None:
    # White space around its text does not make it another.
    pool = [*examples(4), Example("again", ("Text p0.\n",), "B")]
    for case in draw_cases(pool, pool, shots=3, seed=0):
        assert all(example.compared != case.query.compared for example in case.exemplars)
    with pytest.raises(UsageError, match="query 'p0' needs 4 exemplars and there are 3 other than itself; give more"):
        draw_cases(pool, pool, shots=4, seed=0)
    assert len(draw_cases(pool, pool[1:2], shots=4, seed=0)[0].exemplars) == 4


@pytest.mark.parametrize(
    ("n_pool", "shots", "seed", "told"),
    [
        (3, 4, 0, "query 'q0' needs 4 exemplars and there are 3"),
        (0, 1, 0, "needs 1 exemplars and there are 0"),
        (3, 0, 0, "shots is 0; it has to be 1 or more"),
        (3, 1, -1, "seed is -1; it has to be 0 or more"),
    ],
)
def test_draws_that_cannot_be_are_one_line(n_pool: int, shots: int, seed: int, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        draw_cases(examples(n_pool), examples(2, "q"), shots=shots, seed=seed)


def test_fixed_exemplars_stand_before_every_query_in_their_order() -> None:
    pool, queries = examples(3), examples(2, "q")
    for case, query in zip(fixed_cases(pool[::-1], queries), queries, strict=True):
        assert (case.id, case.query, case.exemplars) == (query.id, query, tuple(pool[::-1]))
    with pytest.raises(UsageError, match="there are no exemplars"):
        fixed_cases([], queries)


def test_queries_are_chosen_in_order_and_by_seed() -> None:
    pool = examples(50)
    assert choose_queries(pool, 5, None) == pool[:5]
    assert choose_queries(pool, None, 3) == choose_queries(pool, 99, 3) == pool
    chosen = choose_queries(pool, 5, 3)
    assert chosen == choose_queries(pool, 5, 3) != choose_queries(pool, 5, 4)
    assert [pool.index(example) for example in chosen] == sorted(pool.index(example) for example in chosen)
    with pytest.raises(UsageError, match="max-queries is 0"):
        choose_queries(pool, 0, 3)
    with pytest.raises(UsageError, match="seed is -2"):
        choose_queries(pool, 5, -2)
