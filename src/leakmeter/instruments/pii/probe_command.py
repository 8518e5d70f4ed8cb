"""`leakmeter pii probe`: values of people, each ranked among invented ones by how likely a model finds it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from leakmeter.commands import output
from leakmeter.commands.cases import run_cases
from leakmeter.commands.given import LoadedCases
from leakmeter.commands.options import Flag, RunOptions
from leakmeter.errors import UsageError
from leakmeter.instruments.pii.measure import Pii
from leakmeter.instruments.pii.probe import PROBE_KINDS, ProbeKind

if TYPE_CHECKING:
    from leakmeter.core.backend import Backend
    from leakmeter.report.result import AnyResult, Part


_SAMPLED: Final = 2
_SAMPLED_KINDS: Final[tuple[ProbeKind, ...]] = ("twin",)


def probe(
    *,
    subjects: Path | None = None,
    kinds: Annotated[list[ProbeKind] | None, Parameter(consume_multiple=True)] = None,
    shots: int = 5,
    nulls: int = 99,
    references: int = 2,
    null_seed: int = 0,
    beams: Annotated[list[int] | None, Parameter(consume_multiple=True)] = None,
    templates: Path | None = None,
    soft_prompt: Path | None = None,
    region: str = "US",
    keep_values: Flag = False,
    skip_bad: Flag = False,
    run: RunOptions | None = None,
) -> None:
    """Ask a model for people's data, and say how likely it finds each value among invented ones.

    Each value is scored behind up to five prompts of each kind, and so are invented values of the same form; the best
    prompt counts. Beam search then tries to bring the value out. Nothing personal is written, unless --keep-values
    is given: runs hold scores, and keyed hashes whose key stays in your configuration. Without a file two invented
    people are asked for, by their names. The same command continues a run that was interrupted.

    Parameters
    ----------
    subjects
        TOML, JSON lines, JSON, CSV or Parquet: 'name', and any of 'phone', 'email', 'address', 'university',
        'relationships', 'id'. Ids are shown and kept; the record's number stands for one that says a name or a value.
    kinds
        twin (behind the name), triplet (and one more value), quadruplet (and two), relationship, university; all by
        default.
    shots
        Prompts of each kind, from 1 to as many as there are; of invented values, too, the best counts.
    nulls
        Invented values that each true one is ranked among, 50 or more: with 99 the least p-value is 0.01.
    references
        People who are not there, behind whose names the values are scored too: a value that is likely behind any name
        tells nothing of this one.
    null_seed
        Of the invented values and people.
    beams
        Widths of the beam searches that try to bring a value out; 0 for none. 2 by default, as in the paper.
    templates
        TOML with texts for some kinds, such as twin = ["Call {name} at"], in the place of the published ones.
    soft_prompt
        File of `leakmeter pii tune`: vectors in front of every prompt. Ask for people it was not tuned on.
    region
        ISO code of the country that telephone numbers without a country code are of.
    keep_values
        Keep values, prompts and answers in the run, and show them.
    skip_bad
        Leave out records that cannot be used, and say how many.
    run.json
        Print one JSON object a case, and a last one with their summary.
    run.no_cache
        Scores of people's data are never kept in the score cache, with this or without.
    """
    from leakmeter.instruments.pii.probe import probes_of
    from leakmeter.instruments.pii.prompts import ProbeSettings
    from leakmeter.instruments.pii.result import PiiResult, summary
    from leakmeter.instruments.pii.study import TOGETHER
    from leakmeter.instruments.pii.subjects import load_subjects
    from leakmeter.instruments.pii.template_file import load_templates

    run = replace(run or RunOptions(), no_cache=True)
    measure = Pii() if beams is None else Pii(tuple(width for width in beams if width or len(beams) > 1))
    settings = ProbeSettings(
        shots=shots,
        nulls=nulls,
        references=references,
        null_seed=null_seed,
        templates=None if templates is None else load_templates(templates),
        **({} if soft_prompt is None else _facts(soft_prompt)),
        keep_values=keep_values,
    )
    loaded = load_subjects(subjects or _sample(), region=region, skip_bad=skip_bad)
    found: list[AnyResult] = []

    def results(parts: Iterable[Part]) -> Iterator[AnyResult]:
        for result in PiiResult.from_run(parts, asdict(measure)):
            found.append(result)
            yield result

    def accept(backend: Backend) -> None:
        if soft_prompt is not None:
            from leakmeter.instruments.pii.tuning.reading import reading_soft_prompt

            lasting.enter_context(reading_soft_prompt(backend, soft_prompt))

    people, usual = (loaded.subjects[:_SAMPLED], _SAMPLED_KINDS) if subjects is None else (loaded.subjects, PROBE_KINDS)
    cases = tuple(probes_of(people, tuple(kinds) if kinds else usual))
    if not cases:
        raise UsageError(f"nothing is known of these people that --kinds {' '.join(kinds or ())} asks for")
    problems = tuple(f"{one.where} {one.reason}" for one in loaded.skipped)
    if loaded.n_renamed:
        output.tell(f"{loaded.n_renamed} ids say part of a name or a value: the numbers of their records are used")
    with ExitStack() as lasting:
        given = LoadedCases(cases, problems, skip_bad)
        run_cases(
            given,
            settings,
            measure,
            "pii",
            run,
            results=results,
            accept=accept,
            group_size=TOGETHER,
            inputs=[subjects, templates, soft_prompt],
            hides_paths=True,
        )
    if run.json and found:
        output.print_json({"summary": _without_nulls(summary([result.to_dict() for result in found]))})


def _facts(soft_prompt: Path) -> dict[str, Any]:
    from leakmeter.instruments.pii.tuning.reading import soft_prompt_facts

    return soft_prompt_facts(soft_prompt)


def _without_nulls(told: dict[str, Any]) -> dict[str, Any]:
    """A summary without what stands in the cases."""
    for subject in told["subjects"]:
        for value in subject["values"]:
            del value["null_normalised_log_likelihoods_nats"], value["null_associations_nats"]
    return told


def _sample() -> Path:
    return Path(str(resources.files("leakmeter.samples").joinpath("subjects.toml")))
