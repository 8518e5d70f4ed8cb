"""A selection of exemplars as blocks and files: what moves do, and what the reporting queries say of them."""

from __future__ import annotations

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
from leakmeter.report import markdown
from leakmeter.report.scale import nats_in, nats_text
from leakmeter.stats.stats import FEWEST_FOR_INTERVAL

_ID_CHARACTERS: Final = 14
_TEXT_CHARACTERS: Final = 30
_COLUMNS: Final[b.Columns[MeasuredList]] = [
    (b.Column("Move"), lambda measured: _move(measured)),
    (b.Column("ICLInf", "nats"), lambda measured: measured.loss_nats),
    (b.Column("Largest", "nats"), lambda measured: measured.largest_nats),
    (b.Column("Accuracy", "share"), lambda measured: share_text(measured.accuracy)),
]

SELECTION: Final[Mapping[str, tuple[str, str]]] = {
    "lower": (
        "The interval of the difference is below 0, and accuracy does not fall by more than its interval",
        "Ship the new list: exemplars.jsonl in the selection’s directory.",
    ),
    "costs": (
        "The interval is below 0, and accuracy falls by more than its interval",
        "Weigh less leakage against less accuracy. Fewer steps (--max-steps) change less.",
    ),
    "not lower": (
        "The interval reaches 0",
        "Keep your exemplars: there is no evidence that the new ones leak less. More queries narrow the interval.",
    ),
    "too few": ("Fewer than 6 reporting queries", "Give 12 queries or more; half of them report."),
    "unchanged": (
        "No move lowers ICLInf on the queries that choose",
        "Keep your exemplars, or give further ones to choose from with --pool.",
    ),
}


def report(selection: Selection, *, command: str | None = None) -> b.Report:
    first, *others = sentences(selection)
    model, verdict = selection.model, selection.verdict
    if verdict == "lower" and selection.accuracy_difference_interval[1] < 0.0:
        verdict = "costs"
    facts: list[tuple[b.Phrase, b.Phrase]] = [
        ("Model", b.Untrusted(f"{model.name} ({model.dtype}, {model.device})")),
        ("Task", b.Untrusted(selection.task, 40)),
        ("Split", f"{selection.n_choosing} queries choose, {selection.n_reporting} others report"),
        ("Intervals", "95 % over queries"),
        ("Seed", str(selection.seed)),
    ]
    return b.Report(
        title="Exemplars to ship",
        measure="icl",
        blocks=[
            b.Headline(first),
            *(b.Text(sentence) for sentence in others),
            b.Advice.from_table(SELECTION.values(), [SELECTION[verdict]]),
            *(b.Warning(("At worst: ", b.Untrusted(warning))) for warning in selection.warnings),
            _reporting(selection),
            _exemplars(selection),
            *_lists(selection),
            b.Facts(facts),
        ],
        command=b.CommandLine.from_line(command),
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


def sentences(selection: Selection) -> list[str]:
    n = selection.n_reporting
    before, after = selection.before, selection.after
    if selection.verdict == "unchanged":
        lines = [
            f"The exemplars stay the same: on the {selection.n_choosing} queries that choose, no move lowers ICLInf "
            "by more than the noise floor."
        ]
    elif selection.verdict == "too few":
        lines = [f"No conclusion from {n} of {n + selection.n_choosing} queries; give 12 or more."]
    else:
        is_lower = selection.verdict == "lower"
        few = "too few for an interval, " if n < FEWEST_FOR_INTERVAL else ""
        lead = "The new exemplars leak less" if is_lower else "The new exemplars are not shown to leak less"
        lead += f": on {n} queries not used in the choice, ICLInf is {nats_text(after.mean_nats)} nats; "
        lead += f"it was {nats_text(before.mean_nats)}"
        if selection.loss_difference_nats is not None:
            difference = nats_in(selection.loss_difference_nats, selection.loss_difference_interval_nats)
            lead += f", a difference of {difference}"
        lines = [
            f"{lead} ({few}Wilcoxon p = {selection.wilcoxon_p:.2g}).",
            f"Accuracy is {share_text(after.accuracy or 0.0)} where it was {share_text(before.accuracy or 0.0)}, a "
            f"difference of {_points(selection)} points.",
        ]
    if n_too_long := sum(search_round.n_too_long for search_round in selection.rounds):
        lines.append(f"{n_too_long} lists were skipped: with them, a query would not fit the model's window.")
    return lines


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
