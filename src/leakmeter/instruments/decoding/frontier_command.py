"""`leakmeter decode frontier`: λ or ε swept over the user's own cases, and which setting to ship."""

from __future__ import annotations

import shlex
import time
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from leakmeter.commands import output
from leakmeter.commands.cases import log_formats
from leakmeter.commands.options import RunOptions, TextOption
from leakmeter.core.loaded import LoadedCases, Plan
from leakmeter.errors import UsageError
from leakmeter.instruments.decoding.measure import Decode
from leakmeter.overriding import override
from leakmeter.text.templates import TemplateOptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from leakmeter.commands.studies.cells import FinishedCell
    from leakmeter.commands.studies.quality import Quality
    from leakmeter.data.named import DatasetRecord
    from leakmeter.instruments.decoding.sweep import Sweep
    from leakmeter.report.blocks import Report
    from leakmeter.text.build import PromptSettings

_Values = list[float] | None
_SWEPT = Parameter(consume_multiple=True, negative="")


@dataclass(frozen=True, kw_only=True)
class Drawing(Decode):
    """Decoding's other fields as options; λ and ε have several values."""

    cid_lambda: Annotated[float, Parameter(parse=False)] = 1.0
    epsilon: Annotated[float | None, Parameter(parse=False)] = None
    nonce: Annotated[int | None, Parameter(parse=False)] = None

    @override
    def __post_init__(self) -> None:
        """Nothing is refused here: whether a field has a meaning depends on what is swept."""


@Parameter(name="*", negative="")
def frontier_command(
    *,
    data: TextOption,
    map: list[str] | None = None,
    format: str | None = None,
    context_from: TextOption | None = None,
    lambdas: Annotated[_Values, Parameter(name=("--lambda", "--cid-lambda")), _SWEPT] = None,
    epsilon: Annotated[_Values, _SWEPT] = None,
    drawing: Annotated[Drawing | None, Parameter(name="*")] = None,
    records: int | None = None,
    bertscore: str | None = None,
    bertscore_layer: int | None = None,
    prompt: Annotated[TemplateOptions | None, Parameter(name="*")] = None,
    run: RunOptions | None = None,
) -> None:
    """Sweep λ or ε over your own cases and compare the leakage and utility of each setting.

    Every setting is a run of `leakmeter decode` that can be continued: the same command continues after an interruption
    and measures nothing twice. With --epsilon, everything written and printed is private.

    Parameters
    ----------
    data
        Cases as for `leakmeter decode`, each with a 'reference' (a good response). Or NAME=FILE for a
        published data set (pubmedqa, cnn_dm).
    map
        Map fields of --data that have other names: query=question,context=docs[].text,reference=answer.
    format
        Preset for --data: openai, ragas, langchain, llamaindex or squad; detected by default.
    context_from
        Regular expression for the last user message, whose group 'context', or else its first group, is the context; or
        system, to measure the system prompt.
    lambdas
        Values of λ to compare; 0 0.25 0.5 0.75 1 1.25 1.5 2 where none is given.
    epsilon
        Values of ε to compare, nats a token; 0.1 0.2 0.5 1 2 4 8 where none is given.
    records
        Number of cases to take, from the first; all by default.
    bertscore
        Also score with BERTScore: its encoder, a directory or a name of the hub such as roberta-large-mnli.
    bertscore_layer
        Layer of the encoder; 19 for roberta-large-mnli, 17 for roberta-large, the last for others.
    drawing.samples
        Number of responses to draw for each case.
    drawing.seed
        Seed of the draws, the same for all settings: 0 by default; none with epsilon, so that nobody can repeat them.
    run.dtype
        float32, bfloat16 or float16; by default float32 on a CPU or with epsilon, which the others would void, and
        bfloat16 on CUDA.
    run.out
        Directory of runs; the sweep gets a directory of its own beside them.
    run.html
        Write the table and the figure as a page here, for you alone to read.
    run.json
        Print one JSON object instead of the table.
    """
    from leakmeter.commands.studies.quality import Quality
    from leakmeter.data.cases import load_referenced
    from leakmeter.instruments.decoding.measure import precision_for
    from leakmeter.instruments.decoding.sweep import EPSILON, settings_of, sweep_of
    from leakmeter.privacy.draws import SEED_WARNING

    if records is not None and records < 1:
        raise UsageError(f"records is {records}; it has to be 1 or more")
    sweep = sweep_of(lambdas, epsilon, asdict(drawing or Drawing()))
    loaded = load_referenced(data, n=records, map=map, format=format, context_from=context_from, logs=log_formats)
    for note in loaded.notes:
        output.tell(note)
    prompt = prompt or TemplateOptions()
    settings = settings_of(loaded, prompt)
    options = run or RunOptions()
    run = replace(options, dtype=precision_for(sweep.measures[0], options.model, options.dtype))
    if run.dry_run:
        _predict(sweep, loaded.records, settings, run)
        return
    if run.html is not None:
        output.check_writable(run.html, "report", Path(data.rpartition("=")[2]), Path(run.model))
    if sweep.kind == EPSILON and sweep.given_seed is not None:
        output.tell(SEED_WARNING)
    words: dict[str, object] = {
        "--data": data,
        "--map": ",".join(map or ()) or None,
        "--format": format,
        "--context-from": context_from,
        "--records": records,
        "--bertscore": bertscore,
        "--bertscore-layer": bertscore_layer,
        "--template": prompt.template,
        "--truncate": prompt.truncate or None,
    }
    words |= {f"--{name}": getattr(options, name) for name in ("model", "dtype", "device", "memory")}
    _run(sweep, loaded.records, settings, Quality(bertscore, bertscore_layer), run, _command(sweep, words))


