"""Searches for exemplars: moves, halves, a greedy way that exhaustive search agrees with, and honest reports of it."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.icl_results import asked, exemplar
from helpers.report_checks import assert_markdown_harmless
from helpers.report_snapshots import assert_as_reviewed, printed
from leakmeter.backends.toy import Toy
from leakmeter.core.plain import to_json
from leakmeter.data import tasks
from leakmeter.data.tasks import task_of
from leakmeter.engine.measure import Callbacks
from leakmeter.engine.prediction import Predictor
from leakmeter.errors import UsageError
from leakmeter.instruments.icl.measure import Icl
from leakmeter.instruments.icl.prompts import ExemplarSettings
from leakmeter.instruments.icl.result import AnswerLosses, FixedExemplar, IclResult, IclSummary
from leakmeter.instruments.icl.search import (
    MOVES,
    ExemplarList,
    ExemplarSearch,
    MeasuredList,
    Move,
    SearchRound,
    SearchScope,
    candidates,
    halves,
    moves_from,
    scope_of,
    search,
)
from leakmeter.instruments.icl.selection import (
    FEWEST,
    Chosen,
    Lists,
    Selection,
    SelectionModel,
    SelectionStep,
    difference_of_shares,
    exemplars_jsonl,
    selection_directory,
    selection_of,
)
from leakmeter.instruments.icl.selection_prediction import predicted_selection
from leakmeter.instruments.icl.selection_report import SELECTION, report, round_line, sentences
from leakmeter.report import blocks as b
from leakmeter.report import markdown
from leakmeter.stats.ranks import signed_rank_p
from leakmeter.stats.stats import interval_of_mean_difference
from leakmeter.text.exemplars import LabelledText, Task

TASK = Task("mood", "How?", (("said", "Said"),), "Mood", (("Glad", "Glad"), ("Sad", "Sad")))
SETTINGS = ExemplarSettings(TASK)
# To a model that reads bytes, all labels begin with the same space.
MEASURE = Icl(label_scoring="whole-sequence")


def said(prefix: str, labels: str, *texts: str) -> ExemplarList:
    words = {"+": "Glad", "-": "Sad"}
    return tuple(
        LabelledText(f"{prefix}{i}", (text,), words[label])
        for i, (text, label) in enumerate(zip(texts, labels, strict=True), 1)
    )


EXAMPLES = said("", "+--+-+", "Anna sang.", "Bo lost a shoe.", "Rain again!", "Cake?", "No, none.", "It works.")
QUERIES = said("q", "+--++-", "Ha!", "Oh.", "Hm, well.", "Yes.", "A 2nd?", "Gone.")


def scope(exemplars: Sequence[LabelledText] = EXAMPLES[:3], **how: Any) -> SearchScope:
    """Two queries choose and the others report, unless a test says otherwise."""
    return replace(SearchScope(tuple(exemplars), (), ("reorder",), QUERIES[:2], QUERIES[2:], 5, 0), **how)


def lists_in(directory: Path, backend: Any = None) -> Lists:
    return Lists(backend or Toy(), MEASURE, SETTINGS, directory, lambda *_: nullcontext(Callbacks()), None)


def case(nats: float, id_: str = "q", *, right: bool = True, noise: float = 0.0) -> IclResult:
    """A query with one exemplar of such a loss."""
    return asked(
        id_, labels=("Glad", "Sad"), exemplars=(exemplar(1, nats, 0.1),), worst_exemplar="x1", answer_exemplar="x1",
        gold="Glad", prediction="Glad", loss_nats=nats, noise_floor_nats=noise, is_right=right,
    )  # fmt: skip


def by_hand(exemplars: Sequence[LabelledText], queries: Sequence[LabelledText]) -> float:
    """ICLInf of a list: every prompt written out in full, every label token by token."""
    toy = Toy()

    def log_probs(shown: Sequence[LabelledText], query: LabelledText) -> np.ndarray:
        parts = [f"Said: {one.texts[0]}\nMood: {one.label}" for one in shown]
        text = "\n\n".join(["How?", *parts, f"Said: {query.texts[0]}\nMood:"])
        scores = [0.0, 0.0]
        for i, label in enumerate((" Glad", " Sad")):
            ids = [*toy.tokenizer.start_ids, *text.encode()]
            for token in label.encode():
                logits = toy.logits(np.asarray(ids), np.arange(len(ids)))
                scores[i] += logits[token] - np.logaddexp.reduce(logits)
                ids.append(token)
        return np.asarray(scores) - np.logaddexp.reduce(scores)

    losses = []
    for query in queries:
        whole = log_probs(exemplars, query)
        cuts = [log_probs([*exemplars[:i], *exemplars[i + 1 :]], query) for i in range(len(exemplars))]
        losses.append(max(np.abs(whole - cut).max() for cut in cuts))
    return float(np.mean(losses))


def test_moves_are_all_there_are() -> None:
    a, b, c, d, e, _ = EXAMPLES

    def after(exemplars: ExemplarList, kind: str, pool: ExemplarList = ()) -> list[ExemplarList]:
        return [after for _, after in moves_from(exemplars, [kind], pool)]

    assert after((a, b, c), "reorder") == [(b, a, c), (c, b, a), (a, c, b)]
    assert after((a, b, c), "drop") == [(b, c), (a, c), (a, b)]
    assert after((a, b), "replace", (d, e)) == [(d, b), (e, b), (a, d), (a, e)]
    assert after((a, b), "add", (d, e)) == [(a, b, d), (a, b, e)]
    # One that is there already does not come again, and the last one does not go.
    assert after((a, d), "add", (d, e)) == [(a, d, e)]
    assert after((d,), "replace", (d, e)) == [(e,)]
    assert after((a,), "drop") == after((a,), "reorder") == []
    kinds = [move.kind for move, _ in moves_from((a, b, c), MOVES, (d, e))]
    assert {kind: kinds.count(kind) for kind in MOVES} == {"reorder": 3, "drop": 3, "replace": 6, "add": 2}


@pytest.mark.parametrize("n", [2, 3, 41])
def test_halves_are_disjoint_whole_and_seeded(n: int) -> None:
    queries = [LabelledText(str(number), (f"t{number}",), "Glad") for number in range(n)]
    choosing, reporting = halves(queries, 0)
    assert (len(choosing), len(reporting)) == (n // 2, n - n // 2)
    assert sorted([*choosing, *reporting], key=lambda one: int(one.id)) == queries
    assert [*choosing] == [one for one in queries if one in choosing]
    assert halves(queries, 0) == (choosing, reporting)
    assert n < 6 or len({halves(queries, seed) for seed in range(5)}) == 5


def test_candidates_are_none_that_are_there_already() -> None:
    pool = [
        *(LabelledText(one.id, one.texts, "Sad") for one in EXAMPLES[:3]), LabelledText("9", QUERIES[0].texts, "Glad"),
        LabelledText("1", ("Well done.",), "Glad"), LabelledText("7", ("Well done.",), "Sad"),
        LabelledText("8", ("Alas.",), "Sad"),
    ]  # fmt: skip
    given = (*EXAMPLES[:2], LabelledText("8", ("Some.",), "Sad"), LabelledText("pool 8", ("Other.",), "Sad"))
    found = candidates(pool, given, QUERIES, n=8, seed=0)
    assert [one.id for one in found] == ["3", "pool 1", "pool 8 (2)"]
    assert [one.texts[0] for one in found] == ["Rain again!", "Well done.", "Alas."]
    many = [LabelledText(str(number), (f"t{number}",), "Glad") for number in range(50)]
    few = candidates(many, given, QUERIES, n=5, seed=1)
    assert len(few) == 5
    assert few == candidates(many, given, QUERIES, n=5, seed=1) != candidates(many, given, QUERIES, n=5, seed=2)
    with pytest.raises(UsageError, match="all 1 examples of the pool are already exemplars or queries"):
        candidates(pool[3:4], given, QUERIES, n=5, seed=0)


def test_a_scope_is_what_can_be_done() -> None:
    made = scope_of(EXAMPLES[:3], EXAMPLES[2:], QUERIES, n_candidates=2, seed=3)
    assert made.kinds == MOVES
    assert len(made.pool) == 2
    assert (made.choosing, made.reporting) == halves(QUERIES, 3)
    assert sorted(one.id for one in made.queries) == [one.id for one in QUERIES]
    assert scope_of(EXAMPLES[:3], None, QUERIES).kinds == ("reorder", "drop")
    assert scope_of(EXAMPLES[:3], EXAMPLES, QUERIES, moves=["add", "drop"]).kinds == ("drop", "add")
    assert scope_of(EXAMPLES[:1], EXAMPLES, QUERIES, moves=["drop", "replace"]).kinds == ("drop", "replace")
    with pytest.raises(UsageError, match="one exemplar leaves nothing to reorder or drop"):
        scope_of(EXAMPLES[:1], None, QUERIES)
    with pytest.raises(UsageError, match="no move named ''"):
        scope_of(EXAMPLES[:2], None, QUERIES, moves=[""])


def test_each_step_takes_the_best_of_all_moves(tmp_path: Path) -> None:
    """Every list that one move leads to, every prompt in full."""
    lists = lists_in(tmp_path)
    made = scope(EXAMPLES[:3], pool=EXAMPLES[4:], kinds=MOVES, max_steps=2)
    way = search(made, lambda exemplars: lists.measured(exemplars, made.choosing))
    assert len(way.path) == 3
    assert not way.is_exhausted
    assert way.path[0].loss_nats == pytest.approx(by_hand(made.exemplars, made.choosing), abs=1e-12)
    measured = {made.exemplars}
    for before, one, taken in zip(way.lists, way.rounds, way.path[1:], strict=False):
        lowest: dict[str, float] = {}
        for move, after in moves_from(before, MOVES, made.pool):
            if after not in measured:
                measured.add(after)
                lowest[move.kind] = min(lowest.get(move.kind, math.inf), by_hand(after, made.choosing))
        assert taken in one.best
        assert taken.loss_nats == pytest.approx(min(lowest.values()), abs=1e-12)
        assert {best.move.kind: best.loss_nats for best in one.best if best.move} == pytest.approx(lowest, abs=1e-12)


def walk(
    nats: Callable[[ExemplarList], Sequence[float]], made: SearchScope, noise: float = 0.0, **how: Any
) -> ExemplarSearch:
    seen: list[ExemplarList] = []

    def measured(exemplars: ExemplarList) -> list[IclResult]:
        # No list is measured twice.
        assert exemplars not in seen
        seen.append(exemplars)
        return [case(one, noise=noise) for one in nats(exemplars)]

    return search(made, measured, **how)


def test_a_search_ends_at_the_noise_floor_or_after_the_most_steps() -> None:
    def nats(exemplars: ExemplarList) -> list[float]:
        return [1.0 * len(exemplars), 1.0 + len(exemplars)]

    made = scope(EXAMPLES, kinds=("drop",), max_steps=9)
    way = walk(nats, made, noise=0.9)
    assert [len(one) for one in way.lists] == [6, 5, 4, 3, 2, 1]
    # The last exemplar stays, and a round without moves measures nothing.
    assert (way.is_exhausted, way.rounds[-1].n_lists, way.rounds[-1].best) == (True, 0, ())
    way = walk(nats, replace(made, max_steps=2), noise=0.9)
    assert [len(one) for one in way.lists] == [6, 5, 4]
    assert not way.is_exhausted
    way = walk(nats, made, noise=1.0)
    assert (way.lists, way.is_exhausted) == ((made.exemplars,), True)
    assert [best.loss_nats for best in way.rounds[0].best] == [5.5]


def test_a_search_leaves_infinite_losses_and_stays_at_them_where_all_are() -> None:
    made = scope(EXAMPLES[:3], kinds=("drop",))
    way = walk(lambda exemplars: [math.inf if EXAMPLES[0] in exemplars else 3.0, 1.0], made)
    assert [one.loss_nats for one in way.path] == [math.inf, 2.0]
    assert len(walk(lambda exemplars: [math.inf], made).path) == 1


def test_lists_that_do_not_fit_are_passed_over_and_counted() -> None:
    rounds: list[tuple[MeasuredList, MeasuredList | None, SearchRound]] = []
    made = scope(EXAMPLES[:2], pool=EXAMPLES[3:5], kinds=("add",))
    way = walk(
        lambda exemplars: [1.0 / len(exemplars)],
        made,
        fits=lambda exemplars: len(exemplars) < 4 and EXAMPLES[3] not in exemplars,
        on_round=lambda *told: rounds.append(told),
    )
    assert way.lists[-1] == (*EXAMPLES[:2], EXAMPLES[4])
    assert [(one.n_lists, one.n_too_long) for one in way.rounds] == [(1, 1), (0, 1)]
    first, second = way.path
    assert rounds == list(zip((first, second), (second, None), way.rounds, strict=True))


def test_what_fits_behind_the_longest_query_fits_behind_all(tmp_path: Path) -> None:
    backend = Toy()
    lists = lists_in(tmp_path, backend)
    longest = lists.longest(EXAMPLES[:2], QUERIES)
    assert longest.texts == ("Hm, well.",)
    assert lists.fits(EXAMPLES[:2], longest)
    assert not list(tmp_path.iterdir())
    backend.window = 90
    for exemplars in itertools.chain(*(itertools.combinations(EXAMPLES, n) for n in (1, 2, 3))):
        assert lists.fits(exemplars, longest) == all(lists.fits(exemplars, query) for query in QUERIES)
    assert {lists.fits((one,), longest) for one in EXAMPLES} == {True}
    assert {lists.fits(EXAMPLES[:n], longest) for n in (1, 3)} == {True, False}


def selection(before: Sequence[float], after: Sequence[float], right: Sequence[tuple[bool, bool]] = ()) -> Selection:
    """What is found of losses before and after, on which a step was taken; it is read again as it is written."""
    pairs = right or [(True, True)] * len(before)
    given = scope(reporting=tuple(replace(QUERIES[0], id=str(number)) for number in range(len(before))))
    (move, end), *_ = moves_from(EXAMPLES[:3], ["reorder"], ())
    start = MeasuredList.from_results(EXAMPLES[:3], [case(2.0)] * 2)
    step = MeasuredList.from_results(end, [case(1.0)] * 2, move)
    found = ExemplarSearch((EXAMPLES[:3], end), (start, step), (SearchRound(best=(step,), n_lists=3, n_too_long=0),))
    ends = (
        [case(nats, one.id, right=was[n]) for nats, one, was in zip(losses, given.reporting, pairs, strict=True)]
        for n, losses in enumerate((before, after))
    )
    made = selection_of(lists_in(Path()), given, found, *ends)
    assert Selection.from_dict(json.loads(to_json(made))) == made
    return made


def test_the_verdict_is_of_the_queries_that_did_not_choose() -> None:
    rng = np.random.default_rng(0)
    before = rng.gamma(2.0, size=30)
    lower, same = before - rng.uniform(0.1, 0.5, size=30), before + rng.normal(scale=0.3, size=30)
    told = selection(before.tolist(), lower.tolist(), [(True, True)] * 20 + [(True, False)] * 7 + [(False, True)] * 3)
    assert told.loss_difference_nats == pytest.approx((lower - before).mean())
    interval = interval_of_mean_difference(lower, before, seed=0)
    assert told.loss_difference_interval_nats == pytest.approx(interval)
    assert told.wilcoxon_p == signed_rank_p(lower, before)
    assert told.accuracy_difference == pytest.approx(-4 / 30)
    assert told.accuracy_difference_interval == pytest.approx(difference_of_shares(3, 7, 30))
    assert (told.verdict, told.n_choosing, told.n_reporting, told.before.n) == ("lower", 2, 30, 30)
    assert told.after.mean_nats == pytest.approx(lower.mean())
    assert selection(before.tolist(), same.tolist()).verdict == "not lower"
    assert selection(lower.tolist(), before.tolist()).verdict == "not lower"
    for n, verdict in ((FEWEST - 1, "too few"), (FEWEST, "lower"), (1, "too few")):
        assert selection(before[:n].tolist(), lower[:n].tolist()).verdict == verdict
    # Without an interval all of them have to be lower.
    few = selection([2.0] * 7, [1.0, 1.2, 1.1, 0.9, 0.8, 1.3, 1.4])
    assert (few.verdict, few.loss_difference_interval_nats) == ("lower", None)
    assert selection([2.0] * 7, [1.0, 1.2, 1.1, 0.9, 0.8, 1.3, 2.01]).verdict == "not lower"
    # Not even differences of one sign would show anything with fewer.
    assert signed_rank_p(before[: FEWEST - 1] - 1.0, before[: FEWEST - 1]) > 0.05


def test_where_a_loss_is_infinite_there_is_no_mean() -> None:
    told = selection([math.inf, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0], [1.0] * 7)
    assert (told.verdict, told.loss_difference_nats, told.loss_difference_interval_nats) == (*("not lower", None), None)
    assert told.before.mean_nats == math.inf


def test_a_search_without_a_step_changes_nothing() -> None:
    start = MeasuredList.from_results(EXAMPLES[:3], [case(1.0), case(2.0, right=False)])
    found = ExemplarSearch((EXAMPLES[:3],), (start,), (SearchRound(best=(), n_lists=0, n_too_long=4),))
    cases = [case(1.0, str(number)) for number in range(len(QUERIES[2:]))]
    told = selection_of(lists_in(Path()), scope(), found, cases, cases)
    assert (told.verdict, told.ended, told.n_lists) == ("unchanged", "no move lowers it", 1)
    assert told.steps == (
        SelectionStep(step=0, move=None, exemplars=("1", "2", "3"), loss_nats=1.5, largest_nats=2.0, accuracy=0.5),
    )
    assert (told.loss_difference_nats, told.wilcoxon_p, told.accuracy_difference) == (0.0, 1.0, 0.0)


def test_the_interval_of_a_difference_between_shares() -> None:
    # By hand: p₊ = p₋ = 1/12, half = 1.959964 √((2/12) / 12).
    assert difference_of_shares(0, 0, 10) == pytest.approx((-0.2309840, 0.2309840), abs=1e-6)
    low, high = difference_of_shares(9, 2, 40)
    half = 1.959964 * math.sqrt((10 / 42 + 3 / 42 - (7 / 42) ** 2) / 42)
    assert (low, high) == pytest.approx((7 / 42 - half, 7 / 42 + half), abs=1e-6)
    assert difference_of_shares(2, 9, 40) == pytest.approx((-high, -low))
    assert difference_of_shares(1, 0, 1)[1] <= 1.0


@pytest.mark.parametrize("name", [*tasks.names(), "own"])
def test_new_exemplars_are_read_as_they_were_written(tmp_path: Path, name: str) -> None:
    own = {"fields": {"Body": "Ticket", "note": "Note"}, "labels": {"1": "Ja", "2": "Nein"}, "label_column": "Team"}
    described = task_of(own, "task") if name == "own" else tasks.find(name)
    texts = ('"quoted",\r\n\x85and\u2028long  {x} <b>', "…", "{} %s \\")
    exemplars = tuple(
        LabelledText(f"pool {number}", (text, *("second" for _ in described.task.fields[1:])), word)
        for number, (text, word) in enumerate(zip(texts, described.task.words, strict=False))
    )
    path = tmp_path / "exemplars.jsonl"
    path.write_bytes(exemplars_jsonl(exemplars, described.task).encode())
    assert tuple(described.load(str(path), "train")) == exemplars


def test_the_directory_is_told_by_all_but_moves_pool_and_steps(tmp_path: Path) -> None:
    def name(made: SearchScope, measure: Icl = MEASURE, template: str | None = "plain", **machine: Any) -> str:
        how = {"dtype": None, "device": None, "memory": None, **machine}
        model = how.pop("model", "toy")
        path = selection_directory(made, ExemplarSettings(TASK, template), measure, model, tmp_path, **how)
        # Nothing is made before there is something to keep.
        assert not path.exists()
        return path.name

    first = name(scope())
    assert first == name(scope(pool=EXAMPLES[4:], kinds=MOVES, max_steps=1))
    others = [name(scope(EXAMPLES[:2])), name(scope(EXAMPLES[1::-1])), name(scope(choosing=QUERIES[:1])), first]
    others += [name(scope(seed=1)), name(scope(), replace(MEASURE, temperature=2.0)), name(scope(), template="chat")]
    others += [name(scope(), model="other"), name(scope(), dtype="float32"), name(scope(), memory="1GiB")]
    assert len(set(others)) == len(others)


@pytest.mark.parametrize("kinds", [pytest.param(MOVES, marks=pytest.mark.long), ("reorder",), ("drop", "replace")])
def test_no_search_takes_more_than_is_predicted(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    backend = Toy()
    pool = EXAMPLES[4:] if set(kinds) & {"replace", "add"} else ()
    made = scope(EXAMPLES[:3], pool=pool, kinds=kinds, max_steps=2)
    told = predicted_selection(Predictor(Toy()), made, SETTINGS, MEASURE)
    assert not list(tmp_path.iterdir())
    assert backend.n_tokens_run == 0
    lists = lists_in(tmp_path, backend)
    found = search(made, lambda exemplars: lists.measured(exemplars, made.choosing))
    for exemplars in (made.exemplars, found.lists[-1]):
        lists.measured(exemplars, made.reporting)
    assert 1 + sum(one.n_lists for one in found.rounds) <= told.n_lists
    assert backend.n_tokens_run <= told.tree_tokens
    assert (told.n_choosing, told.n_reporting, told.at_most) == (2, 4, True)


@pytest.mark.parametrize(("verdict", "said"), [("lower", "all of them lower"), ("not lower", "not all of them lower")])
def test_of_few_queries_it_is_said_which_rule_decided(verdict: str, said: str) -> None:
    """They have no interval of the difference, and none is spoken of."""
    few = replace(told(verdict), n_reporting=6, loss_difference_interval_nats=None)
    assert any(f"(too few for an interval, {said}, Wilcoxon p = " in sentence for sentence in sentences(few))
    advice = next(block for block in report(few).blocks if isinstance(block, b.Advice))
    assert not any("interval of the difference" in b.plain(row[0]) for row in (*advice.rows, *advice.others))
    assert all(b.plain(condition).startswith("ICLInf is ") for condition, _ in advice.rows)


SNAPSHOTS = Path(__file__).parent / "snapshots"
HOSTILE = "[red]x[/red]\x1b[31m|\n{} %s " + "long " * 40


def told(verdict: str = "lower", *, nats: float = 12.345, n_too_long: int = 0) -> Selection:
    """Of three exemplars with ids and texts that mean no good; one is dropped and one replaced."""
    is_finite = math.isfinite(nats)

    def half(ids: list[str]) -> IclSummary:
        interval = (nats - 1.5, nats + 1.5) if is_finite else None
        answers = AnswerLosses(
            mean_nats=1.0, std_nats=0.5, interval_nats=(0.5, 1.5), n_given=0, max_nats=2.0, share_below_noise_floor=0.0
        )
        exemplars = tuple(
            FixedExemplar(
                id=id_, position=i, answers=answers, label=HOSTILE, text=HOSTILE, n_tokens=9, mean_nats=nats,
                max_nats=nats, std_nats=0.5, interval_nats=interval, worst_query="q", worst_share=1.0,
                worst_share_interval=(0.9, 1.0),
            )
            for i, id_ in enumerate(ids, 1)
        )  # fmt: skip
        return IclSummary(
            n=50, answers=answers,
            mean_nats=nats, std_nats=0.5, interval_nats=interval, quantiles_nats={}, share_below_noise_floor=0.0,
            n_with_label=50, accuracy=1.0, accuracy_interval=(0.929, 1.0), macro_f1=1.0, positions=(), labels=(),
            exemplars=exemplars, median_tree_tokens=5.0, median_naive_tokens=9.0,
        )  # fmt: skip

    def measured(move: Move | None, exemplars: list[str]) -> MeasuredList:
        many = tuple(exemplars)
        return MeasuredList(move=move, exemplars=many, loss_nats=nats, largest_nats=nats, accuracy=0.999)

    one, two, new = HOSTILE, f"2 {HOSTILE}", f"pool {HOSTILE}"
    swap = measured(Move("replace", (two,), new), [new, "3"])
    lists = [measured(None, [one, two, "3"]), measured(Move("drop", (one,)), [two, "3"]), swap]
    names = MeasuredList.__slots__
    steps = tuple(
        SelectionStep(step=i, **{name: getattr(each, name) for name in names}) for i, each in enumerate(lists)
    )
    moves = (Move("reorder", ("a", "b")), Move("add", (), "pool 4"))
    best = (lists[1], *(replace(lists[1], move=move) for move in moves))
    return Selection(
        **asdict(Icl()), model=SelectionModel(name="toy", weights_sha256=None, dtype="float64", device="cpu"),
        task=HOSTILE,
        template="plain", moves=MOVES, candidates=("pool 4", new), n_choosing=50, n_reporting=50, max_steps=2, seed=0,
        ended="max steps", n_lists=41, exemplars=(Chosen(id=new, label=HOSTILE), Chosen(id="3", label=HOSTILE)),
        steps=steps[:1] if verdict == "unchanged" else steps, verdict=verdict, warnings=(HOSTILE,),
        rounds=(SearchRound(best=best, n_lists=40, n_too_long=n_too_long),), before=half([one, two, "3"]),
        after=half([new, "3"]), loss_difference_nats=-2.0 if is_finite else None,
        loss_difference_interval_nats=(-2.25, -1.75) if is_finite else None, wilcoxon_p=0.00012,
        accuracy_difference=-0.04, accuracy_difference_interval=(-0.131, 0.052),
    )  # fmt: skip


@pytest.mark.parametrize("verdict", ["lower", "not lower", "too few", "unchanged"])
@pytest.mark.parametrize("nats", [12.345, math.inf])
def test_everything_fits_80_columns_and_nothing_is_obeyed(verdict: str, nats: float) -> None:
    found = told(verdict, nats=nats)
    assert Selection.from_dict(json.loads(to_json(found))) == found
    made = report(found, command=HOSTILE)
    text, note = printed(made), markdown.text(made)
    assert max(map(len, text.splitlines())) <= 80
    assert_markdown_harmless(note)
    assert "[red]" in text
    assert "&#91;red&#93;" in note
    for one in (text, note):
        assert [word in one for word in ("\x1b", "100 %", "99 %", "∞")] == [False, True, True, nats == math.inf]
    rows = [line for line in note.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in rows} <= {5, 6, 8}


def test_what_a_report_says_is_as_reviewed() -> None:
    made = report(told(n_too_long=3), command="leakmeter icl select")
    assert_as_reviewed(SNAPSHOTS / "selection.txt", made, with_page=False)


def test_fewer_queries_than_advice_names_cannot_show_that_answers_are_as_good() -> None:
    assert difference_of_shares(0, 0, 53)[0] < -0.05 <= difference_of_shares(0, 0, 54)[0]
    assert "54 that answer the same" in SELECTION["unclear"][1][1]


def test_words_follow_the_verdict() -> None:
    for verdict, headline in (
        ("lower", "The new exemplars leak less. 50 queries cannot tell whether they answer as well."),
        ("not lower", "The new exemplars are not shown to leak less."),
        ("too few", "No conclusion from 50 of 100 queries."),
        ("unchanged", "The exemplars stay the same: no move lowers their leakage by more than the noise floor."),
    ):
        assert b.headline_of(report(told(verdict))) == headline
    for interval, headline in (
        ((-0.3, -0.1), "The new exemplars leak less, and answer worse."),
        ((-0.051, 0.2), "The new exemplars leak less. 50 queries cannot tell whether they answer as well."),
        ((-0.05, 0.0), "The new exemplars leak less, and answer as well."),
    ):
        assert b.headline_of(report(replace(told("lower"), accuracy_difference_interval=interval))) == headline
    (differs,) = sentences(told())
    assert differs.startswith(
        "On 50 queries not used in the choice, ICLInf differs by −2.00 [−2.25, −1.75]\u00a0nats (W"
    )
    assert list(sentences(told("not lower", nats=math.inf))) == list(sentences(told("too few"))) == []
    assert list(sentences(told(n_too_long=3)))[1].startswith("Left out: 3 lists, with which a query would not fit")


def test_a_page_has_a_picture_of_what_each_move_brought() -> None:
    (picture,) = (one for one in report(told()).blocks if isinstance(one, b.Chart))
    (line,) = picture.panels[0].series
    assert list(line.y) == [step.loss_nats for step in told().steps]
    assert b.plain(picture.panels[0].y.names[0]) == "as given"
    assert b.charts_of(report(replace(told(), steps=told().steps[:1]))) == []


def test_a_round_in_one_line() -> None:
    before, taken, _ = told().steps
    lower = replace(taken, loss_nats=12.0)
    line = round_line(1, before, lower, 40)
    assert line.startswith("step 1: drop [red]")
    assert line.endswith("the best of 40 lists: ICLInf 12.0 nats, 0.35 less")
    assert "\x1b" not in line
    assert round_line(2, before, None, 7) == "step 2: none of 7 lists lowers ICLInf, 12.3 nats"
    assert round_line(1, replace(before, loss_nats=math.inf), lower, 7).endswith("ICLInf 12.0 nats, ∞ less")
