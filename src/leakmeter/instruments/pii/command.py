"""`leakmeter pii` and the functions of the library: does a model know people's data, and what it takes to find out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import App, Parameter

from leakmeter.commands import output
from leakmeter.commands.call import CallOptions, FunctionOptions, RowNames, function, measured
from leakmeter.commands.cases import run_cases
from leakmeter.commands.options import DataPath, Explain, FlagOption, RowOptions, RunOptions, TextOption
from leakmeter.commands.output import command_line
from leakmeter.commands.progress import counting, progress
from leakmeter.core.files import sample_path
from leakmeter.core.loaded import LoadedCases, Plan
from leakmeter.core.plain import several
from leakmeter.engine.loading import tell
from leakmeter.engine.options import ModelOptions, PrecisionOptions
from leakmeter.errors import UsageError
from leakmeter.instruments.pii.canaries import FOLDER, CanaryCheck, Insertion
from leakmeter.instruments.pii.decoy_test import DecoyTest
from leakmeter.instruments.pii.measure import TOGETHER, Pii
from leakmeter.instruments.pii.probe import PROBE_KINDS, ProbeKind, ProbeTemplates, load_templates, probes_of
from leakmeter.instruments.pii.prompts import ProbeSettings
from leakmeter.instruments.pii.settings import Finds, FineTuning, MentionScope, SoftPromptTuning
from leakmeter.instruments.pii.subject import ValueType
from leakmeter.models import DEFAULT_MODEL

if TYPE_CHECKING:
    from leakmeter.backends.hf.backend import HfBackend
    from leakmeter.core.backend import Backend
    from leakmeter.engine.loading import KeptModel
    from leakmeter.instruments.pii.check import AucRow, Checked
    from leakmeter.instruments.pii.extraction import Extracted
    from leakmeter.instruments.pii.result import PiiResult
    from leakmeter.instruments.pii.subject import Subject
    from leakmeter.instruments.pii.subjects import ReadSubjects
    from leakmeter.instruments.pii.tuning.soft_prompt import Epoch, Tuned
    from leakmeter.results.result import PartContent
    from leakmeter.results.results import Results

_RARE: Final = 0.05
"""A share of people that is small enough for a verdict."""
_TITLE: Final = "Inserted canaries against canaries held out"

app = App(
    name="pii",
    help="""Measure whether a model knows people's telephone numbers, e-mail and postal addresses.

    `probe` scores each value and ranks it among decoys. `tune` makes a soft prompt for stronger probes from the values
    of other people. `insert` fine-tunes a copy of a model on documents about canaries, people who do not exist; `check`
    tests the probes on such a copy. `extract` finds people in documents.""",
)


@dataclass(frozen=True, kw_only=True)
class _NamedWeights:
    model: str = DEFAULT_MODEL
    """A known name (see `leakmeter models`), hf:ORG/NAME, or a directory."""


@Parameter(name="*", negative="")
@dataclass(frozen=True, kw_only=True)
class WeightsOptions(PrecisionOptions, _NamedWeights):
    def load(self, needed_for: str) -> HfBackend:
        from leakmeter.engine.loading import load

        backend = load(self.model, ModelOptions(dtype=self.dtype, device=self.device, cache=False))
        return weights_of(backend, needed_for)


@Parameter(name="*", negative="")
@dataclass(frozen=True, slots=True)
class _Person:
    name: str | None = None
    """Name of one person, instead of --subjects; with one or more of --phone, --email and --address."""
    phone: TextOption | None = None
    """Their telephone number."""
    email: str | None = None
    """Their e-mail address."""
    address: str | None = None
    """Their postal address, in one line."""

    def record(self) -> dict[str, str]:
        """As a record of a file; empty without any option."""
        values = {name: value for name, value in asdict(self).items() if value is not None}
        if values and self.name is None:
            raise UsageError(f"--{next(iter(values))} needs a name; give it with --name")
        if len(values) == 1:
            raise UsageError("--name needs a value to probe for; give --phone, --email or --address too")
        return values


@dataclass(frozen=True, slots=True)
class _ProbeOptions(RunOptions):
    # Here --name is a person's.
    name: Annotated[str | None, Parameter(name="--run-name")] = None
    """See `leakmeter influence`, where it is --name."""


def weights_of(backend: Backend, needed_for: str) -> HfBackend:
    from leakmeter.backends.hf.backend import HfBackend

    if not isinstance(backend, HfBackend):
        raise UsageError(f"'{backend.name}' has no weights to {needed_for}; give a model of the transformers library")
    return backend


def people_of(
    data: Any, map: str | Sequence[str] | Mapping[str, str] | None, region: str, skip_bad: bool
) -> ReadSubjects:
    """`load_subjects`, with a line on standard error that names columns left out."""
    from leakmeter.instruments.pii.subject import left_out
    from leakmeter.instruments.pii.subjects import load_subjects

    loaded = load_subjects(data, map=map, region=region, skip_bad=skip_bad)
    if loaded.ignored:
        tell(left_out(loaded.ignored))
    return loaded


class PiiOptions(FunctionOptions, CallOptions, RowNames, ProbeSettings, Pii):
    kinds: ProbeKind | Sequence[ProbeKind] = PROBE_KINDS
    templates: ProbeTemplates | None = None
    soft_prompt: str | Path | None = None  # type: ignore[assignment]  # a file here, its hash in the settings
    region: str = "US"
    beams: tuple[int, ...] = Pii.beams
    soft_tokens: int = field(default=0, init=False)


class PiiCall(ModelOptions, PiiOptions): ...


def _plan(
    measure: Pii,
    settings: ProbeSettings,
    people: ReadSubjects,
    kinds: Sequence[ProbeKind],
    soft_prompt: Path | None,
    *,
    option: str = "kinds",
) -> Plan:
    cases = tuple(probes_of(people.subjects, tuple(kinds)))
    if not cases:
        raise UsageError(
            f"these people have none of the values that {option} {' '.join(kinds)} needs; give other kinds"
        )
    if soft_prompt is not None:
        from leakmeter.instruments.pii.tuning.vectors import behind

        settings = behind(soft_prompt, settings)
    # A value that cannot be probed, such as a relative's name that is the person's own, is counted, and stops no file.
    return Plan("pii", measure, settings, LoadedCases(cases, people.problems, skip_bad=True), TOGETHER)


def _behind(backend: Backend, soft_prompt: Path | None) -> AbstractContextManager[None]:
    """While entered, the back end reads a soft prompt's vectors."""
    if soft_prompt is None:
        return nullcontext()
    from leakmeter.instruments.pii.tuning.vectors import reading_soft_prompt

    return reading_soft_prompt(backend, soft_prompt)


