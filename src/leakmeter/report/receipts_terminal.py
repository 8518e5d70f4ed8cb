"""Receipts of decoding for the terminal: the response shaded by what each token told, and what was promised."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from leakmeter.core.plain import visible
from leakmeter.report import receipts
from leakmeter.report.paint import Composed, Paint, heading, legend, shaded
from leakmeter.report.scale import nats_cell
from leakmeter.report.shade import Case

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table


def private_view(case: Case, *, width: int | None = None) -> RenderableType:
    """Everything: it is for whoever may read the context."""
    return Composed(lambda paint, columns: _private(case, paint), width)


def public_view(case: Case, *, width: int | None = None) -> RenderableType:
    """A public receipt. No shades: they would tell of the context."""
    return Composed(lambda paint, columns: _public(case), width)


def _private(case: Case, paint: Paint) -> Iterator[RenderableType]:
    from rich.text import Text

    responses = case["samples"] or [case]
    for number, one in enumerate(responses, 1):
        which = f" {number} of {len(responses)}" if len(responses) > 1 else ""
        given = "" if one["response"]["sampled"] else ", given"
        yield heading(f"Response{which}{given}, shaded by what each token told, nats")
        yield shaded(one["response"]["tokens"], receipts.losses(one), 0.0, paint)
        yield Text(receipts.headline(one), style="bold")
        yield Text()
    yield legend(paint)
    yield Text()
    if case["epsilon"] is None:
        yield Text(receipts.UNBOUNDED, style="dim")
    else:
        yield from _promised(case)
        yield Text(receipts.PRIVATE, style="bold")
    for warning in [*case["warnings"], *_truncated(case)]:
        yield Text(f"! {visible(warning)}", style="bold")
    yield _facts(case)


def _public(case: Case) -> Iterator[RenderableType]:
    from rich.text import Text

    responses = case["samples"] or [case]
    for number, one in enumerate(responses, 1):
        yield heading(f"Response {number} of {len(responses)}" if len(responses) > 1 else "Response")
        yield Text(visible("".join(one["tokens"])))
        yield Text(f"Promised: {receipts.promise(one)}.", style="bold")
        yield Text()
    yield from _promised(case)
    for number, one in enumerate(responses, 1):
        yield Text()
        which = f" of response {number}" if len(responses) > 1 else ""
        yield heading(f"Each token{which}: log-probability without any context, nats")
        yield Text("  ".join(f"{_quoted(t)} {nats_cell(x)}" for t, x in zip(one["tokens"], _bare(one), strict=True)))
    yield _facts(case)


def _promised(case: Case) -> Iterator[RenderableType]:
    from rich.text import Text

    yield _table(case)
    yield Text(receipts.COUNTED, style="dim")
    if case["epsilon"]["note"]:
        yield Text(case["epsilon"]["note"], style="dim")
    yield Text()
    for sentence in (*receipts.meaning(case), receipts.CONDITIONS):
        yield Text(sentence)


def _table(case: Case) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    what, *heads = receipts.composition_heads(case)
    table.add_column(what)
    for head in heads:
        table.add_column(head, justify="right")
    for row in receipts.compositions(case):
        table.add_row(*row)
    return table


def _facts(case: Case) -> RenderableType:
    from rich.text import Text

    told = receipts.settings(case)
    told.pop("Weights (SHA-256)")
    return Text(visible(" · ".join(f"{name.lower()} {value}" for name, value in told.items())), style="dim")


def _truncated(case: Case) -> list[str]:
    cut = case["truncated_tokens"]
    return [f"{cut} tokens of the context did not fit the model's window and were left out."] if cut else []


def _quoted(token: str) -> str:
    return f"“{visible(token).replace(chr(10), '↵')}”"


def _bare(case: Case) -> list[float]:
    return [receipts.infinite(x) for x in case["bare_log_prob_nats"]]
