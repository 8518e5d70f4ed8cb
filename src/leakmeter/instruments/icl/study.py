"""Studies of leakage from in-context examples: queries of a classification task with exemplars drawn anew."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar, Final

from leakmeter.commands.studies.cells import FinishedCell
from leakmeter.commands.studies.grid import Study, StudyCell
from leakmeter.commands.studies.kind import (
    Axes,
    RecordChoice,
    StudyKind,
    Tables,
    at_least_one,
    lines_over,
    of_kind,
    seeds_text,
)
from leakmeter.commands.studies.table import COMPARED_COLUMNS, quantile_columns, with_holm
from leakmeter.commands.studies.tables import HUNDREDTHS, StudyColumn, StudyRow, decimals, measured, share_text
from leakmeter.core.measure import Measure
from leakmeter.core.record import JsonObject
from leakmeter.data import tasks
from leakmeter.instruments.icl.given import REDRAWN_TOGETHER, choose_queries, draw_cases
from leakmeter.instruments.icl.prompts import ExemplarSettings
from leakmeter.instruments.icl.result import IclResult, IclSummary, Losses, summary
from leakmeter.overriding import override
from leakmeter.stats import stats
from leakmeter.stats.ranks import signed_rank_p
from leakmeter.text.exemplars import ExemplarCase, LabelledText

POSITION: Final = "exemplar_position"
"""Column of the place of the exemplar that is left out, from 1."""
LevelLosses = tuple[Any, Sequence[float]]
"""A level's name, and the loss of each query, nats."""
_COMPARED_BY: Final = (
    "difference: of the same queries, with a 95 % interval over them",
    "p: Wilcoxon's signed-rank test, two-sided; Holm's rule among all rows",
)


@dataclass(frozen=True, slots=True)
class ExemplarChoice(RecordChoice):
    """Which queries a cell measures, behind how many exemplars, drawn with which seed."""

    shots: int
    draw_seed: int


class ExemplarStudy(StudyKind):
    """Queries of a task by name, or of a user's own from a TOML file."""

    records = "queries"
    replicated: ClassVar = "draw_seed"
    settings: ClassVar = {
        "choice_seed": "int | None",
        "shots": "int",
        "draw_seed": "int",
        "template": "str | None",
    }
    shows: ClassVar = {
        "factor": "a mean for each cell, over x",
        "position": "a mean for each position of the exemplar that is left out",
    }

    columns: ClassVar = {
        **StudyKind.columns,
        POSITION: StudyColumn("position of the exemplar"),
        "position_nats": StudyColumn("loss without it, nats"),
        "loss_nats": StudyColumn("ICLInf, nats"),
        **quantile_columns("loss_nats"),
        "below_noise_share": StudyColumn("below the noise floor", share_text),
        "accuracy": StudyColumn("accuracy", HUNDREDTHS),
        "macro_f1": StudyColumn("macro-F1", HUNDREDTHS),
        "tree_tokens_median": StudyColumn("tokens run a query, median", decimals(0)),
        **COMPARED_COLUMNS,
    }

    @override
    def group_size(self, measure: Measure) -> int:
        return REDRAWN_TOGETHER

    @override
    def choice(self, settings: JsonObject) -> ExemplarChoice:
        return ExemplarChoice(
            at_least_one("queries", settings["queries"]),
            # At random, since a file may be ordered by label.
            settings.get("choice_seed", 0),
            at_least_one("shots", settings.get("shots", 4)),
            settings.get("draw_seed", 0),
        )

    @override
    def prompts(self, settings: JsonObject) -> ExemplarSettings:
        return ExemplarSettings(tasks.load_task(settings["dataset"]).task, settings.get("template", "plain"))

    @override
    def datasets(self) -> list[str]:
        return tasks.names()

    @override
    def sources(self, datasets: Sequence[str]) -> list[str]:
        return [source for name in datasets for source in (name, f"{name}.train")]

    @override
    def load(self, cells: Sequence[StudyCell], paths: Mapping[str, str]) -> list[list[ExemplarCase]]:
        splits: dict[str, tuple[list[LabelledText], list[LabelledText]]] = {}
        for name in dict.fromkeys(cell.dataset for cell in cells):
            task = tasks.load_task(name)
            splits[name] = (task.load(paths.get(f"{name}.train"), "train"), task.load(paths.get(name), "test"))
        drawn: dict[tuple[str, ExemplarChoice], list[ExemplarCase]] = {}
        for cell in cells:
            draw, (pool, queries) = of_kind(cell.choice, ExemplarChoice), splits[cell.dataset]
            if (cell.dataset, draw) not in drawn:
                chosen = choose_queries(queries, draw.n_records, draw.choice_seed)
                drawn[cell.dataset, draw] = draw_cases(pool, chosen, shots=draw.shots, seed=draw.draw_seed)
        return [drawn[cell.dataset, of_kind(cell.choice, ExemplarChoice)] for cell in cells]

    @override
    def items(self, finished: FinishedCell) -> Iterator[StudyRow]:
        for result in _results(finished):
            row = {name: getattr(result, name) for name in ("id", "query", "gold", "prediction", "loss_nats")}
            for exemplar in result.exemplars:
                of_exemplar = ("position", "id", "label", "text", "loss_nats")
                yield row | {f"exemplar_{name}": getattr(exemplar, name) for name in of_exemplar}

    @override
    def tables(
        self, study: Study, cells: Sequence[FinishedCell], directory: Path, notify: Callable[[str], None]
    ) -> Tables:
        by_cell = [list(_results(finished)) for finished in cells]
        rows: list[StudyRow] = []
        for finished, results in zip(cells, by_cell, strict=True):
            total = summary(results, seed=study.seed)
            if study.show == "factor":
                rows.append({**finished.cell.factors, **_row(total)})
            else:
                rows += [
                    {**finished.cell.factors, POSITION: at.position, "n": at.n, **_mean("position_nats", at)}
                    for at in total.positions
                ]
        groups = _lines(study, cells, by_cell) if study.show == "factor" else _positions(cells, by_cell)
        return Tables(rows, rows, compared(study.x or POSITION, groups, seed=study.seed), _COMPARED_BY)

    @override
    def axes(self, study: Study, rows: Sequence[StudyRow]) -> Axes:
        if study.show == "factor":
            return Axes(str(study.x), ("loss_nats", "accuracy"))
        return Axes(POSITION, ("position_nats",))

    @override
    def seed(self, cell: StudyCell) -> int:
        return of_kind(cell.choice, ExemplarChoice).draw_seed

    @override
    def about(self, study: Study) -> tuple[str, str]:
        chosen = seeds_text((cell.choice.choice_seed, self.seed(cell)) for cell in study.cells)
        return f"seeds of queries and exemplars: {chosen}", "intervals: 95 %, over queries (accuracy: Wilson)"


