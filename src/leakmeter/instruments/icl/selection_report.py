"""A selection of exemplars as blocks and files: what moves do, and what the reporting queries say of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

from leakmeter.commands.studies.cells import write
from leakmeter.commands.studies.tables import share_text
from leakmeter.core.plain import counted, one_line, to_json, visible
from leakmeter.instruments.icl.result import FixedExemplar, IclSummary
from leakmeter.instruments.icl.search import MeasuredList, SearchScope
from leakmeter.instruments.icl.selection import Selection
from leakmeter.report import blocks as b
from leakmeter.report import markdown, pictures
from leakmeter.report.scale import nats_in, nats_text
from leakmeter.stats.stats import FEWEST_FOR_INTERVAL

_ID_CHARACTERS: Final = 14
_TEXT_CHARACTERS: Final = 30
_MOST_ACCURACY_LOST: Final = 0.05
"""Share of right answers that a list may lose, by its interval, and still answer as well; advice says 5 points."""
_COLUMNS: Final[b.Columns[MeasuredList]] = [
    (b.Column("Move"), lambda measured: _move(measured)),
    (b.Column("ICLInf", "nats"), lambda measured: measured.loss_nats),
    (b.Column("Largest", "nats"), lambda measured: measured.largest_nats),
    (b.Column("Accuracy", "share"), lambda measured: share_text(measured.accuracy)),
]

SELECTION: Final[Mapping[str, tuple[str, tuple[str, str]]]] = {
    "lower": (
        "The new exemplars leak less, and answer as well.",
        ("ICLInf is shown to be lower, and the interval of accuracy reaches 0 and no 5 points less",
         "Ship the new list: exemplars.jsonl in the selection’s directory."),
    ),
    "unclear": (
        "The new exemplars leak less. {n} queries cannot tell whether they answer as well.",
        ("ICLInf is shown to be lower, and the interval of accuracy reaches 0 and 5 points less",
         "Compare accuracy on more queries before you ship the new list, exemplars.jsonl in the selection’s directory: "
         "54 that answer the same are the fewest that show it."),
    ),
    "costs": (
        "The new exemplars leak less, and answer worse.",
        ("ICLInf is shown to be lower, and the interval of accuracy is below 0",
         "Weigh less leakage against less accuracy. Fewer steps (`--max-steps`) change less."),
    ),
    "not lower": (
        "The new exemplars are not shown to leak less.",
        ("ICLInf is not shown to be lower",
         "Keep your exemplars: there is no evidence that the new ones leak less. More queries show smaller "
         "differences."),
    ),
    "too few": (
        "No conclusion from {n} of {n_all} queries.",
        ("Fewer than 6 reporting queries", "Give 12 queries or more; half of them report."),
    ),
    "unchanged": (
        "The exemplars stay the same: no move lowers their leakage by more than the noise floor.",
        ("No move lowers ICLInf on the queries that choose",
         "Keep your exemplars, or give further ones to choose from with `--pool`."),
    ),
}  # fmt: skip
"""Headline, and row of the decision table, by the verdict."""


def report(selection: Selection, *, command: str | None = None) -> b.Report:
    model, verdict = selection.model, selection.verdict
    if verdict == "lower":
        verdict = _by_accuracy(selection)
    headline, row = SELECTION[verdict]
    n, n_choosing = selection.n_reporting, selection.n_choosing
    facts: list[tuple[b.Phrase, b.Phrase]] = [
        ("Model", b.Untrusted(f"{model.name} ({model.dtype}, {model.device})")),
        ("Task", b.Untrusted(selection.task, 40)),
        ("Split", f"{n_choosing} queries choose, {n} others report"),
        ("Intervals", "95 % over queries"),
        ("Seed", str(selection.seed)),
    ]
    return b.Report(
        title="Exemplars to ship",
        measure="icl",
        blocks=[
            b.Headline(headline.format(n=n, n_all=n + n_choosing), "good" if verdict == "lower" else ""),
            *(b.Text(sentence) for sentence in sentences(selection)),
            b.Advice.from_table((row for _, row in SELECTION.values()), [row]),
            *(b.Warning(("At worst: ", b.Untrusted(warning))) for warning in selection.warnings),
            *([_picture(selection.steps)] if len(selection.steps) > 1 else []),
            _reporting(selection),
            _exemplars(selection),
            *_lists(selection),
            b.Facts(facts),
        ],
        command=b.CommandLine.from_line(command),
    )


def _by_accuracy(selection: Selection) -> str:
    """A list that leaks less is good only where the queries show that it answers as well."""
    low, high = selection.accuracy_difference_interval
    if high < 0.0:
        return "costs"
    return "lower" if low >= -_MOST_ACCURACY_LOST else "unclear"


def _picture(steps: Sequence[MeasuredList]) -> b.Chart:
    lines = [
        pictures.PictureLine(_move(measured), measured.loss_nats, nats_text(measured.loss_nats))
        for measured in steps
        if math.isfinite(measured.loss_nats)
    ]
    return pictures.picture(
        "steps",
        "Leakage after each move",
        b.Axis("ICLInf, by the queries that choose", "nats"),
        lines,
    )


def write_selection(directory: Path, selection: Selection, exemplars: str, *, command: str | None = None) -> b.Report:
    document = report(selection, command=command)
    write(directory / "selection.json", to_json(selection))
    write(directory / "table.md", markdown.text(document))
    write(directory / "exemplars.jsonl", exemplars)
    return document


def report_so_far(path: Sequence[MeasuredList], scope: SearchScope) -> b.Report:
    first, last = path[0], path[-1]
    n = len(path) - 1
    names = (part for id_ in last.exemplars for part in (", ", b.Untrusted(id_, _ID_CHARACTERS)))
    return b.Report(
        title="Exemplars so far",
        measure="icl",
        blocks=[
            b.Warning(
                f"Interrupted: {n} of at most {counted(scope.max_steps, 'step')} taken, and all numbers here are of "
                f"the {len(scope.choosing)} queries that choose, on which the best of many lists leaks less than on "
                "others."
            ),
            b.Headline(f"ICLInf is {nats_text(last.loss_nats)} nats; it was {nats_text(first.loss_nats)}."),
            _steps(path, f"{scope.max_steps} at most"),
            b.Text(("Exemplars now, in order: ", *islice(names, 1, None))),
        ],
    )


def sentences(selection: Selection) -> Iterator[str]:
    """How sure the verdict is; the table has what both lists leak."""
    n, by = selection.n_reporting, selection.loss_difference_nats
    if by is not None and selection.verdict not in ("unchanged", "too few"):
        # Of few, all have to be lower (see `selection.Selection`).
        lower = "all of them lower" if selection.verdict == "lower" else "not all of them lower"
        few = f"too few for an interval, {lower}, " if n < FEWEST_FOR_INTERVAL else ""
        yield (
            f"On {n} queries not used in the choice, ICLInf differs by "
            f"{nats_in(by, selection.loss_difference_interval_nats)}\u00a0nats "
            f"({few}Wilcoxon p = {selection.wilcoxon_p:.2g}), accuracy by {_points(selection)} points."
        )
    if n_too_long := sum(search_round.n_too_long for search_round in selection.rounds):
        yield f"Left out: {counted(n_too_long, 'list')}, with which a query would not fit the model's window."


def round_line(number: int, before: MeasuredList, after: MeasuredList | None, n_lists: int) -> str:
    if after is None:
        return f"step {number}: none of {n_lists} lists lowers ICLInf, {nats_text(before.loss_nats)} nats"
    less = nats_text(before.loss_nats - after.loss_nats)
    nats = f"ICLInf {nats_text(after.loss_nats)} nats, {less} less"
    return f"step {number}: {b.plain(_move(after))}, the best of {n_lists} lists: {nats}"


# ---- tables ---------------------------------------------------------------------------------------------------------
def _lists(selection: Selection) -> Iterator[b.Table]:
    first, steps = selection.rounds[0], selection.steps
    caption = f"One move: the best of each kind, of {first.n_lists} lists, by the queries that choose"
    yield b.table_of((steps[0], *first.best), _COLUMNS, caption, detail=True)
    if len(steps) > 1:
        ended = f"{selection.max_steps} at most" if selection.ended == "max steps" else "until none lowers ICLInf"
        yield replace(_steps(steps, ended), detail=True)


def _steps(path: Sequence[MeasuredList], ended: str) -> b.Table:
    rows = [b.Row((step, *b.cells(_COLUMNS, measured))) for step, measured in enumerate(path)]
    caption = f"Steps taken, {ended}; by the queries that choose"
    return b.Table((b.Column("Step", "count"), *b.heads(_COLUMNS)), rows, caption, first=len(rows))


def _move(measured: MeasuredList) -> b.Phrase:
    if measured.move is None:
        return "as given"
    kind, new = measured.move.kind, b.Untrusted(measured.move.new or "", _ID_CHARACTERS)
    first, *others = (b.Untrusted(id_, _ID_CHARACTERS) for id_ in (*measured.move.exemplars, ""))
    match kind:
        case "reorder":
            return "swap ", first, " and ", others[0]
        case "drop":
            return "drop ", first
        case "add":
            return "add ", new
        case _:
            return "replace ", first, " by ", new


def _reporting(selection: Selection) -> b.Table:
    halves = (selection.before, selection.after)
    rows = [
        ("ICLInf, nats", *(nats_in(half.mean_nats, half.interval_nats) for half in halves),
         nats_in(selection.loss_difference_nats, selection.loss_difference_interval_nats)),
        ("largest loss, nats",
         *(nats_text(max(each.max_nats for each in half.exemplars or ())) for half in halves), ""),
        ("accuracy", *map(_accuracy, halves), _points(selection)),
        ("macro-F1", *(f"{half.macro_f1:.2f}" for half in halves), ""),
    ]  # fmt: skip
    columns = (b.Column("Measured"), *(b.Column(name, "number") for name in ("Before", "After", "Difference")))
    return b.Table(columns, [b.Row(row) for row in rows], f"The other {selection.n_reporting} queries")


def _exemplars(selection: Selection) -> b.Table:
    before, after = (
        {exemplar.id: exemplar for exemplar in half.exemplars or ()} for half in (selection.before, selection.after)
    )
    either = {**before, **after}

    def of_half(half: dict[str, FixedExemplar], name: str) -> Callable[[str], b.Cell]:
        return lambda id_: getattr(half[id_], name) if id_ in half else ""

    return b.table_of(
        (*after, *(id_ for id_ in before if id_ not in after)),
        [
            (b.Column("Was", "count"), of_half(before, "position")),
            (b.Column("Is", "count"), of_half(after, "position")),
            (b.Column("Exemplar"), lambda id_: b.Untrusted(id_, _ID_CHARACTERS)),
            (b.Column("Label"), lambda id_: b.Untrusted(either[id_].label or "", _ID_CHARACTERS)),
            (b.Column("Text"), lambda id_: b.Untrusted(_beginning(either[id_].text))),
            (b.Column("Before", "nats"), of_half(before, "mean_nats")),
            (b.Column("After", "nats"), of_half(after, "mean_nats")),
        ],
        "Exemplars: mean loss over the other queries, nats",
    )


# ---- words ----------------------------------------------------------------------------------------------------------
def _accuracy(half: IclSummary) -> str:
    low, high = half.accuracy_interval or (0.0, 1.0)
    return f"{share_text(half.accuracy or 0.0)} [{100.0 * low:.0f}, {100.0 * high:.0f}]"


def _points(selection: Selection) -> str:
    by, low, high = (
        f"{100.0 * share:+z.1f}".replace("-", "−")
        for share in (selection.accuracy_difference, *selection.accuracy_difference_interval)
    )
    return f"{by} [{low}, {high}]"


def _beginning(text: str) -> str:
    line = visible(one_line(text[: 8 * _TEXT_CHARACTERS]))
    return line if len(line) <= _TEXT_CHARACTERS else f"{line[: _TEXT_CHARACTERS - 1]}…"
