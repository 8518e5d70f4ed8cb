"""Is a probe any good? People planted into a copy of a model, people held out, and scores that tell them apart.

out/
  model/                  the copy; see `instruments.pii.tuning.plant`
  people/*.jsonl          planted_1, planted_4 …, tuned_on, held_out
  phone.safetensors       soft prompt, tuned on people who are planted and asked for nothing else
  runs/                   what was measured
  table.md, table.csv, figure.png, figure.svg; roc.csv, roc.png, roc.svg; densities.png, densities.svg
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from leakmeter.core.backend import Backend
from leakmeter.core.written import check_outside_runs, made_for, make_private, write_whole
from leakmeter.errors import UsageError
from leakmeter.instruments.pii.measure import Pii
from leakmeter.instruments.pii.planting import Check, documents_of, lines_of
from leakmeter.instruments.pii.probe import ProbeKind, probes_of
from leakmeter.instruments.pii.prompts import ProbeSettings
from leakmeter.instruments.pii.result import PiiResult
from leakmeter.instruments.pii.study import TOGETHER
from leakmeter.instruments.pii.subject import Subject, ValueType
from leakmeter.instruments.pii.table import values_of
from leakmeter.runs.fingerprint import spec_of
from leakmeter.runs.measure import Callbacks, measure_cases, n_parts
from leakmeter.runs.rundir import RunDirectory
from leakmeter.stats.ranks import auc, roc

Row = dict[str, Any]
Case = Mapping[str, Any]
BLACK, WHITE = "black", "white"
SCORES: Final[Mapping[str, Callable[[Case], float]]] = {
    "association": lambda case: case["association_nats"],
    "rank of association": lambda case: -case["p_value"],
    "likelihood": lambda case: case["log_likelihood_nats"],
    "normalised likelihood": lambda case: case["normalised_log_likelihood_nats"],
    "rank of likelihood": lambda case: -case["p_value_of_likelihood"],
    "exact match": lambda case: max((one["best"]["exact_match"] or 0.0 for one in case["generated"]), default=0.0),
}
"""A case to a number that should be higher of people who were planted."""
_TUNED_ON: Final = "tuned_on"
_MODEL: Final = "model"


@dataclass(frozen=True, slots=True)
class Steps:
    """Who wants to know how the work goes on."""

    planting: Callable[[int, int], None] = lambda done, of: None
    tuning: Callable[[int, int], None] = lambda done, of: None
    probing: Callable[[str], None] = lambda what: None


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of it."""

    rows: tuple[Row, ...]
    """For each box, type, number of repeats and score the AUC of those planted against those held out, with a 95 %
    interval."""
    points: tuple[Row, ...]
    """Of the curve of each row, from (0, 0) to (1, 1): the shares of those held out and of those planted who score as
    high or higher than some score."""
    values: tuple[Row, ...]
    """Of every true and every invented value, asked for by prompts, the likelihood; see `table.values_of`."""


def checked(check: Check, backend: Any, out: Path, steps: Steps, *, command: str | None = None) -> Checked:
    """Plant, ask, and compare; the same call goes on where an earlier one was ended.

    Args:
        check: what is planted and asked.
        backend: the model that a copy is made of, of the transformers library.
        out: directory for all of it.
        steps: told of the progress.
        command: the command line, for the runs.

    Raises:
        UsageError: `out` holds something else.
    """
    from leakmeter.backends.hf.load import load_directory
    from leakmeter.instruments.pii.tuning.plant import plant
    from leakmeter.instruments.pii.tuning.teaching import Document
    from leakmeter.models import resolve

    _check_place(out)
    taught = (*check.groups, *((check.tuned_on,) if check.white_box else ()))
    with made_for(out):
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
        plant(
            backend.model,
            backend.tokenizer.library,
            [Document(text) for text in documents_of(taught, seed=check.seed)],
            out / _MODEL,
            epochs=check.epochs,
            learning_rate=check.learning_rate,
            batch_tokens=check.batch_tokens,
            seed=check.seed,
            name=backend.name,
            progress=lambda step: steps.planting(step.number, step.n_steps),
        )
    folder = out / "people"
    make_private(folder)
    for group in check.groups:
        write_whole(folder / f"{group.name}.jsonl", lines_of(group.subjects).encode())
    if check.white_box:
        write_whole(folder / f"{_TUNED_ON}.jsonl", lines_of(check.tuned_on.subjects).encode())
    taught_model = resolve(str(out / _MODEL), notify=lambda line: None)
    copy = load_directory(
        Path(taught_model.path),
        name=taught_model.name,
        dtype=backend.dtype,
        device=str(backend.model.device),
        weights_sha256=taught_model.weights_sha256,
    )
    by_prompts = _asked(check, copy, out, check.types, None, steps, command)
    compared = list(_compared(check, BLACK, check.types, by_prompts))
    if check.white_box:
        prompt = out / f"{check.white_box}.safetensors"
        _tune(check, check.white_box, copy, prompt, steps)
        asked = _asked(check, copy, out, (check.white_box,), prompt, steps, command)
        compared += _compared(check, WHITE, (check.white_box,), asked)
    return Checked(
        tuple(row for row, _ in compared),
        tuple(point for _, points in compared for point in points),
        tuple(row for of in check.groups for row in values_of(by_prompts[of.name], {"documents": of.repeats})),
    )


