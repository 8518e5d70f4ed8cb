"""The probe put to the test: canaries that a small model was fine-tuned on are told from canaries that it was not."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import tuned_models
from helpers.command_line import assert_refused, object_of, objects_of
from leakmeter.backends.hf.backend import HfBackend
from leakmeter.backends.hf.load import load_directory
from leakmeter.engine.measure import Callbacks, measure_cases
from leakmeter.engine.storage.rundir import RunDirectory
from leakmeter.errors import UsageError
from leakmeter.instruments.pii.canaries import CanaryCheck, Insertion, canaries_of, documents_of, lines_of
from leakmeter.instruments.pii.check import SCORES, AucRow, findings
from leakmeter.instruments.pii.measure import Pii
from leakmeter.instruments.pii.probe import probes_of
from leakmeter.instruments.pii.prompts import ProbeSettings
from leakmeter.instruments.pii.result import PiiResult
from leakmeter.instruments.pii.settings import FineTuning
from leakmeter.instruments.pii.subject import Subject
from leakmeter.instruments.pii.tuning.finetune import TrainingDocument, fine_tune


def ps_of(backend: HfBackend, subjects: Sequence[Subject]) -> list[float]:
    """p-value of each one's telephone number."""
    settings, measure = ProbeSettings(prompts=1, decoys=50), Pii(beams=())
    cases = [case for case in probes_of(subjects, ("twin",)) if case.type == "phone"]
    prepared = [settings.prepare(case, backend, measure) for case in cases]
    parts = measure_cases(backend, measure, prepared, None, Callbacks())
    return [result.p_value for result in PiiResult.from_run(parts, asdict(measure))]


@pytest.mark.long
def test_a_model_that_was_fine_tuned_on_canaries_ranks_each_ones_number_first_and_nobody_elses(tmp_path: Path) -> None:
    everyone = canaries_of(24, seed=5)
    taught, unseen = everyone[:4], everyone[4:]
    model = tuned_models.fresh_llama(max_position_embeddings=1024)
    backend = HfBackend(model, tuned_models.byte_tokenizer(), name="small")
    documents = [TrainingDocument(f"Please contact {one.name} by phone number {one.phone}", 60) for one in taught]
    fine_tune(
        backend.model, backend.tokenizer.library, documents, tmp_path / "tuned",
        FineTuning(learning_rate=0.003, batch_tokens=512), name="small",
    )  # fmt: skip
    copy = load_directory(tmp_path / "tuned", name="tuned", dtype=None, device="cpu", weights_sha256=None)
    assert ps_of(copy, taught) == [1 / 51] * 4
    assert sum(p > 0.05 for p in ps_of(copy, unseen)) >= 18
    assert min(ps_of(backend, taught)) > 1 / 51


def test_those_who_are_inserted_are_others_than_those_tuned_on_and_held_out() -> None:
    check = CanaryCheck(canaries=5, repeats=(1, 3), held_out=5)
    everyone = [one for group in (*check.groups, check.further) for one in group.subjects]
    assert len(everyone) == len({one.name for one in everyone}) == len({one.phone for one in everyone}) == 20
    assert check.further.repeats == 3


def test_documents_are_as_many_as_repeats_and_say_all_that_is_asked_for() -> None:
    groups = Insertion(canaries=2, repeats=(3, 1), held_out=2).groups
    assert [group.name for group in groups] == ["inserted_1", "inserted_3", "held_out"]
    documents = documents_of(groups, seed=0)
    assert len(documents) == 2 * 1 + 2 * 3
    for group in groups:
        for one in group.subjects:
            assert sum(one.phone is not None and one.phone in text for text in documents) == group.repeats


def test_groups_that_make_no_sense_are_refused() -> None:
    for n, repeats, held_out, said in (
        *((0, (1,), 1, "canaries is 0"), (1, (1,), 0, "held-out 0"), (1, (), 1, "none"), (1, (0,), 1, "0")),
        (1, (2, 2), 1, "2"),
    ):
        with pytest.raises(UsageError, match=said):
            Insertion(canaries=n, repeats=repeats, held_out=held_out)


def row(repeats: int, *ends: float, score: str = "association") -> AucRow:
    low, found, high = ends
    return AucRow(
        box="black", type="phone", repeats=repeats, score=score, n=12, n_held_out=12, auc=found, auc_low=low,
        auc_high=high,
    )  # fmt: skip


def test_findings_say_where_there_are_too_few_canaries() -> None:
    rows = [row(1, 0.4, 0.625, 0.8), row(1, 0.6, 0.9, 0.95, score="likelihood"), row(16, 0.75, 0.9, 0.95)]
    assert findings(rows) == [
        "phone, black box, 1 document a canary: too few canaries to decide whether a probe finds them, AUC 0.62 "
        "[0.40, 0.80], chance 0.5; 42 of each are needed if the AUC stays the same",
        "phone, black box, 16 documents a canary: a probe distinguishes inserted from held-out canaries, AUC 0.90 "
        "[0.75, 0.95]",
    ]


Call = Callable[..., Any]


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))


@pytest.fixture
def small_directory(tmp_path: Path) -> Path:
    tuned_models.fresh_llama(max_position_embeddings=1024).save_pretrained(tmp_path / "small")
    tuned_models.byte_tokenizer().save_pretrained(tmp_path / "small")
    return tmp_path / "small"


