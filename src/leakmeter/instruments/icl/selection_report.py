"""Which exemplars to ship, as blocks: what moves do, and what the other queries say of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from leakmeter.core.plain import visible
from leakmeter.report import blocks as b
from leakmeter.report.scale import nats_text
from leakmeter.report.tables import share_text
from leakmeter.report.words import infinite

Told = Mapping[str, Any]
_ID_CHARACTERS: Final = 14
_TEXT_CHARACTERS: Final = 30


def report(told: Told, *, command: str | None = None) -> b.Report:
    """The verdict, the moves, what the queries say that chose none, and the exemplars.

    Args:
        told: see `instruments.icl.selection.told_plan`, with what was asked for beside it.
        command: the command line it came from.
    """
    first, *others = sentences(told)
    model, n = told["model"], told["n_reporting"]
    facts: list[tuple[b.Phrase, b.Phrase]] = [
        ("Model", b.Untrusted(f"{model['name']} ({model['dtype']}, {model['device']})")),
        ("Task", b.Untrusted(told["task"], 40)),
        ("Split", f"{told['n_choosing']} queries choose, {n} others report"),
        ("Intervals", "95 % over queries"),
        ("Seed", str(told["seed"])),
    ]
    return b.Report(
        title="Exemplars to ship",
        measure="icl",
        blocks=[
            b.Headline(first),
            *(b.Text(sentence) for sentence in others),
            *(b.Warning(("At worst: ", b.Untrusted(warning))) for warning in told["warnings"]),
            *_tables(told),
            b.Facts(facts),
        ],
        command=None if command is None else b.Command(b.Untrusted(command)),
    )


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
    return said


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
    less = nats_text(infinite(before["loss_nats"]) - taken["loss_nats"])
    nats = f"ICLInf {_nats(taken['loss_nats'])} nats, {less} less"
    return f"step {number}: {b.plain(_move(taken, before))}, the best of {n_lists} lists: {nats}"


# ---- tables ---------------------------------------------------------------------------------------------------------
def _tables(told: Told) -> Iterator[b.Table]:
    first, steps = told["rounds"][0], told["steps"]
    rows = [b.Row(_move_cells(steps[0], None)), *(b.Row(_move_cells(one, steps[0])) for one in first["best"])]
    caption = f"One move: the best of each kind, of {first['n_lists']} lists, by the queries that choose"
    columns = (b.Column("Move"), b.Column("ICLInf", "nats"), b.Column("Largest", "nats"), b.Column("Accuracy", "share"))
    yield b.Table(columns, rows, caption, first=len(rows))
    if len(steps) > 1:
        ended = f"{told['max_steps']} at most" if told["ended"] == "max steps" else "until none lowers ICLInf"
        rows = [
            b.Row((one["step"], *_move_cells(one, steps[one["step"] - 1] if one["step"] else None))) for one in steps
        ]
        caption = f"Steps taken, {ended}; by the queries that choose"
        yield b.Table((b.Column("Step", "count"), *columns), rows, caption, first=len(rows))
    yield _reporting(told)
    yield _exemplars(told)


def _move_cells(one: Told, before: Told | None) -> tuple[b.Cell, ...]:
    move = "as given" if before is None else _move(one, before)
    return move, infinite(one["loss_nats"]), infinite(one["largest_nats"]), share_text(one["accuracy"])


def _move(one: Told, before: Told) -> b.Phrase:
    """A move in words, with the ids of what goes and comes."""
    kind, positions, new = (one["move"][name] for name in ("kind", "positions", "new"))
    if kind == "reorder":
        return "swap {} and {}".format(*positions)
    if kind == "add":
        return "add ", _short(new)
    gone = (f"{kind} {positions[0]} (", _short(before["exemplars"][positions[0] - 1]), ")")
    return gone if kind == "drop" else (*gone, " by ", _short(new))


def _reporting(told: Told) -> b.Table:
    """What the queries say that chose none, in words: numbers of several kinds stand below each other."""
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
    columns = (b.Column("Measured"), *(b.Column(name, "number") for name in ("Before", "After", "Difference")))
    return b.Table(columns, [b.Row(row) for row in rows], f"The other {told['n_reporting']} queries")


def _exemplars(told: Told) -> b.Table:
    """Those of the new list in order, then those that go."""
    before, after = ({one["id"]: one for one in told[name]["exemplars"]} for name in ("before", "after"))
    rows = []
    for id_ in (*after, *(id_ for id_ in before if id_ not in after)):
        was, now = before.get(id_), after.get(id_)
        one = after.get(id_) or before[id_]
        rows.append(
            b.Row((
                "" if was is None else was["position"],
                "" if now is None else now["position"],
                _short(id_),
                b.Untrusted(one["label"] or "", _ID_CHARACTERS),
                b.Untrusted(_beginning(one["text"])),
                "" if was is None else infinite(was["mean_nats"]),
                "" if now is None else infinite(now["mean_nats"]),
            ))
        )  # fmt: skip
    columns = (
        b.Column("Was", "count"),
        b.Column("Is", "count"),
        b.Column("Exemplar"),
        b.Column("Label"),
        b.Column("Text"),
        b.Column("Before", "nats"),
        b.Column("After", "nats"),
    )
    return b.Table(columns, rows, "Exemplars: mean loss over the other queries, nats", first=len(rows))


# ---- words ----------------------------------------------------------------------------------------------------------
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


def _nats(nats: float | None) -> str:
    return nats_text(infinite(nats))


def _hundredths(share: float) -> str:
    return f"{100.0 * share:+z.1f}".replace("-", "−")


def _interval(edges: Sequence[float] | None) -> str:
    return "" if edges is None else f" [{nats_text(edges[0])}, {nats_text(edges[1])}]"


def _shares(edges: Sequence[float]) -> str:
    return ", ".join(f"{100.0 * edge:.0f}" for edge in edges)


def _largest(of_half: Told) -> float:
    return max(infinite(exemplar["max_nats"]) for exemplar in of_half["exemplars"])


def _short(id_: str) -> b.Untrusted:
    return b.Untrusted(id_, _ID_CHARACTERS)


def _beginning(text: str) -> str:
    line = visible(" ".join(text[: 8 * _TEXT_CHARACTERS].split()))
    return line if len(line) <= _TEXT_CHARACTERS else f"{line[: _TEXT_CHARACTERS - 1]}…"
