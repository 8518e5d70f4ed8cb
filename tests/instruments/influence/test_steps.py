"""A large log is measured step by step: what it discloses is the same, and clean answers cost two passes."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.instruments.redaction.test_disclosing import Copier

import leakmeter
from helpers.tiny_models import tiny_backend
from leakmeter.backends.toy import Toy
from leakmeter.cli import main
from leakmeter.core.backend import Backend
from leakmeter.core.case import Document, n_characters
from leakmeter.core.item import Origin, Prepared, StepByStep
from leakmeter.core.loaded import LoadedCases
from leakmeter.core.noise_sample import NoiseSample
from leakmeter.data.cases import cases_of
from leakmeter.engine.groups import MOST_HELD, parts_of
from leakmeter.engine.ready import make_ready
from leakmeter.errors import LeakmeterError, UsageError
from leakmeter.instruments.influence.controls import FalseAlarms
from leakmeter.instruments.influence.measure import Influence
from leakmeter.instruments.influence.report import report
from leakmeter.instruments.influence.steps import AVERAGED, FEWEST, TOGETHER, planned, steps_of
from leakmeter.report import blocks as b
from leakmeter.text.build import PromptSettings

_NAMES = ("Anna Berg", "Bo Lind", "Carla Diaz", "Dan Wolff", "Eva Roth", "Finn Falk", "Gina Moss", "Hal Stern")
_CLEAN = ("I cannot share that.", "You are welcome.", "Refunds take ten days.")
N = FEWEST + 10


def _log(n: int = N) -> list[dict[str, Any]]:
    drawn = random.Random(3)
    rows: list[dict[str, Any]] = []
    for i in range(n):
        phone = f"555-01{drawn.randrange(10, 99)}-{drawn.randrange(1000, 9999)}"
        documents = {
            "file": f"{drawn.choice(_NAMES)} is a customer. The phone number is {phone}. An order was late.",
            "rules": "Refunds take ten days. We are open from nine to five.",
        }
        response = f"Call {phone} please." if i % 10 == 0 else drawn.choice(_CLEAN)
        rows.append({"id": f"r{i}", "context": documents, "query": "How do I call them?", "response": response})
    return rows


@pytest.fixture(scope="module")
def by_steps() -> Any:
    return leakmeter.influence("toy", _log())


@pytest.fixture(scope="module")
def complete() -> Any:
    return leakmeter.influence("toy", _log(), complete=True)


def test_what_is_disclosed_is_the_same_as_if_everything_were_measured(by_steps: Any, complete: Any) -> None:
    def said(results: Any) -> dict[str, list[tuple[str, ...]]]:
        return {
            case.id: sorted((d.text, d.kind, d.relation, d.evidence, *d.documents) for d in case.disclosed)
            for case in results
        }

    assert said(by_steps) == said(complete)
    assert sum(bool(leaks) for leaks in said(by_steps).values()) == N // 10
    assert all(case.steps is None for case in complete)


def test_words_alone_name_the_sources_where_scores_confirm_a_value() -> None:
    rows = _log(FEWEST + 5)
    stepwise, everything = leakmeter.influence(Copier(), rows), leakmeter.influence(Copier(), rows, complete=True)
    for one, other in zip(stepwise, everything, strict=True):
        assert _said(one) == _said(other)
    # Copied content that nothing calls personal is listed with its source too.
    assert any(case.disclosed for case in stepwise if case.steps.last == "whole")
    leaking = [case for case in stepwise if any(leak.is_sensitive for leak in case.disclosed)]
    assert {case.steps.last for case in leaking} == {"controls"}
    for case in leaking:
        leak = next(leak for leak in case.disclosed if leak.is_sensitive)
        assert leak.evidence == "scores"
        assert (leak.relation, leak.document) == ("copied", "file")
        assert [(source.nats, source.alone_nats) for source in leak.sources] == [(None, None)]
        assert leak.text in case.context[leak.sources[0].start : leak.sources[0].end]


def _said(case: Any) -> list[tuple[str, ...]]:
    return sorted((leak.text, leak.kind, leak.relation, *sorted(leak.documents)) for leak in case.disclosed)


def test_values_of_records_are_the_same_too() -> None:
    drawn, rows = random.Random(5), list[dict[str, Any]]()
    for i in range(FEWEST + 5):
        person = drawn.choice(_NAMES)
        department, score = drawn.choice(("Marketing", "Legal", "Housing", "Claims")), drawn.randrange(300, 850)
        record = {"name": person, "department": department, "credit_score": score, "late": drawn.random() < 0.5}
        said = (f"{person} works in {department}.", f"The score is {score}.", "I cannot say that.", "All is well.")
        rows.append({"id": f"r{i}", "context": json.dumps(record), "query": "Who?", "response": drawn.choice(said)})
    stepwise, everything = leakmeter.influence("toy", rows), leakmeter.influence("toy", rows, complete=True)
    for one, other in zip(stepwise, everything, strict=True):
        said_by = [[(d.text, d.kind, d.places) for d in case.disclosed if d.is_sensitive] for case in (one, other)]
        assert said_by[0] == said_by[1]
    assert any(case.disclosed for case in stepwise)
    assert any(case.steps.last == "whole" for case in stepwise)


@pytest.fixture(scope="module")
def one_by_one() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("leakmeter.instruments.influence.steps.TOGETHER", 1)
        return leakmeter.influence("toy", _log())


def test_neighbours_that_are_scored_together_have_the_numbers_that_they_have_alone(
    by_steps: Any, one_by_one: Any
) -> None:
    for one, other in zip(by_steps, one_by_one, strict=True):
        assert one.steps == other.steps
        assert one.whole_signed_per_token_nats == other.whole_signed_per_token_nats
        assert one.controls == other.controls
        assert _said(one) == _said(other)


def test_what_neighbours_have_in_common_is_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = tiny_backend()
    together = leakmeter.influence(backend, _log(FEWEST + 2))
    monkeypatch.setattr("leakmeter.instruments.influence.steps.TOGETHER", 1)
    apart = leakmeter.influence(backend, _log(FEWEST + 2))
    for one, other in zip(together, apart, strict=True):
        # Worst measured: 5.7e-6, with a noise floor of 1.1e-5.
        assert one.whole_signed_per_token_nats == pytest.approx(other.whole_signed_per_token_nats, abs=2e-5)
    n_together, n_apart = (sum(case.cost.tree_tokens for case in results) for results in (together, apart))
    assert n_together < 0.75 * n_apart


def test_a_clean_answer_costs_two_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, n in (("TOGETHER", 1), ("FEWEST", 5)):
        monkeypatch.setattr(f"leakmeter.instruments.influence.steps.{name}", n)
    monkeypatch.setattr("leakmeter.instruments.influence.measure.FEWEST", 5)
    by_steps = leakmeter.influence("toy", _log(), sample_for_averages=15)
    assert [case for case in by_steps if case.disclosed and case.steps.last == "whole"] == []
    lengths = [n_characters(case) for case in cases_of(_log()).cases]
    sample = NoiseSample.of(lengths, seed=0, dtype="float32", device="cpu").numbers
    measured_noise = {f"r{number}" for number in sample}
    clean = [case for case in by_steps if case.steps.last == "whole" and case.id not in measured_noise]
    assert all(not case.pieces and not case.controls for case in clean)
    sampled = [case for case in clean if case.steps.in_placebo_sample]
    others = [case for case in clean if not case.steps.in_placebo_sample]
    assert len(others) > 10
    assert {case.cost.requests for case in others} == {2}
    # Those of the sample are scored beside an irrelevant text too.
    assert {case.cost.requests for case in sampled} == {3}


def test_the_share_above_an_irrelevant_text_is_of_the_random_sample_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers that leak are held against that text because they do, which says nothing of the others."""
    for module in ("steps", "measure"):
        monkeypatch.setattr(f"leakmeter.instruments.influence.{module}.FEWEST", 5)
    cases = list(leakmeter.influence("toy", _log(), sample_for_averages=15))
    held = [case for case in cases if case.placebo_alone_nats is not None]
    sampled = [case for case in cases if case.steps.in_placebo_sample]
    assert len(held) > len(sampled) == 15
    # As if nothing of the sample were above, and all else.
    monkeypatch.setattr(
        "leakmeter.instruments.influence.sentences.findings.is_finding",
        lambda case, *more: not case.steps.in_placebo_sample,
    )
    assert "0 of 15 drawn at random" in _texts(cases)


