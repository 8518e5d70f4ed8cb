"""Several runs on one page (what each found, how far those of one measure differ, and their own reports within), and
the figures of a run as files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from leakmeter.core.files import check_outside_runs, store_errors, write_whole
from leakmeter.core.plain import n_listed
from leakmeter.core.quantity import COUNTED, Number
from leakmeter.core.record import JsonObject
from leakmeter.engine.storage.catalogue import entry_of, label
from leakmeter.errors import UsageError
from leakmeter.products.gate.compare import compare
from leakmeter.products.gate.gate_words import (
    COMPARISON_ADVICE,
    NO_DIFFERENCE,
    VERDICT_RULE,
    ComparisonOutcome,
    changed_text,
    comparison_headline,
    comparison_outcome,
    left_out_line,
    setting_line,
    value_text,
)
from leakmeter.report import blocks as b
from leakmeter.report import charts, html
from leakmeter.report.scale import NOT_MEASURED, interval_text, nats_text
from leakmeter.results.run import Run

_VERDICTS: Final = {"no finding": NO_DIFFERENCE, "": NOT_MEASURED}
_CHANGED: Final = 8
"""Cases that changed, of those that are shown at first."""
_NUMBERS: Final = 3
"""Numbers of a case that changed, of those that are shown."""
NumberedComparison: TypeAlias = tuple[int, int, JsonObject]
"""Numbers of two runs, from 0, and `products.gate.compare.Comparison.to_dict`."""
_COLOURS: Final[Mapping[ComparisonOutcome, Literal["good", "bad"]]] = {"worse": "bad", "better": "good"}


def page_of_runs(runs: Sequence[Run]) -> str:
    return html.page(report_of_runs(runs))


def report_of_runs(runs: Sequence[Run]) -> b.Report:
    comparisons = []
    # Each run with the first of its measure, where they share cases.
    for number, run in enumerate(runs):
        first = next(i for i, other in enumerate(runs) if other.measure == run.measure)
        if first != number and set(runs[first].measured.ids) & set(run.measured.ids):
            comparisons.append((first, number, compare(runs[first].measured, run.measured).to_dict()))
    return runs_report([_shown(run) for run in runs], comparisons)


def write_figures(runs: Mapping[Path, Run]) -> list[Path]:
    """Write the figures of runs as PNG and SVG files, by folder; folders are made, files replaced. Nothing is written
    where a measure has no figures."""
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


@dataclass(frozen=True, slots=True)
class ShownRun:
    """A run as it is shown beside others."""

    directory: str
    measure: str
    model: str
    n_cases: int
    label: str
    """Name, data, unit and time; see `catalogue.label`."""
    headline: str
    quantities: Mapping[str, Number]
    """By QUANTITY.AGGREGATE."""
    about: Mapping[str, str]
    """By the same names, one sentence of what each means."""
    report: b.Report


def runs_report(runs: Sequence[ShownRun], comparisons: Sequence[NumberedComparison] = ()) -> b.Report:
    if not runs:
        raise UsageError("no run to show: give at least one")
    return b.Report(
        f"{len(runs):,} runs",
        "runs",
        [
            *_headlines(comparisons),
            _table(runs),
            *(
                b.HeadedBlocks(f"From run {first + 1} to run {second + 1}", list(blocks))
                for (first, second, _), blocks in zip(comparisons, map(_of_runs, comparisons), strict=True)
            ),
            *rule_of(record for _, _, record in comparisons),
            *_measures(runs),
            *(
                b.Embedded(
                    (f"Run {number}: ", b.Untrusted(f"{run.measure}, {run.label}" if run.label else run.measure)),
                    run.report,
                    anchor=f"page{number}",
                )
                for number, run in enumerate(runs, 1)
            ),
        ],
        secrets=[secret for run in runs for secret in run.report.secrets],
        lead="Results of each run, differences between runs of one measure on shared cases, and the whole page of "
        "each run.",
        notes=[
            b.Text(
                "A run’s page scrolls within its frame; drag the lower corner to make it taller. To print or keep it "
                "alone, make its own page: leakmeter report RUN.",
                "soft",
            )
        ],
    )


def _headlines(comparisons: Sequence[NumberedComparison]) -> Iterator[b.Block]:
    for number, (first, second, record) in enumerate(comparisons):
        sentence = comparison_headline(record, f"run {first + 1}", f"run {second + 1}")
        shown = b.Untrusted(f"{sentence[0].upper()}{sentence[1:]}")
        yield b.Text(shown) if number else b.Headline(shown, _COLOURS.get(comparison_outcome(record), ""))
    yield from _advice([record for _, _, record in comparisons])


def _advice(records: Sequence[JsonObject]) -> Iterator[b.Advice]:
    verdicts = set(map(comparison_outcome, records))
    met = [row for verdict, row in COMPARISON_ADVICE.items() if verdict in verdicts]
    if met:
        yield b.Advice.from_table(COMPARISON_ADVICE.values(), met)


def _table(runs: Sequence[ShownRun]) -> b.Table:
    columns = (
        b.Column("Run", "count"), b.Column("Measure, model, data"), b.Column("Cases", "count"),
        b.Column("What was found"),
    )  # fmt: skip
    rows = [
        b.Row(
            (
                number,
                b.Untrusted(", ".join(filter(None, (run.measure, run.model, run.label, run.directory))), 240),
                run.n_cases,
                b.Untrusted(run.headline, 600) if run.headline else NOT_MEASURED,
            ),
            to=f"page{number}",
        )
        for number, run in enumerate(runs, 1)
    ]
    return b.Table(columns, rows, "Runs", rest=("run", "runs"), first=len(rows))


def _measures(runs: Sequence[ShownRun]) -> Iterator[b.Table]:
    for measure in dict.fromkeys(run.measure for run in runs):
        alike = [(number, run) for number, run in enumerate(runs, 1) if run.measure == measure]
        names = dict.fromkeys(name for _, run in alike for name in run.quantities)
        columns = [b.Column("Quantity"), b.Column("Unit")]
        for number, _ in alike:
            columns += [b.Column(f"Run {number}", "number"), b.Column("Cases", "count")]
        rows = [b.Row(_cells(name, [run for _, run in alike])) for name in names]
        if rows:
            caption = (
                b.Untrusted(measure),
                ": quantities, with 95\u00a0% intervals [a, b] over cases, or the range (a to b) of few",
            )
            yield b.Table(columns, rows, caption, rest=("quantity", "quantities"), first=len(rows))


def _cells(name: str, runs: Sequence[ShownRun]) -> list[b.Cell]:
    numbers = [run.quantities.get(name) for run in runs]
    about = next(run.about[name] for run in runs if name in run.about)
    cells: list[b.Cell] = [
        b.Noted(b.Untrusted(name), (b.Untrusted(about),)),
        next(b.Untrusted(number.unit) for number in numbers if number is not None),
    ]
    for value in numbers:
        cells += [NOT_MEASURED, ""] if value is None else [value_text(value), value.n]
    return cells


def _of_runs(comparison: NumberedComparison) -> Iterator[b.Block]:
    first, second, record = comparison
    return comparison_blocks(record, f"Run {first + 1}", f"Run {second + 1}")


def comparison_report(record: JsonObject, first: str, second: str) -> b.Report:
    """What `products.gate.compare.Comparison.to_dict` says of two runs by their names."""
    sentence = b.Untrusted(comparison_headline(record, first, second))
    headline = b.Headline(sentence, _COLOURS.get(comparison_outcome(record), ""))
    blocks = [headline, *_advice([record]), *comparison_blocks(record, first, second), *rule_of([record])]
    return b.Report(f"{first} and {second}", "runs", blocks)


def comparison_blocks(record: JsonObject, first: str, second: str) -> Iterator[b.Block]:
    """What two runs have in common, the cases that changed in their order, and their numbers."""
    n, other = record["n_pairs"], record["n_other_texts"]
    only = [f"{record[f'n_only_{which}']:,} only in {name}" for which, name in (("first", first), ("second", second))]
    others = f"; {other:,} of them with other texts: the same id, but not the same case" if other else ""
    yield b.Text(f"{n:,} case{'s are' if n != 1 else ' is'} in both, {' and '.join(only)}{others}.")
    for entry in record["settings"]:
        line = setting_line(entry["name"], entry["first"], entry["second"])
        yield b.Text(("Set otherwise: ", b.Untrusted(line)))
    for entry in record["left_out"]:
        yield b.Text(b.Untrusted(left_out_line(entry)))
    if record["changed"]:
        yield b.table_of(
            record["changed"],
            [(b.Column("Case"), lambda case: b.Untrusted(case["id"])), (b.Column("Changed"), _changed_cell)],
            "Cases that changed, the most important first",
            rest=("case", "cases"),
            first=_CHANGED,
        )
    columns: b.Columns[JsonObject] = [
        (b.Column("Number"), lambda row: f"{row['quantity']}, {row['unit']}"),
        (b.Column(first, "number"), lambda row: nats_text(row["first"])),
        (b.Column(second, "number"), lambda row: nats_text(row["second"])),
    ]
    if not record["incomparable"]:
        columns += [
            (b.Column("Difference", "number"), lambda row: nats_text(row["difference"])),
            (b.Column("95\u00a0%", "interval"), lambda row: interval_text(row["interval"]).strip()),
            (b.Column("p", "number"), lambda row: _p(row["holm_p_value"])),
        ]
        if any(row["n_pairs"] != n for row in record["quantities"]):
            columns.append((b.Column("Cases", "count"), lambda row: row["n_pairs"]))
        columns.append((b.Column("Verdict"), lambda row: _VERDICTS.get(row["verdict"], row["verdict"])))
    yield b.table_of(
        record["quantities"],
        columns,
        "Means over cases; difference: the second less the first",
        rest=("number", "numbers"),
    )


def rule_of(records: Iterable[JsonObject]) -> Iterator[b.Block]:
    """When a number is called worse or better, where some are compared."""
    if any(not record["incomparable"] for record in records):
        yield b.Text(VERDICT_RULE, "soft")


def _changed_cell(case: JsonObject) -> str:
    # What is counted says more than further sums, behind the first.
    first, *others = case["numbers"]
    numbers = [changed_text(number) for number in (first, *sorted(others, key=lambda n: n["unit"] not in COUNTED))]
    n = n_listed(len(numbers), _NUMBERS)
    more = f"; and {len(numbers) - n} more" if len(numbers) > n else ""
    return f"{'; '.join(numbers[:n])}{more}{'; another text' if case['has_other_texts'] else ''}"


def _p(p: float | None) -> str:
    return NOT_MEASURED if p is None or math.isnan(p) else f"{p:.2g}"