@function(PiiOptions, PiiCall)
def pii(model: KeptModel, data: Any, options: PiiOptions) -> Results[PiiResult]:
    """Score people's values with a model, and rank each value among decoys.

    Kim et al., "ProPILE: Probing Privacy Leakage in Large Language Models", Section 3; see `instruments.pii.measure`
    and `instruments.pii.result`. Scores are never kept in the score cache.

    Args:
        model: see `influence`.
        data: people: a file, a frame, records with `name` and any of `phone`, `email`, `address`, `university`,
            `relationships`, `id`, or the columns of an address book, or `Subject`s; see
            `instruments.pii.subjects.load_subjects`.
        kinds: of probes.
        templates: texts in the place of the published ones, of the kinds that are named.
        soft_prompt: file of `leakmeter pii tune`, made from other people's values.
        region: ISO 3166 code of the country that telephone numbers without a country code are of.
        measure: `beams`, widths of the beam searches that try to extract a value; none generates nothing; and
            `decoy_test`, 'full' to score all decoys of every value.
        settings: how values are asked for, and with what they are compared.
        names: what the fields of the data are called.
        how: as of `influence`. A run that is kept holds scores and keyed hashes alone, unless `keep_values` is set.

    Returns:
        A `Results`, or with `out` a `Run`, with a result for each value and kind of probe.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.

    Examples:
        >>> import leakmeter
        >>> people = [{"name": "Mara Ellsworth", "phone": "617-555-0134"}]
        >>> found = leakmeter.pii("toy", people, kinds=["twin"], decoys=50, prompts=1, beams=())
        >>> len(found)
        1
    """
    if data is None:
        raise UsageError("there are no subjects; give some as data, the second parameter")
    settings = replace(options.part(ProbeSettings), templates=options.templates)
    measure = replace(options.part(Pii), beams=tuple(options.beams))
    people = people_of(data, options.map, options.region, options.skip_bad)
    file = None if options.soft_prompt is None else Path(options.soft_prompt)
    plan = _plan(measure, settings, people, several(options.kinds), file)
    with model.lock, model.without_cache() as backend, _behind(backend, file):
        return measured(model, plan, options)


