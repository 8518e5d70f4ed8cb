"""Several runs on one page, and the figures of a run as files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from leakmeter.core.written import check_outside_runs, store_errors, write_whole
from leakmeter.errors import UsageError
from leakmeter.gating.compare import compare
from leakmeter.pages.runs_report import ShownComparison, ShownRun, runs_report
from leakmeter.report import charts, html
from leakmeter.report.blocks import Report
from leakmeter.results.run import Run
from leakmeter.storage.catalogue import entry_of, label


def page_of_runs(runs: Sequence[Run]) -> str:
    """The page of several runs: what each found, paired differences to the first of its measure, and their own
    pages."""
    return html.page(report_of_runs(runs))


def report_of_runs(runs: Sequence[Run]) -> Report:
    return runs_report([_shown(run) for run in runs], _comparisons(runs))


def write_figures(runs: Mapping[Path, Run]) -> list[Path]:
    """Figures of runs as PNG and SVG, in files of their names; the same run gives the same bytes. A run's folder is
    made where it is missing, and files of the same names are replaced. Where a measure has no figures, nothing is
    written."""
    files: dict[Path, bytes] = {}
    for folder, run in runs.items():
        drawings = run.findings.figures
        if not drawings:
            raise UsageError(f"run '{run.path}' has nothing to draw: {run.measure} has no figures of its cases")
        for name, chart in drawings.items():
            files |= {folder / f"{name}.{form}": data for form, data in charts.files(chart).items()}
    for path in files:
        check_outside_runs(path, "figure")
    for path, data in files.items():
        with store_errors(f"figures cannot be written to '{path.parent}'"):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, data)
    return list(files)


def _shown(run: Run) -> ShownRun:
    model = (run.spec.get("model") or {}).get("name")
    summed = run.summed_up()
    return ShownRun(
        directory=str(run.path),
        measure=run.measure,
        model="" if model is None else str(model),
        n_cases=len(run.cases),
        label=label(entry_of(run.path)),
        headline=run.headline,
        quantities={name: number for name, (_, number) in summed.items()},
        about={name: quantity.about for name, (quantity, _) in summed.items()},
        report=run.report(),
    )


def _comparisons(runs: Sequence[Run]) -> list[ShownComparison]:
    """Of each run with the first of its measure, where they share cases."""
    out = []
    for number, run in enumerate(runs):
        first = next(i for i, other in enumerate(runs) if other.measure == run.measure)
        if first != number and set(runs[first].measured.ids) & set(run.measured.ids):
            comparison = compare(runs[first].measured, run.measured)
            out.append(ShownComparison(first, number, comparison.to_dict()))
    return out