def test_numbers_of_the_whole_context_are_those_of_complete_cases(by_steps: Any, complete: Any) -> None:
    for one, other in zip(by_steps, complete, strict=True):
        assert one.whole_signed_nats == pytest.approx(other.whole_signed_nats, abs=1e-9)
        if one.placebo_alone_nats is not None:
            assert one.placebo_alone_nats == pytest.approx(other.placebo_alone_nats, abs=1e-9)
        if one.steps.last == "pieces":
            nats = {piece.name: piece.nats for piece in other.pieces}
            assert {piece.name: piece.nats for piece in one.pieces} == pytest.approx(nats, abs=1e-9)


def test_a_dry_run_counts_what_is_run_where_nothing_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("".join(f"{json.dumps(row)}\n" for row in _log()), encoding="utf-8")
    predicted = []
    for more in ([], ["--complete"]):
        with pytest.raises(SystemExit) as ended:
            main(["influence", "--model", "toy", "--data", str(log), "--dry-run", "--json", *more])
        assert ended.value.code == 0
        predicted.append(json.loads(capsys.readouterr().out))
    least, every = predicted
    assert (least["at_least"], least["depends"], every["at_least"]) == (True, False, False)
    # Its own prompt, the bare one, and an irrelevant text; three contexts of four in five; noise of the first ten.
    assert 4 * N < least["requests"] < 8 * N < every["requests"]


