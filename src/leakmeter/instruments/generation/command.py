"""`leakmeter generate`: private generation from exemplars, its guarantee against what is measured.

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
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args, get_type_hints

from cyclopts import App, Parameter

from leakmeter.commands import output
from leakmeter.commands.call import (
    CallOptions,
    DataRecord,
    FunctionOptions,
    RowNames,
    function,
    measured,
    plain_function,
)
from leakmeter.commands.cases import run_cases
from leakmeter.commands.options import Explain, FlagOption, RunOptions, TextOption
from leakmeter.core.files import parsed_toml, read_text, sample_path
from leakmeter.core.loaded import LoadedCases, Plan
from leakmeter.core.record import JsonObject
from leakmeter.engine.options import ModelOptions
from leakmeter.errors import UnknownNameError, UsageError
from leakmeter.instruments.generation.measure import PrivateGeneration
from leakmeter.instruments.generation.prompts import GenerationSettings
from leakmeter.models import DEFAULT_MODEL
from leakmeter.privacy.calibrate import Free
from leakmeter.privacy.clipped_logits import Adjacency, NormaliseBy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from leakmeter.engine.loading import KeptModel
    from leakmeter.instruments.generation.calibration import Calibration
    from leakmeter.instruments.generation.result import PrivateGenerationResult
    from leakmeter.privacy.mechanism import Mechanism
    from leakmeter.results.result import AnyResult, PartContent
    from leakmeter.results.results import Results
    from leakmeter.text.exemplars import LabelledText


SAMPLE: Final = "tickets"
"""The exemplars, and the task, that ship with the package."""
_BROKEN: Final = 1
"""Exit code where a measurement is above its bound."""

app = App(name="generate")


@Parameter(name="*", negative="")
@dataclass(frozen=True, slots=True)
class Options:
    """Keys of the file, each an option too; what neither gives has the default that is told here."""

    model: str | None = None
    """A known name (see `leakmeter models`), hf:ORG/NAME, a directory, or a .gguf file; smollm2-135m by default."""
    exemplars: TextOption | None = None
    """Private texts: a CSV, JSON lines, JSON or Parquet file, packed or not, - for standard input, or tickets, the
    invented sample."""
    column: str | None = None
    """Column of the texts, where there is no task; text by default."""
    task: str | None = None
    """Format of labelled exemplars: agnews, dbpedia14, trec, a file NAME.toml, or tickets."""
    label: str | None = None
    """Label of the texts to generate. With a task, only exemplars with this label are used; without one, all are."""
    instruction: TextOption | None = None
    """The prompt's first lines, which are public; the paper's for news by default."""
    label_heading: str | None = None
    """Heading of the label; News Type by default."""
    text_heading: str | None = None
    """Heading of the text; Text by default."""
    template: str | None = None
    """plain, the default, or chat for the whole prompt in one user message."""
    subset_size: int | None = None
    """Number of exemplars of a batch; all in one batch by default."""
    batches: int | None = None
    """Number of disjoint batches, each with samples of its own; as many as can be filled by default."""
    epsilon: float | None = None
    """Guaranteed ε at delta for the samples of a batch, nats; sets the temperature."""
    temperature: float | None = None
    """Temperature τ of the average, instead of epsilon."""
    clip: float | None = None
    """Clip logits to between −c and c, nats; 10 by default."""
    normalise_by: NormaliseBy | None = None
    """Divisor of a sum without an exemplar: fixed, the default, or present."""
    samples: int | None = None
    """Number of texts to draw from each batch; 10 by default."""
    max_new_tokens: int | None = None
    """Maximum number of tokens of each text, which the guarantee covers; 40 by default."""
    min_new_tokens: int | None = None
    """Minimum number of tokens of each text; 0 by default."""
    delta: float | None = None
    """δ of the guarantee; 1e-5 by default."""
    seed: int | None = None
    """Seed of the draws; keep it secret. By default the operating system's source of randomness is used."""

    @property
    def explicit(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


@Parameter(name="*", negative="")
@dataclass(frozen=True, slots=True)
class _RunOptions(RunOptions):
    model: Annotated[str, Parameter(parse=False)] = DEFAULT_MODEL


@app.default
def generate_command(
    *,
    config: Path | None = None,
    settings: Options | None = None,
    run: _RunOptions | None = None,
    public: FlagOption = False,
) -> None:
    """Generate text from private exemplars and compare the measured privacy loss with the guarantee.

    The loss of each token is measured; `leakmeter generate calibrate` finds a setting with a guarantee. Without
    configuration and exemplars, 24 invented support tickets are used. The same command continues after an interruption;
    once everything is drawn, it shows that again. Exit code 1: a measurement is above its bound.

    Parameters
    ----------
    config
        TOML file whose keys are the options below, with _ for -; options on the command line win.
    run.dtype
        float32, the default on every device; half precision is refused.
    run.out
        Directory of runs; the run's is private, its name included.
    run.json
        Print one JSON object a batch, and a last one with their summary.
    public
        Print, on standard error too, and write only what may be published: the texts and their guarantee.
    """
    from leakmeter.instruments.generation.audits import audit_of, check_precision, precision_for, with_nonce
    from leakmeter.privacy.draws import SEED_WARNING

    chosen = merged(config, settings or Options())
    options = run or _RunOptions()
    options = replace(options, model=chosen.model or DEFAULT_MODEL, dtype=precision_for(chosen.model, options.dtype))
    if public and options.dry_run:
        raise UsageError("--dry-run reveals the length of the exemplars; remove it or --public")
    own = ("model", "exemplars", "column", "task")
    audit_options = {name: value for name, value in chosen.explicit.items() if name not in own}
    audited = audit_of(lambda: _examples_of_options(chosen), **audit_options)
    measure = audited.measure
    if chosen.seed is not None:
        output.tell(SEED_WARNING)

    def settled() -> tuple[PrivateGeneration, Path]:
        nonlocal measure
        machine = {"dtype": options.dtype, "device": options.device, "memory": options.memory}
        measure, directory = with_nonce(audited, options.model, options.out, **machine)
        return measure, directory

    collected: list[PrivateGenerationResult] = []

    def results(parts: Iterable[PartContent]) -> Iterator[AnyResult]:
        from leakmeter.instruments.generation.result import PrivateGenerationResult

        for result in PrivateGenerationResult.from_run(parts, asdict(measure)):
            collected.append(result)
            if not public:
                yield result
        if public:
            if not all(result.holds for result in collected):
                # A mechanism that does what it guarantees never gets here, so that this tells nothing of exemplars.
                output.tell("leakmeter: a measurement exceeds its bound; publish nothing from this run")
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
@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is calibrated, and to what."""

    epsilon: float
    """Largest allowed ε at delta, nats, for all samples together."""
    free: Free
    """The setting to search for: temperature, clip or subset-size. Give the other two."""
    clip: float | None = None
    """Clip logits to between −c and c, nats."""
    subset_size: int | None = None
    """s: exemplars whose clipped logits are averaged at each token."""
    temperature: float | None = None
    """Temperature τ of the average."""
    samples: int = 50
    """Number of texts drawn from the same exemplars."""
    max_new_tokens: int = 40
    """Maximum number of tokens of each text."""
    delta: float = 1e-5
    """δ of the guarantee, above 0 and below 1."""
    adjacency: Adjacency = "add-remove"
    """Neighbours that the target is for: add-remove (one exemplar more or less) or replace-one (one exemplar replaced).
    The output states both."""
    normalise_by: NormaliseBy = "fixed"
    """Divisor of a sum without an exemplar: fixed, the number before; present, the number that is left."""


@app.command(name="calibrate")
def calibrate_command(*, wanted: Wanted, explain: Explain = False, json: FlagOption = False) -> None:
    """Find the temperature, clip or subset size at which private token generation has a guarantee.

    No model is loaded or run: a guarantee depends only on these three settings and on the maximum number of tokens.

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
    output.print_report(report(calibration), explain=explain)


def _judge(results: Sequence[PrivateGenerationResult], *, json: bool) -> None:
    """Exit with 1 where the guarantee is broken."""
    from leakmeter.instruments.generation.result import GenerationSummary
    from leakmeter.instruments.generation.words import compared
    from leakmeter.report.blocks import plain

    if json:
        output.print_json({"summary": GenerationSummary.from_results(results)})
    broken = [(result, failure) for result in results for failure in result.verdict.failures]
    if broken:
        # Where all tokens together tell too much, one of them does, but for rounding.
        result, failure = next((pair for pair in broken if pair[1].token is not None), broken[0])
        where = f"{result.id}, " if len(results) > 1 else ""
        more = f"; and {len(broken) - 1:,} more" if len(broken) > 1 else ""
        output.tell(f"leakmeter: a measurement exceeds its bound: {where}exemplar {plain(compared(failure))}{more}")
        sys.exit(_BROKEN)


def _examples_of_options(options: Options) -> list[LabelledText]:
    from leakmeter.data import tasks
    from leakmeter.data.tasks import TaskData
    from leakmeter.instruments.generation.audits import with_label
    from leakmeter.text.exemplars import Task

    if options.exemplars is None:
        raise UsageError("no exemplars are given; give a file of exemplars, or tickets")
    path = str(sample_path(f"{SAMPLE}.csv")) if options.exemplars == SAMPLE else options.exemplars
    if options.task is not None:
        if options.column is not None:
            raise UsageError("column is for texts without a task; a task defines its columns, so leave it out")
        task_data = tasks.load_task(str(sample_path(f"{SAMPLE}.toml")) if options.task == SAMPLE else options.task)
        return with_label(task_data.load(path, "train"), task_data.task, options.label)
    column = options.column or ("body" if options.exemplars == SAMPLE else "text")
    texts = TaskData(Task("texts", "", ((column, column),), "", ()), (((column.lower(),),),), ())
    return [replace(example, label=options.label) for example in texts.load(path, "train", labelled=False)]


# ---- the configuration ----------------------------------------------------------------------------------------------
def merged(config: Path | None, options: Options) -> Options:
    """The file's keys, over which options win; the sample's without either file or exemplars."""
    if config is None:
        settings = _read(sample_path("generate.toml")) if options.exemplars is None else {}
    else:
        settings = _read(config)
        for name in ("exemplars", "task"):
            # A file, beside the configuration; a name of something else has no suffix.
            if Path(settings.get(name, "")).suffix and not Path(settings[name]).is_absolute():
                settings[name] = str(config.parent / settings[name])
    # One of the two sets the guarantee, and the option does where there is one.
    if options.epsilon is not None or options.temperature is not None:
        settings = {name: value for name, value in settings.items() if name not in ("epsilon", "temperature")}
    return replace(options, **{name: value for name, value in settings.items() if name not in options.explicit})


def _read(path: Path) -> JsonObject:
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
            words = {str: "text", int: "a whole number", float: "a number"}
            raise UsageError(f"{where}: '{name}' is {shown}; it has to be {words[kind]}")
    return {name: float(value) if kinds[name] is float else value for name, value in table.items()}


class GenerateOptions(FunctionOptions, CallOptions, RowNames, GenerationSettings):
    task: str | DataRecord | None = None
    label: str | None = None
    subset_size: int | None = None
    batches: int | None = None
    epsilon: float | None = None
    temperature: float | None = None
    samples: int | None = None
    mechanism: Mechanism | None = None
    clip: float = PrivateGeneration.clip
    normalise_by: NormaliseBy = PrivateGeneration.normalise_by
    max_new_tokens: int = PrivateGeneration.max_new_tokens
    min_new_tokens: int = PrivateGeneration.min_new_tokens
    delta: float = PrivateGeneration.delta
    seed: int | None = None
    skip_bad: bool = field(default=False, init=False)


class GenerateCall(ModelOptions, GenerateOptions): ...


@function(GenerateOptions, GenerateCall)
def generate(model: KeptModel, data: Any, options: GenerateOptions) -> Results[PrivateGenerationResult]:
    """Write texts like private exemplars by private token generation, and hold what they tell against the guarantee.

    Every exemplar stands alone in a prompt, the clipped logits of all prompts are averaged at every token, and at each
    token every exemplar is left out once (Li et al., "Evaluating Privacy Leakage From In-Context Learning", Section 5).
    The texts may be published, as long as a seed and all else stays secret; see
    `instruments.generation.measure.PrivateGeneration`.

    Args:
        model: see `influence`; it computes in float32, and half precision is refused.
        data: exemplars: texts, or records with 'text'; or, with a task, the records that it reads.
        task: 'agnews', 'dbpedia14', 'trec', a file NAME.toml or what such a file says: how exemplars are read.
        label: what is written; with a task, only exemplars with this label are taken.
        subset_size: exemplars of a batch; all of them in one by default.
        batches: of disjoint exemplars, each with its own samples; as many as can be filled by default.
        epsilon: the most that is guaranteed at `delta` for all samples of a batch, nats: sets the temperature.
        temperature: temperature τ of the average, instead of epsilon.
        samples: drawn from each batch, 10 by default.
        mechanism: another rule, in the place of epsilon, clip and temperature: `privacy.mechanism.BoundedCid`, or an
            object with what `privacy.mechanism.Mechanism` lists.
        measure: options of the measure; see `instruments.generation.measure.PrivateGeneration`.
        settings: wording of the prompts; the defaults are the paper's for news.
        names: what the fields of the data are called.
        how: as of `influence`. A run that is kept has a secret of its own, with which the same call goes on.

    Returns:
        A `Results`, or with `out` a `Run`, with a result for each batch. `summary` has the guarantee of all together
        and whether it holds, and each result's `public` what may be published.

    Raises:
        LeakmeterError: something cannot be used as given, or no setting has the epsilon; the message says what to do.

    Examples:
        >>> import leakmeter
        >>> texts = ["The lake is calm.", "The wind is cold.", "The bread is warm."]
        >>> found = leakmeter.generate("toy", texts, epsilon=20, samples=1, max_new_tokens=2)
        >>> found.summary.holds, len(found[0].public.texts)
        (True, 1)
    """
    from leakmeter.engine.loading import tell
    from leakmeter.instruments.generation.audits import audit_of, check_precision, precision_for, with_nonce
    from leakmeter.instruments.generation.result import PrivateGenerationResult
    from leakmeter.privacy.draws import SEED_WARNING

    mechanism, out = options.mechanism, options.out
    names = ["temperature", "clip", "normalise_by", "max_new_tokens", "min_new_tokens", "delta", "seed"]
    names += [part.name for part in fields(GenerationSettings)]
    values = {name: getattr(options, name) for name in names}
    if mechanism is not None and out is not None:
        raise UsageError("a run cannot keep your own mechanism; give either out or mechanism")
    model = model.in_precision(precision_for(model.source, model.dtype))
    audited = audit_of(
        lambda: _examples(data, options),
        label=options.label,
        subset_size=options.subset_size,
        batches=options.batches,
        epsilon=options.epsilon,
        samples=options.samples,
        mechanism=mechanism,
        # None stands for the default, but of a template.
        **{name: value for name, value in values.items() if value is not None or name == "template"},
    )
    if audited.measure.seed is not None:
        tell(SEED_WARNING)
    check_precision(model.backend.dtype)
    cases = LoadedCases(audited.cases)
    if out is None:
        measure = audited.measure.seeded()
        params = {**asdict(replace(measure, mechanism=None)), "mechanism": described(mechanism)}
        plan = Plan("private_generation", measure, audited.settings, cases)
        return measured(model, plan, options, results=lambda parts: PrivateGenerationResult.from_run(parts, params))
    settle = partial(with_nonce, audited, model.name, Path(out), **model.options.machine)
    has_seed = audited.measure.seed is not None
    plan = Plan("private_generation", audited.measure, audited.settings, cases, settle=None if has_seed else settle)
    return measured(model, plan, options)


@plain_function(Wanted)
def calibrate(wanted: Wanted) -> Calibration:
    """Find the temperature, clip or subset size at which private token generation has a guarantee.

    Nothing is loaded or run: a guarantee depends on these three and on how many tokens there may be (Li et al.,
    "Evaluating Privacy Leakage From In-Context Learning", Section 5).

    Args:
        wanted: `epsilon`, the most that is guaranteed; `free`, which of 'temperature', 'clip' and 'subset-size' is
            sought; the other two; `samples`, `max_new_tokens`, `delta`, `adjacency` and `normalise_by`.

    Returns:
        The setting, and its guarantees.

    Raises:
        UsageError: a number is out of range or missing, or no setting has the guarantee.

    Examples:
        >>> import leakmeter
        >>> found = leakmeter.calibrate(epsilon=8, free="temperature", clip=10, subset_size=24)
        >>> found.guarantees["add-remove"].epsilon <= 8
        True
    """
    from leakmeter.instruments.generation.calibration import calibrated

    return calibrated(wanted)


def described(mechanism: Mechanism | None) -> dict[str, object] | None:
    """A mechanism as parameters have it; None for the default."""
    if mechanism is None:
        return None
    return {"name": type(mechanism).__name__, **(asdict(mechanism) if is_dataclass(mechanism) else {})}


def _examples(data: Any, options: GenerateOptions) -> list[LabelledText]:
    from leakmeter.data.mapping import checked_text
    from leakmeter.data.tasks import load_task, task_of
    from leakmeter.instruments.generation.audits import with_label
    from leakmeter.text.exemplars import LabelledText

    if data is None or (isinstance(data, list | tuple) and not data):
        raise UsageError("there are no exemplars; give at least one")
    task, label = options.task, options.label
    if task is None:
        rows = options.rows(data, "text", known=("text",))
        where = "exemplars, record {}"
        texts = [checked_text(row.get("text"), "text", where.format(i)) for i, row in enumerate(rows, 1)]
        return [LabelledText(str(i), (text,), label) for i, text in enumerate(texts)]
    if isinstance(data, list | tuple) and any(isinstance(row, str) for row in data):
        raise UsageError("exemplars of a task are mappings of columns to values; leave the task out to give texts")
    kind = load_task(task) if isinstance(task, str) else task_of(task, "task")
    return with_label(kind.examples(options.rows(data, "text"), "exemplars"), kind.task, label)
