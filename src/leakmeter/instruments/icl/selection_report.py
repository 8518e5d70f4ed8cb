"""Which exemplars to ship, as blocks: what moves do, and what the other queries say of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from leakmeter.core.plain import visible
from leakmeter.instruments.icl.report import of_selection
from leakmeter.instruments.icl.search import MeasuredList
from leakmeter.instruments.icl.selection import Selection
from leakmeter.instruments.icl.summary import FixedExemplar, Summary
from leakmeter.report import blocks as b
from leakmeter.report.scale import nats_in, nats_text
from leakmeter.studies.tables import share_text

_ID_CHARACTERS: Final = 14
_TEXT_CHARACTERS: Final = 30


def report(found: Selection, *, command: str | None = None) -> b.Report:
    """The verdict, the moves, what the queries say that chose none, and the exemplars."""
    first, *others = sentences(found)
    model = found.model
    facts: list[tuple[b.Phrase, b.Phrase]] = [
        ("Model", b.Untrusted(f"{model.name} ({model.dtype}, {model.device})")),
        ("Task", b.Untrusted(found.task, 40)),
        ("Split", f"{found.n_choosing} queries choose, {found.n_reporting} others report"),
        ("Intervals", "95 % over queries"),
        ("Seed", str(found.seed)),
    ]
    return b.Report(
        title="Exemplars to ship",
        measure="icl",
        blocks=[
            b.Headline(first),
            *(b.Text(sentence) for sentence in others),
            of_selection(found),
            *(b.Warning(("At worst: ", b.Untrusted(warning))) for warning in found.warnings),
            _reporting(found),
            _exemplars(found),
            *_lists(found),
            b.Facts(facts),
        ],
        command=b.Command.of(command),
    )


def sentences(found: Selection) -> list[str]:
    n = found.n_reporting
    before, after = found.before, found.after
    if found.verdict == "unchanged":
        lines = [
            f"The exemplars stay the same: on the {found.n_choosing} queries that choose, no move lowers ICLInf "
            "by more than the noise floor."
        ]
    elif found.verdict == "too few":
        lines = [f"No conclusion from {n} of {n + found.n_choosing} queries; give 12 or more."]
    else:
        is_lower = found.verdict == "lower"
        lead = "The new exemplars leak less" if is_lower else "The new exemplars are not shown to leak less"
        lead += f": on {n} queries not used in the choice, ICLInf is {nats_text(after.mean_nats)} nats; "
        lead += f"it was {nats_text(before.mean_nats)}"
        if found.loss_difference_nats is not None:
            lead += f", a difference of {_loss_difference(found)}"
        lines = [
            f"{lead} (Wilcoxon p = {found.wilcoxon_p:.2g}).",
            f"Accuracy is {_share(after.accuracy)} where it was {_share(before.accuracy)}, a difference of "
            f"{_points(found)} points.",
        ]
    n_too_long = sum(search_round.n_too_long for search_round in found.rounds)
    if n_too_long:
        lines.append(f"{n_too_long} lists were skipped: with them, a query would not fit the model's window.")
    return lines


def round_line(number: int, before: MeasuredList, taken: MeasuredList | None, n_lists: int) -> str:
    """A round, numbered from 1, in one line: the list before it, and the best of `n_lists` if it is taken."""
    if taken is None:
        return f"step {number}: none of {n_lists} lists lowers ICLInf, {nats_text(before.loss_nats)} nats"
    less = nats_text(before.loss_nats - taken.loss_nats)
    nats = f"ICLInf {nats_text(taken.loss_nats)} nats, {less} less"
    return f"step {number}: {b.plain(_move(taken))}, the best of {n_lists} lists: {nats}"


# ---- tables ---------------------------------------------------------------------------------------------------------
def _lists(found: Selection) -> Iterator[b.Table]:
    first, steps = found.rounds[0], found.steps
    rows = [b.Row(_cells(measured_list)) for measured_list in (steps[0], *first.best)]
    caption = f"One move: the best of each kind, of {first.n_lists} lists, by the queries that choose"
    columns = (b.Column("Move"), b.Column("ICLInf", "nats"), b.Column("Largest", "nats"), b.Column("Accuracy", "share"))
    yield b.Table(columns, rows, caption, first=len(rows), detail=True)
    if len(steps) > 1:
        ended = f"{found.max_steps} at most" if found.ended == "max steps" else "until none lowers ICLInf"
        rows = [b.Row((measured_list.step, *_cells(measured_list))) for measured_list in steps]
        caption = f"Steps taken, {ended}; by the queries that choose"
        yield b.Table((b.Column("Step", "count"), *columns), rows, caption, first=len(rows), detail=True)


def _cells(one: MeasuredList) -> tuple[b.Cell, ...]:
    return _move(one), one.loss_nats, one.largest_nats, share_text(one.accuracy)


def _move(one: MeasuredList) -> b.Phrase:
    if one.move is None:
        return "as given"
    kind, new = one.move.kind, b.Untrusted(one.move.new or "", _ID_CHARACTERS)
    first, *others = (b.Untrusted(id_, _ID_CHARACTERS) for id_ in (*one.move.exemplars, ""))
    match kind:
        case "reorder":
            return "swap ", first, " and ", others[0]
        case "drop":
            return "drop ", first
        case "add":
            return "add ", new
        case _:
            return "replace ", first, " by ", new


def _reporting(found: Selection) -> b.Table:
    """What the queries say that chose none, in words: numbers of several kinds stand below each other."""
    halves = (found.before, found.after)
    rows = [
        ("ICLInf, nats", *(nats_in(half.mean_nats, half.interval_nats) for half in halves),
         _loss_difference(found)),
        ("largest loss, nats",
         *(nats_text(max(each.max_nats for each in half.exemplars or ())) for half in halves), ""),
        ("accuracy", *map(_accuracy, halves), _points(found)),
        ("macro-F1", *(f"{half.macro_f1:.2f}" for half in halves), ""),
    ]  # fmt: skip
    columns = (b.Column("Measured"), *(b.Column(name, "number") for name in ("Before", "After", "Difference")))
    return b.Table(columns, [b.Row(row) for row in rows], f"The other {found.n_reporting} queries")


def _exemplars(found: Selection) -> b.Table:
    """Those of the new list in order, then those that go."""
    before, after = (
        {exemplar.id: exemplar for exemplar in half.exemplars or ()} for half in (found.before, found.after)
    )

    def of_half(half: dict[str, FixedExemplar], name: str) -> Callable[[str], b.Cell]:
        return lambda id_: getattr(half[id_], name) if id_ in half else ""

    return b.table_of(
        (*after, *(id_ for id_ in before if id_ not in after)),
        [
            (b.Column("Was", "count"), of_half(before, "position")),
            (b.Column("Is", "count"), of_half(after, "position")),
            (b.Column("Exemplar"), lambda id_: b.Untrusted(id_, _ID_CHARACTERS)),
            (b.Column("Label"), lambda id_: b.Untrusted({**before, **after}[id_].label or "", _ID_CHARACTERS)),
            (b.Column("Text"), lambda id_: b.Untrusted(_beginning({**before, **after}[id_].text))),
            (b.Column("Before", "nats"), of_half(before, "mean_nats")),
            (b.Column("After", "nats"), of_half(after, "mean_nats")),
        ],
        "Exemplars: mean loss over the other queries, nats",
    )


# ---- words ----------------------------------------------------------------------------------------------------------
def _loss_difference(found: Selection) -> str:
    return nats_in(found.loss_difference_nats, found.loss_difference_interval_nats)


def _accuracy(of: Summary) -> str:
    low, high = of.accuracy_interval or (0.0, 1.0)
    return f"{_share(of.accuracy)} [{100.0 * low:.0f}, {100.0 * high:.0f}]"


def _share(share: float | None) -> str:
    return share_text(share or 0.0)


def _points(found: Selection) -> str:
    by, low, high = (
        f"{100.0 * share:+z.1f}".replace("-", "−")
        for share in (found.accuracy_difference, *found.accuracy_difference_interval)
    )
    return f"{by} [{low}, {high}]"


def _beginning(text: str) -> str:
    line = visible(" ".join(text[: 8 * _TEXT_CHARACTERS].split()))
    return line if len(line) <= _TEXT_CHARACTERS else f"{line[: _TEXT_CHARACTERS - 1]}…"