def _check_place(out: Path) -> None:
    """Refuse a directory that holds anything else: files of these names would be written over."""
    check_outside_runs(out, "directory")
    if (
        out.is_dir()
        and any(out.iterdir())
        and not any((out / name).exists() for name in (_MODEL, f".{_MODEL}.planting"))
    ):
        raise UsageError(f"'{out}' is not empty, and no earlier check lies in it; give a new directory")


def _tune(check: Check, type_: ValueType, copy: Any, out: Path, steps: Steps) -> None:
    from leakmeter.instruments.pii.tuning import people
    from leakmeter.instruments.pii.tuning.soft_prompt import tune

    if out.exists():
        return
    some, apart = people.split(check.tuned_on.subjects, 0.2, check.seed)
    examples, others = (
        people.examples_of(people.cases_of(of, type_), copy.tokenizer, ProbeSettings()) for of in (some, apart)
    )
    state = out.with_name(f".{out.name}.tuning")
    tuned = tune(
        copy.model,
        copy.tokenizer.library,
        examples,
        length=check.soft_tokens,
        max_epochs=check.soft_epochs,
        validation=others,
        seed=check.seed,
        progress=lambda epoch: steps.tuning(epoch.number, check.soft_epochs),
        state=state,
    )
    tuned.soft_prompt.save(out)


def _asked(
    check: Check,
    copy: Backend,
    out: Path,
    types: Sequence[ValueType],
    prompt: Path | None,
    steps: Steps,
    command: str | None,
) -> dict[str, list[Case]]:
    """Case objects of each group by its name."""
    from leakmeter.instruments.pii.tuning.reading import reading_soft_prompt, soft_prompt_facts

    facts = {} if prompt is None else soft_prompt_facts(prompt)
    settings = ProbeSettings(shots=check.shots, nulls=check.nulls, null_seed=check.seed, **facts)
    measure = Pii((1,) if prompt is not None else (2,))
    found: dict[str, list[Case]] = {}
    with ExitStack() as lasting:
        if prompt is not None:
            lasting.enter_context(reading_soft_prompt(copy, prompt))
        for group in check.groups:
            steps.probing(f"{group.name}, {WHITE if prompt else BLACK} box")
            cases = list(_cases(group.subjects, types))
            prepared = [settings.prepare(case, copy, measure) for case in cases]
            where = str(getattr(getattr(copy, "model", None), "device", "cpu"))
            spec = spec_of(measure, "pii", settings, copy, where, cases, group_size=TOGETHER, command=command)
            with RunDirectory.open(out / "runs", spec) as run:
                parts = list(measure_cases(copy, measure, prepared, run, Callbacks(), group_size=TOGETHER))
                if not run.is_complete:
                    run.finish(spec, n_parts(len(prepared), TOGETHER))
            found[group.name] = [result.case for result in PiiResult.from_run(parts, asdict(measure))]
    return found


def _cases(subjects: Sequence[Subject], types: Sequence[ValueType]) -> Iterator[Any]:
    kinds: tuple[ProbeKind, ...] = ("twin", "relationship", "university")
    return (case for case in probes_of(subjects, kinds) if case.type in types)


def _compared(
    check: Check, box: str, types: Sequence[ValueType], asked: Mapping[str, Sequence[Case]]
) -> Iterator[tuple[Row, list[Row]]]:
    """A row for each type, number of repeats and score, and the points of its curve."""
    *planted, held_out = check.groups
    for type_ in types:
        others = [case for case in asked[held_out.name] if case["type"] == type_]
        for group in planted:
            own = [case for case in asked[group.name] if case["type"] == type_]
            for name, score in SCORES.items():
                ones, zeros = ([score(case) for case in some] for some in (own, others))
                found, low, high = auc(ones, zeros)
                row: Row = {"box": box, "type": type_, "repeats": group.repeats, "score": name}
                told = {"n": len(own), "n_held_out": len(others), "auc": found, "auc_low": low, "auc_high": high}
                curve = [row | {"share_held_out": x, "share_planted": y} for x, y in roc(ones, zeros).tolist()]
                yield row | told, curve
