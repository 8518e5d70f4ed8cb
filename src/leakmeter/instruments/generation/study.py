"""Studies of private generation: `private_generation`, over what is promised, calibrated by one of its settings."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final, get_args

import numpy as np

from leakmeter.core.measure import Measure
from leakmeter.data import tasks
from leakmeter.errors import UnknownNameError, UsageError
from leakmeter.instruments.generation import figure
from leakmeter.instruments.generation.audits import with_label
from leakmeter.instruments.generation.measure import PrivateGeneration
from leakmeter.instruments.generation.prompts import GenerationSettings, batches_of
from leakmeter.instruments.generation.table import cases_of, tables
from leakmeter.privacy.calibrate import Free, Target, Unreachable, calibrate
from leakmeter.privacy.private_voting import Voting
from leakmeter.report.blocks import Chart
from leakmeter.studies.cells import FinishedCell
from leakmeter.studies.grid import Cell, Study
from leakmeter.studies.kind import Axes, Choice, Kind, Row, Tables, at_least_one
from leakmeter.text.exemplar import Example, ExemplarCase

_DEFAULTS: Final = PrivateGeneration()
_SUBSET_SIZE: Final = 50
_TRAIN: Final = ".train"


@dataclass(frozen=True, slots=True)
class Batches(Choice):
    """Which exemplars a cell measures."""

    subset_size: int
    """Exemplars of a batch."""
    label: str
    """Of all of them."""
    target_epsilon: float | None
    """What may be promised at most; None where nothing is calibrated."""
    free: Free
    """The setting that is."""


class PrivateTexts(Kind):
    """Batches of exemplars of a task that have one label."""

    records = "batches"
    settings: ClassVar = {
        "choice_seed": "int | None",
        "subset_size": "int",
        "label": "str",
        "target_epsilon": "float",
        "free": "str",
        "instruction": "str",
        "label_heading": "str",
        "text_heading": "str",
        "template": "str | None",
    }
    shows: ClassVar = {"factor": "a row for each cell and batch, over x"}

    def choice(self, given: Mapping[str, Any]) -> Batches:
        """So many batches of exemplars, at random with `choice_seed`, else the first; of 50 where nothing says else."""
        return Batches(
            at_least_one("batches", given["batches"]),
            given.get("choice_seed", 0),
            _voting(given).subset_size,
            given["label"] if "label" in given else _no_label(),
            given.get("target_epsilon"),
            given.get("free", "temperature"),
        )

    def prompts(self, given: Mapping[str, Any]) -> GenerationSettings:
        """The paper's, where the study does not say otherwise."""
        names = ("instruction", "label_heading", "text_heading", "template")
        return GenerationSettings(**{name: given[name] for name in names if name in given})

    def measure(self, measure: Measure, given: Mapping[str, Any]) -> PrivateGeneration:
        """With the temperature or clip that keeps `target_epsilon`.

        A study's seed is known to all, and promises nothing: where none is given, the measure has none.

        Raises:
            UsageError: no setting keeps it.
        """
        if not isinstance(measure, PrivateGeneration):
            raise TypeError(f"a {type(measure).__name__} generates no private texts")
        voting = _voting(given)
        return replace(measure, clip=voting.clip, temperature=voting.temperature, seed=given.get("seed"))

    def datasets(self) -> list[str]:
        """Tasks by name."""
        return tasks.names()

    def sources(self, datasets: Sequence[str]) -> list[str]:
        """Of each task the exemplars, by either of the names that studies have for them."""
        return [source for name in datasets for source in (name, name + _TRAIN)]

    def load(self, cells: Sequence[Cell], paths: Mapping[str, str]) -> list[list[ExemplarCase]]:
        """The batches of each cell; a smaller one is the first of a larger one."""
        read: dict[str, list[Example]] = {}
        out = []
        for cell in cells:
            task, chosen = tasks.load_task(cell.dataset), _batches_of(cell)
            if cell.dataset not in read:
                path = paths.get(cell.dataset + _TRAIN, paths.get(cell.dataset))
                read[cell.dataset] = task.load(path, "train")
            examples = _shuffled(with_label(read[cell.dataset], task.task, chosen.label), chosen.choice_seed)
            out.append(batches_of(examples, chosen.subset_size, label=chosen.label, most=chosen.n_records))
        return out

    def case(self, record: ExemplarCase) -> ExemplarCase:
        """The record."""
        return record

    def items_csv(self, finished: FinishedCell) -> str:
        """One row a text, with its perplexity, and what its exemplars were."""
        sink = io.StringIO(newline="")
        # All texts are quoted: a lone carriage return would otherwise stand bare, and end a row for who reads it.
        writer = csv.writer(sink, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        names = ("batch", "sequence", "n_tokens", "perplexity", "most_share_of_promise", "generations", "contexts")
        writer.writerow(names)
        for case in cases_of(finished):
            context = "\n\n".join(one["text"] for one in case["exemplars"])
            for number, one in enumerate(case["sequences"]):
                most = max(float("inf") if x is None else x for x in one["per_token"]["share_of_promise"])
                n_tokens, perplexity = len(one["token_ids"]), one["perplexity"]
                writer.writerow([case["id"], number, n_tokens, perplexity, most, one["text"], context])
        return sink.getvalue()

    def tables(
        self, study: Study, cells: Sequence[FinishedCell], directory: Path, notify: Callable[[str], None]
    ) -> Tables:
        """Promised and measured, both ways, and how good the texts are."""
        return tables(study, cells)

    def axes(self, study: Study, rows: Sequence[Row]) -> Axes:
        """Rényi divergences, and ε in the paper's convention."""
        return Axes(str(study.x), ("measured_rdp_nats", "paper_epsilon"))

    def figure(self, study: Study, rows: Sequence[Row], *, footer: str) -> Chart:
        """Both against the promise, on logarithmic axes, with what a mechanism gets that tells nothing."""
        lines = [name for name in study.cells[0].factors if name != study.x]
        return figure.figure_of(rows, x=str(study.x), lines=lines, title=study.title, footer=footer)

    def seed(self, cell: Cell) -> int:
        """The measure's."""
        return _measure_of(cell).seed or 0

    def about(self, study: Study) -> tuple[str, str]:
        """Seeds of exemplars and draws; that there are no intervals."""
        seeds = dict.fromkeys((_batches_of(cell).choice_seed, self.seed(cell)) for cell in study.cells)
        told = ", ".join(f"{'the first' if of is None else of} and {seed}" for of, seed in seeds)
        none = "intervals: none, one set of texts of each setting; what the paper printed is of 50 sequences each"
        return f"seeds of exemplars and draws: {told}", none


def _voting(given: Mapping[str, Any]) -> Voting:
    """Clip, subset size and temperature, the free one so that the target is kept."""
    voting = Voting(
        given.get("clip", _DEFAULTS.clip),
        given.get("subset_size", _SUBSET_SIZE),
        given.get("temperature", _DEFAULTS.temperature),
        given.get("normalise_by", _DEFAULTS.normalise_by),
    )
    if "target_epsilon" not in given:
        return voting
    free = given.get("free", "temperature")
    if free not in get_args(Free):
        raise UnknownNameError("free", free, get_args(Free))
    n_tokens = given.get("sequences", _DEFAULTS.sequences) * given.get("max_new_tokens", _DEFAULTS.max_new_tokens)
    target = Target(given["target_epsilon"], given.get("delta", _DEFAULTS.delta), n_tokens)
    found = calibrate(voting, free, target)
    if isinstance(found, Unreachable):
        raise UsageError(str(found))
    return found.voting


def _no_label() -> str:
    raise UsageError("the study does not say 'label'; add it, or give --set label=VALUE")


def _shuffled(examples: Sequence[Example], seed: int | None) -> list[Example]:
    """Examples in an order of the seed; their own without one."""
    if seed is None:
        return list(examples)
    return [examples[i] for i in np.random.default_rng(seed).permutation(len(examples))]


def _batches_of(cell: Cell) -> Batches:
    if not isinstance(cell.choice, Batches):
        raise TypeError(f"a {type(cell.choice).__name__} makes no batches")
    return cell.choice


def _measure_of(cell: Cell) -> PrivateGeneration:
    if not isinstance(cell.measure, PrivateGeneration):
        raise TypeError(f"a {type(cell.measure).__name__} generates no private texts")
    return cell.measure


KIND = PrivateTexts()