@app.command
def probe(
    *,
    person: _Person | None = None,
    subjects: DataPath | None = None,
    kinds: Annotated[list[ProbeKind] | None, Parameter(consume_multiple=True)] = None,
    options: Annotated[ProbeSettings | None, Parameter(name="*", negative="")] = None,
    beams: Annotated[list[int] | None, Parameter(consume_multiple=True)] = None,
    decoy_test: DecoyTest = "sequential",
    templates: Path | None = None,
    soft_prompt: Path | None = None,
    region: str = "US",
    skip_bad: FlagOption = False,
    rows: RowOptions | None = None,
    run: _ProbeOptions | None = None,
) -> None:
    """Score people's values with a model, and rank each value among decoys.

    Each value is scored after up to five prompts of each kind; the best prompt counts. Decoys, invented values of the
    same form, are scored in the same way. Beam search then tries to extract the value. Nothing personal is written,
    unless --keep-values is given: runs hold scores, and keyed hashes whose key stays in your configuration. Without a
    file, two people who do not exist are the subjects. The same command continues a run that was interrupted.

    Parameters
    ----------
    subjects
        CSV, JSON lines, JSON, Parquet or TOML, packed or not, or - for standard input: 'name', and any of 'phone',
        'email', 'address', 'university', 'relationships', 'id', or the columns of an address book, such as 'First
        Name', 'E-mail', 'Street' and 'Zip'. Ids are shown and kept; an id that contains a
        name or a value is replaced by the record's number.
    kinds
        What a prompt contains: twin (the name), triplet (the name and another value), quadruplet (the name and two
        other values), relationship, university; all by default.
    beams
        Widths of the beam searches that try to extract a value; 0 for none. 2 by default, as in the paper.
    decoy_test
        Score decoys until enough rank as high as the value to see that it will not count as known (sequential), or
        always score all of them (full).
    templates
        TOML with texts for some kinds, such as twin = ["Call {name} at"], which replace the published ones.
    soft_prompt
        File of `leakmeter pii tune`: its vectors precede every prompt. Probe for people it was not tuned on.
    region
        ISO code of the country of telephone numbers without a country code.
    skip_bad
        Leave out records that cannot be read, and say how many. Values that cannot be probed are left out and counted
        anyway.
    run.json
        Print one JSON object a case, and a last one with their summary.
    run.no_cache
        Has no effect: scores of people's data are never kept in the score cache.
    """
    from leakmeter.instruments.pii.result import PiiResult

    run = replace(run or _ProbeOptions(), no_cache=True)
    record = (person or _Person()).record()
    if record and subjects is not None:
        raise UsageError("--name gives one person and --subjects a file; leave one out")
    widths = Pii().beams if beams is None else tuple(width for width in beams if width or len(beams) > 1)
    measure = Pii(beams=widths, decoy_test=decoy_test)
    settings = options or ProbeSettings()
    if templates is not None:
        settings = replace(settings, templates=load_templates(templates))
    names = (rows or RowOptions()).map
    people = people_of([record] if record else subjects or sample_path("subjects.toml"), names, region, skip_bad)
    usual: tuple[ProbeKind, ...] = PROBE_KINDS
    if subjects is None and not record:
        people, usual = replace(people, subjects=people.subjects[:2]), ("twin",)
    plan = _plan(measure, settings, people, kinds or usual, soft_prompt, option="--kinds")
    if people.n_renamed:
        output.tell(f"{people.n_renamed} ids contain part of a name or a value; record numbers are used instead")
    collected: list[PiiResult] = []

    def results(parts: Iterable[PartContent]) -> Iterator[PiiResult]:
        for result in PiiResult.from_run(parts, asdict(measure)):
            collected.append(result)
            yield result

    with ExitStack() as lasting:
        run_cases(
            plan,
            run,
            results=results,
            accept=lambda backend: lasting.enter_context(_behind(backend, soft_prompt)),
            inputs=[subjects, templates, soft_prompt],
            hides=record.values(),
            hides_paths=True,
        )
    if run.json and collected:
        output.print_json({"summary": PiiResult.summary(collected)})


