"""Which exemplars to ship, for a terminal and as Markdown: what moves do, and what the other queries say of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from leakmeter.core.plain import visible
from leakmeter.report.scale import nats_cell, nats_text
from leakmeter.report.shade import excerpt
from leakmeter.report.tables import share_text, to_markdown

if TYPE_CHECKING:
    from rich.console import RenderableType

Told = Mapping[str, Any]
Row = dict[str, str]
"""Headings to words; all rows of a table have the same."""
_ID_CHARACTERS: Final = 14
_TEXT_CHARACTERS: Final = 30
_LEFT: Final = ("move", "exemplar", "label", "text", "")
"""Headings of columns that are no numbers."""


def plan_view(told: Told) -> RenderableType:
    """The verdict, the moves, both halves, and the exemplars.

    Args:
        told: see `instruments.icl.selection.told_plan`, with what was asked for beside it.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    parts: list[RenderableType] = [Text(_title(told), style="bold"), *map(Text, sentences(told))]
    for name, rows in tables(told).items():
        table = Table(box=None, pad_edge=False, collapse_padding=True, header_style="bold")
        for heading in rows[0]:
            table.add_column(heading, justify="left" if heading in _LEFT else "right", no_wrap=heading != "text")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row.values()))
        parts += [Text(""), Text(name, style="bold underline"), table]
    return Group(*parts)


def plan_markdown(told: Told, about: Sequence[str]) -> str:
    """The same as Markdown.

    Args:
        told: as for `plan_view`.
        about: where the numbers come from, one line each.
    """
    parts = [to_markdown(name, (), rows, level=2) for name, rows in tables(told).items()]
    lines = [f"- {' '.join(visible(line).split())}" for line in (_title(told), *sentences(told), *about)]
    return "# Exemplars to ship\n\n" + "\n".join(lines) + "\n\n" + "\n".join(parts)


def sentences(told: Told) -> list[str]:
    """What came of it, and what narrows it."""
    n = told["n_reporting"]
    if told["verdict"] == "unchanged":
        said = [
            f"The exemplars stay as they are: on the {told['n_choosing']} queries that choose, no move lowers ICLInf "
            "by more than the noise floor."
        ]
    elif told["verdict"] == "too few":
        said = [f"Nothing can be concluded from {n} of {n + told['n_choosing']} queries; give 12 or more."]
    else:
        is_lower = told["verdict"] == "lower"
        lead = "The new exemplars leak less" if is_lower else "It is not shown that the new exemplars leak less"
        said = [f"{lead}: {_loss(told)}.", f"{_accuracy(told)}."]
        if not is_lower:
            said.append("Keep the exemplars that you have, or give more queries.")
    n_too_long = sum(one["n_too_long"] for one in told["rounds"])
    if n_too_long:
        said.append(f"{n_too_long} lists were passed over: behind them a query would not fit the model's window.")
    return said + [f"! At worst: {visible(warning)}" for warning in told["warnings"]]


def tables(told: Told) -> dict[str, list[Row]]:
    """Tables by what they are called."""
    first, steps = told["rounds"][0], told["steps"]
    moves = [_move_row(steps[0], None, {}), *(_move_row(one, steps[0], {}) for one in first["best"])]
    found = {f"One move: the best of each kind, of {first['n_lists']} lists, by the queries that choose": moves}
    if len(steps) > 1:
        rows = [
            _move_row(one, steps[one["step"] - 1] if one["step"] else None, {"step": str(one["step"])}) for one in steps
        ]
        found[f"Steps taken, {_ended(told)}; by the queries that choose"] = rows
    found[f"The other {told['n_reporting']} queries"] = _reporting(told)
    found["Exemplars: mean loss over the other queries, nats"] = _exemplars(told)
    return found


def round_line(number: int, before: Told, taken: Told | None, n_lists: int) -> str:
    """A round in one line, for who waits.

    Args:
        number: of the round, from 1.
        before: the list before it; one of `steps`.
        taken: the list that was taken, if any.
        n_lists: that were measured.
    """
    if taken is None:
        return f"step {number}: none of {n_lists} lists lowers ICLInf, {_nats(before['loss_nats'])} nats"
    less = nats_text(_finite_or_not(before["loss_nats"]) - taken["loss_nats"])
    nats = f"ICLInf {_nats(taken['loss_nats'])} nats, {less} less"
    return f"step {number}: {_words(taken, before)}, the best of {n_lists} lists: {nats}"


def _title(told: Told) -> str:
    model = told["model"]
    queries = f"{told['n_choosing']} queries choose, {told['n_reporting']} others report"
    return (
        f"{model['name']} ({model['dtype']}, {model['device']}), task {excerpt(told['task'], 40)}: {queries}; "
        "95 % intervals over queries"
    )


