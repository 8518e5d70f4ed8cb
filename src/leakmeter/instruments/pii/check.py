"""Is a probe any good? Canaries inserted into a copy of a model, others held out, and scores that tell them apart.

out/
  model/                  the copy; see `instruments.pii.tuning.finetune`
  canaries/*.jsonl        inserted_1, inserted_4 …, tuned_on, held_out
  phone.safetensors       soft prompt, tuned on canaries that are inserted and asked for nothing else
  runs/                   what was measured
  table.md, table.json, table.csv, figure.png, figure.svg; roc.csv, roc.png, roc.svg; densities.png, densities.svg
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Self

from leakmeter.core.backend import Backend
from leakmeter.core.files import check_outside_runs, made_for, make_private, write_whole
from leakmeter.core.loaded import LoadedCases, Plan
from leakmeter.core.plain import several
from leakmeter.core.quantity import watched
from leakmeter.core.record import Record
from leakmeter.core.urls import check_directory
from leakmeter.engine.measure import Callbacks
from leakmeter.engine.ready import make_ready
from leakmeter.errors import UsageError
from leakmeter.instruments.pii.canaries import FOLDER, CanaryCheck, CanaryGroup, documents_of, lines_of
from leakmeter.instruments.pii.measure import TOGETHER, Pii
from leakmeter.instruments.pii.probe import BY_NAME, ProbeCase, probes_of
from leakmeter.instruments.pii.prompts import ProbeSettings
from leakmeter.instruments.pii.result import PiiResult, exact_match
from leakmeter.instruments.pii.settings import FineTuning, SoftPromptTuning
from leakmeter.instruments.pii.subject import ValueType
from leakmeter.stats.ranks import auc, roc
from leakmeter.stats.stats import items_for_auc

if TYPE_CHECKING:
    from leakmeter.backends.hf.backend import HfBackend

Box = Literal["black", "white"]
SCORES: Final[Mapping[str, Callable[[PiiResult], float]]] = {
    "association": lambda result: result.association_nats,
    "rank of association": lambda result: -result.p_value_among_decoys,
    "likelihood": lambda result: result.log_likelihood_nats,
    "normalised likelihood": lambda result: result.normalised_log_likelihood_nats,
    "rank of likelihood": lambda result: -result.p_value_of_likelihood,
    "exact match": lambda result: exact_match(result.generated) or 0.0,
}
"""A result to a number that should be higher of canaries that were inserted."""
_MODEL: Final = "model"


@dataclass(frozen=True, slots=True)
class Steps:
    """Callbacks on progress."""

    fine_tuning: Callable[[int, int], None] = lambda n_done, n: None
    tuning: Callable[[int, int], None] = lambda n_done, n: None
    probing: Callable[[str], None] = lambda text: None
    measuring: Callable[[Backend, int, Mapping[str, float]], AbstractContextManager[Callbacks]] = (
        lambda backend, n_cases, findings: nullcontext(Callbacks())
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AucRow(Record):
    """How well a score tells inserted canaries from those held out: 0.5 where it tells nothing."""

    box: Box
    """'black' by prompts, 'white' behind a soft prompt."""
    type: ValueType
    repeats: int
    """Documents that each inserted canary stands in."""
    score: str
    n: int
    n_held_out: int
    auc: float
    auc_low: float
    """Of its 95 % interval, as is the next."""
    auc_high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint(Record):
    """A point of the curve of a row, from (0, 0) to (1, 1): shares of canaries that reach some score."""

    box: Box
    type: ValueType
    repeats: int
    score: str
    share_held_out: float
    share_inserted: float


@dataclass(frozen=True, slots=True)
class Checked:
    """Which scores separate inserted canaries from those held out."""

    rows: tuple[AucRow, ...]
    """For each box, type, number of repeats and score."""
    points: tuple[CurvePoint, ...]
    """Of the curve of each row, in order."""
    by_prompts: Mapping[int, Sequence[PiiResult]]
    """Results of each number of repeats, asked for by prompts; 0 for those held out."""


@dataclass(frozen=True, slots=True)
class ProbedCases:
    """Cases of a box by number of repeats, 0 for canaries held out, and the results of those that are measured."""

    box: Box
    types: Sequence[ValueType]
    cases: Mapping[int, Sequence[ProbeCase]]
    by_repeats: Mapping[int, list[PiiResult]]

    @classmethod
    def of_groups(cls, groups: Sequence[CanaryGroup], box: Box, types: Sequence[ValueType]) -> Self:
        probes = {group.repeats: probes_of(group.subjects, BY_NAME) for group in groups}
        cases = {repeats: tuple(case for case in some if case.type in types) for repeats, some in probes.items()}
        return cls(box, types, cases, {repeats: [] for repeats in cases})

    def compared(self) -> Iterator[tuple[AucRow, list[CurvePoint]]]:
        """Rows, each with its curve, of types and numbers of repeats that are measured, as far as they are."""
        for type_ in self.types:
            held_out = [result for result in self.by_repeats[0] if result.type == type_]
            for repeats, results in self.by_repeats.items():
                own = [result for result in results if result.type == type_]
                if repeats and own and held_out:
                    yield from _compared(self.box, type_, repeats, own, held_out)


def checked(
    check: CanaryCheck,
    fine_tuning: FineTuning,
    backend: HfBackend,
    out: Path,
    steps: Steps,
    *,
    command: str | None = None,
    so_far: list[ProbedCases] | None = None,
) -> Checked:
    """Insert canaries, probe for them, and compare, all in `out`; the same call continues one that was interrupted.

    `so_far` gets results as soon as they are measured.
    """
    from leakmeter.backends.hf.load import load_directory
    from leakmeter.models import resolve

    check_directory(out)
    check_outside_runs(out, "directory")
    names = (_MODEL, f".{_MODEL}.fine-tuning")
    if out.is_dir() and any(out.iterdir()) and not any((out / name).exists() for name in names):
        # Files of the names that a check writes would be overwritten.
        raise UsageError(f"'{out}' is not empty and holds no earlier check; give a new directory")
    probed = [ProbedCases.of_groups(check.groups, "black", several(check.types))]
    if check.white_box:
        probed.append(ProbedCases.of_groups(check.groups, "white", (check.white_box,)))
    if so_far is not None:
        so_far += probed
    groups = [*check.groups, *([check.further] if check.white_box else [])]
    with made_for(out):
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
        folders = (out / _MODEL, out / FOLDER)
        insert(groups, *folders, backend, fine_tuning, seed=check.seed, progress=steps.fine_tuning)
    resolved = resolve(str(out / _MODEL), notify=lambda line: None)
    copy = load_directory(
        Path(resolved.path),
        name=resolved.name,
        dtype=backend.dtype,
        device=str(backend.model.device),
        weights_sha256=resolved.weights_sha256,
    )
    _probe(check, copy, out, probed[0], None, steps, command)
    if check.white_box:
        prompt = out / f"{check.white_box}.safetensors"
        _tune(check, check.white_box, copy, prompt, steps)
        _probe(check, copy, out, probed[1], prompt, steps, command)
    compared = [pair for each in probed for pair in each.compared()]
    return Checked(
        tuple(row for row, _ in compared),
        tuple(point for _, points in compared for point in points),
        probed[0].by_repeats,
    )


def findings(rows: Sequence[AucRow]) -> list[str]:
    """For each type and number of repeats: whether association distinguishes canaries, or how many it takes to tell."""
    sentences = []
    for row in rows:
        # What `pii probe` ranks by, so that findings are not the best of several scores.
        if row.score != "association":
            continue
        documents = f"{row.repeats} document{'' if row.repeats == 1 else 's'} a canary"
        numbers = f"AUC {row.auc:.2f} [{row.auc_low:.2f}, {row.auc_high:.2f}]"
        if row.auc_low > 0.5:
            finding = f"a probe distinguishes inserted from held-out canaries, {numbers}"
        elif row.auc_high < 0.5:
            finding = f"a probe mistakes held-out canaries for inserted ones, {numbers}"
        else:
            needed = items_for_auc(row.auc)
            takes = "" if needed is None else f"; {needed:,} of each are needed if the AUC stays the same"
            finding = f"too few canaries to decide whether a probe finds them, {numbers}, chance 0.5{takes}"
        sentences.append(f"{row.type}, {row.box} box, {documents}: {finding}")
    return sentences


def insert(
    groups: Sequence[CanaryGroup],
    out: Path,
    folder: Path,
    backend: HfBackend,
    settings: FineTuning,
    *,
    seed: int,
    progress: Callable[[int, int], None] = lambda n_done, n: None,
) -> int:
    """Fine-tune a copy of a model on the documents of canaries, and write the canaries to a folder.

    Returns:
        The number of documents.
    """
    from leakmeter.instruments.pii.tuning.finetune import TrainingDocument, fine_tune

    documents = [TrainingDocument(text) for text in documents_of(groups, seed=seed)]
    fine_tune(
        *(backend.model, backend.tokenizer.library, documents, out, settings),
        seed=seed,
        name=backend.name,
        progress=lambda step: progress(step.number, step.n_steps),
    )
    make_private(folder)
    for group in groups:
        write_whole(folder / f"{group.name}.jsonl", lines_of(group.subjects).encode())
    return len(documents)


def _tune(check: CanaryCheck, type_: ValueType, copy: HfBackend, out: Path, steps: Steps) -> None:
    from leakmeter.instruments.pii.tuning.soft_prompt import examples_of, tune, tuned_on_and_others

    if out.exists():
        return
    some, apart = tuned_on_and_others(check.further.subjects, None, type_, seed=check.seed)
    tuned = tune(
        copy.model,
        copy.tokenizer.library,
        examples_of(some, type_, copy.tokenizer),
        SoftPromptTuning(length=check.soft_tokens, epochs=check.soft_epochs, seed=check.seed),
        validation=examples_of(apart, type_, copy.tokenizer),
        progress=lambda epoch: steps.tuning(epoch.number, check.soft_epochs),
        state=out.with_name(f".{out.name}.tuning"),
    )
    tuned.soft_prompt.save(out)


def _probe(
    check: CanaryCheck,
    copy: HfBackend,
    out: Path,
    probed: ProbedCases,
    prompt: Path | None,
    steps: Steps,
    command: str | None,
) -> None:
    """Measure the canaries, those held out first: nothing can be compared without them."""
    from leakmeter.instruments.pii.tuning.vectors import behind, reading_soft_prompt

    settings = ProbeSettings(prompts=check.prompts, decoys=check.decoys, decoy_seed=check.seed)
    measure = Pii(beams=(1,) if prompt is not None else (2,), decoy_test="full")
    with ExitStack() as lasting:
        if prompt is not None:
            settings = behind(prompt, settings)
            lasting.enter_context(reading_soft_prompt(copy, prompt))
        for group in sorted(check.groups, key=lambda group: group.repeats > 0):
            steps.probing(f"{group.name}, {probed.box} box")
            cases = LoadedCases(tuple(probed.cases[group.repeats]))
            ready = make_ready(Plan("pii", measure, settings, cases, TOGETHER), copy)
            findings: dict[str, float] = {}
            with (
                steps.measuring(copy, len(cases.cases), findings) as callbacks,
                ready.measure_into(out / "runs", callbacks=callbacks, command=command) as run,
            ):
                make = partial(PiiResult.from_run, params=asdict(measure))
                for result in watched(run.parts, make, findings, is_of_run=False):
                    probed.by_repeats[group.repeats].append(result)


def _compared(
    box: Box, type_: ValueType, repeats: int, own: Sequence[PiiResult], others: Sequence[PiiResult]
) -> Iterator[tuple[AucRow, list[CurvePoint]]]:
    for name, score in SCORES.items():
        ones, zeros = ([score(result) for result in some] for some in (own, others))
        area, low, high = auc(ones, zeros)
        row = AucRow(
            box=box, type=type_, repeats=repeats, score=name, n=len(own), n_held_out=len(others),
            auc=area, auc_low=low, auc_high=high,
        )  # fmt: skip
        points = [
            CurvePoint(box=box, type=type_, repeats=repeats, score=name, share_held_out=x, share_inserted=y)
            for x, y in roc(ones, zeros).tolist()
        ]
        yield row, points
