"""Finished cells to rows: the tables of a study, and the series of its figure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from leakmeter.errors import LeakmeterError
from leakmeter.stats import stats
from leakmeter.stats.ranks import holm
from leakmeter.studies import quality
from leakmeter.studies.cells import FinishedCell, kept_scores
from leakmeter.studies.expected import (
    LEVELS,
    Estimate,
    by_position,
    early_and_late,
    estimate,
    nats_by_piece,
    whole_by_token,
    whole_context_nats,
)
from leakmeter.studies.grid import Study
from leakmeter.studies.kind import Tables, lines_over
from leakmeter.studies.quality import counts
from leakmeter.studies.tables import P_VALUE, Column, Columns, Row, counted, decimals, measured
from leakmeter.text.units import parse

SEEDS_COLUMNS: Final[Columns] = {name: Column(name, decimals(3)) for name in ("mean", "least", "most")}
SEEDS_TITLE: Final = "Over seeds"
SEEDS_ABOUT: Final = (
    "mean, standard deviation (n - 1), least and most over seeds; each seed's own values and intervals above"
)


def responses(finished: FinishedCell) -> Iterator[Row]:
    """One row a response, as `leakmeter regurgitation --csv` reads it."""
    for record, (texts, measurements) in zip(finished.records, finished.measured, strict=True):
        pairs = zip(texts["responses"], whole_by_token(measurements), strict=True)
        for sample, (response, nats) in enumerate(pairs):
            yield {
                "id": record.case.id,
                "sample": sample,
                "whole_nats": float(nats.sum()),
                "n_tokens": len(response["tokens"]),
                "generations": response["text"],
                "contexts": texts["context"],
                "references": record.reference,
            }


def tables(study: Study, cells: Sequence[FinishedCell], directory: Path, notify: Callable[[str], None]) -> Tables:
    if study.show == "factor":
        return _by_factor(study, cells, directory, notify)
    rows: list[Row] = []
    summary: list[Row] = []
    for finished in cells:
        if study.show == "position":
            series: list[Any] = [
                values for _, measurements in finished.measured for values in whole_by_token(measurements)
            ]
        else:
            series = [nats_by_piece(measurements) for _, measurements in finished.measured]
        estimates = by_position(series, seed=study.seed)
        unit = parse(finished.measured[0][0]["unit"])
        # Where a piece begins, in tokens: so n-grams of different n and stride can be compared.
        stride = unit.stride if unit.kind == "ngram" else None
        of_cell = [
            {**finished.cell.factors, study.show: i, **({} if stride is None else {"first_token": i * stride}),
             **columns("nats", at)}
            for i, at in enumerate(estimates)
        ]  # fmt: skip
        rows += of_cell
        summary += of_cell if study.show == "position" else [_peak(study, finished, series, estimates)]
    return Tables(rows, summary)


def _peak(study: Study, finished: FinishedCell, series: list[Any], estimates: list[Estimate]) -> Row:
    # A piece that few contexts reach has a mean of few: a peak is looked for where half of them do.
    enough = [i for i, at in enumerate(estimates) if 2 * at.n >= estimates[0].n]
    peak = max(enough, key=lambda i: estimates[i].mean)
    n_pieces = float(np.median([len(piece_series) for piece_series in series]))
    row: Row = {**finished.cell.factors, "n": estimates[0].n, "pieces_median": n_pieces}
    row |= {"peak_piece": peak, **columns("peak_nats", estimates[peak])}
    for name, estimated in early_and_late(series, seed=study.seed).items():
        row |= columns(f"{name}_nats", estimated)
    return row


def _by_factor(study: Study, cells: Sequence[FinishedCell], directory: Path, notify: Callable[[str], None]) -> Tables:
    of_cells = ((each.cell.factors, [record.case.id for record in each.records], each) for each in cells)
    # Differences are taken from the cell that differs in x alone and comes first, record by record.
    lines = [[finished for _, finished in levels] for _, levels in lines_over(str(study.x), of_cells)]
    first_of = {finished.cell.number: line[0] for line in lines for finished in line}
    rows: list[Row] = []
    per_record: dict[int, list[float]] = {}
    without: set[str] = set()
    for finished in cells:
        nats = [whole_context_nats(measurements) for _, measurements in finished.measured]
        per_record[finished.cell.number] = nats
        row: Row = {**finished.cell.factors, **columns("nats", estimate(nats, seed=study.seed), quantiles=True)}
        tokens = [float(v.mean()) for _, measurements in finished.measured for v in whole_by_token(measurements)]
        row |= columns("nats_per_token", estimate(tokens, seed=study.seed))
        first = first_of[finished.cell.number]
        before = per_record[first.cell.number]
        by: Row = measured(
            "difference_nats",
            stats.mean(np.subtract(nats, before)),
            stats.bootstrap_interval_of_mean_difference(nats, before, seed=study.seed),
        )
        # A cell less itself is no finding.
        row |= dict.fromkeys(by) if first is finished else by
        responses, contexts, references = responses_of(finished)
        for name, count in counts(responses, contexts).items():
            row |= counted(name, count.hits, count.interval)
        row["n_responses"] = len(responses)
        row |= columns("rouge_l_f1", estimate(quality.rouge_l_f1(responses, references), seed=study.seed))
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
                row |= columns(name, estimate(values, seed=study.seed))
        rows.append(row)
    return Tables(rows, rows)


def responses_of(finished: FinishedCell) -> tuple[list[str], list[str], list[str]]:
    """Every response of a cell, its context and its reference."""
    triples = [
        (response["text"], texts["context"], record.reference)
        for record, (texts, _) in zip(finished.records, finished.measured, strict=True)
        for response in texts["responses"]
    ]
    responses, contexts, references = (list(column) for column in zip(*triples, strict=True))
    return responses, contexts, references


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


def columns(name: str, estimate: Estimate, *, quantiles: bool = False) -> Row:
    """A mean with its interval, and with `quantiles` its quantiles, as columns of a row; 'nats' adds the number of
    cases.
    """
    row: Row = {**({"n": estimate.n} if name == "nats" else {}), **measured(name, estimate.mean, estimate.interval)}
    if quantiles:
        levels = zip(LEVELS, estimate.quantiles, strict=True)
        row |= {f"{name}_q{round(level * 100):02}": value for level, value in levels}
    return row


COMPARED_COLUMNS: Final[Columns] = {
    "paired_nats": Column("paired difference, nats", decimals(3)),
    "wilcoxon_p": Column("Wilcoxon p", P_VALUE),
    "holm_p": Column("p among all, Holm", P_VALUE),
}


def with_holm(comparisons: Sequence[Row]) -> list[Row]:
    adjusted = holm([row["wilcoxon_p"] for row in comparisons])
    return [{**row, "holm_p": p} for row, p in zip(comparisons, adjusted, strict=True)]


def quantile_columns(name: str) -> Columns:
    """The quartiles stand in CSV alone."""
    headings = {0.05: "5 %", 0.5: "median", 0.95: "95 %"}
    return {
        f"{name}_q{round(level * 100):02}": Column(headings.get(level, ""), decimals(), level not in headings)
        for level in LEVELS
    }


def provenance(study: Study, cells: Sequence[FinishedCell]) -> list[str]:
    """Where the numbers of a table come from: seed, weights, n; no times, which differ."""
    sizes = sorted({(cell.cell.shown_dataset or cell.cell.dataset, len(cell.records)) for cell in cells})
    records = f"{study.kind.records}: {', '.join(f'{n:,} of {dataset}' for dataset, n in sizes)}"
    seeds, intervals = study.kind.about(study)
    return [seeds, models_line(cells), records, intervals]


def models_line(cells: Sequence[FinishedCell]) -> str:
    """The models of cells, and under which weights they were measured."""
    models: dict[str, None] = {}
    for model in (cell.model for cell in cells):
        sha256 = model["weights_sha256"]
        weights = "not hashed" if sha256 is None else f"{sha256[:12]}…"
        models[f"{model['name']} (weights {weights}, {model['dtype']}, {model['device']})"] = None
    return f"models: {'; '.join(models)}"


def over_seeds(study: Study, rows: Sequence[Row]) -> list[Row]:
    """How much of a value is the draw: for each choice of the other factors, a row for each value with an interval;
    nothing where the seed is no factor."""
    seed = study.kind.replicated
    if not any(seed in cell.factors for cell in study.cells):
        return []
    named = [name for name in study.cells[0].factors if name != seed]
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for seed_row in rows:
        words = [name for name, value in seed_row.items() if isinstance(value, str)]
        keys = [name for name in dict.fromkeys((*named, study.show, *words)) if name in seed_row]
        groups.setdefault(tuple((name, seed_row[name]) for name in keys), []).append(seed_row)
    summaries = []
    for group, group_rows in groups.items():
        for value in (name for name in group_rows[0] if f"{name}_low" in group_rows[0]):
            each = np.array(
                [seed_row[value] for seed_row in group_rows if seed_row.get(value) is not None], dtype=np.float64
            )
            if each.size:
                row: Row = {**dict(group), "value": value, "n_seeds": int(each.size), "mean": float(each.mean())}
                row["mean_std"] = float(each.std(ddof=1)) if each.size > 1 else None
                summaries.append({**row, "least": float(each.min()), "most": float(each.max())})
    return summaries