def _run(
    sweep: Sweep,
    records: Sequence[DatasetRecord],
    settings: PromptSettings,
    quality: Quality,
    run: RunOptions,
    command: str,
) -> None:
    from leakmeter.commands.progress import study_progress
    from leakmeter.commands.studies.cells import finished_cell, measure_cell
    from leakmeter.core.files import made_for
    from leakmeter.engine.storage.pseudonym import kept_nonce
    from leakmeter.instruments.decoding.measure import check_precision
    from leakmeter.instruments.decoding.sweep import SYMBOLS, study_of, sweep_directory

    machine = {"dtype": run.dtype, "device": run.device, "memory": run.memory}
    directory = sweep_directory(sweep, run.model, settings, records, run.out, **machine)
    backend: Any = None
    if sweep.needs_nonce and not directory.exists():
        # What cannot be measured is refused before a nonce is written down.
        backend = run.load_backend()
        check_precision(sweep.measures[0], backend.dtype)
        for record in records:
            settings.prepare(record.case, backend, sweep.measures[0])
    measured: list[FinishedCell] = []
    with made_for(run.out):
        seeded = sweep.seeded(kept_nonce(directory) if sweep.needs_nonce else 0)
        study = study_of(seeded, run.model, settings, len(records), quality)
        earlier = [finished_cell(cell, records, directory) for cell in study.cells]
        left = {cell.number: 1.0 for cell, finished in zip(study.cells, earlier, strict=True) if finished is None}
        try:
            with study_progress(left, noun="setting") as bar:
                for cell, finished in zip(study.cells, earlier, strict=True):
                    started = time.perf_counter()
                    if finished is None:
                        if backend is None:
                            backend = run.load_backend()
                            check_precision(seeded.measures[0], backend.dtype)
                        progress = partial(bar.watching, cell.number)
                        finished = measure_cell(study, cell, records, directory, backend, progress, command)
                    measured.append(finished)
                    duration = time.perf_counter() - started
                    setting = f"{SYMBOLS[sweep.kind]} = {sweep.values[cell.number]:g}: {duration:.0f} s"
                    output.tell(f"setting {len(measured)} of {len(study.cells)}: {setting}")
        except KeyboardInterrupt:
            if measured:
                _show_interrupted(seeded, measured, command, run)
            raise
    _write(seeded, measured, quality, directory, command, run)


def _show_interrupted(sweep: Sweep, cells: Sequence[FinishedCell], command: str, run: RunOptions) -> None:
    """The frontier of the settings that are measured, by ROUGE-L alone: an encoder takes time."""
    from leakmeter.commands.studies.quality import Quality
    from leakmeter.instruments.decoding.frontier import frontier_of, utilities_of
    from leakmeter.instruments.decoding.frontier_report import report

    n = len(cells)
    some = replace(sweep, values=sweep.values[:n], measures=sweep.measures[:n])
    result = frontier_of(some, cells, utilities_of(cells, Quality(), None, output.tell))
    document = report(result, command=command).interrupted(n, len(sweep.values), "settings")
    if not run.json:
        output.print_report(document, explain=run.explain)
    if run.html is not None:
        _write_page(run.html, document)


def _write_page(path: Path, document: Report) -> None:
    from leakmeter.report import html

    output.save_page(path, html.page(document))
    output.tell_page(path, public=False)


