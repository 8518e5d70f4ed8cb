"""A case as a heat map for the terminal: shaded where there is colour, marked with blocks where not.

Text of the case only ever enters through `visible` and `rich.text.Text`, so neither the terminal nor rich's markup
gets to interpret any of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from leakmeter.core.plain import visible
from leakmeter.report import scale, words
from leakmeter.report.paint import Composed, Paint, block, heading, legend, shaded
from leakmeter.report.shade import Case, by_nats, excerpt, piece_heat, stretches, strongest

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

SHOWN_CHARACTERS = 6000
LISTED_PIECES = 12
_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_WIDE_COLUMNS = 76


def heatmap(case: Case, *, width: int | None = None) -> RenderableType:
    """The case in the order one reads it: verdict, shaded context and response, the strongest pieces, how measured."""
    return Composed(lambda paint, columns: _parts(case, paint, columns), width)


def _parts(case: Case, paint: Paint, columns: int) -> Iterator[RenderableType]:
    from rich.text import Text

    ranked = by_nats(case, "unit")
    ranks = {i: rank for rank, i in enumerate(ranked[:LISTED_PIECES], 1) if not case["pieces"][i]["below_noise_floor"]}
    yield Text(words.verdict(case), style="bold")
    yield Text(words.posterior(case))
    for warning in words.warnings(case):
        yield Text(f"! {visible(warning)}", style="bold")
    yield Text()
    yield heading("Context")
    yield _context(case, paint, ranks)
    yield Text()
    yield legend(
        paint, f" below noise {scale.nats_text(case['noise_floor_nats'])} ", after="   ¹ ² ³ rank in the table"
    )
    if case["query"]:
        yield Text()
        yield heading("Query")
        yield Text(visible(case["query"]))
    yield Text()
    yield heading("Response, each token by what the whole context did to it")
    yield shaded(case["response"]["tokens"], case["whole_per_token"], case["noise_floor_per_token_nats"], paint)
    yield Text()
    yield heading("Pieces")
    yield _table(case, ranked, paint, columns)
    values = by_nats(case, "value")
    if values:
        yield Text()
        yield heading("Values said several times, all mentions removed together")
        yield _table(case, values, paint, columns)
    yield Text()
    yield from _footer(case)


def _context(case: Case, paint: Paint, ranks: dict[int, int]) -> Text:
    """The context, each character shaded by the strongest unit covering it; weak parts of a long one left out."""
    from rich.text import Text

    runs = [
        (piece, document, "".join(s.text for s in group))
        for (piece, document), group in groupby(stretches(case), lambda s: (strongest(case, s.units), s.document))
    ]
    kept = _affordable(case, [(piece, len(text)) for piece, _, text in runs])
    text, elided, named, last_document = Text(), False, set[int](), None
    for index, (piece, document, run) in enumerate(runs):
        if document is not None and document != last_document and len(case["documents"]) > 1:
            text.append(f"{'' if not text or text.plain.endswith(chr(10)) else chr(10)}", "")
            text.append(f"── {excerpt(case['documents'][document]['name'], 60)}\n", "dim")
            last_document = document
        if index not in kept:
            if not elided:
                text.append(" … ", "dim")
            elided = True
            continue
        elided = False
        heat = 0 if piece is None else piece_heat(case["pieces"][piece])
        rank = "" if piece is None or piece in named else str(ranks.get(piece, "")).translate(_SUPERSCRIPT)
        if piece is not None:
            named.add(piece)
        if heat and not paint.coloured and piece in ranks:
            text.append(f"⟦{block(heat)}{rank}{run}⟧")
        else:
            text.append(rank, "bold")
            text.append(run, paint.style(heat))
    return text


def _affordable(case: Case, runs: list[tuple[int | None, int]]) -> set[int]:
    """Indices of the runs to show: all of a short context, of a long one the strongest that fit."""
    if sum(length for _, length in runs) <= SHOWN_CHARACTERS:
        return set(range(len(runs)))
    left, kept = SHOWN_CHARACTERS, set()
    strength = {i: -1.0 if piece is None else case["pieces"][piece]["nats"] for i, (piece, _) in enumerate(runs)}
    for index in sorted(strength, key=lambda i: (-strength[i], i)):
        if runs[index][1] <= left:
            left -= runs[index][1]
            kept.add(index)
    return kept


def _table(case: Case, ranked: list[int], paint: Paint, columns: int) -> Table:
    """The strongest pieces: without it, only it, which way, and the posterior that they were there."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    wide = columns >= _WIDE_COLUMNS
    swaps = any(piece.get("swapped_nats") is not None for piece in case["pieces"])
    bar_columns = max(8, min(24, columns - (86 if swaps else 76)))
    table = Table(
        box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, header_style="dim", expand=True
    )
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("piece", overflow="fold", max_width=14)
    table.add_column("text", overflow="fold", ratio=1)
    table.add_column("without it" if swaps else "nats", justify="right", no_wrap=True)
    if swaps:
        table.add_column("invented", justify="right", no_wrap=True)
    if wide:
        table.add_column(_ruler(bar_columns), no_wrap=True, width=bar_columns)
        table.add_column("signed", justify="right", no_wrap=True)
    table.add_column("only this", justify="right", no_wrap=True)
    table.add_column("posterior", justify="right", no_wrap=True)
    for rank, index in enumerate(ranked[:LISTED_PIECES], 1):
        piece = case["pieces"][index]
        said = Text(excerpt(piece["text"], max(60, columns)))
        for remark in [*words.flags(piece), *_sampled(piece)]:
            said.append(f"\n{visible(remark)}", "italic")
        nats = Text(scale.nats_cell(piece["nats"]), style="bold")
        cells = [Text(str(rank)), Text(excerpt(piece["name"], 24)), said, nats]
        if swaps:
            swapped = piece.get("swapped_nats")
            cells += [Text(scale.NOT_MEASURED if swapped is None else scale.nats_cell(swapped), style="bold")]
        if wide:
            cells += [paint.bar(piece["nats"], piece_heat(piece), bar_columns)]
            cells += [Text(scale.signed_cell(piece["signed_nats"]))]
        cells += [Text(scale.nats_cell(piece["only_this_nats"])), Text(words.posterior_cell(piece))]
        table.add_row(*cells, style="dim" if piece["below_noise_floor"] else "")
    rest = ranked[LISTED_PIECES:]
    if rest:
        most = scale.nats_text(case["pieces"][rest[0]]["nats"])
        table.add_row(Text("…"), Text(""), Text(f"{len(rest)} more pieces, at most {most} nats each"), style="dim")
    return table


