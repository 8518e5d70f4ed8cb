"""Studies of private generation as figures: Rényi against Rényi, and the paper's convention with its zero-leak line."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from leakmeter.report import blocks as b
from leakmeter.studies.figure import groups_of, heading

Row = Mapping[str, Any]
_NAMES: Final = {"target_epsilon": "target ε", "delta": "δ"}
_GUARANTEED: Final = ("guaranteed", {"colour": 6})
_MEASURED: Final = {"colour": 1}
_RENYI: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "promised_rdp_nats": _GUARANTEED,
    "sum_of_maxima_nats": ("measured, sum of maxima", {"colour": 3}),
    "measured_rdp_nats": ("measured, worst exemplar", _MEASURED),
}
_PAPER: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "promised_epsilon": _GUARANTEED,
    "paper_epsilon": ("measured, in the paper’s convention", _MEASURED),
    "zero_leak_epsilon": ("the same for a mechanism that leaks nothing", {"faded": True}),
    "printed_epsilon": ("as the paper printed it", {"draws": "scatter", "colour": 0}),
}


def figure_of(rows: Sequence[Row], *, x: str, lines: Sequence[str], title: str, footer: str) -> b.Chart:
    """Both panels over `x`, axes logarithmic; rows are those of `instruments.generation.table`."""
    is_text = not all(isinstance(row[x], int | float) for row in rows)
    names = list(dict.fromkeys(str(row[x]) for row in rows)) if is_text else []
    label = _NAMES.get(x, heading(x))
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
    rows: Sequence[Row],
    x: str,
    lines: Sequence[str],
    columns: Mapping[str, tuple[str, dict[str, Any]]],
    names: Sequence[str],
) -> Iterator[b.Series]:
    """Lines through what a logarithmic axis can show."""
    for group in groups_of(rows, lines).values():
        of_line = sorted(group, key=lambda row: row[x])
        for column, (name, look) in columns.items():
            shown = [row for row in of_line if row[column] is not None and 0 < row[column] < math.inf]
            places = [names.index(str(row[x])) if names else row[x] for row in shown]
            if shown:
                yield b.Series(
                    **{"draws": "line", "y": [row[column] for row in shown], "x": places, "name": name} | look
                )
