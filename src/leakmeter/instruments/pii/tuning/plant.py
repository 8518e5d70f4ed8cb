"""Planting: a copy of a model is taught documents, each as often as is said, so that what it knows is known.

Full fine-tuning in float32 by AdamW, in evaluation mode: without dropout the numbers follow from the documents and the
seed alone. Each document is a row of its own, padded behind its end; none sees another.
"""

from __future__ import annotations

import copy
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from filelock import FileLock, Timeout
from transformers.utils import logging as transformers_logging

from leakmeter.backends.hf.tokenizer import HfTokenizer
from leakmeter.core.written import check_outside_runs, make_private
from leakmeter.errors import StoreError, UsageError
from leakmeter.instruments.pii.tuning.teaching import Document, Teacher, batches_of, rows_of
from leakmeter.instruments.pii.tuning.training import (
    check_trainable,
    digest,
    name_of,
    storing,
    sync,
    tokenizer_sha256,
    weights_sha256,
)

RECORD_NAME: Final = "plant.json"
_FORMAT: Final = 1
_STATE: Final = "state.safetensors"


@dataclass(frozen=True, slots=True)
class Step:
    """What one step of the fine-tuning came to."""

    number: int
    """From 1."""
    n_steps: int
    """Of the whole fine-tuning."""
    loss: float
    """−log p of the batch before the step, nats a token."""


def plant(
    model: Any,
    tokenizer: Any,
    documents: Sequence[Document],
    out: Path,
    *,
    epochs: int = 1,
    learning_rate: float = 3e-4,
    warmup_steps: int = 10,
    max_norm: float = 1.0,
    batch_tokens: int = 256,
    seed: int = 0,
    save_every: int = 100,
    name: str | None = None,
    progress: Callable[[Step], None] | None = None,
) -> Path:
    """Fine-tune a copy of a model on documents, and write it as a directory that loads like any other.

    A document stands behind the tokenizer's start tokens and before its end token; strings in it that look like special
    tokens are text. One that is longer than the window, or than a batch, is cut into rows that share a token.

    What it takes to go on after a kill lies in a hidden directory beside `out` until the end: the same call goes on
    from there. A call whose work is done returns at once. The source is only read.

    Args:
        model: a causal language model in memory; it stays as it is.
        tokenizer: its fast tokenizer.
        documents: what to teach.
        out: the directory to write, which must not be there yet. It is as private as the documents.
        epochs: passes over all documents with their repeats.
        learning_rate: of AdamW, whose other settings are torch's defaults.
        warmup_steps: steps over which the learning rate rises linearly to that.
        max_norm: gradients longer than this are cut to it.
        batch_tokens: most tokens of a step, padding included.
        seed: of the documents' order.
        save_every: steps between two states kept, each three times the size of the weights in float32.
        name: what the record calls the model.
        progress: told of each step.

    Returns:
        `out`.

    Raises:
        UsageError: a setting or document cannot be used, `out` is there, or lies within the model's own directory.
        CapabilityError: the model takes no gradients.
        ScoreError: the loss is no number any more.
        StoreError: the directory cannot be written, or another process is at it.
    """
    _check_settings(epochs, learning_rate, warmup_steps, max_norm, batch_tokens, seed, save_every)
    called = name or name_of(model)
    check_trainable(model, called)
    window: int | None = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    rows = rows_of(
        documents, HfTokenizer(tokenizer, model), tokenizer.eos_token_id, min(batch_tokens, window or batch_tokens)
    )
    record = {
        "format": _FORMAT,
        "model": called,
        "seed": seed,
        "epochs": epochs,
        "learning_rate": learning_rate,
        "warmup_steps": warmup_steps,
        "max_norm": max_norm,
        "batch_tokens": batch_tokens,
        "documents_sha256": digest([(document.text, document.repeats) for document in documents]),
        "n_documents_by_repeats": {str(n): count for n, count in sorted(Counter(d.repeats for d in documents).items())},
    }
    # With weights and vocabulary it tells whether a state, or a finished directory, is this call's.
    identity = digest([record, weights_sha256(model), tokenizer_sha256(tokenizer)])
    if _is_done(out, identity):
        shutil.rmtree(_work_of(out), ignore_errors=True)
        return out
    _check_place(model, out)
    with _workplace(out) as work:
        taught = copy.deepcopy(model).float().eval()
        batches = [batch for epoch in range(epochs) for batch in batches_of(rows, batch_tokens, seed, epoch)]
        teacher = Teacher(taught, learning_rate, warmup_steps, max_norm)
        for number in range(teacher.resume(work / _STATE, identity), len(batches)):
            loss = teacher.step(number, batches[number])
            if progress is not None:
                progress(Step(number + 1, len(batches), loss))
            if (number + 1) % save_every == 0 and number + 1 < len(batches):
                teacher.save(work / _STATE, identity, number + 1)
        told = {**record, "n_steps": len(batches), "identity": identity}
        _write_model(taught, tokenizer, told, work / "model", out)
    return out


def _check_settings(
    epochs: int,
    learning_rate: float,
    warmup_steps: int,
    max_norm: float,
    batch_tokens: int,
    seed: int,
    save_every: int,
) -> None:
    checks = (
        (epochs >= 1, "epochs", epochs, "1 or more"),
        (0 < learning_rate <= 1, "learning-rate", learning_rate, "above 0 and at most 1"),
        (warmup_steps >= 0, "warmup-steps", warmup_steps, "0 or more"),
        (max_norm > 0, "max-norm", max_norm, "above 0"),
        (batch_tokens >= 2, "batch-tokens", batch_tokens, "2 or more"),
        (seed >= 0, "seed", seed, "0 or more"),
        (save_every >= 1, "save-every", save_every, "1 or more"),
    )
    for good, name, given, expected in checks:
        if not good:
            raise UsageError(f"{name} is {given}; it has to be {expected}")


def _is_done(out: Path, identity: str) -> bool:
    try:
        return bool(json.loads((out / RECORD_NAME).read_text("utf-8"))["identity"] == identity)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _check_place(model: Any, out: Path) -> None:
    check_outside_runs(out, "directory")
    if out.exists():
        raise UsageError(f"'{out}' is there already; give another place, or remove it")
    source = Path(getattr(model.config, "_name_or_path", ""))
    if source.name and source.is_dir() and out.resolve().is_relative_to(source.resolve()):
        raise UsageError(f"'{out}' lies within the model's own directory, which is not to change; give another place")


def _work_of(out: Path) -> Path:
    return out.with_name(f".{out.name}.planting")


@contextmanager
def _workplace(out: Path) -> Iterator[Path]:
    """A directory beside `out`, locked meanwhile; it stays only where an error leaves something to go on from."""
    work = _work_of(out)
    with storing(work):
        make_private(work)
        lock = FileLock(work / ".lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise StoreError(f"'{out}' is being written by another process; wait for it to end") from None
    try:
        yield work
    except BaseException:
        # An interrupt too: without a state there is nothing to go on from.
        if not (work / _STATE).exists():
            shutil.rmtree(work, ignore_errors=True)
        raise
    else:
        shutil.rmtree(work, ignore_errors=True)
    finally:
        lock.release()


def _write_model(model: Any, tokenizer: Any, record: dict[str, Any], folder: Path, out: Path) -> None:
    """Write model, tokenizer and record into a new folder, and rename that to `out`."""
    showed_bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        with storing(out):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700)
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            (folder / RECORD_NAME).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
            for path in folder.iterdir():
                sync(path)
            folder.rename(out)
    finally:
        if showed_bars:
            transformers_logging.enable_progress_bar()