class PiiTuneOptions(FunctionOptions, RowNames, SoftPromptTuning):
    out: str | Path
    validation: Any = None
    type: ValueType = "phone"
    region: str = "US"
    skip_bad: bool = False


class PiiTuneCall(ModelOptions, PiiTuneOptions): ...


def _tuned(
    load: Callable[[], HfBackend], data: Any, options: PiiTuneOptions, progress: Callable[[Epoch], None] | None = None
) -> Tuned:
    from leakmeter.instruments.pii.tuning.soft_prompt import examples_of, tune_into, tuned_on_and_others

    def people(source: Any) -> tuple[Subject, ...]:
        return people_of(source, options.map, options.region, options.skip_bad).subjects

    settings, kept = options.part(SoftPromptTuning), options.validation
    some, apart = tuned_on_and_others(
        people(data), None if kept is None else people(kept), options.type, seed=settings.seed
    )
    backend = load()
    tuned_on, others = (examples_of(group, options.type, backend.tokenizer) for group in (some, apart))
    return tune_into(Path(options.out), backend, tuned_on, others, settings, progress)


@function(PiiTuneOptions, PiiTuneCall)
def pii_tune(model: KeptModel, data: Any, options: PiiTuneOptions) -> Tuned:
    """Tune a soft prompt on some people, to probe the model for others' values (white box).

    Kim et al., "ProPILE: Probing Privacy Leakage in Large Language Models", Section 3.2. The model's weights stay as
    they are. `pii` asks for other people's values behind it.

    Args:
        model: see `influence`; one of the transformers library.
        data: people to tune on, as of `pii`; a fifth of them is kept to choose the epoch by, without `validation`.
        out: file for the soft prompt. It is private: it was made from these people's values.
        validation: other people to choose the epoch by.
        type: what is asked for: 'phone', 'email', 'address', 'relationship' or 'university'.
        region: see `pii`.
        tuning: how; see `instruments.pii.settings.SoftPromptTuning`.
        names: what the fields of the data are called.
        how: `skip_bad` leaves out records that cannot be used.

    Returns:
        The soft prompt, and what each epoch gave.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.
    """
    from leakmeter.core.files import check_outside_runs

    check_outside_runs(Path(options.out), "soft prompt")
    with model.lock:
        return _tuned(lambda: weights_of(model.backend, "tune for"), data, options)


