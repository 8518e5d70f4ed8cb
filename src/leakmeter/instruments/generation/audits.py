"""The plan of an audit: batches of exemplars in parts, the measure with a guarantee, and where its nonce is kept.

runs/
  private_generation-1f2e…/   the run, which `leakmeter report` shows; its name is made of the nonce too
  generate-9a…/                  mode 0700; its name is made of all options but the nonce
    secret.json               a nonce, with which the same command goes on, or shows what it drew

A run writes part by part, and 50 exemplars take half a second a token on a core. So a part is no whole batch but some
of its samples: the same exemplars again, drawn with other numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from leakmeter.commands.studies.cells import directory_of
from leakmeter.core.limits import refuse_bad
from leakmeter.engine.storage.pseudonym import kept_nonce
from leakmeter.errors import UnknownNameError, UsageError
from leakmeter.instruments.generation.measure import PrivateGeneration
from leakmeter.instruments.generation.prompts import GenerationSettings, batches_of
from leakmeter.text.exemplars import ExemplarCase, LabelledText, Task


@dataclass(frozen=True, slots=True)
class Audited:
    cases: tuple[ExemplarCase, ...]
    """Parts of batches, in order."""
    settings: GenerationSettings
    measure: PrivateGeneration


def audit_of(
    examples: Callable[[], Sequence[LabelledText]],
    *,
    label: str | None = None,
    subset_size: int | None = None,
    batches: int | None = None,
    epsilon: float | None = None,
    samples: int | None = None,
    **options: Any,
) -> Audited:
    """Batches of exemplars in parts, and the measure with a guarantee.

    By default all exemplars are in one batch, as many batches as can be filled are taken, and 10 samples are drawn from
    each. `epsilon` is the most that is guaranteed, and sets the measure's temperature. `options` are fields of
    `GenerationSettings` and of `PrivateGeneration`.
    """
    options = {"sequences": 10 if samples is None else samples, **options}
    wording = {field.name: options.pop(field.name) for field in fields(GenerationSettings) if field.name in options}
    choices = {"epsilon": epsilon, "temperature": options.get("temperature"), **options}
    choices = {name: choices[name] for name in ("epsilon", "temperature", "mechanism") if name in choices}
    chosen = [name for name, value in choices.items() if value is not None]
    if len(chosen) != 1:
        problem = f"{' and '.join(chosen)} are given together" if chosen else "the guarantee is not set"
        raise UsageError(f"{problem}; give one of {', '.join(choices)}")
    exemplars = examples()
    settings, measure = GenerationSettings(**wording), PrivateGeneration(**options)
    size = len(exemplars) if subset_size is None else subset_size
    refuse_bad((size >= 1, "subset-size", size, "1 or more"))
    if epsilon is not None:
        measure = measure.calibrated(epsilon, size)
    # A divisor of all, and some minutes of work at most: 200 tokens.
    few = max(1, 200 // measure.max_new_tokens)
    part = next(n for n in range(min(few, measure.sequences), 0, -1) if measure.sequences % n == 0)
    measure = replace(measure, sequences_a_part=part)
    cases = batches_of(exemplars, size, label=label, most=batches, parts=measure.parts)
    return Audited(tuple(cases), settings, measure)


def with_label(examples: Sequence[LabelledText], task: Task, label: str | None) -> list[LabelledText]:
    if label is None:
        raise UsageError(f"task '{task.name}' has labels; give the one to generate: {', '.join(task.words)}")
    if label not in task.words:
        raise UnknownNameError("label", label, task.words)
    chosen = [example for example in examples if example.label == label]
    if not chosen:
        raise UsageError(f"no exemplar has the label '{label}'; give exemplars that have it")
    return chosen


def check_precision(dtype: str | None) -> None:
    """Refuse a precision whose noise a guarantee does not survive."""
    if dtype in ("bfloat16", "float16"):
        raise UsageError(
            f"dtype is '{dtype}'; in that precision a prompt's numbers depend on the other prompts in its batch, by "
            "more than many bounds; give float32"
        )


def precision_for(model: Any, dtype: str | None) -> str | None:
    """The precision to load a model in, which is float32 by default, also on CUDA."""
    check_precision(dtype)
    named = not isinstance(model, tuple) and model != "toy"
    return "float32" if dtype is None and named else dtype


def with_nonce(audited: Audited, model: str, out: Path, **machine: str | None) -> tuple[PrivateGeneration, Path]:
    """The measure with a nonce that is kept under `out`, and the directory that keeps it."""
    directory = directory_of(
        out,
        "generate",
        measure=asdict(audited.measure),
        settings=asdict(audited.settings),
        cases=[asdict(case) for case in audited.cases],
        model=model,
        machine=machine,
    )
    return replace(audited.measure, nonce=kept_nonce(directory)), directory
