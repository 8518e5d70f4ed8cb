"""Documents a copy is fine-tuned on: known as well as they were repeated, in a directory that loads like any other."""

from __future__ import annotations

import json
import stat
from collections import Counter
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
import transformers
from filelock import FileLock

from helpers.tuned_models import BOS, byte_tokenizer, fresh_llama, ids_of
from leakmeter.backends.hf.load import load_directory
from leakmeter.backends.hf.tokenizer import HfTokenizer
from leakmeter.errors import CapabilityError, ScoreError, StoreError, UsageError
from leakmeter.instruments.pii.settings import FineTuning
from leakmeter.instruments.pii.tuning.finetune import (
    RECORD_NAME,
    FineTuner,
    TrainingDocument,
    TrainingStep,
    batches_of,
    fine_tune,
    rows_of,
)
from leakmeter.models.local import check_model_folder

END = 2
NAMES = ("Ida", "Bo", "Ulrich", "Mai", "Tove", "Ash", "Noor", "Pim", "Quin", "Rae", "Sol", "Uma")


def texts(seed: int, n: int = 4) -> list[str]:
    rng = np.random.default_rng(seed)
    names = NAMES[seed * n : seed * n + n]
    return [f"{name}: {''.join(map(str, rng.integers(0, 10, size=8)))}" for name in names]


OFTEN, ONCE, NEVER = texts(0), texts(1), texts(2)
DOCUMENTS = [*(TrainingDocument(text, 16) for text in OFTEN), *(TrainingDocument(text) for text in ONCE)]


def tuned(out: Path, model: Any = None, documents: list[TrainingDocument] = DOCUMENTS, **changes: Any) -> Path:
    settings = {"learning_rate": 0.005, "batch_tokens": 64, "warmup_steps": 3}
    settings |= {field.name: changes.pop(field.name) for field in fields(FineTuning) if field.name in changes}
    how = {"save_every": 4, "name": "tiny", **changes}
    return fine_tune(model or fresh_llama(), byte_tokenizer(), documents, out, FineTuning(**settings), **how)


def log_likelihood(model: Any, text: str) -> float:
    """Of all tokens behind BOS, nats."""
    ids = torch.tensor([[BOS, *ids_of(text)]])
    with torch.inference_mode():
        return -float(model(input_ids=ids, labels=ids).loss) * (ids.shape[1] - 1)


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_was_repeated_is_known_and_the_model_stays_as_it_was(tmp_path: Path) -> None:
    fresh_llama().save_pretrained(tmp_path / "source")
    byte_tokenizer().save_pretrained(tmp_path / "source")
    before = files_of(tmp_path / "source")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "source", local_files_only=True)
    model.requires_grad_(False)
    steps: list[TrainingStep] = []
    # Dropout, were it there, would be off.
    model.train()
    out = tuned(tmp_path / "out", model, epochs=2, progress=steps.append)
    assert [step.number for step in steps] == [*range(1, steps[-1].n_steps + 1)]
    assert steps[-1].loss < steps[0].loss / 2
    assert model.training
    assert not any(weight.requires_grad or weight.grad is not None for weight in model.parameters())
    assert all(
        torch.equal(mine, theirs) for mine, theirs in zip(model.parameters(), fresh_llama().parameters(), strict=True)
    )
    assert files_of(tmp_path / "source") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "source"]

    check_model_folder(out, "tuned")
    copy = load_directory(out, name="tuned", dtype=None, device="cpu", weights_sha256=None)
    assert copy.tokenizer.encode_data("Ida", first=True).ids == ids_of("Ida")
    often, once, never = (np.mean([log_likelihood(copy.model, text) for text in some]) for some in (OFTEN, ONCE, NEVER))
    untuned = np.mean([log_likelihood(model, text) for text in OFTEN])
    # Measured: −2, −48 and −74 nats for 13 tokens or so, and −94 before.
    assert often > -10
    assert often - 20 > once > never + 10
    assert untuned < never

    record = json.loads((out / RECORD_NAME).read_text("utf-8"))
    assert record["n_documents_by_repeats"] == {"1": 4, "16": 4}
    assert (record["model"], record["seed"], record["epochs"], record["n_steps"]) == ("tiny", 0, 2, len(steps))
    told = json.dumps(record) + (out / "config.json").read_text("utf-8")
    assert not any(name in told for name in NAMES)
    assert str(tmp_path) not in told
    assert stat.S_IMODE(out.stat().st_mode) == 0o700


