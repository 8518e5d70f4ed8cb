"""An audit as it is asked for: exemplars to batches and their parts, a guarantee to a measure, and its nonce's place.

runs/
  private_generation-1f2e…/   the run, which `leakmeter report` shows; its name is made of the nonce too
  generate-9a…/                  mode 0700; its name tells all that was asked for but the nonce
    secret.json               a nonce, with which the same command goes on, or shows what it drew

A run writes part by part, and 50 exemplars take half a second a token on a core. So a part is no whole batch but some
of its samples: the same exemplars again, drawn with other numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from leakmeter.core.written import check_outside_runs
from leakmeter.errors import UnknownNameError, UsageError
from leakmeter.instruments.generation.measure import PrivateGeneration
from leakmeter.instruments.generation.prompts import GenerationSettings, batches_of
from leakmeter.studies.cells import digest
from leakmeter.text.exemplar import Example, ExemplarCase, Task

_SAMPLES: Final = 10
_TOKENS_A_PART: Final = 200
_TOO_COARSE: Final = ("bfloat16", "float16")


@dataclass(frozen=True, slots=True)
class Audited:
    """What is measured, and how."""

    cases: tuple[ExemplarCase, ...]
    """Parts of batches, in order."""
    settings: GenerationSettings
    measure: PrivateGeneration


def audit_of(
    examples: Callable[[], Sequence[Example]],
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
    each. `epsilon` is the most that is guaranteed, which the measure's temperature is set to; None leaves it. `options`
    are fields of `GenerationSettings` and of `PrivateGeneration`.
    """
    options = {"sequences": _SAMPLES if samples is None else samples, **options}
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
    if size < 1:
        raise UsageError(f"subset-size is {size}; it has to be 1 or more")
    if epsilon is not None:
        measure = measure.calibrated(epsilon, size)
    # A divisor of all, and some minutes of work at most.
    few = max(1, _TOKENS_A_PART // measure.max_new_tokens)
    part = next(n for n in range(min(few, measure.sequences), 0, -1) if measure.sequences % n == 0)
    measure = replace(measure, sequences_a_part=part)
    cases = batches_of(exemplars, size, label=label, most=batches, parts=measure.parts)
    return Audited(tuple(cases), settings, measure)


def with_label(examples: Sequence[Example], task: Task, label: str | None) -> list[Example]:
    """Examples of a task that have one label."""
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
    if dtype in _TOO_COARSE:
        raise UsageError(
            f"dtype is '{dtype}'; in that precision a prompt's numbers depend on the other prompts in its batch, by "
            "more than many bounds; give float32"
        )


def precision_for(model: Any, dtype: str | None) -> str | None:
    """The precision to load a model in: float32 where none was asked for, also on CUDA."""
    check_precision(dtype)
    named = not isinstance(model, tuple) and model != "toy"
    return "float32" if dtype is None and named else dtype


def audit_directory(audited: Audited, model: str, out: Path, **machine: str | None) -> Path:
    """Where the nonce of an audit, whose measure has none, is kept under `out`; it need not be there."""
    check_outside_runs(out, "directory of runs")
    identity = {
        "measure": asdict(audited.measure),
        "settings": asdict(audited.settings),
        "cases": [asdict(case) for case in audited.cases],
        "model": model,
        "machine": machine,
        "version": metadata.version("leakmeter"),
    }
    return out / f"generate-{digest(identity)[:16]}"
