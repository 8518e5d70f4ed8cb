"""Rows of studies: their columns, responses, provenance, and values over seeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from leakmeter.commands.studies.cells import FinishedCell
from leakmeter.commands.studies.expected import LEVELS, MeanEstimate, whole_by_token
from leakmeter.commands.studies.grid import Study
from leakmeter.commands.studies.tables import (
    DIFFERENCE,
    NUMBER,
    P_VALUE,
    StudyColumn,
    StudyColumns,
    StudyRow,
    decimals,
    measured,
)
from leakmeter.stats.ranks import holm

SEEDS_COLUMNS: Final[StudyColumns] = {name: StudyColumn(name, decimals(3)) for name in ("mean", "least", "most")}
SEEDS_TITLE: Final = "Over seeds"
SEEDS_ABOUT: Final = (
    "mean, standard deviation (n - 1), least and most over seeds; each seed's own values and intervals above"
)


def responses(finished: FinishedCell) -> Iterator[StudyRow]:
    """One row a response, as `leakmeter study regurgitation --csv` reads it."""
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


def responses_of(finished: FinishedCell) -> tuple[list[str], list[str], list[str]]:
    """Every response of a cell, its context and its reference."""
    triples = [
        (response["text"], texts["context"], record.reference)
        for record, (texts, _) in zip(finished.records, finished.measured, strict=True)
        for response in texts["responses"]
    ]
    responses, contexts, references = (list(column) for column in zip(*triples, strict=True))
    return responses, contexts, references


def columns(name: str, estimate: MeanEstimate, *, quantiles: bool = False) -> StudyRow:
    """A mean with its interval, and with `quantiles` its quantiles, as columns of a row; 'nats' adds the number of
    cases.
    """
    row: StudyRow = {
        **({"n": estimate.n} if name == "nats" else {}),
        **measured(name, estimate.mean, estimate.interval),
    }
    if quantiles:
        levels = zip(LEVELS, estimate.quantiles, strict=True)
        row |= {f"{name}_q{round(level * 100):02}": value for level, value in levels}
    return row


COMPARED_COLUMNS: Final[StudyColumns] = {
    "paired_nats": StudyColumn("paired difference, nats", DIFFERENCE),
    "wilcoxon_p": StudyColumn("Wilcoxon p", P_VALUE),
    "holm_p": StudyColumn("p among all, Holm", P_VALUE),
}


def with_holm(comparisons: Sequence[StudyRow]) -> list[StudyRow]:
    adjusted = holm([row["wilcoxon_p"] for row in comparisons])
    return [{**row, "holm_p": p} for row, p in zip(comparisons, adjusted, strict=True)]


def quantile_columns(name: str) -> StudyColumns:
    """The quartiles stand in CSV alone."""
    headings = {0.05: "5 %", 0.5: "median", 0.95: "95 %"}
    return {
        f"{name}_q{round(level * 100):02}": StudyColumn(headings.get(level, ""), NUMBER, level not in headings)
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


def over_seeds(study: Study, rows: Sequence[StudyRow]) -> list[StudyRow]:
    """How much of a value is the draw: for each choice of the other factors, a row for each value with an interval;
    nothing where the seed is no factor."""
    seed = study.kind.replicated
    if not any(seed in cell.factors for cell in study.cells):
        return []
    named = [name for name in study.cells[0].factors if name != seed]
    groups: dict[tuple[Any, ...], list[StudyRow]] = {}
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
                row: StudyRow = {**dict(group), "value": value, "n_seeds": int(each.size), "mean": float(each.mean())}
                row["mean_std"] = float(each.std(ddof=1)) if each.size > 1 else None
                summaries.append({**row, "least": float(each.min()), "most": float(each.max())})
    return summaries