def _write(
    sweep: Sweep, cells: Sequence[FinishedCell], quality: Quality, directory: Path, command: str, run: RunOptions
) -> None:
    from leakmeter.commands.studies.cells import write
    from leakmeter.commands.studies.study_report import StudyTables
    from leakmeter.commands.studies.table import models_line, responses
    from leakmeter.commands.studies.tables import items_to_csv, readable, to_csv
    from leakmeter.instruments.decoding.frontier import COLUMNS, frontier_of, utilities_of
    from leakmeter.instruments.decoding.frontier_report import report
    from leakmeter.instruments.decoding.sweep import EPSILON, SYMBOLS

    for finished in cells:
        write(directory / f"{finished.cell.stem}.csv", items_to_csv(responses(finished)))
    result = frontier_of(sweep, cells, utilities_of(cells, quality, directory, output.tell))
    seed = "secret" if sweep.kind == EPSILON else str(sweep.measures[0].seed)
    about = [f"seed: {seed}", models_line(cells), f"cases: {result.n_cases:,}"]
    if result.n_truncated:
        about.append(f"contexts cut to fit: {result.n_truncated:,}")
    about.append("intervals: 95 %, over cases; knee: its share of 2,000 resamples")
    title = f"Leakage and utility over {SYMBOLS[sweep.kind]}"
    table = readable(title, about, result.settings, COLUMNS)
    tables = StudyTables((table,), command, tuple(choice.sentence for choice in result.choices.values()))
    files = {"table.csv": to_csv(result.settings), "frontier.json": result.to_json(), **tables.files()}
    for name, text in files.items():
        write(directory / name, text)
    try:
        result.save_figure(directory / "figure", footer="; ".join([f"command: {command}", *about]))
    except UsageError as error:
        output.tell(str(error))
    if run.json:
        output.print_json(result)
    else:
        output.print_report(result.report(), explain=run.explain)
    output.tell(f"frontier: {directory}")
    if run.html is not None:
        _write_page(run.html, report(result, command=command))


def _command(sweep: Sweep, words: Mapping[str, object]) -> str:
    """Everything that determines the numbers, without a secret seed or a nonce."""
    from leakmeter.instruments.decoding.sweep import EPSILON

    is_bounded = sweep.kind == EPSILON
    parts = ["leakmeter", "decode", "frontier"]
    for name, value in words.items():
        parts += [] if value is None else [name] if value is True else [name, str(value)]
    for field in fields(Decode):
        value = getattr(sweep.measures[0], field.name)
        if value != field.default and field.name != sweep.kind and not (is_bounded and field.name in ("seed", "nonce")):
            parts += [f"--{field.name.replace('_', '-')}", str(value)]
    parts += ["--epsilon" if is_bounded else "--lambda", *(repr(value).removesuffix(".0") for value in sweep.values)]
    return shlex.join(parts)


def _predict(sweep: Sweep, records: Sequence[DatasetRecord], settings: PromptSettings, run: RunOptions) -> None:
    """Print what the sweep will take: every setting costs the same."""
    from rich.text import Text

    from leakmeter.commands.dry_run import load_predictor
    from leakmeter.engine.prediction import forecast
    from leakmeter.report.words import about_seconds

    predictor = load_predictor(run)
    measure = sweep.seeded().measures[0]
    cases = LoadedCases(tuple(record.case for record in records))
    prediction, _ = forecast(predictor, Plan("decode", measure, settings, cases, measure.together))
    n_settings = len(sweep.values)
    n_tokens = n_settings * prediction.tree_tokens
    seconds = None if prediction.seconds is None else n_settings * prediction.seconds
    if run.json:
        output.print_json(
            {
                **{name: getattr(prediction, name) for name in ("model", "dtype", "device", "at_most")},
                "n_settings": n_settings,
                "n_cases": prediction.n_cases,
                "tree_tokens": n_tokens,
                "seconds": seconds,
                "setting": {name: getattr(prediction, name) for name in ("tree_tokens", "seconds")},
            }
        )
        return
    console = output.console()
    console.print(
        Text(f"{prediction.model} ({prediction.dtype}, {prediction.device}); nothing was measured", style="bold")
    )
    time_told = "time not predicted" if seconds is None else f"{about_seconds(seconds)} once loaded"
    console.print(f"{n_settings} settings, {prediction.n_cases:,} cases: at most {n_tokens:,} tokens, {time_told}")
    console.print("Settings measured before cost nothing.")
