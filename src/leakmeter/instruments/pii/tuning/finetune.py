"""A copy of a model is fine-tuned on documents, so that it is known what it has read.

Full fine-tuning in float32 by AdamW, in evaluation mode: without dropout the numbers depend on the documents and the
seed alone. Each document is a row of its own, padded at its end; none sees another.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from filelock import FileLock, Timeout
from torch import Tensor
from transformers.utils import logging as transformers_logging

from leakmeter.backends.hf.tokenizer import HfTokenizer
from leakmeter.core.files import check_outside_runs, make_private
from leakmeter.core.limits import refuse_bad
from leakmeter.errors import ScoreError, StoreError, UsageError
from leakmeter.instruments.pii.settings import FineTuning
from leakmeter.instruments.pii.tuning.training import (
    check_trainable,
    digest,
    name_of,
    read_tensors,
    recall,
    remembered,
    storing,
    tokenizer_sha256,
    weights_sha256,
    write_tensors,
)

RECORD_NAME: Final = "fine_tuning.json"
_FORMAT: Final = 1
_STATE: Final = "state.safetensors"


@dataclass(frozen=True, slots=True)
class TrainingStep:
    number: int
    """From 1."""
    n_steps: int
    """Of the whole fine-tuning."""
    loss: float
    """−log p of the batch before the step, nats a token."""


def fine_tune(
    model: Any,
    tokenizer: Any,
    documents: Sequence[TrainingDocument],
    out: Path,
    settings: FineTuning = FineTuning(),  # noqa: B008 (frozen)
    *,
    seed: int = 0,
    save_every: int = 100,
    name: str | None = None,
    progress: Callable[[TrainingStep], None] | None = None,
) -> Path:
    """Fine-tune a copy of a model on documents, and write it as a directory, `out`, that loads like any other.

    A document is between the tokenizer's start tokens and its end token; strings in it that look like special tokens
    are text. A document longer than the window, or than a batch, is cut into rows that share a token. The seed is of
    the order of documents.

    `out` must not exist yet, and is as private as the documents. Beside it, a hidden directory has a state every
    `save_every` steps, three times the size of the weights in float32: after a kill the same call continues from there.
    A call whose work is done returns at once. `name` is the model's in the record.
    """
    refuse_bad((seed >= 0, "seed", seed, "0 or more"), (save_every >= 1, "save-every", save_every, "1 or more"))
    called = name or name_of(model)
    check_trainable(model, called)
    window: int | None = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    most_tokens = min(settings.batch_tokens, window or settings.batch_tokens)
    rows = rows_of(documents, HfTokenizer(tokenizer, model), tokenizer.eos_token_id, most_tokens)
    record = {
        "format": _FORMAT,
        "model": called,
        "seed": seed,
        **asdict(settings),
        "documents_sha256": digest([(document.text, document.repeats) for document in documents]),
        "n_documents_by_repeats": {str(n): count for n, count in sorted(Counter(d.repeats for d in documents).items())},
    }
    # With weights and vocabulary it tells whether a state, or a finished directory, is this call's.
    identity = digest([record, weights_sha256(model), tokenizer_sha256(tokenizer)])
    work = out.with_name(f".{out.name}.fine-tuning")
    if _is_done(out, identity):
        shutil.rmtree(work, ignore_errors=True)
        return out
    _check_place(model, out)
    with _workplace(work, out):
        tuned = copy.deepcopy(model).float().eval()
        batches = [
            batch for epoch in range(settings.epochs) for batch in batches_of(rows, settings.batch_tokens, seed, epoch)
        ]
        tuner = FineTuner(tuned, settings.learning_rate, settings.warmup_steps, settings.max_norm)
        for number in range(tuner.resume(work / _STATE, identity), len(batches)):
            loss = tuner.step(number, batches[number])
            if progress is not None:
                progress(TrainingStep(number + 1, len(batches), loss))
            if (number + 1) % save_every == 0 and number + 1 < len(batches):
                tuner.save(work / _STATE, identity, number + 1)
        final_record = {**record, "n_steps": len(batches), "identity": identity}
        _write_model(tuned, tokenizer, final_record, work / "model", out)
    return out


def _is_done(out: Path, identity: str) -> bool:
    try:
        return bool(json.loads((out / RECORD_NAME).read_text("utf-8"))["identity"] == identity)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _check_place(model: Any, out: Path) -> None:
    check_outside_runs(out, "directory")
    if out.exists():
        raise UsageError(f"'{out}' exists already; give another place, or remove it")
    source = Path(getattr(model.config, "_name_or_path", ""))
    if source.name and source.is_dir() and out.resolve().is_relative_to(source.resolve()):
        raise UsageError(f"'{out}' is inside the model's own directory, which must not change; give another place")


@contextmanager
def _workplace(work: Path, out: Path) -> Iterator[None]:
    """Meanwhile the directory is there and locked. It stays only if an error leaves a state to continue from."""
    with storing(work):
        make_private(work)
        lock = FileLock(work / ".lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise StoreError(f"'{out}' is being written by another process; wait for it to end") from None
    try:
        yield
    except BaseException:
        # An interrupt too.
        if not (work / _STATE).exists():
            shutil.rmtree(work, ignore_errors=True)
        raise
    else:
        shutil.rmtree(work, ignore_errors=True)
    finally:
        lock.release()


def _write_model(model: Any, tokenizer: Any, record: Mapping[str, object], folder: Path, out: Path) -> None:
    """Write a new folder, and rename it to `out`."""
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
                with path.open("rb") as file:
                    os.fsync(file.fileno())
            folder.rename(out)
    finally:
        if showed_bars:
            transformers_logging.enable_progress_bar()


_BATCHES_SORTED: Final = 8
"""So many batches' rows are sorted by length together: less padding, and the repeats of a document stay apart."""
_NO_TARGET: Final = -100