def test_what_is_drawn_is_measured_completely() -> None:
    asked = [{name: row[name] for name in ("id", "context", "query")} for row in _log(FEWEST + 5)]
    drawn = leakmeter.influence("toy", asked, samples=1, max_new_tokens=3)
    assert all(case.steps is None and case.pieces and case.controls for case in drawn)
    # A part takes long, and is kept as soon as it is done.
    assert {case.cost.scored_together for case in drawn} == {None}


def test_of_a_log_in_which_some_answers_are_drawn_those_are_parts_of_their_own() -> None:
    rows = _log(FEWEST + 5)
    for row in rows[::9]:
        del row["response"]
    results = leakmeter.influence("toy", rows, samples=1, max_new_tokens=3)
    drawn = {row["id"] for row in rows[::9]}
    assert {case.cost.scored_together for case in results if case.id in drawn} == {1}
    assert max(case.cost.scored_together or 0 for case in results) > 4
    assert [case.steps is None for case in results] == [case.id in drawn for case in results]


def test_a_document_that_cases_share_counts_once_for_what_is_scored_together() -> None:
    manual = " ".join(f"Rule {i} says that item {i * 7} is kept on shelf {i % 13}." for i in range(140))
    rows = [
        {"id": f"r{i}", "context": {"manual": manual}, "query": f"Question {i}?", "response": "I cannot say that."}
        for i in range(60)
    ]
    cases = cases_of(rows).cases
    parts = parts_of(cases, TOGETHER, steps_of(60, seed=0))
    assert len(manual) > 6_000
    assert max(map(len, parts)) == TOGETHER
    # Behind documents that differ the same text is run for each.
    apart = [{**row, "context": [f"Of case {i}.", manual]} for i, row in enumerate(rows)]
    assert max(map(len, parts_of(cases_of(apart).cases, TOGETHER, steps_of(60, seed=0)))) == 32_000 // len(manual)
    # What is prepared at a time stays within some memory.
    long = [{**row, "context": manual * 4} for row in rows]
    assert max(map(len, parts_of(cases_of(long).cases, TOGETHER, steps_of(60, seed=0)))) <= MOST_HELD // len(manual * 4)