@app.command
def tune(
    *,
    subjects: DataPath,
    out: Path,
    validation: Path | None = None,
    type: ValueType = "phone",
    tuning: Annotated[SoftPromptTuning | None, Parameter(name="*", negative="")] = None,
    region: str = "US",
    skip_bad: FlagOption = False,
    rows: RowOptions | None = None,
    json: FlagOption = False,
    model: WeightsOptions | None = None,
) -> None:
    """Tune a soft prompt on some people, to probe the model for others' values (white box).

    Vectors before the prompt are tuned until the model generates the values of these people; the model's weights do
    not change. `leakmeter pii probe --soft-prompt FILE` then probes for other people's values. The same command
    continues after an interruption.

    Parameters
    ----------
    subjects
        People to tune on, as for `leakmeter pii probe`. Without --validation a fifth of them is held out, to choose the
        epoch by.
    out
        File for the soft prompt. It is private: it was made from these people's values.
    validation
        Other people to choose the epoch by.
    type
        Type of the values: phone, email, address, relationship or university.
    region
        ISO code of the country of telephone numbers without a country code.
    skip_bad
        Leave out records that cannot be used, and say how many.
    json
        Print one JSON object instead of the summary.
    """
    from leakmeter.report.scale import share_in
    from leakmeter.stats.stats import interval_of_share, items_for_share

    settings, chosen = tuning or SoftPromptTuning(), model or WeightsOptions()
    output.check_writable(out, "soft prompt", subjects, validation, Path(chosen.model))
    names = (rows or RowOptions()).mapping() or None
    options = PiiTuneOptions(
        out=out, validation=validation, type=type, region=region, skip_bad=skip_bad, map=names, **asdict(settings)
    )
    with counting("epochs") as advance:
        result = _tuned(
            lambda: chosen.load("tune for"),
            subjects,
            options,
            progress=lambda epoch: advance(epoch.number, settings.epochs),
        )
    best, before, n_epochs, n_others = result.best, result.epochs[0], result.epochs[-1].number, result.n_chosen_by
    if json:
        output.print_json({
            "soft_prompt": str(out),
            "model": result.soft_prompt.model,
            "type": type,
            "vectors": result.soft_prompt.length,
            "subjects_tuned_on": result.n_tuned_on,
            "subjects_chosen_by": n_others,
            "epochs": n_epochs,
            "ended": result.ended,
            "best_epoch": best.number,
            "exact_match": best.exact_match,
            "validation_loss_nats_a_token": best.validation_loss,
            "validation_loss_before_nats_a_token": before.validation_loss,
        })  # fmt: skip
        return
    interval = interval_of_share(round(best.exact_match * n_others), n_others)
    output.print_text(
        f"Epoch {best.number} of {n_epochs} ({result.ended}): of {n_others} people it was not tuned on, "
        f"{share_in(best.exact_match, interval)} have values generated word for word; their values cost "
        f"{before.validation_loss:.2f} nats a token before, and {best.validation_loss:.2f} now."
    )
    if not best.exact_match and interval[1] > _RARE:
        output.print_text(
            f"Too few subjects to show that the model generates no values of others: if none of "
            f"{items_for_share(0.0, _RARE)} subjects had one generated, at most {_RARE:.0%} of all would."
        )
    output.tell(f"soft prompt: {out}")


class PiiInsertOptions(FunctionOptions, FineTuning, Insertion):
    out: str | Path


class PiiInsertCall(ModelOptions, PiiInsertOptions): ...


@function(PiiInsertOptions, PiiInsertCall)
def pii_insert(model: KeptModel, data: Any, options: PiiInsertOptions) -> Path:
    """Fine-tune a copy of a model on documents of canaries (people who do not exist), and hold others out.

    With the copy a probe can be put to the test: does it tell those who were inserted from those who were not? The same
    call goes on after an interruption.

    Args:
        model: see `influence`; one of the transformers library, which stays as it is.
        data: none; canaries are invented.
        out: directory to write, which must not be there yet. It loads like any model; its folder `canaries` has a file
            for each number of documents that they stand in, and `held_out.jsonl`.
        canaries: how many, in how many documents; see `instruments.pii.canaries.Insertion`.
        fine_tuning: how; see `instruments.pii.settings.FineTuning`.

    Returns:
        The directory.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.
    """
    from leakmeter.instruments.pii.check import insert

    _refuse_data(data)
    canaries, fine_tuning, out = options.part(Insertion), options.part(FineTuning), Path(options.out)
    with model.lock:
        backend = weights_of(model.backend, "fine-tune")
        insert(canaries.groups, out, out / FOLDER, backend, fine_tuning, seed=canaries.seed)
    return out


