"""What adds up: sums of log-likelihood ratios against the posterior of an observer, by exact enumeration of the toy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from helpers.measure_items import make_item, readings_of
from leakmeter.backends.toy import Toy
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.instruments.influence.measure import Influence
from leakmeter.products.ledger.accounting import IMPOSSIBLE, Total, total
from leakmeter.stats.stats import posterior_from_even_odds

N_VOCAB, D = 3, "d"
MODEL = Toy(N_VOCAB, seed=5, scale=1.5)
TEXTS = {"d": (1, 2), "e": (0, 0, 2), "f": (2, 1)}
Answer = tuple[int, ...]
Transcript = tuple[Answer, ...]
Plan = Callable[[Transcript], Prompt]
"""What is asked next, and the documents that it is asked with, of the answers so far."""


def prompt_of(documents: str, query: Answer, before: Transcript = ()) -> Prompt:
    """A conversation so far, documents and a query."""
    said = tuple(token for answer in before for token in answer)
    context = [Piece(name, "context", TEXTS[name]) for name in documents]
    return Prompt((Piece("open", "frame", (0, *said)), *context, Piece("query", "query", query)))


def likelihood(prompt: Prompt, answer: Answer) -> float:
    """P(answer | prompt), one token after the other."""
    ids, positions = list(prompt.ids), list(prompt.positions)
    log_p = 0.0
    for token in answer:
        logits = MODEL.logits(np.asarray(ids), np.asarray(positions))
        log_p += logits[token] - np.logaddexp.reduce(logits)
        ids.append(token)
        positions.append(positions[-1] + 1)
    return math.exp(log_p)


def ratio(prompt: Prompt, answer: Answer) -> float:
    """l_i as the instrument measures it."""
    if D not in prompt.names():
        return 0.0
    return float(readings_of(MODEL, Influence(), make_item(prompt, answer))[0, "without_this", D].sum())


def transcripts(
    plan: Plan, n_answers: int, n_tokens: int, done: Transcript = ()
) -> Iterator[tuple[float, float, list[float]]]:
    """P(transcript | with the document), P(transcript | without), and l_i of each answer: of all transcripts."""
    if n_answers == 0:
        yield 1.0, 1.0, []
        return
    prompt = plan(done)
    without = prompt.without(D) if D in prompt.names() else prompt
    for answer in product(range(N_VOCAB), repeat=n_tokens):
        here = likelihood(prompt, answer), likelihood(without, answer), ratio(prompt, answer)
        for p, q, later in transcripts(plan, n_answers - 1, n_tokens, (*done, answer)):
            yield here[0] * p, here[1] * q, [here[2], *later]


def same(done: Transcript) -> Prompt:
    """The same documents and query each time, without a conversation."""
    return prompt_of("de", (1,))


def adaptive(done: Transcript) -> Prompt:
    """Queries and documents follow from what the recipient saw; the second prompt has what was said before."""
    if not done:
        return prompt_of("de", (1,))
    last = done[-1][-1]
    return prompt_of(("df", "ed", "ef")[last], (last, 1), done)


@pytest.mark.parametrize(("plan", "n_answers", "n_tokens"), [(same, 2, 2), (adaptive, 2, 2), (adaptive, 3, 1)])
def test_the_sum_is_the_observers_exact_log_odds(plan: Plan, n_answers: int, n_tokens: int) -> None:
    mass, n = np.zeros(2), 0
    for p, q, each in transcripts(plan, n_answers, n_tokens):
        found = of(each)
        assert found.signed_nats == pytest.approx(math.log(p / q), abs=1e-9)
        assert posterior_from_even_odds(found.signed_nats) == pytest.approx(p / (p + q), abs=1e-9)
        mass += (p, q)
        n += 1
    assert n == N_VOCAB ** (n_answers * n_tokens)
    assert mass == pytest.approx([1.0, 1.0], abs=1e-9)


def test_a_query_that_follows_from_the_document_itself_breaks_the_sum() -> None:
    """The condition is needed: who asks 2 only because the document is there tells more by asking than the answers."""
    (p, q, each), *_ = transcripts(same, 1, 1)
    asked = 0.9, 0.1  # P(the second query | with the document), and without
    exact = math.log(p * asked[0] / (q * asked[1]))
    assert abs(exact - sum(each)) == pytest.approx(math.log(9), abs=1e-9)


def test_sums_of_two_documents_do_not_add() -> None:
    """Each is what the document adds to all others; without both is another quantity."""
    prompt = prompt_of("de", (1,))
    apart = [math.log(likelihood(prompt, (2, 1)) / likelihood(prompt.without(name), (2, 1))) for name in "de"]
    together = math.log(likelihood(prompt, (2, 1)) / likelihood(prompt.without("d", "e"), (2, 1)))
    assert abs(sum(apart) - together) > 0.05


def test_a_draw_shown_twice_counts_once_and_two_draws_of_one_text_twice() -> None:
    values = np.asarray([2.0, 2.0, 2.0])
    shown_again = total(values, np.zeros(3), np.zeros(3), ["a", "a", "b"])
    assert (shown_again.signed_nats, shown_again.n_answers, shown_again.n_repeats) == (4.0, 2, 1)
    # By enumeration: two draws of one text are two independent answers.
    text = (1,)
    twice = likelihood(same(()), text) ** 2 / likelihood(same(()).without(D), text) ** 2
    assert 2 * ratio(same(()), text) == pytest.approx(math.log(twice), abs=1e-9)


def of(signed: Sequence[float], noise: Any = 0.0, placebo: Any = 0.0) -> Total:
    """The total of answers, each a draw of its own."""
    n = len(signed)
    noise, placebo = (np.broadcast_to(np.asarray(one, float), n) for one in (noise, placebo))
    return total(np.asarray(signed, float), noise, placebo, range(n))


def test_what_was_told_is_not_untold() -> None:
    found = of([1.5], [0.1])
    assert (found.signed_nats, found.n_answers, found.noise_nats, found.largest_answer) == (1.5, 1, 0.1, 0)
    nothing = of([])
    assert (nothing.largest_running_nats, nothing.largest_answer, nothing.interval_nats) == (0.0, None, (0.0, 0.0))
    found = of([8.0, -9.0, 1.0], 0.5, [1.0, 1.0, -3.0])
    assert (found.signed_nats, found.largest_running_nats, found.placebo_running_nats) == (0.0, 8.0, 2.0)
    assert (found.largest_answer_nats, found.largest_answer, found.interval_nats) == (9.0, 1, (7.5, 8.5))


def test_a_posterior_is_shown_only_where_every_condition_holds() -> None:
    found = of([3.0], 0.1, 0.5)
    assert found.posterior(is_exact=True).probability == pytest.approx(posterior_from_even_odds(3.0))
    assert found.posterior(is_exact=False).probability is None
    assert of([0.3], 0.1, 0.5).posterior(is_exact=True).probability is None


def test_what_is_not_defined_is_over_every_budget_and_no_certainty() -> None:
    found = of([1.0, math.inf, -math.inf, 2.0])
    assert (found.signed_nats, found.posterior(is_exact=True).probability) == (None, None)
    one = of([math.nan])
    for undefined in (found, one):
        assert undefined.largest_running_nats == undefined.largest_answer_nats == math.inf
    assert one.signed_nats is None
    # An answer that is impossible with the document is of another model.
    found = of([1.0, -math.inf])
    assert (found.signed_nats, found.largest_running_nats) == (-math.inf, math.inf)
    assert found.posterior(is_exact=True) == (None, IMPOSSIBLE)
    assert of([math.inf]).posterior(is_exact=True).probability == 1.0


@example([(5, None), (-9, None), (2, 1.0)])
@given(st.lists(st.tuples(st.integers(-9, 9), st.sampled_from([None, 1.0, 2.0, 3.0])), max_size=5))
def test_the_largest_sum_is_over_all_orders_that_the_times_allow(rows: list[tuple[int, float | None]]) -> None:
    rows = sorted(rows, key=lambda row: math.inf if row[1] is None else row[1])
    largest = 0.0
    for order in permutations(rows):
        times = [time for _, time in order if time is not None]
        if times == sorted(times):
            largest = max([largest, *map(abs, accumulate(value for value, _ in order))])
    n = len(rows)
    for given_rows in (rows, sorted(rows, key=lambda row: row[1] is not None)):
        values, times = [float(value) for value, _ in given_rows], [time for _, time in given_rows]
        found = total(np.asarray(values), np.zeros(n), np.zeros(n), range(n), times)
        assert found.largest_running_nats == largest
        assert found.interval_nats[0] <= largest <= found.interval_nats[1]


def test_noise_of_an_answer_without_a_time_is_anywhere() -> None:
    found = total(np.asarray([2.0, 1.0]), np.asarray([0.25, 0.5]), np.zeros(2), range(2), [1.0, None])
    assert (found.largest_running_nats, found.interval_nats[1]) == (3.0, 3.75)


@given(st.lists(st.tuples(st.floats(-50, 50), st.floats(0, 2), st.integers(0, 4)), max_size=12))
def test_against_the_obvious_loop(rows: list[tuple[float, float, int]]) -> None:
    signed, noise, draws = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    found = total(np.asarray(signed), np.asarray(noise), np.zeros(len(rows)), draws)
    so_far = spread = largest = low = high = 0.0
    seen: set[int] = set()
    for value, noisy, draw in rows:
        if draw in seen:
            continue
        seen.add(draw)
        so_far += value
        spread += noisy
        largest = max(largest, abs(so_far))
        low, high = max(low, abs(so_far) - spread), max(high, abs(so_far) + spread)
    assert found.signed_nats == pytest.approx(so_far)
    assert (found.largest_running_nats, *found.interval_nats) == pytest.approx((largest, low, high))
    assert (found.n_answers, found.n_repeats) == (len(seen), len(rows) - len(seen))