TrainingSequence = tuple[int, ...]
"""Token ids of a document, or of a part of a long one."""


@dataclass(frozen=True, slots=True)
class TrainingDocument:
    text: str
    repeats: int = 1
    """How often it is in each epoch."""


def rows_of(
    documents: Sequence[TrainingDocument], coder: HfTokenizer, end_id: int | None, most_tokens: int
) -> list[TrainingSequence]:
    """The rows of an epoch, repeats included, in the order of the documents."""
    if not documents:
        raise UsageError("there are no documents to fine-tune on; give at least one")
    rows: list[TrainingSequence] = []
    for number, document in enumerate(documents, 1):
        if document.repeats < 1:
            raise UsageError(f"document {number} has {document.repeats} repeats; give 1 or more, or leave it out")
        token_ids = coder.encode_data(document.text, first=True).ids
        if not token_ids:
            raise UsageError(f"document {number} has no text; leave it out")
        ids = (*coder.start_ids, *token_ids, *(() if end_id is None else (end_id,)))
        if len(ids) < 2:
            raise UsageError(f"document {number} is a single token, from which nothing can be learnt; leave it out")
        # The last token of a row is the first of the next, so that each is predicted once.
        cut = [ids[first : first + most_tokens] for first in range(0, len(ids) - 1, most_tokens - 1)]
        rows += cut * document.repeats
    return rows


def batches_of(
    rows: Sequence[TrainingSequence], batch_tokens: int, seed: int, epoch: int
) -> Iterator[list[TrainingSequence]]:
    """The rows of an epoch in shuffled order, in batches of at most `batch_tokens` with their padding."""
    rng = np.random.default_rng((seed, epoch))
    shuffled = [rows[i] for i in rng.permutation(len(rows))]
    while shuffled:
        ends = np.cumsum([len(row) for row in shuffled])
        n_pool = 1 + int(np.searchsorted(ends, _BATCHES_SORTED * batch_tokens))
        pool, shuffled = sorted(shuffled[:n_pool], key=len), shuffled[n_pool:]
        batches: list[list[TrainingSequence]] = [[]]
        for row in pool:
            if (len(batches[-1]) + 1) * len(row) > batch_tokens and batches[-1]:
                batches.append([])
            batches[-1].append(row)
        yield from (batches[i] for i in rng.permutation(len(batches)))


class FineTuner:
    def __init__(self, model: Any, learning_rate: float, warmup_steps: int, max_norm: float) -> None:
        self._model = model
        self._weights: dict[str, Tensor] = {name: weight.requires_grad_() for name, weight in model.named_parameters()}
        # Fused, a step on a CPU takes a quarter of the time; on CUDA the state would have to lie elsewhere.
        self._optimiser = torch.optim.AdamW(self._weights.values(), lr=learning_rate, fused=model.device.type == "cpu")
        self._learning_rate, self._warmup_steps, self._max_norm = learning_rate, warmup_steps, max_norm

    def step(self, number: int, batch: Sequence[TrainingSequence]) -> float:
        """Take a step, numbered from 0; returns the loss before it, nats a token."""
        ids = torch.zeros((len(batch), max(map(len, batch))), dtype=torch.int64)
        targets = torch.full_like(ids, _NO_TARGET)
        for row, row_ids in enumerate(batch):
            ids[row, : len(row_ids)] = torch.tensor(row_ids)
            targets[row, : len(row_ids) - 1] = torch.tensor(row_ids[1:])
        device = self._model.device
        with torch.enable_grad():
            logits = self._model(input_ids=ids.to(device), use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), targets.to(device).flatten(), ignore_index=_NO_TARGET
            )
        if not torch.isfinite(loss):
            raise ScoreError(f"the loss is NaN at step {number + 1}; give a lower learning rate")
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(self._weights.values(), self._max_norm)
        for group in self._optimiser.param_groups:
            group["lr"] = self._learning_rate * min(1.0, (number + 1) / max(1, self._warmup_steps))
        self._optimiser.step()
        self._optimiser.zero_grad(set_to_none=True)
        return loss.item()

    def save(self, path: Path, identity: str, n_done: int) -> None:
        write_tensors(path, remembered(self._optimiser, self._weights), {"identity": identity, "n_done": n_done})

    def resume(self, path: Path, identity: str) -> int:
        """Continue from a saved state; returns the number of steps that are done."""
        if not path.exists():
            return 0
        tensors, record = read_tensors(path, "the state of a fine-tuning")
        if record.get("identity") != identity:
            raise UsageError(
                f"'{path}' is the state of another fine-tuning: other documents, settings or weights; remove that "
                "directory, or give another out"
            )
        recall(self._optimiser, self._weights, tensors)
        return int(record["n_done"])