def _ruler(columns: int) -> str:
    """The ticks of the common scale above the bars: 1, 3 and 10 nats at their places."""
    cells = [" "] * columns
    for tick in (1.0, 3.0, 10.0):
        at = min(columns - 2, round(scale.position(tick) * columns))
        cells[at : at + len(f"{tick:g}")] = f"{tick:g}"
    return "".join(cells)


def _sampled(piece: Case) -> list[str]:
    if piece.get("mean_nats") is None:
        return []
    return [f"over samples: {_over_samples(piece, '')}"]


def _over_samples(numbers: Case, prefix: str) -> str:
    """Mean, interval and worst in nats, of a piece (no prefix) or of the whole context ("whole_")."""
    said = f"mean {scale.nats_text(numbers[f'{prefix}mean_nats'])}"
    interval = numbers.get(f"{prefix}interval_nats")
    if interval is not None:
        said += f" [{scale.nats_text(interval[0])}, {scale.nats_text(interval[1])}]"
    worst = numbers.get(f"{prefix}worst_nats")
    return said if worst is None else f"{said}, worst {scale.nats_text(worst)}"


def _footer(case: Case) -> Iterator[Text]:
    from rich.text import Text

    if case.get("whole_mean_nats") is not None:
        yield Text(f"Over {len(case.get('samples') or [])} sampled responses, nats: {_over_samples(case, 'whole_')}.")
    facts = [f"noise floor {scale.nats_text(case['noise_floor_nats'])} nats"]
    if case.get("placebo_nats") is not None:
        facts.append(f"placebo {words.placebo(case)}")
    facts += [
        f"model {case['model']} ({case['dtype']})",
        f"unit {case['unit']}",
        f"removal {case['removal']}",
        f"temperature {case['temperature']:g}",
        f"λ {case['cid_lambda']:g}",
        f"response {words.provenance(case)}",
    ]
    yield Text(visible(" · ".join(facts)), style="dim")
    predicted = words.prediction(case)
    if predicted is not None:
        yield Text(f"predicted {predicted}", style="dim")
    halvings = words.halvings(case)
    if halvings is not None:
        yield Text(f"memory {halvings}", style="dim")
    yield Text(words.CAVEAT, style="dim")
