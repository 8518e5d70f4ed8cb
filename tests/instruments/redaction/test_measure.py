"""Plans of redaction on the toy model: every number by enumeration, every plan against all sets of spans there are."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from helpers.masked_prompts import masking
from helpers.measure_items import ByHand, make_item
from leakmeter.backends.toy import ByteTokenizer, Toy
from leakmeter.core.case import Case, Document
from leakmeter.core.drive import drive
from leakmeter.core.item import ContextItem
from leakmeter.core.measure import Measurement
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.reductions import TargetLogProbs
from leakmeter.core.request import Request
from leakmeter.core.sampling import sample
from leakmeter.core.tree import Chunk, chunk_of
from leakmeter.errors import UsageError
from leakmeter.instruments.redaction.measure import PUT_BACK, REMOVED, Redaction, candidates
from leakmeter.text.build import PromptSettings, prepare

N_VOCAB = 29
RESPONSE = (20, 7, 0, 28, 3)
TOY = Toy(N_VOCAB, seed=11)


def item_of(
    seed: int, n: int = 6, *, masks: bool = False, uncovered: bool = False, response: tuple[int, ...] | None = RESPONSE
) -> ContextItem:
    """Random pieces c0, c1 …, each a span; `uncovered` leaves the last one out."""
    rng = np.random.default_rng(seed)

    def ids(n_ids: int) -> tuple[int, ...]:
        return tuple(int(i) for i in rng.integers(0, N_VOCAB, size=n_ids))

    pieces = [Piece(f"c{i}", "context", ids(int(rng.integers(1, 7)))) for i in range(n)]
    prompt = Prompt((Piece("open", "frame", ids(2)), *pieces, Piece("query", "query", ids(3))))
    item = make_item(prompt, response, masks=masks)
    names = prompt.names()[: n - uncovered]

    def cut(gone: Collection[str]) -> Prompt:
        if set(gone) == set(prompt.names()):
            return prompt.blank()
        return (partial(masking, prompt) if masks else prompt.without)(*gone)

    spans = tuple(replace(s, ranges=((i, i + 1),)) for i, s in enumerate(item.spans) if s.name in names)
    return replace(item, spans=spans, cuts={name: cut((name,)) for name in names}, cut_together=cut)


def planned(item: ContextItem, measure: Redaction, backend: Toy | None = None) -> tuple[list[Measurement], list[Chunk]]:
    chunks: list[Chunk] = []
    (measurements,), _ = drive(backend or TOY, [measure.trial(item)], on_plan=chunks.append)
    return measurements, chunks


def steps_of(measurements: list[Measurement]) -> list[Measurement]:
    return [r for r in measurements if r.statistic in (REMOVED, PUT_BACK)]


def plan_of(measurements: list[Measurement]) -> set[str]:
    back = {r.piece for r in measurements if r.statistic == PUT_BACK}
    return {r.piece for r in measurements if r.statistic == REMOVED} - back


def loss(values: np.ndarray) -> float:
    return float(np.abs(values).sum())


def named(measurements: list[Measurement], statistic: str, sample_: int = 0) -> np.ndarray:
    (found,) = [r.values for r in measurements if (r.statistic, r.sample) == (statistic, sample_)]
    return found


class Enumerated:
    """L(R) of any set of pieces, by hand."""

    def __init__(self, item: ContextItem, measure: Redaction, masks: bool = False) -> None:
        self.hand = ByHand(TOY, item.prompt, RESPONSE, measure.cid_lambda, measure.temperature)
        self.everything, self.masks = set(item.prompt.names()), masks
        self.names = [span.name for span in item.spans]

    def left(self, gone: Collection[str]) -> np.ndarray:
        bare = self.hand.bare_log_probs()
        if set(gone) == self.everything:
            return np.zeros_like(bare)
        return self.hand.log_probs(set(gone), closes=not self.masks) - bare

    def losses_with(self, taken: Collection[str]) -> dict[str, float]:
        """What is left with one piece more cut, of each there is."""
        return {name: loss(self.left([*taken, name])) for name in self.names if name not in taken}


@pytest.mark.parametrize("masks", [False, True], ids=["drop", "mask"])
@pytest.mark.parametrize(("weight", "temperature"), [(1.0, 1.0), (1.5, 0.7), (0.5, 2.0)])
def test_every_step_is_the_best_there_was(weight: float, temperature: float, masks: bool) -> None:
    item = item_of(3, masks=masks)
    measure = Redaction(max_loss=0.4, temperature=temperature, cid_lambda=weight)
    measurements, _ = planned(item, measure)
    hand = Enumerated(item, measure, masks)
    np.testing.assert_allclose(named(measurements, "whole"), hand.left(()), rtol=0, atol=2e-14)
    taken: list[str] = []
    assert steps_of(measurements)
    for step in steps_of(measurements):
        if step.statistic == REMOVED:
            assert loss(hand.left(taken)) > measure.max_loss
            tried = hand.losses_with(taken)
            taken.append(step.piece)
        else:
            assert loss(hand.left(taken)) <= measure.max_loss
            tried = {name: loss(hand.left([other for other in taken if other != name])) for name in taken}
            taken.remove(step.piece)
        assert step.piece == min(tried, key=tried.__getitem__)
        np.testing.assert_allclose(step.values, hand.left(taken), rtol=0, atol=2e-14)
    np.testing.assert_allclose(named(measurements, "left"), hand.left(taken), rtol=0, atol=2e-14)
    assert plan_of(measurements) == set(taken)


@pytest.mark.long
def test_plans_are_within_the_limit_and_near_the_smallest_of_all_sets() -> None:
    sizes = []
    for seed in range(12):
        item = item_of(seed, 8)
        for limit in (0.05, 0.3, 1.0, 3.0):
            measure = Redaction(max_loss=limit)
            measurements, _ = planned(item, measure)
            plan, hand = plan_of(measurements), Enumerated(item, measure)
            assert loss(named(measurements, "left")) <= limit
            assert not any(loss(hand.left(plan - {name})) <= limit for name in plan), "one could be spared"
            found = (n for n in range(9) for gone in combinations(hand.names, n) if loss(hand.left(gone)) <= limit)
            sizes.append((len(plan), next(found)))
    assert all(n >= smallest for n, smallest in sizes)
    # Measured: 46 of 48 are of the smallest size, one has a span more and one two.
    assert sum(n == smallest for n, smallest in sizes) >= 44
    assert max(n - smallest for n, smallest in sizes) <= 2


def test_nothing_is_cut_where_nothing_has_to_be() -> None:
    measurements, chunks = planned(item_of(0), Redaction(max_loss=500.0))
    assert not steps_of(measurements)
    assert named(measurements, "left").tobytes() == named(measurements, "whole").tobytes()
    assert {r.sample for r in measurements} == {0}
    assert sum(len(r.prompts) for r in chunks[0].requests) == 2
    # Nor of a model that is deaf to the context.
    measurements, _ = planned(item_of(0), Redaction(max_loss=1e-9), Toy(N_VOCAB, seed=11, reach=1))
    assert not steps_of(measurements)


def test_with_everything_cut_nothing_is_left_and_each_round_asks_once_for_every_piece() -> None:
    item = item_of(5)
    measurements, chunks = planned(item, Redaction(max_loss=1e-12))
    assert plan_of(measurements) == {span.name for span in item.spans}
    assert loss(named(measurements, "left")) == 0
    assert not any(r.statistic == "all_removed" for r in measurements)
    n = len(item.spans)
    # With no context, and then: all; each piece; each of the others … each of all put back; and noise and the answer.
    asked = [[len(request.prompts) for request in chunk.requests] for chunk in chunks]
    assert asked[: n + 2] == [[2], *([m + 1] for m in range(n, 0, -1)), [n + 1]]
    assert {request.reduction for chunk in chunks[: n + 2] for request in chunk.requests} == {Redaction().reduction}
    assert len(steps_of(measurements)) == n


def test_nothing_is_put_back_where_one_piece_was_cut() -> None:
    item = item_of(5)
    hand = Enumerated(item, Redaction(max_loss=1.0))
    limit = min(loss(hand.left((name,))) for name in hand.names)
    measurements, chunks = planned(item, Redaction(max_loss=limit + 1e-9))
    assert [step.statistic for step in steps_of(measurements)] == [REMOVED]
    asked = [[len(request.prompts) for request in chunk.requests] for chunk in chunks]
    assert asked[:2] == [[2], [len(item.spans) + 1]]
    assert len(asked[2]) > 1  # the noise


def test_where_the_pieces_do_not_reach_far_enough_the_best_of_the_way_is_kept() -> None:
    n_shortened = 0
    for seed in range(4):
        item = item_of(seed, uncovered=True)
        measure = Redaction(max_loss=1e-6)
        measurements, _ = planned(item, measure)
        hand = Enumerated(item, measure)
        everything = hand.left([span.name for span in item.spans])
        np.testing.assert_allclose(named(measurements, "all_removed"), everything, rtol=0, atol=2e-14)
        taken: list[str] = []
        best = loss(hand.left(()))
        while tried := hand.losses_with(taken):
            taken.append(min(tried, key=tried.__getitem__))
            best = min(best, tried[taken[-1]])
        assert loss(named(measurements, "left")) <= best + 1e-12
        n_shortened += len(plan_of(measurements)) < len(hand.names)
    assert n_shortened  # there was a way on which cutting more did no good


def test_ties_go_to_the_first_in_the_text() -> None:
    item = item_of(0)
    pieces = tuple(replace(p, ids=(5,)) if p.role == "context" else p for p in item.prompt.pieces)
    twins, spans = replace(item.prompt, pieces=pieces), tuple(reversed(item.spans))
    item = replace(
        item, prompt=twins, spans=spans, cuts={s.name: twins.without(s.name) for s in spans},
        cut_together=lambda gone: twins.without(*gone),
    )  # fmt: skip
    measurements, _ = planned(item, Redaction(max_loss=1e-12))
    assert [step.piece for step in steps_of(measurements)] == [f"c{i}" for i in range(6)]


def test_a_value_with_all_its_mentions_is_one_piece_among_the_others() -> None:
    note = Document("note", "Anna is in. Call 555-010-7788 now. Bo ate. Or 555-010-7788 later.")
    case = Case("note", (note,), "Who?", "Call Anna.")
    item = prepare(case, ByteTokenizer(), PromptSettings(group=True), window=None, n_reserved=4).item
    assert [span.name for span in item.spans] == ["s1", "s2", "s3", "s4", "v1"]
    # Where two begin together the shorter comes first: a value before the sentence that it opens.
    assert candidates(item) == ["s1", "s2", "v1", "s3", "s4"]
    assert candidates(item, ["s2"]) == ["s1", "v1", "s3", "s4"]
    # Its mentions have gone with the sentences.
    assert candidates(item, ["s2", "s4"]) == ["s1", "s3"]
    assert candidates(item, ["v1"]) == ["s1", "s2", "s3", "s4"]
    # Within others that were cut later it is put back unasked.
    for seed in range(40):
        measurements, _ = planned(item, Redaction(max_loss=1e-9), Toy(seed=seed))
        if "v1" in {step.piece for step in steps_of(measurements)}:
            break
    back = [step for step in steps_of(measurements) if step.statistic == PUT_BACK]
    assert [step.piece for step in back] == ["v1"]
    assert loss(back[0].values) == 0
    assert plan_of(measurements) == {"s1", "s2", "s3", "s4"}


def test_the_answer_after_is_drawn_from_what_is_left_with_the_same_randomness() -> None:
    item = item_of(3, response=None)
    measure = Redaction(max_loss=0.4, seed=5, max_new_tokens=6)
    measurements, _ = planned(item, measure)
    assert plan_of(measurements)
    drawing = {"n": 1, "temperature": 1.0, "context_weight": 1.0, "max_new_tokens": 6, "seed": 5}
    left = item.without(plan_of(measurements))
    for number, prompt in enumerate((item.prompt, left)):
        ((drawn,),), _ = drive(TOY, [sample(replace(item, prompt=prompt), **drawing)])
        assert named(measurements, "token", number).astype(int).tolist() == list(drawn)
    hand = ByHand(TOY, left, named(measurements, "token", 1).astype(int), 1.0, 1.0)
    owed = hand.log_probs() - hand.bare_log_probs()
    np.testing.assert_allclose(named(measurements, "whole", 1), owed, rtol=0, atol=2e-14)


def test_the_answer_after_keeps_to_the_window() -> None:
    item = replace(item_of(3), window=len(item_of(3).prompt.ids) + len(RESPONSE))
    measurements, _ = planned(item, Redaction(max_loss=0.4, max_new_tokens=1000))
    left = item.without(plan_of(measurements))
    assert item.window is not None
    assert len(named(measurements, "token", 1)) == item.window - len(left.ids)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        *(({"max_loss": limit}, r"max-loss is .*; it has to be above 0") for limit in (0.0, np.nan, np.inf)),
        ({"temperature": 0}, "temperature is 0"), ({"seed": -1}, "seed is -1"),
        ({"max_loss": None}, "give --max-loss NATS, or --disclosures"),
        ({"max_loss": None, "disclosures": True, "search": "top:5"}, "leave out --search or --disclosures"),
    ],
)  # fmt: skip
def test_what_has_no_meaning_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Redaction(**given)
    # A record names search and disclosures where there are some.
    assert not {"search", "disclosures"} & set(Redaction().record())
    assert Redaction(search="top:5").record()["search"] == "top:5"
    assert Redaction(disclosures=True).record()["disclosures"] is True


@pytest.mark.parametrize("k", [1, 2, 6])
@pytest.mark.parametrize("seed", range(2))
def test_with_a_search_those_are_scored_whose_hiding_leaves_least(k: int, seed: int) -> None:
    item = item_of(seed)
    names = list(item.cuts)
    chunks: list[Chunk] = []
    promising = Redaction(max_loss=1.0, search=f"top:{k}")._promising(item, RESPONSE, ("c4",), names)
    (found,), _ = drive(TOY, [promising], on_plan=chunks.append)
    prompts = (item.blank, *(item.prompt.hiding("c4", name) for name in names))
    (scores,) = TOY.score(chunk_of([Request(prompts, RESPONSE, TargetLogProbs())]))
    left = {name: loss(row - scores.values[0]) for name, row in zip(names, scores.values[1:], strict=True)}
    assert found == [name for name in names if name in sorted(names, key=left.__getitem__)[:k]]
    assert bool(chunks) == (k < len(names))


def test_pieces_of_several_sizes_are_for_influence_alone() -> None:
    case = Case("notes", (Document("a", "Anna sang. Bo ate."), Document("b", "It rained. Eve ran.")), "Who?", "Anna")
    item = PromptSettings(unit="sentence", template="plain").prepare(case, Toy(), Redaction(max_loss=1.0)).item
    assert [span.kind for span in item.spans] == ["unit"] * 4
