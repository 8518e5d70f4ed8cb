"""Plans of redaction for the terminal: what is cut, the answer before and after, and the way to the limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from leakmeter.core.plain import visible
from leakmeter.report import plans, scale, words
from leakmeter.report.paint import Composed, Paint, heading, legend, shaded
from leakmeter.report.shade import Case, excerpt

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

SHOWN_CHARACTERS = 6000
_WIDE_COLUMNS = 76
_BAR_FROM_COLUMNS = 96


def plan_view(case: Case, *, width: int | None = None) -> RenderableType:
    """The case in the order one reads it: verdict, what is left of the text, the answers, the steps, how measured."""
    return Composed(lambda paint, columns: _parts(case, paint, columns), width)


def _parts(case: Case, paint: Paint, columns: int) -> Iterator[RenderableType]:
    from rich.text import Text

    yield Text(plans.verdict(case), style="bold")
    yield Text(plans.posterior(case))
    for warning in words.warnings(case):
        yield Text(f"! {visible(warning)}", style="bold")
    yield Text()
    yield heading("Context, […] for what is cut")
    yield Text(_shortened(visible(case["marked_context"])))
    if case["query"]:
        yield Text()
        yield heading("Query")
        yield Text(visible(case["query"]))
    tokens, floor = case["response"]["tokens"], case["noise_floor_per_token_nats"]
    yield Text()
    yield heading(f"Response ({words.provenance(case)}), each token by what the whole context did to it")
    yield shaded(tokens, case["whole_per_token"], floor, paint)
    after = plans.after_line(case)
    if case["after"] is not None and after is not None:
        yield Text()
        yield heading("The same response, each token by what is left of the context did to it")
        yield shaded(tokens, case["left_per_token"], floor, paint)
        yield Text()
        yield heading("Answer after")
        yield Text(visible(case["after"]["text"]))
        yield Text(after, style="dim")
    yield Text()
    yield legend(paint, f" below noise {scale.nats_text(case['noise_floor_nats'])} ")
    yield Text()
    yield heading(f"Steps, until at most {case['max_loss_nats']:g} nats are left")
    yield _table(case, paint, columns)
    yield Text(plans.yardstick(case), style="dim")
    yield Text()
    told = plans.settings(case)
    told.pop("Weights (SHA-256)")
    yield Text(" · ".join(f"{name.lower()} {value}" for name, value in told.items()), style="dim")
    yield Text(plans.CAVEAT, style="dim")


def _shortened(text: str) -> str:
    """A long text's beginning and end."""
    if len(text) <= SHOWN_CHARACTERS:
        return text
    half = SHOWN_CHARACTERS // 2
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters more …\n{text[-half:]}"


def _table(case: Case, paint: Paint, columns: int) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    wide, bar_columns = columns >= _WIDE_COLUMNS, min(24, columns - _BAR_FROM_COLUMNS + 8)
    table = Table(
        box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, header_style="dim", expand=True
    )
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("step", no_wrap=True)
    table.add_column("piece", overflow="fold", max_width=14)
    table.add_column("text", overflow="fold", ratio=1)
    table.add_column("left, nats", justify="right", no_wrap=True)
    if columns >= _BAR_FROM_COLUMNS:
        table.add_column("", no_wrap=True, width=bar_columns)
    if wide:
        table.add_column("change", justify="right", no_wrap=True)
        table.add_column("signed", justify="right", no_wrap=True)
    table.add_column("posterior", justify="right", no_wrap=True)
    for row in plans.rows(case):
        said = Text(excerpt(row.text, max(60, columns - 20)) if row.number else "the whole context")
        if row.flag:
            said.append(f"\n{row.flag}", "italic")
        within = row.left_nats <= case["max_loss_nats"]
        cells = [Text(str(row.number)), Text(row.action), Text(excerpt(row.name, 24)), said]
        cells.append(Text(scale.nats_cell(row.left_nats), style="bold" if within else ""))
        if columns >= _BAR_FROM_COLUMNS:
            heat = scale.heat(row.left_nats, case["noise_floor_nats"])
            cells.append(paint.bar(row.left_nats, heat, bar_columns))
        if wide:
            cells.append(Text("" if row.change_nats is None else scale.signed_cell(row.change_nats)))
            cells.append(Text(scale.signed_cell(row.left_signed_nats)))
        cells.append(Text(row.posterior))
        table.add_row(*cells)
    return table


def plan_overview(cases: Sequence[Case]) -> Table:
    """Many cases, one a line: nats before and after, and which pieces are cut."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for head in ("case", "whole, nats", "left", "limit met", "cut", "pieces"):
        table.add_column(head, justify="left" if head in ("case", "limit met", "pieces") else "right")
    for case in cases:
        cut = [excerpt(piece["name"], 24) for piece in case["redacted"]]
        table.add_row(
            Text(visible(case["id"])),
            scale.nats_text(case["whole_nats"]),
            scale.nats_text(case["left_nats"]),
            "yes" if case["reached"] else "no",
            f"{len(cut)} of {case['n_pieces']}",
            Text(excerpt(", ".join(cut), 60)),
        )
    return table
