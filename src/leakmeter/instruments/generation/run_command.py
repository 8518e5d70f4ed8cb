"""`leakmeter audit run`: texts that private exemplars vote for, measured as they are drawn, and judged."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from leakmeter.commands import output
from leakmeter.commands.cases import run_cases
from leakmeter.commands.given import LoadedCases
from leakmeter.commands.options import Flag, RunOptions
from leakmeter.errors import UsageError
from leakmeter.instruments.generation.config import SAMPLE, Asked, merged, sample
from leakmeter.models import DEFAULT_MODEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from leakmeter.instruments.generation.audits import Audited
    from leakmeter.instruments.generation.measure import PrivateGeneration
    from leakmeter.instruments.generation.result import PrivateGenerationResult
    from leakmeter.report.result import AnyResult, Part
    from leakmeter.text.exemplar import Example

_DRAWING: Final = ("clip", "normalise_by", "max_new_tokens", "min_new_tokens", "delta", "seed", "temperature")
_WORDING: Final = ("instruction", "label_heading", "text_heading", "template")
_SEQUENCES: Final = 10
_BROKEN: Final = 1
"""Exit code where more was measured than was promised."""


@Parameter(name="*", negative="")
@dataclass(frozen=True, slots=True)
class _RunOptions(RunOptions):
    """The model may stand in the configuration too."""

    model: Annotated[str, Parameter(parse=False)] = DEFAULT_MODEL


def run(
    *,
    config: Path | None = None,
    asked: Asked | None = None,
    run: _RunOptions | None = None,
    public: Flag = False,
) -> None:
    """Generate texts from private exemplars, and hold what every token told of each exemplar against the promise.

    Without configuration and exemplars 24 invented support tickets are taken. The same command goes on after an
    interruption, and shows what it drew once all is drawn. Exit code 1: more was measured than was promised.

    Parameters
    ----------
    config
        TOML file whose keys are the options below, with _ for -; an option that is given wins.
    run.dtype
        float32, the default on every device; half precision is refused.
    run.out
        Directory of runs; the run's is private, its name included.
    run.json
        Print one JSON object a batch, and a last one with their summary.
    public
        Print, on standard error too, and write only what may be published: the texts and what is promised of them.
    """
    from leakmeter.instruments.generation.audits import audit_directory, check_precision, precision_for
    from leakmeter.privacy.draws import SEED_WARNING
    from leakmeter.runs.nonce import kept_nonce

    told = merged(config, asked or Asked())
    options = run or _RunOptions()
    options = replace(options, model=told.model or DEFAULT_MODEL, dtype=precision_for(told.model, options.dtype))
    if public and options.dry_run:
        raise UsageError("--dry-run tells how long the exemplars are; leave it out, or --public")
    audited = _audited(told)
    measure = audited.measure
    if told.seed is not None:
        output.tell(SEED_WARNING)

    def settled() -> tuple[PrivateGeneration, Path]:
        nonlocal measure
        machine = {"dtype": options.dtype, "device": options.device, "memory": options.memory}
        directory = audit_directory(audited, options.model, options.out, **machine)
        measure = replace(audited.measure, nonce=kept_nonce(directory))
        return measure, directory

    found: list[PrivateGenerationResult] = []

    def results(parts: Iterable[Part]) -> Iterator[AnyResult]:
        from leakmeter.instruments.generation.result import PrivateGenerationResult

        for result in PrivateGenerationResult.from_run(parts, asdict(measure)):
            found.append(result)
            if not public:
                yield result
        if public:
            if not all(result.holds for result in found):
                # Of a mechanism that does what it promises this is never said, so that it tells nothing of exemplars.
                output.tell("leakmeter: more was measured than was promised; nothing of this may be published")
                sys.exit(_BROKEN)
            yield from (result.public for result in found)

    with output.unnamed(public):
        run_cases(
            LoadedCases(audited.cases),
            audited.settings,
            measure,
            "private_generation",
            options,
            results=results,
            accept=lambda backend: check_precision(backend.dtype),
            settle=settled if told.seed is None else None,
            inputs=[config, told],
            public=public,
        )
    if found:
        _judge(found, json=options.json and not public)


def _judge(found: list[PrivateGenerationResult], *, json: bool) -> None:
    """Say the verdict on all batches; exit with 1 where the promise is broken."""
    from leakmeter.instruments.generation.result import summary
    from leakmeter.instruments.generation.words import compared
    from leakmeter.report.blocks import plain

    if json:
        output.print_json({"summary": summary([result.case for result in found])})
    broken = [(result.case, one) for result in found for one in result.case["verdict"]["failures"]]
    if broken:
        # Where all tokens together tell too much, one of them does, but for rounding.
        case, one = next((of for of in broken if of[1]["token"] is not None), broken[0])
        where = f"{case['id']}, " if len(found) > 1 else ""
        more = f"; and {len(broken) - 1:,} more" if len(broken) > 1 else ""
        output.tell(
            f"leakmeter: more was measured than was promised: {where}exemplar {plain(compared(case, one))}{more}"
        )
        sys.exit(_BROKEN)


def _audited(told: Asked) -> Audited:
    """Batches, prompts and measure.

    Raises:
        LeakmeterError: something cannot be used as asked for.
    """
    from leakmeter.instruments.generation.audits import audit_of, check_promise
    from leakmeter.instruments.generation.measure import PrivateGeneration
    from leakmeter.instruments.generation.prompts import GenerationSettings

    check_promise(epsilon=told.epsilon, temperature=told.temperature)
    drawing = {name: value for name, value in told.given.items() if name in _DRAWING}
    return audit_of(
        _examples(told),
        GenerationSettings(**{name: value for name, value in told.given.items() if name in _WORDING}),
        PrivateGeneration(**drawing, sequences=_SEQUENCES if told.sequences is None else told.sequences),
        label=told.label,
        subset_size=told.subset_size,
        batches=told.batches,
        epsilon=told.epsilon,
    )


def _examples(told: Asked) -> list[Example]:
    """The exemplars: texts as they are, or those of a task that have the label.

    Raises:
        LeakmeterError: they cannot be read, or none is named.
    """
    from leakmeter.data import tasks
    from leakmeter.data.tasks.base import TaskData
    from leakmeter.instruments.generation.audits import with_label
    from leakmeter.text.exemplar import Task

    if told.exemplars is None:
        raise UsageError("nothing says which exemplars; give exemplars, a file of them or tickets")
    path = str(sample(f"{SAMPLE}.csv")) if told.exemplars == SAMPLE else told.exemplars
    if told.task is not None:
        if told.column is not None:
            raise UsageError("column is for texts without a task, which says itself how they are read; leave it out")
        known = tasks.load_task(str(sample(f"{SAMPLE}.toml")) if told.task == SAMPLE else told.task)
        return with_label(known.load(path, "train"), known.task, told.label)
    column = told.column or ("body" if told.exemplars == SAMPLE else "text")
    texts = TaskData(Task("texts", "", ((column, column),), "", ()), (((column.lower(),),),), ())
    return [replace(one, label=told.label) for one in texts.load(path, "train", labelled=False)]
