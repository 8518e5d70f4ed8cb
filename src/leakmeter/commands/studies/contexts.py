"""Studies of the influence of contexts: `influence`, `decode`, and any measure without its own kind of study."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from leakmeter.commands.studies import quality, table
from leakmeter.commands.studies.cells import FinishedCell, kept_scores
from leakmeter.commands.studies.expected import (
    MeanEstimate,
    by_position,
    early_and_late,
    estimate,
    nats_by_piece,
    whole_by_token,
    whole_context_nats,
)
from leakmeter.commands.studies.generations_report import CellColumn, Generation, Generations, generations_report
from leakmeter.commands.studies.grid import Study, StudyCell
from leakmeter.commands.studies.kind import Axes, RecordChoice, StudyKind, Tables, at_least_one, field_types, lines_over
from leakmeter.commands.studies.quality import COLUMNS, Regurgitation
from leakmeter.commands.studies.table import quantile_columns, responses, responses_of
from leakmeter.commands.studies.tables import NUMBER, StudyColumn, StudyRow, counted, decimals, heading_of, measured
from leakmeter.core.case import Case
from leakmeter.core.measure import Measure, Measurement
from leakmeter.core.record import JsonObject
from leakmeter.data import named
from leakmeter.data.named import DatasetRecord
from leakmeter.errors import LeakmeterError, UsageError
from leakmeter.overriding import override
from leakmeter.report import html
from leakmeter.stats import stats
from leakmeter.text.build import PromptSettings
from leakmeter.text.units import AUTO, parse

MOST_RECORDS: Final = 100
"""Records that a page may show; its size may allow fewer."""


class Contexts(StudyKind):
    """Records of a data set by name: a context, a query, and what people answered."""

    records = "records"
    settings: ClassVar = {"choice_seed": "int | None", **field_types(PromptSettings)}
    shows: ClassVar = {
        "factor": "a mean for each cell, over x",
        "position": "a mean for each position of the response",
        "piece": "a mean for each piece of the context, in its order",
    }
    columns: ClassVar = {
        **StudyKind.columns,
        "cid_lambda": StudyColumn("λ"),
        "epsilon": StudyColumn("ε a token"),
        "max_context_tokens": StudyColumn("context tokens, at most"),
        "unit": StudyColumn("piece"),
        "position": StudyColumn("position t"),
        "piece": StudyColumn("piece i"),
        "first_token": StudyColumn("first token of the piece"),
        "nats": StudyColumn("τ̂, nats"),
        **quantile_columns("nats"),
        "nats_per_token": StudyColumn("nats a token", decimals(3)),
        "difference_nats": StudyColumn("less the first x, paired, nats"),
        "n_responses": StudyColumn("responses"),
        "pieces_median": StudyColumn("pieces, median", NUMBER),
        "peak_piece": StudyColumn("peak at i"),
        "peak_nats": StudyColumn("peak τ̂_i, nats"),
        "early_nats": StudyColumn("first half, nats"),
        "late_nats": StudyColumn("second half, nats"),
        "early_less_late_nats": StudyColumn("first less second, paired, nats"),
        **COLUMNS,
    }
    has_quality = True

    @override
    def group_size(self, measure: Measure) -> int:
        return measure.together

    @override
    def choice(self, settings: JsonObject) -> RecordChoice:
        return RecordChoice(at_least_one("records", settings["records"]), settings.get("choice_seed"))

    @override
    def prompts(self, options: JsonObject) -> PromptSettings:
        dataset = named.find(options["dataset"])
        settings = PromptSettings(
            unit="whole", template=dataset.template, truncate=True, max_context_tokens=dataset.max_context_tokens
        )
        settings = replace(settings, **{name: options[name] for name in field_types(PromptSettings) if name in options})
        if settings.unit == AUTO:
            raise UsageError(
                f"unit '{AUTO}' measures different pieces in each case, which have no mean; give another unit, such "
                "as sentence"
            )
        return settings if settings.unit is not None else replace(settings, unit="sentence")

    @override
    def datasets(self) -> list[str]:
        return named.names()

    @override
    def load(self, cells: Sequence[StudyCell], paths: Mapping[str, str]) -> list[list[DatasetRecord]]:
        loaded: dict[tuple[str, RecordChoice], list[DatasetRecord]] = {}
        for cell in cells:
            if (cell.dataset, cell.choice) not in loaded:
                dataset, choice = named.find(cell.dataset), cell.choice
                records = dataset.load(paths.get(cell.dataset), n=choice.n_records, seed=choice.choice_seed)
                loaded[cell.dataset, choice] = records
        return [loaded[cell.dataset, cell.choice] for cell in cells]

    @override
    def case(self, record: DatasetRecord) -> Case:
        return record.case

    @override
    def items(self, finished: FinishedCell) -> Iterator[StudyRow]:
        return responses(finished)

    @override
    def tables(
        self, study: Study, cells: Sequence[FinishedCell], directory: Path, notify: Callable[[str], None]
    ) -> Tables:
        if study.show == "factor":
            return _by_factor(study, cells, directory, notify)
        rows: list[StudyRow] = []
        summary: list[StudyRow] = []
        for finished in cells:
            if study.show == "position":
                series: list[Any] = [
                    values for _, measurements in finished.measured for values in whole_by_token(measurements)
                ]
            else:
                series = [nats_by_piece(measurements) for _, measurements in finished.measured]
            estimates = by_position(series, seed=study.seed)
            unit = parse(finished.measured[0][0]["unit"])
            of_cell: list[StudyRow] = []
            for i, at in enumerate(estimates):
                # By where they begin, in tokens, n-grams of different n and stride can be compared.
                place = {"first_token": i * unit.stride} if unit.kind == "ngram" else {}
                of_cell.append({**finished.cell.factors, study.show: i, **place, **table.columns("nats", at)})
            rows += of_cell
            summary += of_cell if study.show == "position" else [_peak(study, finished, series, estimates)]
        return Tables(rows, summary)

    @override
    def axes(self, study: Study, rows: Sequence[StudyRow]) -> Axes:
        if study.show == "factor":
            return Axes(str(study.x), ("nats", "rouge_l_f1", "bertscore_f1", "factkb"))
        by_token = study.show == "piece" and all("first_token" in row for row in rows)
        return Axes("first_token" if by_token else study.show, ("nats",))

    @override
    def seed(self, cell: StudyCell) -> int:
        return int(cell.measure.record().get("seed") or 0)

    @override
    def about(self, study: Study) -> tuple[str, str]:
        return f"seed: {study.seed}", "intervals: 95 %, over records (counts: Wilson)"

    @override
    def pages(self, study: Study, cells: Sequence[FinishedCell], about: Sequence[str]) -> Mapping[str, str]:
        return {"generations.html": generations_page(study, cells, about)} if study.measure == "decode" else {}


KIND = Contexts()


def generations_page(study: Study, cells: Sequence[FinishedCell], about: Sequence[str]) -> str:
    records = dict.fromkeys((cell.cell.dataset, record.case.id) for cell in cells for record in cell.records)
    datasets = dict.fromkeys(dataset for dataset, _ in records)
    # Of several data sets each has its share of the page.
    by_dataset = [[record for record in records if record[0] == dataset] for dataset in datasets]
    in_turn = [record for record in chain.from_iterable(zip_longest(*by_dataset)) if record is not None]
    shown = [_of_record(study, cells, dataset, id_) for dataset, id_ in in_turn[:MOST_RECORDS]]
    return html.page(generations_report(shown, title=study.title, about=about, n_records=len(in_turn)))


def _of_record(study: Study, cells: Sequence[FinishedCell], dataset: str, id_: str) -> Generations:
    entries = [
        (cell, record, measured)
        for cell in cells
        if cell.cell.dataset == dataset
        for record, measured in zip(cell.records, cell.measured, strict=True)
        if record.case.id == id_
    ]
    _, record, (texts, _) = entries[0]
    columns = [_column(study, cell, record, texts, measurements) for cell, record, (texts, measurements) in entries]
    return Generations(id_, dataset, texts["query"], record.reference, columns)


def _in_words(name: str, value: Any) -> str:
    heading = heading_of(name, Contexts.columns)
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{heading} = {shown}" if len(heading) == 1 else f"{heading} {shown}"


def _column(
    study: Study, finished: FinishedCell, record: DatasetRecord, texts: JsonObject, measurements: Sequence[Measurement]
) -> CellColumn:
    labels = {name: _in_words(name, value) for name, value in finished.cell.factors.items() if name != "dataset"}
    # Without an axis all cells stand side by side.
    name = labels.pop(study.x) if study.x in labels else ", ".join(labels.values())
    line = ", ".join(labels.values()) if study.x in finished.cell.factors else ""
    rule = Regurgitation()
    generations = [
        Generation(
            tokens=response["tokens"],
            nats=[float(loss) for loss in losses],
            text=response["text"],
            rouge_l_f1=quality.rouge_l_f1([response["text"]], [record.reference])[0],
            verdicts=rule.verdicts(response["text"], texts["context"]),
        )
        for response, losses in zip(texts["responses"], whole_by_token(measurements), strict=True)
    ]
    return CellColumn(line, name or "the only cell", texts["context"], texts["truncated_tokens"], generations)


# ---- tables ---------------------------------------------------------------------------------------------------------
def _peak(study: Study, finished: FinishedCell, series: list[Any], estimates: list[MeanEstimate]) -> StudyRow:
    # A piece that few contexts reach has a mean of few: a peak is looked for where half of them do.
    enough = [i for i, at in enumerate(estimates) if 2 * at.n >= estimates[0].n]
    peak = max(enough, key=lambda i: estimates[i].mean)
    n_pieces = float(np.median([len(piece_series) for piece_series in series]))
    row: StudyRow = {**finished.cell.factors, "n": estimates[0].n, "pieces_median": n_pieces}
    row |= {"peak_piece": peak, **table.columns("peak_nats", estimates[peak])}
    for name, estimated in early_and_late(series, seed=study.seed).items():
        row |= table.columns(f"{name}_nats", estimated)
    return row


def _by_factor(study: Study, cells: Sequence[FinishedCell], directory: Path, notify: Callable[[str], None]) -> Tables:
    of_cells = ((each.cell.factors, [record.case.id for record in each.records], each) for each in cells)
    # Differences are taken from the cell that differs in x alone and comes first, record by record.
    lines = [[finished for _, finished in levels] for _, levels in lines_over(str(study.x), of_cells)]
    first_of = {finished.cell.number: line[0] for line in lines for finished in line}
    rows: list[StudyRow] = []
    per_record: dict[int, list[float]] = {}
    without: set[str] = set()
    for finished in cells:
        nats = [whole_context_nats(measurements) for _, measurements in finished.measured]
        per_record[finished.cell.number] = nats
        row: StudyRow = {
            **finished.cell.factors,
            **table.columns("nats", estimate(nats, seed=study.seed), quantiles=True),
        }
        tokens = [float(v.mean()) for _, measurements in finished.measured for v in whole_by_token(measurements)]
        row |= table.columns("nats_per_token", estimate(tokens, seed=study.seed))
        first = first_of[finished.cell.number]
        before = per_record[first.cell.number]
        by: StudyRow = measured(
            "difference_nats",
            stats.mean(np.subtract(nats, before)),
            stats.interval_of_mean_difference(nats, before, seed=study.seed),
        )
        # A cell less itself is no finding.
        row |= dict.fromkeys(by) if first is finished else by
        responses, contexts, references = responses_of(finished)
        for name, count in quality.counts(responses, contexts).items():
            row |= counted(name, count.hits, count.interval)
        row["n_responses"] = len(responses)
        row |= table.columns("rouge_l_f1", estimate(quality.rouge_l_f1(responses, references), seed=study.seed))
        for name, score in _scorers(study, responses, contexts, references).items():
            if name in without:
                continue
            try:
                # The directory's name tells the models.
                about = {"run": finished.run}
                values = kept_scores(directory / f"{name}-{finished.cell.number:02}.json", about, score)
            except LeakmeterError as error:
                # The measurements are worth having without it.
                without.add(name)
                notify(f"{name} is left out: {error}")
            else:
                row |= table.columns(name, estimate(values, seed=study.seed))
        rows.append(row)
    return Tables(rows, rows)


def _scorers(
    study: Study, responses: list[str], contexts: list[str], references: list[str]
) -> Mapping[str, Callable[[], list[float]]]:
    scorers: dict[str, Callable[[], list[float]]] = {}
    bertscore, factkb, layer = study.quality.bertscore, study.quality.factkb, study.quality.layer
    if bertscore is not None:
        scorers["bertscore_f1"] = lambda: quality.bertscore_f1(responses, references, bertscore, layer=layer)
    if factkb is not None:
        scorers["factkb"] = lambda: quality.factkb(responses, contexts, factkb)
    return scorers
