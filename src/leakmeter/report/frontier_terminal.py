"""The frontier of a sweep in a terminal: a line a setting, then what to ship."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from leakmeter.report.tables import HEADINGS, SYMBOLS, share_text

if TYPE_CHECKING:
    from rich.console import RenderableType


def frontier_view(told: Mapping[str, Any]) -> RenderableType:
    """Settings with their leakage and utility, and a sentence for each utility.

    Args:
        told: see `instruments.decoding.frontier.Frontier`.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    kind, utilities = told["kind"], list(told["choices"])
    # Everything fits into 80 columns, with one utility.
    table = Table(box=None, pad_edge=False, collapse_padding=True, header_style="bold")
    headings = [SYMBOLS[kind], "nats a response"]
    headings += ["promised", "spent"] if kind == "epsilon" else ["a token"]
    for utility in utilities:
        headings += [f"{HEADINGS[utility]} × 100", "less the best", "knee in"]
    for heading in headings:
        table.add_column(heading, justify="right")
    for row in told["settings"]:
        cells = [f"{row[kind]:g}", _measured(row, "nats", _nats)]
        most = ("promised_nats_most", "spent_nats_most")
        cells += [_nats(row[name]) for name in most] if kind == "epsilon" else [f"{row['nats_per_token']:.3f}"]
        is_knee = False
        for utility in utilities:
            cells += [_measured(row, name, _hundredths) for name in (utility, f"{utility}_less_best")]
            share = row[f"{utility}_knee_share"]
            cells.append("" if share is None else share_text(share))
            is_knee = is_knee or told["choices"][utility]["knee"] == row[kind]
        table.add_row(*cells, style="bold" if is_knee else "")
    said = [Text(choice["sentence"]) for choice in told["choices"].values()]
    if kind == "epsilon":
        said.append(Text("Promised and spent: the most of any response, nats. All of this is private."))
    if told["n_truncated"]:
        said.append(Text(f"Of {told['n_truncated']:,} contexts the end did not fit: it was left out, and unmeasured."))
    return Group(Text(_title(told), style="bold"), table, Text(""), *said)


def _title(told: Mapping[str, Any]) -> str:
    decoding, model = told["decoding"], told["model"]
    n = decoding["samples"]
    drawn = f", {n} responses each" if n > 1 else ""
    return (
        f"{model['name']} ({model['dtype']}, {model['device']}), {told['n_cases']:,} cases{drawn}, "
        f"T = {decoding['temperature']:g}, at most {decoding['max_new_tokens']} new tokens; 95 % intervals over cases"
    )


def _measured(row: Mapping[str, Any], name: str, form: Callable[[float], str]) -> str:
    if row.get(name) is None:
        return "–"
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return form(row[name]) if low is None else f"{form(row[name])} [{form(low)}, {form(high)}]"


def _nats(value: float) -> str:
    return f"{value:z.{2 if value < 10 else 1 if value < 100 else 0}f}"


def _hundredths(value: float) -> str:
    return f"{100.0 * value:z.1f}"
