"""The probe put to the test: canaries that a small model was fine-tuned on are told from canaries that it was not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

from helpers import tuned_models
from leakmeter.backends.hf.backend import HfBackend
from leakmeter.backends.hf.load import load_directory
from leakmeter.engine.measure import Callbacks, measure_cases
from leakmeter.errors import UsageError
from leakmeter.instruments.pii.canaries import Check, Insertion, canaries_of, documents_of
from leakmeter.instruments.pii.check import AucRow, findings
from leakmeter.instruments.pii.measure import Pii
from leakmeter.instruments.pii.probe import probes_of
from leakmeter.instruments.pii.prompts import ProbeSettings
from leakmeter.instruments.pii.result import PiiResult
from leakmeter.instruments.pii.settings import FineTuning
from leakmeter.instruments.pii.subject import Subject
from leakmeter.instruments.pii.tuning.finetune import Document, fine_tune


def small() -> HfBackend:
    model = tuned_models.fresh_llama(max_position_embeddings=1024)
    return HfBackend(model, tuned_models.byte_tokenizer(), name="small")


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
    backend = small()
    documents = [Document(f"Please contact {one.name} by phone number {one.phone}", 60) for one in taught]
    fine_tune(
        backend.model,
        backend.tokenizer.library,
        documents,
        tmp_path / "tuned",
        FineTuning(learning_rate=0.003, batch_tokens=512),
        name="small",
    )
    copy = load_directory(tmp_path / "tuned", name="tuned", dtype=None, device="cpu", weights_sha256=None)
    assert ps_of(copy, taught) == [1 / 51] * 4
    assert sum(p > 0.05 for p in ps_of(copy, unseen)) >= 18
    assert min(ps_of(backend, taught)) > 1 / 51


def test_those_who_are_inserted_are_others_than_those_tuned_on_and_held_out() -> None:
    check = Check(canaries=5, repeats=(1, 3), held_out=5)
    everyone = [one for group in (*check.groups, check.further) for one in group.subjects]
    for values in ([one.name for one in everyone], [one.phone for one in everyone]):
        assert len(set(values)) == len(values) == 20
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
