"""Cases that are scored together: the same numbers as alone, one part a group, and nothing lost or done twice."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import leakmeter
from helpers.mortal_toy import Mortal
from helpers.toy_chat import ToyChat
from leakmeter.backends.toy import Toy
from leakmeter.core.case import Case, Document
from leakmeter.core.item import Origin
from leakmeter.core.request import Scores
from leakmeter.core.tree import Chunk
from leakmeter.data.cases import cases_of
from leakmeter.engine.groups import MOST_TURNS, groups_of
from leakmeter.engine.measure import Callbacks, PartsBackend, measure_cases, measured_together, write_part
from leakmeter.engine.prediction import Predictor, predicted_cases
from leakmeter.engine.storage.parts import Part, cases_of_run
from leakmeter.engine.storage.rundir import RunDirectory
from leakmeter.engine.storage.spec import spec_of
from leakmeter.engine.workers import PartDone
from leakmeter.instruments.influence.measure import Influence
from leakmeter.text.build import PromptSettings

SETTINGS = PromptSettings()
MEASURE = Influence(max_new_tokens=5)
N_CASES = 7
# Half of them without a response, so that trials have different numbers of rounds.
CASES = [
    Case(f"c{i}", (Document("a", f"Anna sang {i} songs. Bo ate."),), "Who?", "Anna" if i % 2 else None)
    for i in range(N_CASES)
]


def measured(backend: Toy, directory: RunDirectory | None, size: int, callbacks: Callbacks | None = None) -> list[Part]:
    given = [SETTINGS.prepare(case, backend, MEASURE) for case in CASES]
    return list(
        measure_cases(
            backend, MEASURE, given, directory, callbacks or Callbacks(), groups=groups_of([None] * len(given), size)
        )
    )


def numbers(parts: list[Part]) -> list[Any]:
    return [[(r.item, r.piece, r.statistic, r.values.tobytes()) for r in measurements] for _, measurements in parts]


def words(parts: list[Part]) -> list[Any]:
    return [json.loads(json.dumps({**texts, "cost": None})) for texts, _ in parts]


@pytest.mark.parametrize("size", [2, 20])
def test_groups_give_the_numbers_of_single_cases(tmp_path: Path, size: int) -> None:
    alone = measured(Toy(), None, 1)
    spec = spec_of(MEASURE, "influence", SETTINGS, Toy(), CASES, group_size=size)
    with RunDirectory(tmp_path / spec.id).opened(spec) as directory:
        together = measured(Toy(), directory, size)
        directory.finish(spec, len(groups_of([None] * N_CASES, size)))
    read = list(cases_of_run(RunDirectory(tmp_path / spec.id)))
    assert numbers(alone) == numbers(together) == numbers(read)
    assert words(alone) == words(together) == words(read)
    assert len(list(tmp_path.glob("*/measurements-*"))) == -(-N_CASES // size)
    # The number scored together is part of a run's id.
    assert spec.id != spec_of(MEASURE, "influence", SETTINGS, Toy(), CASES).id
    costs = [texts["cost"] for texts, _ in read]
    assert [cost["scored_together"] for cost in costs] == [min(size, N_CASES - i // size * size) for i in range(7)]
    # The toy shares nothing, so that what the cases take is what they take alone.
    for name in ("requests", "tree_tokens", "naive_tokens"):
        assert sum(cost[name] for cost in costs) == sum(texts["cost"][name] for texts, _ in alone)


def test_a_run_whose_back_end_dies_goes_on_without_repeating_or_losing_a_case(tmp_path: Path) -> None:
    size = 2
    begun: list[str] = []
    callbacks = Callbacks(on_case=lambda number, id_: begun.append(f"{number} {id_}"))
    spec = spec_of(MEASURE, "influence", SETTINGS, Toy(), CASES, group_size=size)
    seen: dict[str, bytes] = {}
    n_deaths = 0
    while True:
        backend = Mortal(5 + n_deaths)
        with RunDirectory(tmp_path / spec.id).opened(spec) as directory:
            try:
                found = measured(backend, directory, size, callbacks)
                break
            except KeyboardInterrupt:
                n_deaths += 1
        now = {path.name: path.read_bytes() for path in directory.path.glob("*-0*")}
        assert {name: now[name] for name in seen} == seen
        seen = now
        assert n_deaths < 30
    assert n_deaths >= 3
    assert numbers(found) == numbers(measured(Toy(), None, 1))
    assert [texts["id"] for texts, _ in found] == [case.id for case in CASES]
    # A group is begun until it is finished, and not after.
    assert list(dict.fromkeys(begun)) == ["0 c0", "2 c2", "4 c4", "6 c6"]
    assert begun == sorted(begun)


class Interrupted(Toy, PartsBackend):
    """Its workers have done all parts but the last when the user interrupts; nothing is written before that."""

    may_write = threading.Event()

    def measure_parts(self, measure: Any, cases: Any, parts: Any, groups: Any) -> Iterator[tuple[int, PartDone]]:
        for number in parts[:-1]:
            given = [SETTINGS.prepare(CASES[number], self, MEASURE)]
            parts = measured_together(Toy(), MEASURE, given, measuring_noise=[True], in_groups=False)
            yield number, PartDone(parts, 0, 0)
        threading.Timer(0.05, self.may_write.set).start()
        raise KeyboardInterrupt

    def close(self) -> None:
        """There are no workers."""


def test_an_interrupt_gives_what_is_still_being_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Interrupted()
    monkeypatch.setattr("leakmeter.engine.measure.WRITERS", N_CASES)
    monkeypatch.setattr(
        "leakmeter.engine.measure.write_part", lambda *part: (backend.may_write.wait(), write_part(*part))
    )
    given = [SETTINGS.prepare(case, Toy(), MEASURE) for case in CASES]
    spec = spec_of(MEASURE, "influence", SETTINGS, Toy(), CASES)
    found: list[str] = []
    with RunDirectory(tmp_path / spec.id).opened(spec) as directory:
        parts = measure_cases(backend, MEASURE, given, directory, Callbacks())
        with pytest.raises(KeyboardInterrupt):
            found.extend(texts["id"] for texts, _ in parts)
    assert found == [case.id for case in CASES[:-1]]


def test_running_out_of_memory_names_the_group(tmp_path: Path) -> None:
    class Small(Toy):
        def score(self, chunk: Chunk) -> list[Scores]:
            self.n_halvings += 1
            return super().score(chunk)

    told: list[str] = []
    measured(Small(), None, 3, Callbacks(on_halving=lambda id_, n: told.append(id_)))
    assert told == ["c0 to c2", "c3 to c5", "c6"]


def test_what_cases_share_is_predicted_once() -> None:
    """Two cases that differ in their ids alone: together they take what one of them takes."""
    documents = (Document("a", "Anna sang. Bo ate."),)
    twins = [SETTINGS.prepare(Case(id_, documents, "Who?", "Anna"), Toy(), MEASURE) for id_ in "ab"]
    toy = Toy()
    toy.capabilities = replace(toy.capabilities, shares="prefixes")
    predictor = Predictor(toy)
    one, two = predictor.predict(MEASURE, twins[0]), predictor.predict(MEASURE, *twins)
    # Influence asks once more for its prompts in other company, each trial for itself.
    assert one.n_tokens_run == two.n_tokens_run
    assert two.n_prompts == one.n_prompts
    told = predicted_cases(predictor, MEASURE, twins, group_size=2)
    assert [case.id for case in told.cases] == ["a", "b"]
    assert told.tree_tokens == one.n_tokens_run
    alone = predicted_cases(predictor, MEASURE, twins)
    assert alone.tree_tokens == 2 * one.n_tokens_run


def test_turns_of_a_conversation_are_a_group_and_long_ones_several() -> None:
    assert groups_of([None, "a", "a", None, "b", "a"]) == [range(1), range(1, 3), range(3, 4), range(4, 5), range(5, 6)]
    long = groups_of(["a"] * (2 * MOST_TURNS + 1))
    assert [len(group) for group in long] == [MOST_TURNS, MOST_TURNS, 1]
    assert groups_of([]) == []


def conversation(n_turns: int) -> dict[str, Any]:
    chat: list[dict[str, Any]] = [{"role": "tool", "content": "Ana sings in the choir. Bo has gout. It rained."}]
    for turn in range(n_turns):
        chat += [
            {"role": "user", "content": f"Question {turn}?"},
            {"role": "assistant", "content": f"Answer {turn}, Bo."},
        ]
    return {"id": "c", "messages": chat}


def test_turns_that_are_scored_together_have_the_numbers_of_single_ones() -> None:
    whole = leakmeter.influence(ToyChat(), data=[conversation(4)], controls=0)
    assert [case.cost.scored_together for case in whole] == [4] * 4
    for case in cases_of([conversation(4)], needs_response=True).cases:
        (alone,) = leakmeter.influence(ToyChat(), data=[replace(case, emission=None)], controls=0)
        of_group = next(one for one in whole if one.id == case.id)
        assert of_group.whole_nats == pytest.approx(alone.whole_nats, abs=1e-9)
        assert [each.nats for each in of_group.pieces] == pytest.approx([each.nats for each in alone.pieces], abs=1e-9)


def test_a_conversation_takes_little_more_than_its_last_turn() -> None:
    """Ten turns share their prefix, under each variant of what was read."""
    toy = ToyChat()
    toy.capabilities = replace(toy.capabilities, shares="prefixes")
    cases = cases_of([conversation(10)], needs_response=True).cases
    prepared = [Origin(case, SETTINGS, MEASURE).prepare(toy) for case in cases]
    predictor = Predictor(toy)
    together = predicted_cases(predictor, MEASURE, prepared).tree_tokens
    last = predicted_cases(predictor, MEASURE, prepared[-1:]).tree_tokens
    apart = sum(predicted_cases(predictor, MEASURE, [case]).tree_tokens for case in prepared)
    assert together < 1.5 * last
    assert together < 0.3 * apart
