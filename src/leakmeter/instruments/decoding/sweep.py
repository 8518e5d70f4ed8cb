"""λ or ε swept over the same cases: each setting a cell, measured once and kept.

runs/
  decode-1f2e…/         the run of a setting
  frontier-9a…/         mode 0700; one directory for the cases, the model and all that is not swept
    secret.json         with ε: the nonce of all settings, for the command to go on with
    lambda-0.5.json     which run belongs to λ = 0.5, and under which weights it was made
    lambda-0.5.csv      its items
    table.md, table.json, table.csv, frontier.json, figure.png, figure.svg     of the last command

The directory's name leaves out which values were swept: more of them later join those that were measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Final

from leakmeter.commands.studies.cells import digest
from leakmeter.commands.studies.grid import Study, StudyCell
from leakmeter.commands.studies.kind import RecordChoice
from leakmeter.commands.studies.quality import Quality
from leakmeter.commands.studies.tables import StudyRow
from leakmeter.core.case import record_of
from leakmeter.core.files import check_outside_runs
from leakmeter.data.cases import Referenced
from leakmeter.data.named import DatasetRecord
from leakmeter.errors import UsageError
from leakmeter.instruments.decoding.measure import Decode
from leakmeter.privacy import accounting
from leakmeter.text import templates
from leakmeter.text.build import PromptSettings

LAMBDA: Final = "cid_lambda"
EPSILON: Final = "epsilon"
DEFAULTS: Final[Mapping[str, tuple[float, ...]]] = {
    LAMBDA: (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0),
    EPSILON: (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0),
}
"""Values that are swept where only the kind is named."""
SYMBOLS: Final = {LAMBDA: "λ", EPSILON: "ε"}
_FILES: Final = {LAMBDA: "lambda", EPSILON: "epsilon"}


@dataclass(frozen=True, slots=True)
class Sweep:
    """Settings to compare: one field of decoding takes several values."""

    kind: str
    """The field: 'cid_lambda' or 'epsilon'."""
    values: tuple[float, ...]
    """Ascending, each once."""
    measures: tuple[Decode, ...]
    """Of each value; the seed as it was given."""

    @property
    def given_seed(self) -> int | None:
        return self.measures[0].seed

    @property
    def needs_nonce(self) -> bool:
        """Whether nobody may repeat its draws: with ε, where no seed was given."""
        return self.kind == EPSILON and self.given_seed is None

    def seeded(self, nonce: int = 0) -> Sweep:
        """The same with one seed for all settings, the given one or 0, or with a nonce where it needs one."""
        if self.given_seed is not None:
            return self
        chosen = {"nonce": nonce} if self.needs_nonce else {"seed": 0}
        return replace(self, measures=tuple(replace(measure, **chosen) for measure in self.measures))


def sweep_of(
    lambdas: Sequence[float] | None, epsilons: Sequence[float] | None, drawing: StudyRow | None = None
) -> Sweep:
    """A sweep of λ or of ε; an empty sequence is `DEFAULTS`. `drawing` has other fields of `Decode`."""
    if (lambdas is None) == (epsilons is None):
        fault = "lambda and epsilon do not go together" if lambdas is not None else "nothing to sweep"
        raise UsageError(f"{fault}; give one of lambda and epsilon, with values or without")
    kind, swept = (LAMBDA, lambdas) if lambdas is not None else (EPSILON, epsilons)
    # Adding 0 makes −0 a 0.
    values = sorted({float(value) + 0.0 for value in swept or DEFAULTS[kind]})
    others: StudyRow = {name: value for name, value in (drawing or {}).items() if name not in DEFAULTS}
    measures = tuple(Decode(**{**others, kind: value}) for value in values)
    for measure in measures:
        if measure.epsilon is not None:
            accounting.basic([(measure.epsilon, 1)])
    return Sweep(kind, tuple(values), measures)


def settings_of(loaded: Referenced, prompt: templates.TemplateOptions) -> PromptSettings:
    return PromptSettings(
        # Nothing but the whole context is left out.
        unit="whole",
        template=templates.resolved(prompt.template or loaded.template),
        # Data sets by name are cut to what the model takes, as in `leakmeter study`.
        truncate=prompt.truncate or loaded.max_context_tokens is not None,
        max_context_tokens=loaded.max_context_tokens,
    )


def sweep_directory(
    sweep: Sweep,
    model: str,
    settings: PromptSettings,
    records: Sequence[DatasetRecord],
    out: Path,
    **machine: str | None,
) -> Path:
    """The sweep's directory under `out`, which need not be there.

    Of records the cases count; references determine no response.
    """
    check_outside_runs(out, "directory of runs")
    identity = {
        "kind": sweep.kind,
        "decoding": {name: value for name, value in sweep.measures[0].record().items() if name != sweep.kind},
        "model": model,
        "settings": asdict(settings),
        "cases": [record_of(record.case) for record in records],
        "machine": machine,
        "version": metadata.version("leakmeter"),
    }
    return out / f"frontier-{digest(identity)[:16]}"


def study_of(sweep: Sweep, model: str, settings: PromptSettings, n_records: int, quality: Quality) -> Study:
    """A seeded sweep as a study of one factor: its cells are measured like any study's."""
    cells = tuple(
        StudyCell(
            number=number,
            factors={sweep.kind: value},
            model=model,
            dataset="cases",
            choice=RecordChoice(n_records, choice_seed=None),
            settings=settings,
            measure=measure,
            name=f"{_FILES[sweep.kind]}-{value!r}",
        )
        for number, (value, measure) in enumerate(zip(sweep.values, sweep.measures, strict=True))
    )
    return Study(
        name="frontier",
        title=f"Leakage and utility over {SYMBOLS[sweep.kind]}",
        reproduces="",
        size="own cases",
        measure="decode",
        show="factor",
        x=sweep.kind,
        quality=quality,
        cells=cells,
    )