KIND = ExemplarStudy()


def compared(x: str, groups: Iterable[tuple[StudyRow, Sequence[LevelLosses]]], *, seed: int) -> list[StudyRow]:
    """Every two levels of each group against each other, query by query.

    A row has the mean of the later less the earlier with its interval, Wilcoxon's p, and that p by Holm's rule among
    all rows. Where a loss is infinite, there is no mean. Levels of a group have the same queries.
    """
    rows: list[StudyRow] = []
    for others, levels in groups:
        for (first, before), (second, after) in combinations(levels, 2):
            mean, interval = None, None
            if all(map(math.isfinite, (*before, *after))):
                mean = stats.mean(after) - stats.mean(before)
                interval = stats.interval_of_mean_difference(after, before, seed=seed)
            row: StudyRow = {**others, x: second, "less": first, "n": len(after)}
            row |= measured("paired_nats", mean, interval)
            rows.append({**row, "wilcoxon_p": signed_rank_p(after, before)})
    return with_holm(rows)


def _results(finished: FinishedCell) -> Iterable[IclResult]:
    return IclResult.from_run(finished.measured, asdict(finished.cell.measure))


def _row(losses: IclSummary) -> StudyRow:
    row: StudyRow = {"n": losses.n, **_mean("loss_nats", losses)}
    row |= {f"loss_nats_q{round(100 * float(level)):02}": nats for level, nats in losses.quantiles_nats.items()}
    row["below_noise_share"] = losses.share_below_noise_floor
    row |= measured("accuracy", losses.accuracy, losses.accuracy_interval)
    return row | {"macro_f1": losses.macro_f1, "tree_tokens_median": losses.median_tree_tokens}


def _mean(name: str, losses: Losses) -> StudyRow:
    mean = losses.mean_nats if math.isfinite(losses.mean_nats) else None
    return measured(name, mean, losses.interval_nats) | {f"{name}_std": losses.std_nats}


def _positions(
    cells: Sequence[FinishedCell], by_cell: Sequence[Sequence[IclResult]]
) -> Iterable[tuple[StudyRow, Sequence[LevelLosses]]]:
    for finished, results in zip(cells, by_cell, strict=True):
        by_position = zip(*([exemplar.loss_nats for exemplar in each.exemplars] for each in results), strict=True)
        yield dict(finished.cell.factors), list(enumerate(by_position, 1))


def _lines(
    study: Study, cells: Sequence[FinishedCell], by_cell: Sequence[Sequence[IclResult]]
) -> Iterable[tuple[StudyRow, Sequence[LevelLosses]]]:
    """Cells that differ in x alone and have the same queries."""
    cells_with_ids = (
        (finished.cell.factors, [each.id for each in results], [each.loss_nats for each in results])
        for finished, results in zip(cells, by_cell, strict=True)
    )
    return lines_over(str(study.x), cells_with_ids)