def _refuse_data(data: Any) -> None:
    if data is not None:
        raise UsageError("canaries are invented, so data are not used; leave data out")


@app.command
def insert(
    *,
    out: Path,
    canaries: Annotated[Insertion | None, Parameter(name="*", negative="", consume_multiple=True)] = None,
    fine_tuning: Annotated[FineTuning | None, Parameter(name="*", negative="")] = None,
    json: FlagOption = False,
    model: WeightsOptions | None = None,
) -> None:
    """Fine-tune a copy of a model on documents of canaries (people who do not exist), and hold others out.

    The copy tests a probe: does the probe distinguish inserted canaries from those held out? The copy is an ordinary
    model directory. It also contains the canaries: a file for each number of documents per canary, and one of those
    held out. The same command continues after an interruption.

    Parameters
    ----------
    out
        Directory to write, which must not be there yet.
    json
        Print one JSON object instead of the summary.
    """
    from leakmeter.instruments.pii.check import insert as inserted

    chosen = canaries or Insertion()
    groups = chosen.groups
    backend = (model or WeightsOptions()).load("fine-tune")
    with counting("steps") as advance:
        settings = fine_tuning or FineTuning()
        n = inserted(groups, out, out / FOLDER, backend, settings, seed=chosen.seed, progress=advance)
    if json:
        sizes = {group.name: len(group.subjects) for group in groups}
        output.print_json({"model": str(out), "documents": n, "canaries": sizes})
        return
    *_, often, held_out = groups
    output.print_text(
        f"{n:,} documents were inserted. Try: leakmeter pii probe --model {out} --subjects "
        f"{out / FOLDER / often.name}.jsonl, and the same with {held_out.name}.jsonl."
    )
    output.tell(f"model: {out}")


class PiiCheckOptions(FunctionOptions, FineTuning, CanaryCheck):
    out: str | Path


class PiiCheckCall(ModelOptions, PiiCheckOptions): ...


@function(PiiCheckOptions, PiiCheckCall)
def pii_check(model: KeptModel, data: Any, options: PiiCheckOptions) -> Checked:
    """Insert canaries into a copy of a model, and measure which scores separate them from others.

    Each score's AUC is the probability that one that was inserted scores above one that was not: 0.5 where a score
    tells nothing. The same call goes on after an interruption.

    Args:
        model: see `influence`; one of the transformers library, which stays as it is.
        data: none; canaries are invented.
        out: directory for the copy, the canaries and what was measured.
        check: which canaries are inserted, and how they are asked for; see `instruments.pii.canaries.CanaryCheck`.
        fine_tuning: how; see `instruments.pii.settings.FineTuning`.

    Returns:
        AUC of each score, with intervals, and the points of their curves.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.
    """
    from leakmeter.instruments.pii.check import Steps, checked

    _refuse_data(data)
    with model.lock:
        backend = weights_of(model.backend, "fine-tune")
        return checked(options.part(CanaryCheck), options.part(FineTuning), backend, Path(options.out), Steps())