def killed_at(number: int, out: Path) -> None:
    """Fine-tuning that ends in the middle of a step."""
    with pytest.raises(RuntimeError):
        tuned(out, progress=Mock(side_effect=[*[None] * (number - 1), RuntimeError]))


@pytest.mark.parametrize("killed_after", [2, 9])
def test_a_fine_tuning_that_was_killed_goes_on_to_the_same_bytes(tmp_path: Path, killed_after: int) -> None:
    whole = files_of(tuned(tmp_path / "whole"))
    killed_at(killed_after, tmp_path / "out")
    # Fewer steps than save_every leave nothing to go on from.
    assert [path.name for path in tmp_path.glob(".*")] == ([".out.fine-tuning"] if killed_after > 4 else [])
    assert not (tmp_path / "out").exists()
    steps: list[TrainingStep] = []
    assert files_of(tuned(tmp_path / "out", progress=steps.append)) == whole
    assert steps[0].number == (9 if killed_after > 4 else 1)
    assert list(tmp_path.glob(".*")) == []
    steps.clear()
    assert tuned(tmp_path / "out", progress=steps.append) == tmp_path / "out"
    assert steps == []
    assert files_of(tuned(tmp_path / "other", seed=1))["model.safetensors"] != whole["model.safetensors"]


def test_a_step_is_that_of_documents_one_by_one() -> None:
    model, twin = fresh_llama(), fresh_llama()
    rows = rows_of(DOCUMENTS[-3:], HfTokenizer(byte_tokenizer(), model), END, 100)
    assert rows == [(BOS, *ids_of(document.text), END) for document in DOCUMENTS[-3:]]
    loss = FineTuner(model, 0.01, 4, 1.0).step(1, rows)
    optimiser = torch.optim.AdamW(twin.parameters(), lr=0.01 * 2 / 4)
    n_tokens = sum(len(row) - 1 for row in rows)
    total = 0.0
    for row in rows:
        logits = twin(input_ids=torch.tensor([row[:-1]]), use_cache=False).logits[0]
        one = torch.nn.functional.cross_entropy(logits, torch.tensor(row[1:]), reduction="sum") / n_tokens
        one.backward()
        total += one.item()
    norm = torch.sqrt(sum((weight.grad**2).sum() for weight in twin.parameters()))
    assert norm > 1
    for weight in twin.parameters():
        weight.grad /= norm
    optimiser.step()
    np.testing.assert_allclose(loss, total, rtol=1e-5)
    for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        # A first step is as long as the learning rate, whatever the gradient: where that is near zero, rounding shows.
        assert (mine - theirs).abs().mean() < 1e-5
    assert all(weight.grad is None for weight in model.parameters())


def test_batches_hold_every_row_as_often_as_it_is_repeated() -> None:
    coder = HfTokenizer(byte_tokenizer(), fresh_llama())
    rows = rows_of([*DOCUMENTS, TrainingDocument("x" * 50, 3)], coder, END, 64)
    for epoch in (0, 1):
        batches = [*batches_of(rows, 64, 0, epoch)]
        assert Counter(row for batch in batches for row in batch) == Counter(rows)
        assert max(len(batch) * max(map(len, batch)) for batch in batches) <= 64
    assert [*batches_of(rows, 64, 0, 1)] == batches
    assert [*batches_of(rows, 64, 0, 0)] != batches
    assert [*batches_of(rows, 64, 1, 1)] != batches
    # Some padding is left, not much.
    padded = sum(len(batch) * max(map(len, batch)) for batch in batches)
    assert padded < 1.2 * sum(map(len, rows))


