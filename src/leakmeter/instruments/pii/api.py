"""The library: people's data, and how likely a model finds each value among decoys."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakmeter.commands.call import CallOptions, RowNames, Some, function, measured
from leakmeter.commands.given import LoadedCases
from leakmeter.errors import UsageError
from leakmeter.instruments.pii.measure import TOGETHER, Pii
from leakmeter.instruments.pii.probe import PROBE_KINDS, ProbeKind, ProbeTemplates, probes_of
from leakmeter.instruments.pii.prompts import ProbeSettings

if TYPE_CHECKING:
    from leakmeter.instruments.pii.result import PiiResult
    from leakmeter.instruments.pii.subject import Subject
    from leakmeter.runs.loading import KeptModel
    from leakmeter.runs.results import Results


@function(
    was="subjects",
    measure=Some(Pii, raw=True),
    settings=Some(ProbeSettings, without=("templates", "soft_prompt", "soft_tokens")),
    names=RowNames,
    how=CallOptions,
)
def pii(
    model: KeptModel,
    data: Any = None,
    *,
    kinds: Sequence[ProbeKind] = PROBE_KINDS,
    templates: ProbeTemplates | None = None,
    soft_prompt: str | Path | None = None,
    region: str = "US",
    measure: dict[str, Any],
    settings: ProbeSettings,
    names: RowNames,
    how: CallOptions,
) -> Results[PiiResult]:
    """Ask a model for people's data, and rank each value among decoys by how likely the model finds it.

    Kim et al., "ProPILE: Probing Privacy Leakage in Large Language Models", Section 3; see `instruments.pii.measure`
    and `instruments.pii.result`. Scores are never kept in the score cache.

    Args:
        model: see `influence`.
        data: people: a file, records with `name` and any of `phone`, `email`, `address`, `university`, `relationships`,
            `id`, or `Subject`s; see `instruments.pii.subjects.load_subjects`.
        kinds: of probes.
        templates: texts in the place of the published ones, of the kinds that are named.
        soft_prompt: file of `leakmeter pii tune`, made from other people's values.
        region: ISO 3166 code of the country that telephone numbers without a country code are of.
        measure: `beams`, widths of the beam searches that try to extract a value; none generates nothing.
        settings: how values are asked for, and with what they are compared.
        names: what the fields of the data are called.
        how: as of `influence`. A run that is kept holds scores and keyed hashes alone, unless `keep_values` is set.

    Returns:
        A `Results`, or with `out` a `Run`, with a result for each value and kind of probe.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.

    Example:
        >>> import leakmeter
        >>> people = [{"name": "Mara Ellsworth", "phone": "617-555-0134"}]
        >>> found = leakmeter.pii("toy", people, kinds=["twin"], decoys=50, prompts=1, beams=())
        >>> len(found)
        1
    """
    if data is None:
        raise UsageError("there are no subjects; give some as data, the parameter behind the model")
    settings = replace(settings, templates=templates)
    chosen = Pii(**{name: tuple(value) for name, value in measure.items()})
    subjects, problems = _subjects(data, region, names, how)
    cases = tuple(probes_of(subjects, tuple(kinds)))
    if not cases:
        raise UsageError(f"nothing is known of these people that kinds {', '.join(kinds)} ask for; give other kinds")
    with model.lock, ExitStack() as lasting:
        backend = lasting.enter_context(model.without_cache())
        if soft_prompt is not None:
            from leakmeter.instruments.pii.tuning.vectors import behind, reading_soft_prompt

            settings = behind(Path(soft_prompt), settings)
            lasting.enter_context(reading_soft_prompt(backend, Path(soft_prompt)))
        given = LoadedCases(cases, problems, how.skip_bad)
        return measured(model, "pii", chosen, settings, given, how, group_size=TOGETHER)


def _subjects(data: Any, region: str, names: RowNames, how: CallOptions) -> tuple[Sequence[Subject], tuple[str, ...]]:
    """People of any data, and what was wrong with those that are left out."""
    from leakmeter.instruments.pii.subject import Subject
    from leakmeter.instruments.pii.subjects import load_subjects, subjects_of

    if isinstance(data, str | Path) and names.map is None:
        loaded = load_subjects(data, region=region, skip_bad=how.skip_bad)
        return loaded.subjects, tuple(f"{one.where} {one.reason}" for one in loaded.skipped)
    if isinstance(data, list | tuple) and any(isinstance(one, Subject) for one in data):
        return subjects_of(data, region=region), ()
    return subjects_of(names.rows(data, "name"), region=region), ()
