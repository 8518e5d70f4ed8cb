"""Studies of private generation: `private_generation`, over the guarantee, calibrated by one of its settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Final, get_args

import numpy as np

from leakmeter.commands.studies.cells import FinishedCell
from leakmeter.commands.studies.grid import Study, StudyCell
from leakmeter.commands.studies.kind import Axes, RecordChoice, StudyKind, Tables, at_least_one, of_kind, seeds_text
from leakmeter.commands.studies.study_report import groups_of
from leakmeter.commands.studies.tables import StudyColumn, StudyRow, heading_of
from leakmeter.core.measure import Measure
from leakmeter.core.record import JsonObject
from leakmeter.data import tasks
from leakmeter.errors import UnknownNameError, UsageError
from leakmeter.instruments.generation.audits import with_label
from leakmeter.instruments.generation.measure import PrivateGeneration
from leakmeter.instruments.generation.prompts import GenerationSettings, batches_of
from leakmeter.instruments.generation.result import PrivateGenerationResult
from leakmeter.overriding import override
from leakmeter.privacy.calibrate import Free, Target, calibrate
from leakmeter.privacy.clipped_logits import Aggregation
from leakmeter.report import blocks as b
from leakmeter.report.blocks import Chart
from leakmeter.report.scale import share_text
from leakmeter.text.exemplars import ExemplarCase, LabelledText

_DEFAULTS: Final = PrivateGeneration()
PRINTED: Final[Mapping[str, Mapping[float, tuple[float, float]]]] = {
    "temperature": {
        0.5: (68.58, 0.462),
        1.0: (36.18, 0.910),
        5.0: (8.53, 4.556),
        10.0: (4.80, 9.698),
        20.0: (2.81, 9.900),
        50.0: (1.42, 21.892),
        100.0: (0.94, 23.158),
    },
    "clip": {1.0: (0.55, 0.916), 5.0: (2.34, 4.526), 10.0: (4.16, 9.65), 50.0: (14.12, 20.782), 100.0: (21.20, 20.774)},
    "subset_size": {5.0: (214, 4.598), 10.0: (121, 6.374), 50.0: (36, 21.118), 100.0: (24, 22.066)},
}
"""By the free setting and the target: the setting and ε_empirical of Tables 4, 5 and 6, which are of 50 sequences of 40
tokens at δ = 1e-5, by Qwen2.5-7B-Instruct."""


@dataclass(frozen=True, slots=True)
class Batches(RecordChoice):
    """Which exemplars a cell measures, and which setting keeps which target."""

    subset_size: int
    label: str
    target_epsilon: float | None
    """The most that is guaranteed; None where nothing is calibrated."""
    free: Free


def _percent(ratio: float) -> str:
    return share_text(ratio, 3).replace("\u00a0", " ")


_SHORT: Final = "{:.4g}".format
_NATS: Final = "{:.3g}".format


class PrivateTexts(StudyKind):
    """Batches of exemplars of a task that have one label."""

    records = "batches"
    settings: ClassVar = {
        "choice_seed": "int | None",
        "subset_size": "int",
        "label": "str",
        "target_epsilon": "float",
        "free": "str",
        "instruction": "str",
        "label_heading": "str",
        "text_heading": "str",
        "template": "str | None",
    }
    shows: ClassVar = {"factor": "a row for each cell and batch, over x"}
    columns: ClassVar = {
        **StudyKind.columns,
        "target_epsilon": StudyColumn("target ε"),
        "delta": StudyColumn("δ"),
        "free": StudyColumn("calibrated", lambda free: free.replace("_", " ")),
        "setting": StudyColumn("to", _SHORT),
        "order": StudyColumn("α*", "{:g}".format),
        "n_tokens": StudyColumn("tokens", "{:,}".format),
        "promised_epsilon": StudyColumn("", in_csv_only=True),
        "promised_rdp_nats": StudyColumn("RDP bound, nats", _NATS),
        "measured_rdp_nats": StudyColumn("measured, worst exemplar", _NATS),
        "sum_of_maxima_nats": StudyColumn("sum of maxima", _NATS),
        "rdp_ratio": StudyColumn("measured / bound", _percent),
        "worst_token_ratio": StudyColumn("worst token", _percent),
        "worst_token_any_order_ratio": StudyColumn("at any order", _percent),
        "holds": StudyColumn("verdict", lambda holds: "kept" if holds else "broken"),
        "paper_epsilon": StudyColumn("ε, paper’s convention", _SHORT),
        "zero_leak_epsilon": StudyColumn("of no leak", _SHORT),
        "printed_setting": StudyColumn("paper’s setting", _SHORT),
        "printed_epsilon": StudyColumn("paper printed", _SHORT),
        "perplexity": StudyColumn("perplexity", _NATS),
        "distinct_2": StudyColumn("distinct-2", _percent),
        "verbatim_share": StudyColumn("verbatim", _percent),
    }

    @override
    def choice(self, settings: JsonObject) -> Batches:
        if "label" not in settings:
            raise UsageError("the study has no 'label'; add it, or give --set label=VALUE")
        return Batches(
            at_least_one("batches", settings["batches"]),
            settings.get("choice_seed", 0),
            _aggregation(settings).subset_size,
            settings["label"],
            settings.get("target_epsilon"),
            settings.get("free", "temperature"),
        )

    @override
    def prompts(self, settings: JsonObject) -> GenerationSettings:
        names = ("instruction", "label_heading", "text_heading", "template")
        return GenerationSettings(**{name: settings[name] for name in names if name in settings})

    @override
    def measure(self, measure: Measure, settings: JsonObject) -> PrivateGeneration:
        """With the temperature or clip that keeps `target_epsilon`.

        A study's seed is known to all, and guarantees nothing: where none is given, the measure has none.
        """
        aggregation = _aggregation(settings)
        return replace(
            of_kind(measure, PrivateGeneration),
            clip=aggregation.clip,
            temperature=aggregation.temperature,
            seed=settings.get("seed"),
        )

    @override
    def datasets(self) -> list[str]:
        return tasks.names()

    @override
    def sources(self, datasets: Sequence[str]) -> list[str]:
        return [source for name in datasets for source in (name, f"{name}.train")]

    @override
    def load(self, cells: Sequence[StudyCell], paths: Mapping[str, str]) -> list[list[ExemplarCase]]:
        read: dict[str, list[LabelledText]] = {}
        out = []
        for cell in cells:
            task, chosen = tasks.load_task(cell.dataset), of_kind(cell.choice, Batches)
            if cell.dataset not in read:
                path = paths.get(f"{cell.dataset}.train", paths.get(cell.dataset))
                read[cell.dataset] = task.load(path, "train")
            examples = with_label(read[cell.dataset], task.task, chosen.label)
            if chosen.choice_seed is not None:
                examples = [examples[i] for i in np.random.default_rng(chosen.choice_seed).permutation(len(examples))]
            out.append(batches_of(examples, chosen.subset_size, label=chosen.label, most=chosen.n_records))
        return out

    @override
    def items(self, finished: FinishedCell) -> Iterator[StudyRow]:
        for case in cases_of(finished):
            for number, sample in enumerate(case.samples):
                yield {
                    "batch": case.id,
                    "sequence": number,
                    "n_tokens": len(sample.token_ids),
                    "perplexity": sample.perplexity,
                    "most_share_of_promise": max(sample.per_token.share_of_bound),
                    "generations": sample.text,
                    "contexts": "\n\n".join(exemplar.text for exemplar in case.exemplars),
                }

    @override
    def tables(
        self, study: Study, cells: Sequence[FinishedCell], directory: Path, notify: Callable[[str], None]
    ) -> Tables:
        rows: list[StudyRow] = []
        for finished in cells:
            cases, choice = cases_of(finished), of_kind(finished.cell.choice, Batches)
            for case in cases:
                labels = {**finished.cell.factors, **({"batch": case.id} if len(cases) > 1 else {})}
                rows.append({**labels, **row_of(case, choice.free.replace("-", "_"), choice.target_epsilon)})
        return Tables(rows, rows)

    @override
    def axes(self, study: Study, rows: Sequence[StudyRow]) -> Axes:
        return Axes(str(study.x), ("measured_rdp_nats", "paper_epsilon"))

    @override
    def figure(self, study: Study, rows: Sequence[StudyRow], *, footer: str) -> Chart:
        x = str(study.x)
        return figure_of(rows, x=x, lines=self.lines(study, x), title=study.title, footer=footer)

    @override
    def seed(self, cell: StudyCell) -> int:
        return of_kind(cell.measure, PrivateGeneration).seed or 0

    @override
    def about(self, study: Study) -> tuple[str, str]:
        listed = seeds_text((cell.choice.choice_seed, self.seed(cell)) for cell in study.cells)
        none = "intervals: none, one set of texts of each setting; what the paper printed is of 50 sequences each"
        return f"seeds of exemplars and draws: {listed}", none


def _aggregation(settings: JsonObject) -> Aggregation:
    """Clip, subset size and temperature, the free one so that the target is kept."""
    aggregation = Aggregation(
        settings.get("clip", _DEFAULTS.clip),
        settings.get("subset_size", 50),
        settings.get("temperature", _DEFAULTS.temperature),
        settings.get("normalise_by", _DEFAULTS.normalise_by),
    )
    if "target_epsilon" not in settings:
        return aggregation
    free = settings.get("free", "temperature")
    if free not in get_args(Free):
        raise UnknownNameError("free", free, get_args(Free))
    n_tokens = settings.get("sequences", _DEFAULTS.sequences) * settings.get("max_new_tokens", _DEFAULTS.max_new_tokens)
    return _calibrated(
        aggregation, free, Target(settings["target_epsilon"], settings.get("delta", _DEFAULTS.delta), n_tokens)
    )


# Every cell of a study asks for its target several times.
_calibrated = lru_cache(maxsize=256)(calibrate)


def cases_of(finished: FinishedCell) -> list[PrivateGenerationResult]:
    return list(PrivateGenerationResult.from_run(finished.measured, asdict(finished.cell.measure)))


def row_of(case: PrivateGenerationResult, free: str, target: float | None) -> StudyRow:
    """`free` is the setting that was calibrated to the target: 'temperature', 'clip' or 'subset_size'."""
    at, paper, quality = case.at_guarantee, case.paper_convention, case.text_quality
    setting, printed = (None, None) if case.delta != 1e-5 else PRINTED[free].get(target or 0.0, (None, None))
    return {
        "free": free,
        "setting": case.subset_size if free == "subset_size" else getattr(case.mechanism, free),
        "order": at.order,
        "n_tokens": case.bounds.spent.n_tokens,
        "promised_epsilon": paper.guaranteed_epsilon,
        "promised_rdp_nats": at.bound_nats,
        "measured_rdp_nats": at.measured_nats,
        "sum_of_maxima_nats": at.sum_of_maxima_nats,
        "rdp_ratio": at.ratio,
        "worst_token_ratio": at.worst_token_ratio,
        "worst_token_any_order_ratio": case.verdict.worst_token.ratio,
        "holds": case.holds,
        "paper_epsilon": paper.epsilon,
        "zero_leak_epsilon": paper.zero_leak_epsilon,
        "printed_setting": setting,
        "printed_epsilon": printed,
        "perplexity": quality.perplexity,
        "distinct_2": quality.distinct_2,
        "verbatim_share": quality.verbatim_share,
    }


KIND = PrivateTexts()


_GUARANTEED: Final = b.ChartSeries("line", (), name="guaranteed", colour=6)
_RENYI: Final = {
    "promised_rdp_nats": _GUARANTEED,
    "sum_of_maxima_nats": b.ChartSeries("line", (), name="measured, sum of maxima", colour=3),
    "measured_rdp_nats": b.ChartSeries("line", (), name="measured, worst exemplar", colour=1),
}
_PAPER: Final = {
    "promised_epsilon": _GUARANTEED,
    "paper_epsilon": b.ChartSeries("line", (), name="measured, in the paper’s convention", colour=1),
    "zero_leak_epsilon": b.ChartSeries("line", (), name="the same for a mechanism that leaks nothing", faded=True),
    "printed_epsilon": b.ChartSeries("scatter", (), name="as the paper printed it", colour=0),
}


def figure_of(rows: Sequence[StudyRow], *, x: str, lines: Sequence[str], title: str, footer: str) -> b.Chart:
    """Rows are those of `PrivateTexts.tables`; all axes of numbers are logarithmic."""
    is_text = not all(isinstance(row[x], int | float) for row in rows)
    names = list(dict.fromkeys(str(row[x]) for row in rows)) if is_text else []
    label = heading_of(x, PrivateTexts.columns)
    axis = b.Axis(label, names=[b.Untrusted(name) for name in names]) if is_text else b.Axis(label, scale="log")
    panels = [
        b.Panel(axis, b.Axis(y, scale="log"), list(_series(rows, x, lines, columns, names)), title=panel_title)
        for columns, panel_title, y in (
            (_RENYI, "Rényi against Rényi: order α*, same tokens, same neighbours", "Rényi divergence, nats"),
            (_PAPER, "The paper’s convention: no verdict", "ε"),
        )
    ]
    return b.Chart("figure", title, panels, footer=footer, panel_inches=(5.2, 4.2))


def _series(
    rows: Sequence[StudyRow], x: str, lines: Sequence[str], columns: Mapping[str, b.ChartSeries], names: Sequence[str]
) -> Iterator[b.ChartSeries]:
    """What a logarithmic axis can show; `columns` say how each looks."""
    for group in groups_of(rows, lines).values():
        of_line = sorted(group, key=lambda row: row[x])
        for column, look in columns.items():
            shown = [row for row in of_line if row[column] is not None and 0 < row[column] < math.inf]
            places = [names.index(str(row[x])) if names else row[x] for row in shown]
            if shown:
                yield replace(look, y=[row[column] for row in shown], x=places)