@pytest.mark.long
def test_the_whole_check(cli: Call, small_directory: Path, tmp_path: Path) -> None:
    out = tmp_path / "check"
    words = (
        *("--canaries", "3", "--repeats", "1", "2", "--held-out", "3", "--types", "phone", "--batch-tokens", "1024"),
        *("--soft-tokens", "2", "--soft-epochs", "2", "--model", small_directory, "--device", "cpu"),
    )
    ended = cli("pii", "check", "--out", out, *words, "--json")
    assert ended.code == 0, ended.err
    rows = [json.loads(line) for line in ended.out.splitlines()]
    assert {(row["box"], row["repeats"]) for row in rows} == {(box, n) for box in ("black", "white") for n in (1, 2)}
    assert len(rows) == 2 * 2 * len(SCORES)
    points = list(csv.DictReader((out / "roc.csv").read_text(encoding="utf-8").splitlines()))
    for row in rows:
        assert 0 <= row["auc_low"] <= row["auc"] <= row["auc_high"] <= 1
        assert (row["type"], row["n"], row["n_held_out"]) == ("phone", 3, 3)
        names = ("box", "type", "repeats", "score")
        of_row = [point for point in points if all(point[name] == str(row[name]) for name in names)]
        curve = [(float(point["share_held_out"]), float(point["share_inserted"])) for point in of_row]
        assert (curve[0], curve[-1]) == ((0, 0), (1, 1))
        assert np.trapezoid(*np.transpose(curve)[::-1]) == pytest.approx(row["auc"], rel=1e-12)
    assert len(list(csv.DictReader((out / "table.csv").read_text(encoding="utf-8").splitlines()))) == len(rows)
    for name in (f"{stem}.{form}" for stem in ("figure", "roc", "densities") for form in ("png", "svg")):
        assert (out / name).stat().st_size > 1000
    kept = sorted(path.stem for path in (out / "canaries").iterdir())
    assert kept == ["held_out", "inserted_1", "inserted_2", "tuned_on"]
    assert cli("pii", "check", "--out", out, *words, "--json").out == ended.out


@pytest.mark.long
def test_a_soft_prompt_is_tuned_and_asked_behind(cli: Call, small_directory: Path, tmp_path: Path) -> None:
    everyone = canaries_of(9, seed=2)
    for name, people in (("some", everyone[:6]), ("others", everyone[6:])):
        (tmp_path / f"{name}.jsonl").write_text(lines_of(people), encoding="utf-8")
    prompt, model = tmp_path / "prompt.safetensors", ("--model", small_directory, "--device", "cpu", "--json")
    some, others = (("--subjects", tmp_path / f"{name}.jsonl") for name in ("some", "others"))
    told = object_of(cli("pii", "tune", *some, "--out", prompt, "--length", "3", "--epochs", "2", *model))
    assert (told["subjects_tuned_on"], told["subjects_chosen_by"], told["vectors"]) == (5, 1, 3)
    assert not list(tmp_path.glob(".*tuning*"))
    few = ("--kinds", "twin", "--decoys", "50", "--prompts", "1", "--beams", "1")
    values = []
    for more in (("--soft-prompt", prompt), ()):
        cases, _ = objects_of(cli("pii", "probe", *others, *few, *model, *more))
        values.append([case["log_likelihood_nats"] for case in cases])
    assert len(values[0]) == len(values[1]) == 9
    assert values[0] != values[1]


def test_people_in_both_are_refused_by_their_records(cli: Call, small_directory: Path, tmp_path: Path) -> None:
    everyone = canaries_of(4, seed=2)
    for name, some in (("some", everyone[:3]), ("others", everyone[2:])):
        (tmp_path / f"{name}.jsonl").write_text(lines_of(some), encoding="utf-8")
    ended = cli(
        *("pii", "tune", "--subjects", tmp_path / "some.jsonl", "--validation", tmp_path / "others.jsonl"),
        *("--out", tmp_path / "prompt.safetensors", "--model", small_directory),
    )
    assert_refused(ended, f"record {everyone[2].id} is")
    assert everyone[2].name not in ended.err
    assert not (tmp_path / "prompt.safetensors").exists()


@pytest.mark.long
def test_an_interrupted_check_compares_what_is_measured(
    cli: Call, small_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, write, written = tmp_path / "check", RunDirectory.write_part, list[int]()
    words = (
        *("pii", "check", "--out", out, "--canaries", "9", "--repeats", "1", "2", "--held-out", "3"),
        *("--types", "phone", "--batch-tokens", "1024", "--decoys", "50", "--prompts", "1", "--white-box", "none"),
        *("--model", small_directory, "--device", "cpu"),
    )

    def write_and_end(self: RunDirectory, number: int, *part: Any) -> None:
        if len(written) == 2:
            raise KeyboardInterrupt
        write(self, number, *part)
        written.append(number)

    with monkeypatch.context() as patched:
        patched.setattr(RunDirectory, "write_part", write_and_end)
        ended = cli(*words)
    assert ended.code == 130, ended.err
    # Those held out are measured first, and of the inserted ones eight at a time.
    assert ended.out.startswith("Interrupted: 11 of 21 probes are measured, and all numbers here are for these.\n")
    assert re.search(r"^black +phone +1 +association +8 +3 ", ended.out, re.MULTILINE)
    assert not (out / "table.md").exists()
    whole = cli(*words)
    assert whole.code == 0, whole.err
    assert re.search(r"^black +phone +2 +association +9 +3 ", whole.out, re.MULTILINE)
