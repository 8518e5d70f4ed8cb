"""Tuning a soft prompt: vectors in front of prompts, until a model says the values behind them.

Kim et al., "ProPILE: Probing Privacy Leakage in Large Language Models", Appendix A.4: AdamW minimises the values'
negative log-likelihood at a learning rate of 0.005 for 700 epochs, and the epoch with the most exact matches is kept.
Unlike there, tuning ends early if nothing has improved for long.
"""

from __future__ import annotations

import math
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import torch
from torch import Tensor

from leakmeter.backends.hf.backend import HfBackend
from leakmeter.backends.hf.places import differentiable
from leakmeter.backends.hf.tokenizer import HfTokenizer
from leakmeter.core.backend import Tokenizer
from leakmeter.core.files import made_for, make_private
from leakmeter.core.limits import refuse_bad
from leakmeter.errors import ScoreError, UsageError
from leakmeter.instruments.pii.probe import BY_NAME, ProbeCase, probes_of
from leakmeter.instruments.pii.prompts import ProbeSettings, example_of
from leakmeter.instruments.pii.settings import SoftPromptTuning
from leakmeter.instruments.pii.subject import Subject, ValueType
from leakmeter.instruments.pii.tuning.training import (
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
from leakmeter.instruments.pii.tuning.vectors import (
    SoftPrompt,
    TuningExample,
    batches,
    check_examples,
    lead_of,
    value_logits,
)

_STATE: Final = "soft-prompt.state.safetensors"
_VECTORS, _BEST = "vectors", "best"

Ended = Literal["all epochs", "no progress", "stopped"]


# ---- whom it is tuned on --------------------------------------------------------------------------------------------
def tuned_on_and_others(
    subjects: Sequence[Subject], validation: Sequence[Subject] | None, type_: ValueType, *, seed: int
) -> tuple[list[Subject], list[Subject]]:
    """Subjects with a value of the type, and others to choose the epoch by: `validation`, or a fifth held out.

    No subject may be in both: a soft prompt that was tuned on a subject says nothing of whether the model knew them.
    Both are in the order in which they come.
    """
    people = list(dict.fromkeys(case.subject for case in _cases_of(subjects, type_)))
    if validation is not None:
        for group, purpose in ((people, "to tune on"), (_cases_of(validation, type_), "to choose the epoch by")):
            if not group:
                raise UsageError(f"none of the people {purpose} has the value '{type_}'")
        _check_disjoint(people, validation)
        return people, list(validation)
    n_others = max(1, round(0.2 * len(people)))
    if len(people) - n_others < 2:
        raise UsageError(f"a soft prompt needs 3 or more people with the value, not {len(people)}")
    held_out = set(random.Random(seed).sample(range(len(people)), n_others))
    others = [subject for i, subject in enumerate(people) if i in held_out]
    return [subject for i, subject in enumerate(people) if i not in held_out], others


def examples_of(subjects: Sequence[Subject], type_: ValueType, tokenizer: Tokenizer) -> list[TuningExample]:
    return [example_of(case, tokenizer, ProbeSettings()) for case in _cases_of(subjects, type_)]


def _cases_of(subjects: Sequence[Subject], type_: ValueType) -> list[ProbeCase]:
    """Each value of the type, asked for by the name alone."""
    return [case for case in probes_of(subjects, BY_NAME) if case.type == type_]


def _check_disjoint(tuned_on: Sequence[Subject], others: Sequence[Subject]) -> None:
    """Refuse subjects who are in both, by name or by a value; the error names the records, not the subjects."""
    by_text = {text: subject for subject in tuned_on for text in _facts(subject)}
    for other in others:
        for text in _facts(other):
            if text in by_text:
                raise UsageError(
                    f"record {other.id} is, or shares a value with, record {by_text[text].id} of the people tuned on; "
                    "leave one of them out"
                )


def _facts(subject: Subject) -> Iterator[tuple[str, str]]:
    yield "name", " ".join(subject.name.casefold().split())
    for type_, _, value in subject.targets():
        if type_ in ("phone", "email"):
            yield type_, "".join(value.casefold().split())


# ---- tuning ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Epoch:
    """What one pass over the examples came to."""

    number: int
    """From 1; 0 is before the first."""
    loss: float = math.nan
    """−log p of the examples' values, nats a token, each before the step it led to; NaN for epoch 0."""
    validation_loss: float = math.nan
    """The same of the validation examples after the epoch; NaN where they were not looked at."""
    exact_match: float = math.nan
    """Share of the validation examples whose value greedy decoding yields; NaN where they were not looked at."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """A tuned soft prompt, and how it came about."""

    soft_prompt: SoftPrompt
    """Of the best epoch."""
    best: Epoch
    """Most exact matches; of equals, that with the lowest validation loss."""
    epochs: tuple[Epoch, ...]
    ended: Ended
    n_tuned_on: int
    """Values."""
    n_chosen_by: int
    """Values by which the epoch was chosen."""


def tune(
    model: Any,
    tokenizer: Any,
    examples: Sequence[TuningExample],
    settings: SoftPromptTuning = SoftPromptTuning(),  # noqa: B008 (frozen)
    *,
    validation: Sequence[TuningExample] | None = None,
    name: str | None = None,
    progress: Callable[[Epoch], None] | None = None,
    stop: Callable[[], bool] | None = None,
    state: Path | None = None,
    save_every: int = 10,
) -> Tuned:
    """Tune vectors in front of the examples' prompts; the model's weights do not change.

    A value is matched if each of its tokens is the likeliest after those before it, so that greedy decoding yields it;
    whether decoding ends there does not matter. The best epoch is chosen by `validation`, or else by the examples.
    Tuning ends when `stop`, called after each epoch, returns True.

    `state` is a directory, written every `save_every` epochs: after a kill the same call continues from there, to the
    same numbers. It is private, since the vectors depend on the values, and the caller removes it.
    """
    refuse_bad((save_every >= 1, "save-every", save_every, "1 or more"))
    coder = HfTokenizer(tokenizer, model)
    validation = examples if validation is None else validation
    if not examples or not validation:
        raise UsageError("there are no examples to tune on, or none to choose the epoch by; give at least one")
    for some in (examples, validation):
        check_examples(model, some, settings.length, coder.start_ids)
    called = name or name_of(model)
    with differentiable(model, called), nullcontext() if state is None else made_for(state):
        vectors = _first_vectors(model, tokenizer, settings.length, settings.init, settings.seed)
        run = _Training(model, coder.start_ids, examples, validation, settings, vectors)
        if state is not None:
            run.keep_in(state, digest([astuple(settings), _plain(examples), _plain(validation), weights_sha256(model)]))
        if not run.epochs:
            run.add(Epoch(0), look=True)
        while (ended := run.ended()) is None:
            number = len(run.epochs)
            run.add(
                Epoch(number, run.passed(number)),
                look=number % settings.exact_match_every == 0 or number == settings.epochs,
            )
            if progress is not None:
                progress(run.epochs[-1])
            if stop is not None and stop():
                ended = "stopped"
                break
            if number % save_every == 0:
                run.save()
        run.save()
    best = _best(run.epochs)
    kept = SoftPrompt(run.best, coder.start_ids, called, tokenizer_sha256(tokenizer), settings.seed, best.number)
    return Tuned(kept, best, tuple(run.epochs), ended, len(examples), len(validation))


def tune_into(
    out: Path,
    backend: HfBackend,
    examples: Sequence[TuningExample],
    validation: Sequence[TuningExample],
    settings: SoftPromptTuning,
    progress: Callable[[Epoch], None] | None = None,
) -> Tuned:
    """`tune`, with the soft prompt written to a file, and the state beside it until the end."""
    state = out.with_name(f".{out.name}.tuning")
    tuned = tune(
        *(backend.model, backend.tokenizer.library, examples, settings),
        validation=validation,
        name=backend.name,
        progress=progress,
        state=state,
    )
    tuned.soft_prompt.save(out)
    shutil.rmtree(state, ignore_errors=True)
    return tuned


@dataclass(slots=True)
class _Training:
    model: Any
    start_ids: tuple[int, ...]
    examples: Sequence[TuningExample]
    validation: Sequence[TuningExample]
    settings: SoftPromptTuning
    vectors: Tensor
    epochs: list[Epoch] = field(default_factory=list)
    optimiser: torch.optim.AdamW = field(init=False)
    best: Tensor = field(init=False)
    _kept: Path | None = field(default=None, init=False)
    _identity: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self.optimiser = torch.optim.AdamW([self.vectors], lr=self.settings.learning_rate)
        self.best = self.vectors.detach().cpu().clone()

    def passed(self, number: int) -> float:
        """Take a step for each batch of the examples; returns the loss, nats a token."""
        order = sorted(range(len(self.examples)), key=lambda i: sum(map(len, self.examples[i])))
        size = self.settings.batch_size
        steps = [order[i : i + size] for i in range(0, len(order), size)]
        total, n_tokens = 0.0, 0
        for at in np.random.default_rng((self.settings.seed, number)).permutation(len(steps)):
            lead = lead_of(self.model, self.vectors, self.start_ids)
            logits, ids = value_logits(self.model, lead, [self.examples[i] for i in steps[at]])
            loss = torch.nn.functional.cross_entropy(logits, ids)
            (self.vectors.grad,) = torch.autograd.grad(loss, self.vectors)
            self.optimiser.step()
            total += loss.item() * len(ids)
            n_tokens += len(ids)
        return total / n_tokens

    def add(self, epoch: Epoch, *, look: bool) -> None:
        """`look` at the validation examples; the vectors are kept if the epoch is the best."""
        if look:
            epoch = Epoch(epoch.number, epoch.loss, *self._validation())
        if (epoch.number and not math.isfinite(epoch.loss)) or (look and not math.isfinite(epoch.validation_loss)):
            raise ScoreError(f"the loss is NaN after epoch {epoch.number}; give a lower learning rate, or float32")
        self.epochs.append(epoch)
        if _best(self.epochs) is epoch:
            self.best = self.vectors.detach().cpu().clone()

    def ended(self) -> Ended | None:
        last = self.epochs[-1]
        if not math.isnan(last.exact_match) and last.number - _last_better(self.epochs) >= self.settings.patience:
            return "no progress"
        return "all epochs" if last.number >= self.settings.epochs else None

    def keep_in(self, directory: Path, identity: str) -> None:
        """Save the state in a directory from now on, and continue from a state that is there."""
        with storing(directory):
            make_private(directory)
        self._kept, self._identity = directory / _STATE, identity
        if not self._kept.exists():
            return
        tensors, record = read_tensors(self._kept, "the state of a tuning")
        if record.get("identity") != identity:
            raise UsageError(
                f"'{self._kept}' is the state of another tuning: other examples, settings or weights; give another "
                "directory, or remove it"
            )
        self.best = tensors.pop(_BEST)
        recall(self.optimiser, {_VECTORS: self.vectors}, tensors)
        self.epochs = [Epoch(**epoch) for epoch in record["epochs"]]

    def save(self) -> None:
        if self._kept is not None:
            tensors = {**remembered(self.optimiser, {_VECTORS: self.vectors}), _BEST: self.best}
            write_tensors(self._kept, tensors, {"identity": self._identity, "epochs": [*map(asdict, self.epochs)]})

    def _validation(self) -> tuple[float, float]:
        """Loss, nats a token, and the share of the examples that is matched."""
        total, n_tokens, n_matched = 0.0, 0, 0
        with torch.no_grad():
            lead = lead_of(self.model, self.vectors, self.start_ids)
            for some in batches([len(lead) + sum(map(len, example)) for example in self.validation]):
                batch = [self.validation[i] for i in some]
                logits, ids = value_logits(self.model, lead, batch)
                total += torch.nn.functional.cross_entropy(logits, ids, reduction="sum").item()
                n_tokens += len(ids)
                likeliest = torch.split(logits.argmax(dim=-1) == ids, [len(value) for _, value in batch])
                n_matched += sum(bool(matches.all()) for matches in likeliest)
        return total / n_tokens, n_matched / len(self.validation)


def _best(epochs: Sequence[Epoch]) -> Epoch:
    """Most exact matches; of equals the lowest validation loss; of equals the first."""
    looked = [epoch for epoch in epochs if not math.isnan(epoch.exact_match)]
    return max(looked, key=lambda epoch: (epoch.exact_match, -epoch.validation_loss))


def _last_better(epochs: Sequence[Epoch]) -> int:
    """Number of the last epoch whose exact match or validation loss was better than any before."""
    match, loss, last = -math.inf, math.inf, 0
    for epoch in epochs:
        if epoch.exact_match > match or epoch.validation_loss < loss:
            match, loss, last = max(match, epoch.exact_match), min(loss, epoch.validation_loss), epoch.number
    return last


def _plain(examples: Sequence[TuningExample]) -> list[list[list[int]]]:
    return [[[int(token) for token in ids] for ids in example] for example in examples]


def _first_vectors(model: Any, tokenizer: Any, length: int, init: str | None, seed: int) -> Tensor:
    """Embeddings of a text's tokens, or of tokens drawn without the special ones: (length, width), float32."""
    table = model.get_input_embeddings()
    if init is None:
        ordinary = sorted(set(tokenizer.get_vocab().values()) - set(tokenizer.all_special_ids))
        usable = [token for token in ordinary if token < len(table.weight)]
        ids = np.random.default_rng(seed).choice(usable, size=length, replace=length > len(usable))
    else:
        token_ids = HfTokenizer(tokenizer, model).encode_data(init, first=True).ids
        if not token_ids:
            raise UsageError("init is an empty text; give one with words, or leave it out")
        ids = np.resize(np.asarray(token_ids, dtype=np.int64), length)
    with torch.no_grad():
        vectors: Tensor = table(torch.from_numpy(ids).to(model.device)).float().clone()
    return vectors.requires_grad_()
