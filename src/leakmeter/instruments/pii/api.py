"""The library: people's data, and how likely a model finds each value among decoys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakmeter.errors import UsageError
from leakmeter.instruments.pii.probe import PROBE_KINDS, ProbeKind, ProbeTemplates, probes_of
from leakmeter.instruments.pii.result import PiiResult
from leakmeter.instruments.pii.summary import Summary
from leakmeter.models import DEFAULT_MODEL
from leakmeter.runs.result import Results

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class PiiFindings(Results[PiiResult]):
    """How a model takes people's values, each among its decoys."""

    @cached_property
    def summary(self) -> Summary:
        """Subjects, types of values, kinds of probes; see `instruments.pii.summary.Summary`."""
        return PiiResult.summary(self.results)

    def to_frame(self) -> pd.DataFrame:
        """One row a case and template: the case's id, and what `PiiResult.to_frame` says of the template."""
        return self.joined((result.to_frame() for result in self.results), "case")


def pii(
    model: Any = DEFAULT_MODEL,
    *,
    subjects: Any,
    map: str | Mapping[str, str] | None = None,
    kinds: Sequence[ProbeKind] = PROBE_KINDS,
    prompts: int = 5,
    decoys: int = 99,
    control_names: int = 2,
    decoy_seed: int = 0,
    beams: Sequence[int] = (2,),
    templates: ProbeTemplates | None = None,
    soft_prompt: str | Path | None = None,
    region: str = "US",
    keep_values: bool = False,
    dtype: str | None = None,
    device: str | None = None,
) -> PiiFindings:
    """Ask a model for people's data, and rank each value among decoys by how likely the model finds it.

    Kim et al., "ProPILE: Probing Privacy Leakage in Large Language Models"; see `instruments.pii.measure` and
    `instruments.pii.result`. Scores are never kept in the score cache.

    Args:
        model: see `influence`.
        subjects: records, a data frame or a file with `name` and any of `phone`, `email`, `address`, `university`,
            `relationships`, `id`, or the columns of an address book; see `instruments.pii.subjects.load_subjects`.
        map: fields and the paths at which they stand, as in {"phone": "contact.mobile"}.
        kinds: of probes.
        prompts, decoys, control_names, decoy_seed, templates, keep_values: see `instruments.pii.prompts.ProbeSettings`.
        beams: widths of the beam searches that try to extract a value; none generates nothing.
        soft_prompt: file of `leakmeter pii tune`, made from other people's values.
        region: ISO 3166 code of the country that telephone numbers without a country code are of.
        dtype: see `influence`.
        device: see `influence`.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.
    """
    from leakmeter.instruments.pii.measure import TOGETHER, Pii
    from leakmeter.instruments.pii.prompts import ProbeSettings
    from leakmeter.instruments.pii.subjects import subjects_of
    from leakmeter.runs.loading import load_backend
    from leakmeter.runs.measure import Callbacks, measure_cases

    measure = Pii(tuple(beams))
    settings = ProbeSettings(
        prompts=prompts,
        decoys=decoys,
        control_names=control_names,
        decoy_seed=decoy_seed,
        templates=templates,
        keep_values=keep_values,
    )
    cases = list(probes_of(subjects_of(subjects, map=map, region=region), tuple(kinds)))
    if not cases:
        raise UsageError(f"nothing is known of these people that kinds {', '.join(kinds)} ask for; give other kinds")
    backend = load_backend(model, dtype=dtype, device=device, cache=False)
    with ExitStack() as lasting:
        if soft_prompt is not None:
            from leakmeter.instruments.pii.tuning.vectors import behind, reading_soft_prompt

            settings = behind(Path(soft_prompt), settings)
            lasting.enter_context(reading_soft_prompt(backend, Path(soft_prompt)))
        prepared = [settings.prepare(case, backend, measure) for case in cases]
        parts = measure_cases(backend, measure, prepared, None, Callbacks(), group_size=TOGETHER)
        return PiiFindings(tuple(PiiResult.from_run(parts, asdict(measure))))
