"""An audited batch for a terminal, and the same as a page."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from leakmeter.report.paint import Composed, heading
from leakmeter.report.scale import nats_text
from leakmeter.report.shade import Case, excerpt, visible

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_SHOWN: Final = 5
"""Exemplars, failures and sequences that are shown of many."""
_PRIVATE: Final = "Private: all of this but the texts and the promise is a function of the exemplars."
_PAGE: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>leakmeter: promised against measured</title>
<body style="background:{background};color:{foreground};margin:2rem">
<pre style="white-space:pre-wrap"><code>{code}</code></pre>
</html>
"""
_COLUMNS: Final = 100


def view(case: Case) -> RenderableType:
    """Verdict, promise, who paid most, and the texts."""
    return Composed(lambda paint, columns: _parts(case))


def overview(cases: Sequence[Case]) -> Table:
    """A line for each batch."""
    from rich.text import Text

    table = _table("batch", "promised ε", "promised, nats", "measured", "share", "verdict")
    for case in cases:
        told, at = case["promise"]["guarantee"], _at(case)
        table.add_row(
            Text(visible(case["id"])),
            "–" if told is None else nats_text(told["epsilon"]),
            nats_text(at["promised_nats"]),
            nats_text(_infinite(at["measured_nats"])),
            _share(at["ratio"]),
            "kept" if case["verdict"]["holds"] else "broken",
        )
    return table


def page(cases: Sequence[Case], *, command: str | None, run: Mapping[str, str] | None) -> str:
    """The views of all batches as one file, no network; the text is escaped where it enters."""
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, file=io.StringIO(), width=_COLUMNS, color_system="truecolor", force_terminal=True)
    if len(cases) > 1:
        console.print(overview(cases))
    for case in cases:
        console.print(heading(f"Batch {visible(case['id'])}"))
        console.print(view(case))
    for line in (*(run or {}).values(), *([command] if command else [])):
        console.print(Text(visible(line), style="dim"))
    return console.export_html(code_format=_PAGE, inline_styles=True)


def _parts(case: Case) -> Iterator[RenderableType]:
    from rich.text import Text

    yield from _verdict(case)
    yield Text()
    yield heading("Promised and measured, nats of Rényi divergence, all tokens together")
    table = _table("order", "promised", "measured, most", "share", "of exemplar", "sum of maxima")
    for row in case["by_order"]:
        table.add_row(
            _order(row["order"]),
            nats_text(_infinite(row["promised_nats"])),
            nats_text(_infinite(row["measured_nats"])),
            _share(row["ratio"]),
            Text(visible(row["exemplar"])),
            nats_text(_infinite(row["sum_of_maxima_nats"])),
        )
    yield table
    yield Text(_promise(case))
    yield Text(_paper(case), style="dim")
    yield Text()
    yield heading("Exemplars that paid most")
    table = _table("exemplar", "nats", "share", "text")
    for one in sorted(case["exemplars"], key=lambda one: one["rank"])[:_SHOWN]:
        table.add_row(
            one["name"],
            nats_text(_infinite(one["measured_nats"])),
            _share(one["ratio"]),
            Text(excerpt(one["text"], 60)),
        )
    yield table
    yield Text()
    yield heading("Texts")
    for one in case["sequences"][:_SHOWN]:
        yield Text(f"“{visible(one['text'])}”")
    if len(case["sequences"]) > _SHOWN:
        yield Text(f"and {len(case['sequences']) - _SHOWN:,} more")
    yield Text(_quality(case["text_quality"]), style="dim")
    for warning in case["warnings"]:
        yield Text(f"! {visible(warning)}", style="bold")
    yield Text(_PRIVATE, style="bold")


def _verdict(case: Case) -> Iterator[RenderableType]:
    from rich.text import Text

    failures = case["verdict"]["failures"]
    if not failures:
        worst = case["verdict"]["worst_token"]
        yield Text("Kept: nothing that was measured is above its promise.", style="bold")
        yield Text(f"Nearest to it: {_compared(worst)}.")
        return
    yield Text("Broken: more was measured than was promised.", style="bold")
    for failure in failures[:_SHOWN]:
        yield Text(f"{_compared(failure)}.")
    if len(failures) > _SHOWN:
        yield Text(f"and {len(failures) - _SHOWN:,} more")


def _compared(one: Mapping[str, Any]) -> str:
    where = "all tokens together"
    if one["token"] is not None:
        where = f"token {one['token'] + 1} of sequence {one['sequence'] + 1}, “{visible(one['token_text'])}”"
    measured, promised = (nats_text(_infinite(one[f"{what}_nats"])) for what in ("measured", "promised"))
    return (
        f"exemplar {visible(one['exemplar'])}, {where}, order {_order(one['order'])}: {measured} nats, "
        f"promised {promised} ({_share(one['ratio'])})"
    )


def _promise(case: Case) -> str:
    told, spent = case["promise"]["guarantee"], case["promise"]["spent"]
    cost = f"The {spent['n_tokens']:,} tokens there are cost ε = {nats_text(spent['epsilon'])}, which is no guarantee."
    if told is None:
        return f"Nothing is promised of these texts. {cost}"
    pure = _infinite(told["pure_epsilon"])
    also = f", ε = {nats_text(pure)} at δ = 0" if pure < told["epsilon"] else ""
    return (
        f"Promised for up to {told['n_tokens']:,} tokens and one exemplar more or less: ε = "
        f"{nats_text(told['epsilon'])} at δ = {told['delta']:g} (order {_order(told['order'])}){also}. {cost}"
    )


def _paper(case: Case) -> str:
    told = case["paper_convention"]
    return (
        f"Paper's convention, no verdict: ε = {nats_text(_infinite(told['epsilon']))}; a mechanism that tells nothing "
        f"gets {nats_text(told['zero_leak_epsilon'])}."
    )


def _quality(told: Mapping[str, Any]) -> str:
    distinct = ", ".join(f"distinct-{n} {_share(told[f'distinct_{n}'])}" for n in (1, 2, 3))
    return (
        f"Perplexity {nats_text(_infinite(told['perplexity']))}; {distinct}; {_share(told['verbatim_share'])} of the "
        f"tokens in runs of {told['verbatim_from_tokens']} or more that an exemplar has too, the longest of "
        f"{told['longest_verbatim_tokens']}."
    )


def _at(case: Case) -> Mapping[str, Any]:
    """The order of the promise."""
    return next(row for row in case["by_order"] if row["order"] == case["promise"]["order"])


def _table(*names: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in names:
        table.add_column(name, justify="left" if name in ("batch", "exemplar", "text", "verdict") else "right")
    return table


def _order(order: float | None) -> str:
    return "∞" if order is None else f"{order:g}"


def _share(ratio: float | None) -> str:
    return "∞" if ratio is None else f"{100 * ratio:.3g} %"


def _infinite(nats: float | None) -> float:
    return float("inf") if nats is None else nats
