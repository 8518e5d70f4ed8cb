"""`leakmeter audit`: private generation from exemplars, its guarantee against what is measured.

`run` reads a TOML file, and options that win over it:

model = "smollm2-135m"
exemplars = "tickets.csv"          beside the file
column = "body"                    where a text stands; or a task and a label, for labelled data
instruction = "Write a support ticket that a customer might send."
subset_size = 24
epsilon = 14                       or temperature
clip = 7.5
samples = 2
max_new_tokens = 30
delta = 1e-5
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, fields, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args, get_type_hints

from cyclopts import App, Parameter

from leakmeter.commands import output
from leakmeter.commands.cases import run_cases
from leakmeter.commands.options import Flag, RunOptions, Text
from leakmeter.core.files import parsed_toml, read_text
from leakmeter.core.loaded import LoadedCases, Plan
from leakmeter.errors import UnknownNameError, UsageError
from leakmeter.models import DEFAULT_MODEL
from leakmeter.privacy.calibrate import Free
from leakmeter.privacy.clipped_logits import Adjacency, NormaliseBy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from leakmeter.instruments.generation.measure import PrivateGeneration
    from leakmeter.instruments.generation.result import PrivateGenerationResult
    from leakmeter.results.result import AnyResult, Part
    from leakmeter.text.exemplar import Example

SAMPLE: Final = "tickets"
"""The exemplars, and the task, that ship with the package."""
_PATHS: Final = ("exemplars", "task")
_KINDS: Final = {str: "text", int: "a whole number", float: "a number"}
_BROKEN: Final = 1
"""Exit code where a measurement is above its bound."""

app = App(
    name="audit",
    help="""Generate text from private exemplars and compare the measured privacy loss with the guarantee.

    `calibrate` finds a setting with a guarantee; `run` generates, measures and judges.""",
)


@Parameter(name="*", negative="")
@dataclass(frozen=True, slots=True)
class Options:
    """Keys of the file, each an option too; what neither gives has the default that is told here."""

    model: str | None = None
    """A known name (see `leakmeter models`), hf:ORG/NAME, a directory, or a .gguf file; smollm2-135m by default."""
    exemplars: Text | None = None
    """Private texts: a CSV, JSON lines, JSON or Parquet file, packed or not, - for standard input, or tickets, the
    invented sample."""
    column: str | None = None
    """Column of the texts, where there is no task; text by default."""
    task: str | None = None
    """Format of labelled exemplars: agnews, dbpedia14, trec, a file NAME.toml, or tickets."""
    label: str | None = None
    """Label of the texts to generate. With a task, only exemplars with this label are used; without one, all are."""
    instruction: Text | None = None
    """The prompt's first lines, which are public; the paper's for news by default."""
    label_heading: str | None = None
    """Heading of the label; News Type by default."""
    text_heading: str | None = None
    """Heading of the text; Text by default."""
    template: str | None = None
    """plain, the default, or chat for the whole prompt in one user message."""
    subset_size: int | None = None
    """Exemplars of a batch; all in one batch by default."""
    batches: int | None = None
    """Disjoint batches, each with samples of its own; as many as can be filled by default."""
    epsilon: float | None = None
    """The most that is guaranteed at delta for the samples of a batch, nats: sets the temperature."""
    temperature: float | None = None
    """τ of the average, in the place of epsilon."""
    clip: float | None = None
    """c: a clipped logit lies between −c and c, nats; 10 by default."""
    normalise_by: NormaliseBy | None = None
    """What a sum without an exemplar is divided by: fixed, the default, or present."""
    samples: int | None = None
    """Drawn from each batch; 10 by default."""
    max_new_tokens: int | None = None
    """Most tokens of each, which the guarantee is for; 40 by default."""
    min_new_tokens: int | None = None
    """Fewest tokens of each; 0 by default."""
    delta: float | None = None
    """δ of the guarantee; 1e-5 by default."""
    seed: int | None = None
    """Seed of the draws; keep it secret. By default the operating system's source of randomness is used."""

    @property
    def given(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


@Parameter(name="*", negative="")
@dataclass(frozen=True, slots=True)
class _RunOptions(RunOptions):
    """The model may stand in the configuration too."""

    model: Annotated[str, Parameter(parse=False)] = DEFAULT_MODEL


@app.command
def run(
    *,
    config: Path | None = None,
    asked: Options | None = None,
    run: _RunOptions | None = None,
    public: Flag = False,
) -> None:
    """Generate text from private exemplars and compare each token's measured privacy loss with the guarantee.

    Without configuration and exemplars 24 invented support tickets are taken. The same command goes on after an
    interruption, and shows what it drew once all is drawn. Exit code 1: a measurement is above its bound.

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
        Print, on standard error too, and write only what may be published: the texts and their guarantee.
    """
    from leakmeter.instruments.generation.audits import audit_directory, audit_of, check_precision, precision_for
    from leakmeter.privacy.draws import SEED_WARNING
    from leakmeter.storage.nonce import kept_nonce

    chosen = merged(config, asked or Options())
    options = run or _RunOptions()
    options = replace(options, model=chosen.model or DEFAULT_MODEL, dtype=precision_for(chosen.model, options.dtype))
    if public and options.dry_run:
        raise UsageError("--dry-run reveals the length of the exemplars; remove it or --public")
    own = ("model", "exemplars", "column", "task")
    audit_options = {name: value for name, value in chosen.given.items() if name not in own}
    audited = audit_of(lambda: _examples(chosen), **audit_options)
    measure = audited.measure
    if chosen.seed is not None:
        output.tell(SEED_WARNING)

    def settled() -> tuple[PrivateGeneration, Path]:
        nonlocal measure
        machine = {"dtype": options.dtype, "device": options.device, "memory": options.memory}
        directory = audit_directory(audited, options.model, options.out, **machine)
        measure = replace(audited.measure, nonce=kept_nonce(directory))
        return measure, directory

    collected: list[PrivateGenerationResult] = []

    def results(parts: Iterable[Part]) -> Iterator[AnyResult]:
        from leakmeter.instruments.generation.result import PrivateGenerationResult

        for result in PrivateGenerationResult.from_run(parts, asdict(measure)):
            collected.append(result)
            if not public:
                yield result
        if public:
            if not all(result.holds for result in collected):
                # A mechanism that does what it guarantees never gets here, so that this tells nothing of exemplars.
                output.tell("leakmeter: a measurement exceeds its bound; nothing of this may be published")
                sys.exit(_BROKEN)
            yield from (result.public for result in collected)

    plan = Plan(
        "private_generation",
        measure,
        audited.settings,
        LoadedCases(audited.cases),
        settle=settled if chosen.seed is None else None,
    )
    with output.unnamed(public):
        run_cases(
            plan,
            options,
            results=results,
            accept=lambda backend: check_precision(backend.dtype),
            inputs=[config, chosen],
            public=public,
        )
    if collected:
        _judge(collected, json=options.json and not public)


@Parameter(name="*", negative="")
@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is calibrated, and to what."""

    epsilon: float
    """The most that ε may be at delta, nats, for all samples together."""
    free: Free
    """The setting to search for: temperature, clip or subset-size. Give the other two."""
    clip: float | None = None
    """c: a clipped logit lies between −c and c, nats."""
    subset_size: int | None = None
    """s: exemplars whose clipped logits are averaged at each token."""
    temperature: float | None = None
    """τ of the average."""
    samples: int = 50
    """Drawn from the same exemplars."""
    max_new_tokens: int = 40
    """Most tokens of each."""
    delta: float = 1e-5
    """δ of the guarantee, above 0 and below 1."""
    adjacency: Adjacency = "add-remove"
    """What the target is for: add-remove, an exemplar more or less; or replace-one, another in its place. Both are
    told."""
    normalise_by: NormaliseBy = "fixed"
    """What a sum without an exemplar is divided by: fixed, as many as before; present, those that are left."""


@app.command
def calibrate(*, wanted: Wanted, json: Flag = False) -> None:
    """Find the temperature, clip or subset size at which private token generation has a guarantee.

    Nothing is loaded or run: a guarantee depends on these three, on how many tokens there may be, and on nothing else.

    Parameters
    ----------
    json
        Print one JSON object instead.
    """
    from leakmeter.instruments.generation.calibration import calibrated, report

    calibration = calibrated(wanted)
    if json:
        output.print_json(calibration)
        return

    from leakmeter.report import console

    output.console().print(console.view(report(calibration)))


def _judge(found: Sequence[PrivateGenerationResult], *, json: bool) -> None:
    """Say the verdict on all batches; exit with 1 where the guarantee is broken."""
    from leakmeter.instruments.generation.result import Summary
    from leakmeter.instruments.generation.words import compared
    from leakmeter.report.blocks import plain

    if json:
        output.print_json({"summary": Summary.of(found)})
    broken = [(result, failure) for result in found for failure in result.verdict.failures]
    if broken:
        # Where all tokens together tell too much, one of them does, but for rounding.
        result, failure = next((pair for pair in broken if pair[1].token is not None), broken[0])
        where = f"{result.id}, " if len(found) > 1 else ""
        more = f"; and {len(broken) - 1:,} more" if len(broken) > 1 else ""
        output.tell(f"leakmeter: a measurement exceeds its bound: {where}exemplar {plain(compared(failure))}{more}")
        sys.exit(_BROKEN)


def _examples(told: Options) -> list[Example]:
    """The exemplars: texts as they are, or those of a task that have the label."""
    from leakmeter.data import tasks
    from leakmeter.data.tasks.base import TaskData
    from leakmeter.instruments.generation.audits import with_label
    from leakmeter.text.exemplar import Task

    if told.exemplars is None:
        raise UsageError("nothing says which exemplars; give exemplars, a file of them or tickets")
    path = str(_sample(f"{SAMPLE}.csv")) if told.exemplars == SAMPLE else told.exemplars
    if told.task is not None:
        if told.column is not None:
            raise UsageError("column is for texts without a task, which says itself how they are read; leave it out")
        task_data = tasks.load_task(str(_sample(f"{SAMPLE}.toml")) if told.task == SAMPLE else told.task)
        return with_label(task_data.load(path, "train"), task_data.task, told.label)
    column = told.column or ("body" if told.exemplars == SAMPLE else "text")
    texts = TaskData(Task("texts", "", ((column, column),), "", ()), (((column.lower(),),),), ())
    return [replace(example, label=told.label) for example in texts.load(path, "train", labelled=False)]


# ---- the configuration ----------------------------------------------------------------------------------------------
def merged(config: Path | None, options: Options) -> Options:
    """The file's keys, where no option is given that wins; the sample's without either file or exemplars."""
    if config is None:
        settings = _read(_sample("audit.toml")) if options.exemplars is None else {}
    else:
        settings = _read(config)
        settings |= {name: _beside(config, settings[name]) for name in _PATHS if name in settings}
    # One of the two sets the guarantee, and the option does where there is one.
    if options.epsilon is not None or options.temperature is not None:
        settings = {name: value for name, value in settings.items() if name not in ("epsilon", "temperature")}
    return replace(options, **{name: value for name, value in settings.items() if name not in options.given})


def _sample(name: str) -> Path:
    return Path(str(resources.files("leakmeter.samples").joinpath(name)))


def _read(path: Path) -> dict[str, Any]:
    where = f"configuration '{path}'"
    table = parsed_toml(read_text(path, "configuration"), where)
    hints = get_type_hints(Options)
    kinds: dict[str, type] = {
        field.name: next((kind for kind in (int, float) if kind in get_args(hints[field.name])), str)
        for field in fields(Options)
    }
    for name, value in table.items():
        if name not in kinds:
            raise UnknownNameError(f"key of {where}", name, kinds)
        kind = kinds[name]
        # 14 is a number as well as 14.0; true is none, nor is a whole one that no float64 is as large as.
        fits = isinstance(value, (int, float) if kind is float else kind) and not isinstance(value, bool)
        if not fits or (kind is float and isinstance(value, int) and abs(value) > sys.float_info.max):
            text = repr(value)
            shown = text if len(text) <= 40 else f"{text[:40]}…"
            raise UsageError(f"{where}: '{name}' is {shown}; it has to be {_KINDS[kind]}")
    return {name: float(value) if kinds[name] is float else value for name, value in table.items()}


def _beside(config: Path, given: str) -> str:
    """A file that the configuration names, from where it lies; a name of something else as it is."""
    path = config.parent / given
    return str(path) if Path(given).suffix and not Path(given).is_absolute() else given