def _ended(told: Told) -> str:
    if told["ended"] == "max steps":
        return f"{told['max_steps']} at most"
    return "until none lowers ICLInf"


def _loss(told: Told) -> str:
    before, after = (_nats(told[name]["mean_nats"]) for name in ("before", "after"))
    by = told["loss_difference_nats"]
    said = (
        f"on {told['n_reporting']} queries that had no part in the choice, ICLInf is {after} nats where it was {before}"
    )
    if by is not None:
        said += f", a difference of {nats_text(by)}{_interval(told['loss_difference_interval_nats'])}"
    return f"{said} (Wilcoxon p = {told['wilcoxon_p']:.2g})"


def _accuracy(told: Told) -> str:
    before, after = (share_text(told[name]["accuracy"]) for name in ("before", "after"))
    return f"Accuracy is {after} where it was {before}, a difference of {_points(told)} points"


def _points(told: Told) -> str:
    low, high = (f"{_hundredths(edge)}" for edge in told["accuracy_difference_interval"])
    return f"{_hundredths(told['accuracy_difference'])} [{low}, {high}]"


def _finite_or_not(nats: float | None) -> float:
    """A loss, of which null stands for an infinite one."""
    return math.inf if nats is None else nats


def _nats(nats: float | None) -> str:
    return nats_text(_finite_or_not(nats))


def _hundredths(share: float) -> str:
    return f"{100.0 * share:+z.1f}".replace("-", "−")


def _interval(edges: Sequence[float] | None) -> str:
    return "" if edges is None else f" [{nats_text(edges[0])}, {nats_text(edges[1])}]"


def _move_row(one: Told, before: Told | None, number: Row) -> Row:
    return {
        **number,
        "move": "as given" if before is None else _words(one, before),
        "ICLInf": nats_cell(_finite_or_not(one["loss_nats"])),
        "largest": nats_cell(_finite_or_not(one["largest_nats"])),
        "accuracy": share_text(one["accuracy"]),
    }


def _words(one: Told, before: Told) -> str:
    """A move in words, with the ids of what goes and comes."""
    kind, positions, new = (one["move"][name] for name in ("kind", "positions", "new"))
    if kind == "reorder":
        return "swap {} and {}".format(*positions)
    if kind == "add":
        return f"add {_short(new)}"
    gone = f"{positions[0]} ({_short(before['exemplars'][positions[0] - 1])})"
    return f"drop {gone}" if kind == "drop" else f"replace {gone} by {_short(new)}"


def _beginning(text: str) -> str:
    line = visible(" ".join(text[: 8 * _TEXT_CHARACTERS].split()))
    return line if len(line) <= _TEXT_CHARACTERS else f"{line[: _TEXT_CHARACTERS - 1]}…"


def _short(id_: str) -> str:
    return excerpt(id_, _ID_CHARACTERS)


def _reporting(told: Told) -> list[Row]:
    before, after = told["before"], told["after"]
    losses = [f"{_nats(one['mean_nats'])}{_interval(one['interval_nats'])}" for one in (before, after)]
    by = told["loss_difference_nats"]
    shares = [f"{share_text(one['accuracy'])} [{_shares(one['accuracy_interval'])}]" for one in (before, after)]
    rows = [
        ("ICLInf, nats", *losses, f"{nats_text(by)}{_interval(told['loss_difference_interval_nats'])}"),
        ("largest loss, nats", *(nats_text(_largest(one)) for one in (before, after)), ""),
        ("accuracy", *shares, _points(told)),
        ("macro-F1", *(f"{one['macro_f1']:.2f}" for one in (before, after)), ""),
    ]
    names = ("", "before", "after", "difference")
    return [dict(zip(names, row, strict=True)) for row in rows]


def _shares(edges: Sequence[float]) -> str:
    return ", ".join(f"{100.0 * edge:.0f}" for edge in edges)


def _largest(of_half: Told) -> float:
    losses = [exemplar["max_nats"] for exemplar in of_half["exemplars"]]
    return max(map(_finite_or_not, losses))


def _exemplars(told: Told) -> list[Row]:
    """Those of the new list in order, then those that go."""
    before, after = ({one["id"]: one for one in told[name]["exemplars"]} for name in ("before", "after"))
    rows = []
    for id_ in (*after, *(id_ for id_ in before if id_ not in after)):
        was, now = before.get(id_), after.get(id_)
        one = after.get(id_) or before[id_]
        rows.append(
            {
                "was": "" if was is None else str(was["position"]),
                "is": "" if now is None else str(now["position"]),
                "exemplar": _short(id_),
                "label": excerpt(one["label"] or "", _ID_CHARACTERS),
                "text": _beginning(one["text"]),
                "before": "" if was is None else nats_cell(_finite_or_not(was["mean_nats"])),
                "after": "" if now is None else nats_cell(_finite_or_not(now["mean_nats"])),
            }
        )
    return rows