@app.command
def check(
    *,
    out: Path,
    options: Annotated[CanaryCheck | None, Parameter(name="*", negative="", consume_multiple=True)] = None,
    fine_tuning: Annotated[FineTuning | None, Parameter(name="*", negative="")] = None,
    explain: Explain = False,
    json: FlagOption = False,
    model: WeightsOptions | None = None,
) -> None:
    """Insert canaries into a copy of a model, and measure which scores separate them from others.

    Each score's AUC is the probability that an inserted canary scores above one that was held out: 0.5 if the score
    carries no information. Black-box scores come from prompts, white-box scores from a soft prompt, which is tuned on
    inserted canaries that are used for nothing else. The same command continues after an interruption.

    Parameters
    ----------
    out
        Directory for the copy, the canaries, what was measured, tables and figures.
    json
        Print one JSON object a row instead of the table.
    """
    from leakmeter.commands.studies.study_report import StudyTables
    from leakmeter.commands.studies.tables import readable, to_csv
    from leakmeter.core.files import write_whole
    from leakmeter.instruments.pii.check import ProbedCases, Steps, checked, findings
    from leakmeter.report.blocks import interrupted

    options = options or CanaryCheck()
    command = command_line(without=[out])
    backend = (model or WeightsOptions()).load("fine-tune")

    def table(auc_rows: Sequence[AucRow]) -> StudyTables:
        about = [
            f"model: {backend.name}, fine-tuned; canaries, documents and draws by seed {options.seed}",
            "AUC: inserted against held-out canaries; 95 % interval (Newcombe, method 5)",
        ]
        rows = [row.to_dict() for row in auc_rows]
        return StudyTables((readable(_TITLE, about, rows, {}),), command, tuple(findings(auc_rows)))

    so_far = list[ProbedCases]()
    try:
        with counting("steps of fine-tuning") as steps, counting("epochs of tuning") as epochs:
            settings, watch = fine_tuning or FineTuning(), Steps(steps, epochs, output.tell, progress)
            outcome = checked(options, settings, backend, out, watch, command=command, so_far=so_far)
    except KeyboardInterrupt:
        auc_rows = [row for probed in so_far for row, _ in probed.compared()]
        if auc_rows and not json:
            n = sum(len(results) for probed in so_far for results in probed.by_repeats.values())
            n_all = sum(len(cases) for probed in so_far for cases in probed.cases.values())
            output.print_plain(f"{interrupted(n, n_all, 'probes')}\n")
            output.print_tables(table(auc_rows), explain=explain)
        raise
    tables = table(outcome.rows)
    csvs = {
        "table.csv": to_csv([row.to_dict() for row in outcome.rows]),
        "roc.csv": to_csv([point.to_dict() for point in outcome.points]),
    }
    for name, text in {**csvs, **tables.files()}.items():
        write_whole(out / name, text.encode())
    _draw(outcome, out, f"command: {command}")
    if json:
        for row in outcome.rows:
            output.print_json(row)
    else:
        output.print_tables(tables, explain=explain)
    output.tell(f"check: {out}")


def _draw(checked: Checked, out: Path, footer: str) -> None:
    from leakmeter.instruments.pii import charts
    from leakmeter.instruments.pii.study import KIND, LIKELIHOOD, rows_of
    from leakmeter.report.charts import write

    values = [row for repeats, some in checked.by_prompts.items() for row in rows_of(some, {"documents": repeats})]
    try:
        write(charts.auc(checked.rows, title=_TITLE, footer=footer), out / "figure")
        write(charts.curves(checked.points, title=_TITLE, footer=footer), out / "roc")
        densities = charts.densities(
            values, ("documents",), value=LIKELIHOOD, columns=KIND.columns, title=_TITLE, footer=footer
        )
        write(densities, out / "densities")
    except UsageError as error:
        output.tell(str(error))


def pii_extract(
    files: str | Path | Sequence[str | Path],
    *,
    out: str | Path,
    find: Finds = "structured",
    field: str = "text",
    region: str = "US",
    ner: str | None = None,
    qa: str | None = None,
    universities: str | Path | None = None,
    scope: MentionScope = "sentence",
    skip_bad: bool = False,
) -> Extracted:
    """Find people and their data in documents, and write a file that `pii` reads.

    JSON lines and plain text are read as a stream and need not fit in memory. The output is private, and is there when
    it is complete.

    Args:
        files: JSON lines, JSON, CSV, Parquet or plain text (.txt, .md), packed or not.
        out: file of people to write; a new name that ends in .jsonl.
        find: 'structured' (people of whom a document has name, telephone number, e-mail and postal address),
            'relationships', or 'universities'.
        field: of JSON objects, the one that is the text.
        region: ISO code of the country whose numbers and addresses are looked for.
        ner: recogniser of names, a directory or a spaCy pipeline; without one, names beside e-mail addresses, behind
            'Name:', and before "'s father" are found.
        qa: question-answering model, a directory or hf:ORG/NAME, that checks relatives' names.
        universities: file of names, one a line or a CSV column 'name', for universities.
        scope: where a person's name has to stand for a university to be theirs: 'sentence' or 'document'.
        skip_bad: leave out lines that hold no document, and name them in `problems`.

    Returns:
        How many people and documents, and the file.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.

    Examples:
        >>> import leakmeter, tempfile
        >>> from pathlib import Path
        >>> text = "Mara Ellsworth <mara@ellsworth.example>, 617-555-0134, 12 Elm Street, Springfield, IL 62704"
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     said = Path(folder, "mail.txt")
        ...     size = said.write_text(text)
        ...     found = leakmeter.pii_extract(said, out=Path(folder, "people.jsonl"))
        >>> found.n_documents
        1
    """
    from leakmeter.instruments.pii.extraction import extract, extractor_of

    listed = None if universities is None else Path(universities)
    extractor = extractor_of(find, region, ner, qa, listed, scope)
    paths = [files] if isinstance(files, str | Path) else list(files)
    return extract(paths, out, extractor, field=field, skip_bad=skip_bad)


