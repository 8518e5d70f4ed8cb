"""What a sweep says, as blocks: a line a setting, then what to ship."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from leakmeter.report import blocks as b
from leakmeter.studies.tables import HEADINGS, SYMBOLS, share_text

if TYPE_CHECKING:
    from leakmeter.instruments.decoding.frontier import Frontier
    from leakmeter.studies.kind import Row


def report(found: Frontier) -> b.Report:
    """Settings with their leakage and utility, and a sentence for each utility.

    Args:
        found: all numbers of the sweep.
    """
    kind, utilities = found.kind, list(found.choices)
    is_bounded = kind == "epsilon"
    # Everything fits into 80 columns, with one utility.
    columns = [b.Column(SYMBOLS[kind], "number"), b.Column("Nats a response", "number")]
    columns += [b.Column(name, "number") for name in (("Bound", "Spent") if is_bounded else ("A token",))]
    for utility in utilities:
        names = f"{HEADINGS[utility]} × 100", "Less the best", "Knee"
        columns += [b.Column(name, "number") for name in names]
    rows = []
    for row in found.settings:
        cells = [f"{row[kind]:g}", _measured(row, "nats", _nats)]
        most = ("guaranteed_nats_most", "spent_nats_most")
        cells += [_nats(row[name]) for name in most] if is_bounded else [f"{row['nats_per_token']:.3f}"]
        for utility in utilities:
            cells += [_measured(row, name, _hundredths) for name in (utility, f"{utility}_less_best")]
            share = row[f"{utility}_knee_share"]
            cells.append("" if share is None else share_text(share))
        is_knee = any(found.choices[utility].knee == row[kind] for utility in utilities)
        rows.append(b.Row(cells, strong=is_knee))
    blocks: list[b.Block] = [b.Text(_settings(found)), b.Table(columns, rows, first=len(rows))]
    blocks += [b.Headline(choice.sentence) for choice in found.choices.values()]
    if is_bounded:
        blocks.append(b.Warning("Bound and spent: the most of any response, nats. All of this is private."))
    if found.n_truncated:
        blocks.append(
            b.Warning(f"Of {found.n_truncated:,} contexts the end did not fit: it was left out, and unmeasured.")
        )
    return b.Report(f"Leakage and utility over {SYMBOLS[kind]}", "frontier", blocks, scripted=False)


def _settings(found: Frontier) -> b.Phrase:
    decoding, model = found.decoding, found.model
    n = decoding.samples
    drawn = f", {n} responses each" if n > 1 else ""
    return (
        b.Untrusted(str(model["name"])),
        f" ({model['dtype']}, {model['device']}), {found.n_cases:,} cases{drawn}, T = {decoding.temperature:g}, "
        f"at most {decoding.max_new_tokens} new tokens; 95 % intervals over cases",
    )


def _measured(row: Row, name: str, form: Callable[[float], str]) -> str:
    if row.get(name) is None:
        return "–"
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return form(row[name]) if low is None else f"{form(row[name])} [{form(low)}, {form(high)}]"


def _nats(value: float) -> str:
    return f"{value:z.{2 if value < 10 else 1 if value < 100 else 0}f}"


def _hundredths(value: float) -> str:
    return f"{100.0 * value:z.1f}"
