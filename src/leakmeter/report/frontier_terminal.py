"""The frontier of a sweep in a terminal: a line a setting, then what to ship."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from leakmeter.report.tables import HEADINGS, share_text

if TYPE_CHECKING:
    from rich.console import RenderableType


def frontier_view(told: Mapping[str, Any]) -> RenderableType:
    """Settings with their leakage and utility, and a sentence for each utility.

    Args:
        told: see `studies.frontier.Frontier`.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    kind, utilities = told["kind"], list(told["choices"])
    table = Table(box=None, pad_edge=False, header_style="bold")
    headings = [HEADINGS[kind], "nats a response", "a token"]
    headings += ["promised, most", "spent, most"] if kind == "epsilon" else []
    for utility in utilities:
        headings += [f"{HEADINGS[utility]} × 100", "less the best", "knee in"]
    for heading in headings:
        table.add_column(heading, justify="right")
    for row in told["settings"]:
        cells = [f"{row[kind]:g}", _measured(row, "nats"), f"{row['nats_per_token']:.3f}"]
        if kind == "epsilon":
            cells += [f"{row['promised_nats_most']:.4g}", f"{row['spent_nats_most']:.4g}"]
        is_knee = False
        for utility in utilities:
            cells += [_measured(row, utility, 100.0), _measured(row, f"{utility}_less_best", 100.0)]
            share = row[f"{utility}_knee_share"]
            cells.append("" if share is None else share_text(share))
            is_knee = is_knee or told["choices"][utility]["knee"] == row[kind]
        table.add_row(*cells, style="bold" if is_knee else "")
    said = [Text(choice["sentence"]) for choice in told["choices"].values()]
    if told["n_truncated"]:
        said.append(Text(f"Of {told['n_truncated']:,} contexts the end did not fit: it was left out, and unmeasured."))
    return Group(Text(_title(told), style="bold"), table, Text(""), *said)


def _title(told: Mapping[str, Any]) -> str:
    decoding, model = told["decoding"], told["model"]
    n = decoding["samples"]
    drawn = f", {n} responses each" if n > 1 else ""
    return (
        f"{model['name']} ({model['dtype']}, {model['device']}), {told['n_cases']:,} cases{drawn}, "
        f"T = {decoding['temperature']:g}, at most {decoding['max_new_tokens']} new tokens; [95 % intervals over cases]"
    )


def _measured(row: Mapping[str, Any], name: str, scale: float = 1.0) -> str:
    if row.get(name) is None:
        return "–"
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    shown = f"{scale * row[name]:z.2f}"
    return shown if low is None else f"{shown} [{scale * low:z.2f}, {scale * high:z.2f}]"