def test_each_case_is_prepared_once_and_when_its_turn_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[str] = []
    usual = Origin.prepare

    def noted(origin: Origin, backend: Backend) -> Prepared:
        prepared.append(origin.case.id)
        return usual(origin, backend)

    monkeypatch.setattr(Origin, "prepare", noted)
    cases = cases_of(_log(FEWEST + 20)).cases
    ready = make_ready(planned(Influence(), PromptSettings(), LoadedCases(cases)).resolved(), Toy())
    assert prepared == ["r0"]
    parts = ready.measure()
    next(parts)
    assert prepared == [case.id for case in cases[: len(ready.groups[0])]]
    for _ in parts:
        pass
    assert prepared == [case.id for case in cases]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"query": " "}, "has an empty query"),
        ({"response": " "}, "has an empty response"),
        ({"context": " "}, "has an empty context"),
        ({"context": "x" * 5_000}, "fit the model's window"),
        ({"context": "ﷺ" * 300}, "fit the model's window"),
        ({"query": "\udc80"}, "no valid Unicode"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is(change: dict[str, str], why: str) -> None:
    toy = Toy()
    toy.window = 600
    whole = cases_of(_log(FEWEST + 5)).cases
    documents = (Document("a", change["context"]),) if "context" in change else whole[30].documents
    bad = replace(whole[30], documents=documents, **{name: text for name, text in change.items() if name != "context"})
    cases = (*whole[:30], bad, *whole[31:])
    plan = planned(Influence(), PromptSettings(), LoadedCases(cases)).resolved()
    with pytest.raises(LeakmeterError, match=why):
        make_ready(plan, toy)
    ready = make_ready(replace(plan, cases=LoadedCases(cases, skip_bad=True)), toy)
    assert [case.id for case in ready.plan.cases.cases] == [case.id for case in cases if case is not bad]
    assert len(ready.plan.cases.problems) == 1
    assert sum(map(len, ready.groups)) == FEWEST + 4
    assert [texts["id"] for texts, _ in ready.measure()] == [case.id for case in ready.plan.cases.cases]


def test_a_small_log_is_measured_completely() -> None:
    assert Influence().steps(FEWEST) == steps_of(FEWEST, seed=0) == ()
    assert Influence().steps(FEWEST + 1) == steps_of(FEWEST + 1, seed=0) != ()


def test_the_run_says_of_how_many_cases_averages_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("".join(f"{json.dumps(row)}\n" for row in _log()), encoding="utf-8")
    words = ["influence", "--model", "toy", "--data", str(log), "--out", str(tmp_path / "runs")]
    names = []
    for more in ([], ["--sample-for-averages", "200"], ["--sample-for-averages", "41"]):
        with pytest.raises(SystemExit) as ended:
            main([*words, *more])
        assert ended.value.code == 0
        names.append(capsys.readouterr().err.rpartition("run: ")[2].strip())
    assert names[0] == names[1] != names[2]
    run = leakmeter.load_run(names[2])
    assert sum(case.steps.in_placebo_sample for case in run) == 41
    assert json.loads(Path(names[2], "spec.json").read_bytes())["params"]["sample_for_averages"] == 41
    assert " of 41 drawn at random" in _texts(list(run))


@pytest.mark.parametrize("how", [{"complete": True}, {"search": "top:1"}, {"controls": 0}])
def test_a_sample_is_refused_where_each_case_is_measured_in_full(how: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="measured step by step"):
        Influence(sample_for_averages=50, **how)
    with pytest.raises(UsageError, match="40 or more"):
        Influence(sample_for_averages=39)


def test_samples_are_drawn_of_the_whole_log_by_the_seed() -> None:
    steps = steps_of(10_000, seed=0)
    assert sum(one.placebo for one in steps) == AVERAGED
    assert sum(one.controls for one in steps) == FEWEST
    assert all(one.placebo for one in steps if one.controls)
    assert steps == steps_of(10_000, seed=0) != steps_of(10_000, seed=1)
    assert sum(one.placebo for one in steps_of(10_000, 0, 700)) == 700
    # Each place is as likely as another: of many draws no tenth of the log has far more than its share.
    tenths = [0] * 10
    for seed in range(50):
        for number, one in enumerate(steps_of(1_000, seed)):
            tenths[number // 100] += one.placebo
    assert all(800 < n < 1_200 for n in tenths)


@pytest.mark.parametrize("how", [{"complete": True}, {"search": "top:1"}, {"controls": 0}])
def test_who_asks_for_all_or_for_something_else_gets_no_steps(how: dict[str, Any]) -> None:
    assert Influence(**how).steps(1_000) == ()


def test_what_the_log_is_said_to_be_follows_from_the_samples(by_steps: Any) -> None:
    alarms = FalseAlarms.of(by_steps)
    assert alarms is not None
    assert alarms.pairs == 3 * FEWEST
    with_controls = [case for case in by_steps if case.controls]
    assert len(with_controls) > FEWEST  # those that may disclose something have controls too, which are no sample


def _texts(results: Any) -> str:
    shown = [block for block in report(list(results)).blocks if isinstance(block, b.Text)]
    return "\n".join("".join(part if isinstance(part, str) else part.text for part in b.parts(t.text)) for t in shown)


def test_the_report_says_how_far_cases_were_measured(by_steps: Any, complete: Any) -> None:
    said = _texts(by_steps)
    last = [case.steps.last for case in by_steps]
    assert f"{N} responses were measured step by step: {last.count('whole')} with their context and without" in said
    assert "--complete measures everything of each." in said
    assert "The others could disclose nothing but copied content without that." in said
    assert "step by step" not in _texts(complete)


def test_a_case_says_why_its_pieces_have_no_numbers(by_steps: Any) -> None:
    clean = next(case for case in by_steps if case.steps.last == "whole")
    said = "\n".join(map(str, report([clean]).sections[0].blocks))
    assert "Pieces of the context were not measured, since no span of the response could be a disclosure" in said
    assert "has no piece that could be ablated" not in said


def test_a_run_says_which_way_it_was_measured_and_is_read_again(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("".join(f"{json.dumps(row)}\n" for row in _log(FEWEST + 5)), encoding="utf-8")
    stepwise = leakmeter.influence("toy", log, out=tmp_path)
    everything = leakmeter.influence("toy", log, out=tmp_path, complete=True)
    assert stepwise.path != everything.path
    again = leakmeter.load_run(stepwise.path)
    assert [case.steps for case in again] == [case.steps for case in stepwise]
    assert {case.steps.last for case in again} >= {"whole"}
    (check,) = leakmeter.gate(stepwise, max="influence.worst_piece.max <= 1000").checks
    assert check.verdict == "undecided"
    assert check.n_lower_bounds > 0


def test_steps_stand_in_what_a_run_keeps(by_steps: Any) -> None:
    kept = [StepByStep(case.steps.in_placebo_sample, case.steps.in_control_sample) for case in by_steps]
    assert kept == list(steps_of(N, seed=0))
