"""What is predicted before a run is what the run takes, on the toy model and small real ones; and its time."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from helpers import tiny_models as tiny
from helpers import tuned_models
from helpers.examples import few
from leakmeter.backends.hf import HfBackend
from leakmeter.backends.toy import Toy
from leakmeter.core import registry
from leakmeter.core.backend import Sharing
from leakmeter.core.case import Case, Document
from leakmeter.core.cost import ResultCost, Sent
from leakmeter.core.counting import CountingBackend, Counts, count
from leakmeter.core.drive import Cost, drive
from leakmeter.core.item import Item
from leakmeter.core.measure import Measure
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.reductions import NextTokenSample, TargetLogProbs
from leakmeter.core.request import GradientRequest, Request, TopTokens, VectorPlace
from leakmeter.core.tree import chunk_of, chunk_of_contexts
from leakmeter.instruments.generation.math import LeaveOneOutVote
from leakmeter.instruments.influence.measure import Influence
from leakmeter.privacy.clipped_logits import Aggregation
from leakmeter.privacy.mechanism import ClippedLogitAggregation
from leakmeter.privacy.rdp import ORDERS
from leakmeter.text.build import PromptSettings, prepare

TEXT = "the patient writes to the clinic. the clinic writes back. the patient writes on the same day."
MEASURES = [Influence(), Influence(cid_lambda=1.5)]
IDS = ["ordinary", "mixed"]


def test_a_sum_is_an_upper_bound_where_a_part_is() -> None:
    for first, second in ((True, False), (False, True), (False, False)):
        assert Sent(1, 2, first) + Sent(3, 4, second) == Sent(4, 6, first or second)


def item_of(backend: Any, response: str | None, *, stops: bool = True, unit: str = "sentence") -> Item:
    case = Case("one", (Document("note", TEXT),), "who writes?", response)
    settings = PromptSettings(unit=unit, template="plain")
    item = prepare(case, backend.tokenizer, settings, window=None, n_reserved=8).item
    return item if stops else replace(item, stop_ids=frozenset())


def both(backend: Any, measure: Measure, item: Item) -> tuple[Counts, Cost]:
    counted = count(CountingBackend(backend), [measure.trial(item)])
    _, taken = drive(backend, [measure.trial(item)])
    return counted, taken


def counts(one: Counts | Cost) -> tuple[int, int, int]:
    return one.n_tokens_run, one.n_prompts, one.n_full_pass_tokens


@pytest.mark.parametrize("measure", MEASURES, ids=IDS)
@pytest.mark.parametrize("unit", few(["sentence", "whole", "word", "ngram:3:1"], 2))
def test_given_responses_take_what_was_predicted(unit: str, measure: Influence) -> None:
    for backend in (Toy(), tiny.tiny_backend(), tiny.tiny_backend(share_prefixes=False), tiny.tiny_backend("gpt_neo")):
        predicted, taken = both(backend, measure, item_of(backend, "the clinic", unit=unit))
        assert counts(predicted) == counts(taken)
        assert taken.n_tokens_run > 0
        assert predicted.n_full_pass_tokens < predicted.n_token_pass_tokens
        assert not predicted.is_upper_bound


@pytest.mark.parametrize("measure", MEASURES, ids=IDS)
def test_parts_of_a_round_are_predicted_as_they_are_run(measure: Influence) -> None:
    roomy, backend = tiny.tiny_backend(), tiny.tiny_backend()
    backend.limits = replace(backend.limits, feature_bytes=10 * 32 * 4)
    assert backend.capabilities.most_rows == 10
    item = item_of(backend, "the clinic", unit="word")
    predicted, taken = both(backend, measure, item)
    assert counts(predicted) == counts(taken)
    assert taken.n_tokens_run > both(roomy, measure, item)[1].n_tokens_run


@pytest.mark.parametrize(("kind", "weight"), [("llama", 1.5), ("gemma3", 1.0), ("mistral", 1.5)])
def test_a_drawn_response_that_never_stops_takes_what_was_predicted(kind: str, weight: float) -> None:
    backend = tiny.tiny_backend(kind)
    measure = Influence(cid_lambda=weight, max_new_tokens=9)
    predicted, taken = both(backend, measure, item_of(backend, None, stops=False))
    assert predicted.is_upper_bound
    assert counts(predicted) == counts(taken)


def test_no_stop_token_is_drawn_and_responses_part_at_once() -> None:
    tokenizer = replace(Toy().tokenizer, stop_ids=frozenset({0, 2, 70_000}))
    backend = counting(tokenizer)
    prompt = Prompt((Piece("a", "context", (1, 2, 3)),))
    bare = Prompt((Piece("q", "query", (3,)),))
    requests = [Request((bare, prompt), (), NextTokenSample(0.5, weight)) for weight in (1.0, 1.0, 1.5)]
    answers = [scores.values for scores in backend.score(chunk_of(requests))]
    assert all(values.shape == (2, 1, 2) for values in answers)
    drawn = [int(values[-1, 0, 0]) for values in answers]
    assert len(set(drawn)) == 3
    assert tokenizer.stop_ids.isdisjoint(drawn)


@pytest.mark.parametrize("name", registry.instruments())
def test_every_measure_can_be_predicted(name: str) -> None:
    # A tokenizer that knows every byte: examples say telephone numbers.
    model = tuned_models.fresh_llama(max_position_embeddings=1024)
    backend = HfBackend(model, tuned_models.byte_tokenizer(), name="small")
    kind = registry.instrument(name).measure
    known = {field.name for field in fields(kind)}
    few = {"max_new_tokens": 4, "samples": 2, "max_loss": 1e-3}
    for response in (None, "the clinic"):
        example = registry.instrument(name).example("one", response)
        given = {**example.parameters, **few} if response is None else {**example.parameters, **few, "samples": 1}
        measure = kind(**{field: value for field, value in given.items() if field in known})
        item = replace(example.settings.prepare(example.case, backend, measure).item, stop_ids=frozenset())
        predicted, taken = both(backend, measure, item)
        draws = item.response is None and measure.max_new_tokens > 0
        # The answer after a redaction is drawn whatever is given.
        assert predicted.is_upper_bound is (draws or name == "redact")
        again = CountingBackend(backend)
        again.seed = 1
        if count(again, [measure.trial(item)]) == predicted and not predicted.is_upper_bound:
            # Nothing that is found decides what is asked next.
            assert counts(predicted) == counts(taken)


def counting(tokenizer: Any = None, shares: Sharing = "prefixes") -> CountingBackend:
    toy = Toy()
    toy.tokenizer = tokenizer or toy.tokenizer
    toy.capabilities = replace(toy.capabilities, shares=shares)
    return CountingBackend(toy)


def contexts(*ids: tuple[int, ...]) -> tuple[Prompt, ...]:
    return tuple(Prompt((Piece("a", "context", one),)) for one in ids)


def test_tokens_are_those_of_the_tree_written_out() -> None:
    request = Request(contexts((1, 2, 3), (1, 9), (1, 8)), (5, 6), TargetLogProbs())
    # Runs: 1 2 3 5 and, forked after the first token, 9 5 and 8 5; or each from its first token.
    for shares, n_tokens in (("prefixes", 8), ("sequences", 10), ("nothing", 10)):
        backend = counting(shares=shares)  # type: ignore[arg-type]
        backend.score(chunk_of([request]))
        assert backend.n_tokens_run == n_tokens


def test_gradients_count_each_direction_as_a_pass() -> None:
    prompt = Prompt((Piece("q", "query", (1, 2, 3, 4, 5, 6, 7, 8)),))
    for k in (1, 2, 3, 5):
        backend, request = counting(), GradientRequest(prompt, VectorPlace("query"), TopTokens(k), ("identity",))
        backend.differentiate([request], chunk_of_contexts([request]))
        assert backend.n_tokens_run == 8 * (1 + k)


def test_some_token_is_left_where_all_that_stop_are_ruled_out() -> None:
    rule = ClippedLogitAggregation(Aggregation(3.0, 2, 0.5))
    bounds = tuple(rule.bound(ORDERS).tolist())
    stops: list[set[int]] = [set(), {3, 7}, set(range(39)), set(range(40)), {40}, {3, 700}]
    for stop_ids in stops:
        backend = counting(replace(Toy().tokenizer, stop_ids=frozenset(stop_ids)))
        vote = LeaveOneOutVote(rule, (ORDERS[0], ORDERS[-1]), bounds, 0.5, masked=tuple(sorted(stop_ids)))
        (scores,) = backend.score(chunk_of([Request(contexts((1,), (2,)), (), vote)]))
        # Token and log-probability, then the ratio to the bound, its order, and the two orders asked for.
        assert scores.values.shape == (2, 1, 2 + 2 + 2)
        assert int(scores.values[0, 0, 0]) not in stop_ids


def test_draws_that_tell_more_have_a_shape_of_their_own() -> None:
    rule, backend = ClippedLogitAggregation(Aggregation(3.0, 2, 0.5)), counting()
    for n_orders in (2, 5, 2):
        orders = (*ORDERS[: n_orders - 1], ORDERS[-1])
        vote = LeaveOneOutVote(rule, orders, tuple(rule.bound(ORDERS).tolist()), 0.5)
        (scores,) = backend.score(chunk_of([Request(contexts((1,), (2,)), (), vote)]))
        assert scores.values.shape == (2, 1, 2 + 2 + n_orders)


def test_what_an_older_run_predicted_is_left_out() -> None:
    written: dict[str, Any] = {"requests": 3, "tree_tokens": 40, "naive_tokens": 90, "seconds": 0.25}
    read = ResultCost.from_texts({"cost": {**written, "out_of_memory_retries": 0}})
    assert read.scored_together is None
    more = {"out_of_memory_retries": 2, "predicted": {"tree_tokens": 44, "seconds": 0.5}, "scored_together": 8}
    expected = ResultCost(**written, out_of_memory_retries=2, scored_together=8)
    assert ResultCost.from_texts({"cost": written | more}) == expected
    assert ResultCost.from_dict({**expected.to_dict(), "predicted_tree_tokens": 44}) == expected