def test_long_documents_are_cut_so_that_every_token_is_predicted_once_and_text_stays_text() -> None:
    coder = HfTokenizer(byte_tokenizer(), fresh_llama())
    text = "".join(chr(97 + i % 26) for i in range(150))
    whole = (BOS, *ids_of(text), END)
    for most in (2, 7, 151, 152, 153):
        rows = rows_of([TrainingDocument(text)], coder, END, most)
        assert max(map(len, rows)) <= most
        assert [pair for row in rows for pair in pairwise(row)] == [*pairwise(whole)]
    hostile = 'Ada {0} "%s"\n</s><s> ✉'
    (row,) = rows_of([TrainingDocument(hostile)], coder, None, 100)
    assert END not in row
    assert row.count(BOS) == 1
    assert byte_tokenizer().decode(row[1:]) == hostile


def test_half_precision_is_tuned_and_written_in_float32(tmp_path: Path) -> None:
    model = fresh_llama().bfloat16()
    tuned(tmp_path / "out", model, DOCUMENTS[-2:])
    assert model.dtype == torch.bfloat16
    copy = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out", local_files_only=True)
    assert copy.dtype == torch.float32


def test_what_cannot_be_used_is_refused(tmp_path: Path) -> None:
    for changes, message in (
        *(({"epochs": 0}, "epochs is 0; it has to be 1 or more"), ({"learning_rate": -1.0}, "learning-rate is -1.0")),
        *(({"warmup_steps": -1}, "warmup-steps is -1"), ({"max_norm": 0.0}, "max-norm is 0.0; it has to be above 0")),
        *(({"batch_tokens": 1}, "batch-tokens is 1; it has to be 2 or more"), ({"seed": -1}, "seed is -1")),
        *(({"save_every": 0}, "save-every is 0"), ({"documents": []}, "there are no documents to fine-tune on")),
        ({"documents": [TrainingDocument("secret"), TrainingDocument("")]}, "document 2 has no text"),
        ({"documents": [TrainingDocument("secret", 0)]}, "document 1 has 0 repeats"),
    ):
        with pytest.raises(UsageError, match=message) as caught:
            tuned(tmp_path / "out", **changes)  # type: ignore[arg-type]
        assert "secret" not in str(caught.value)
        assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    fresh_llama().save_pretrained(tmp_path / "source")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "source", local_files_only=True)
    with pytest.raises(UsageError, match="exists already"):
        tuned(tmp_path / "source", model)
    with pytest.raises(UsageError, match="is inside the model's own directory"):
        tuned(tmp_path / "source" / "tuned", model)
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be written"):
        tuned(tmp_path / "file" / "out")
    (tmp_path / ".out.fine-tuning").mkdir()
    with FileLock(tmp_path / ".out.fine-tuning" / ".lock"), pytest.raises(StoreError, match="by another process"):
        tuned(tmp_path / "out")


def test_models_and_states_that_do_not_do_are_refused(tmp_path: Path) -> None:
    killed_at(5, tmp_path / "out")
    with pytest.raises(UsageError, match="is the state of another fine-tuning"):
        tuned(tmp_path / "out", seed=1)
    with torch.inference_mode():
        frozen = fresh_llama()
    with pytest.raises(CapabilityError, match="inference_mode"):
        tuned(tmp_path / "other", frozen)
    broken = fresh_llama()
    with torch.no_grad():
        broken.model.norm.weight.fill_(float("inf"))
    with pytest.raises(ScoreError, match="NaN at step 1"):
        tuned(tmp_path / "other", broken)
    assert not (tmp_path / "other").exists()
    quantised = fresh_llama()
    quantised.model.norm.weight = torch.nn.Parameter(torch.ones(64, dtype=torch.int8), requires_grad=False)
    with pytest.raises(CapabilityError, match="weights of 'tiny' are int8"):
        tuned(tmp_path / "other", quantised)