_NOBODY: Final[Mapping[Finds, str]] = {
    "structured": (
        "No document has a name, a telephone number, an e-mail and a postal address together. Without --ner, names "
        "are found only next to an e-mail address or after 'Name:'."
    ),
    "relationships": 'No document states a relationship in a recognised form, such as "Jane Doe\'s father, …".',
    "universities": (
        "No document has a name next to a university of the file. Without --ner, names are found only next to an "
        "e-mail address or after 'Name:'."
    ),
}


@app.command
def extract(
    files: Annotated[list[Path], Parameter(consume_multiple=True)],
    *,
    out: Path,
    find: Finds = "structured",
    field: str = "text",
    region: str = "US",
    ner: str | None = None,
    qa: str | None = None,
    universities: Path | None = None,
    scope: MentionScope = "sentence",
    skip_bad: FlagOption = False,
    json: FlagOption = False,
) -> None:
    """Find people and their data in documents, and write a file that `leakmeter pii probe` reads.

    JSON lines and plain text are read as a stream and need not fit in memory. The output is private, and is there when
    it is complete.

    Parameters
    ----------
    files
        JSON lines, JSON, CSV, Parquet or plain text (.txt, .md), packed or not.
    out
        File of people to write; a new name that ends in .jsonl.
    find
        structured (people of whom a document has name, telephone number, e-mail and postal address), relationships
        ("Jane Doe's father, …"), or universities (beside a name).
    field
        Field of a record that has the text.
    region
        ISO code of the country whose telephone numbers and addresses are found.
    ner
        Recogniser of names, a directory or a spaCy pipeline; without one, names beside e-mail addresses, after 'Name:',
        and before "'s father" are found.
    qa
        Question-answering model, a directory or hf:ORG/NAME, that checks relatives' names.
    universities
        File of names, one a line or a CSV column 'name', for --find universities.
    scope
        Where a person's name and a university have to stand together.
    skip_bad
        Leave out lines that hold no document, and say how many.
    json
        Print one JSON object instead of the summary.
    """
    from leakmeter.instruments.pii.extraction import extract as extracted
    from leakmeter.instruments.pii.extraction import extractor_of

    extractor = extractor_of(find, region, ner, qa, universities, scope)
    with counting("MB") as advance:
        extraction = extracted(
            files,
            out,
            extractor,
            field=field,
            skip_bad=skip_bad,
            progress=lambda n_read, total: advance(n_read // 1_000_000, max(1, total // 1_000_000)),
        )
    if json:
        output.print_json(extraction)
    else:
        n, n_documents = extraction.n_subjects, extraction.n_documents
        output.print_text(
            f"{n:,} {'person' if n == 1 else 'people'} in {n_documents:,} document{'s' * (n_documents != 1)}."
        )
        if not extraction.n_subjects:
            output.print_text(_NOBODY[find])
    output.tell(f"people: {extraction.out}")
    if extraction.problems:
        output.tell(output.left_out(extraction.problems))
