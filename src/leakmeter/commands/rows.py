"""Rows on a terminal, of which nothing is left out: a table where it fits, else each row by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from leakmeter.commands import output

_GAP: Final = 2
"""Between two columns of a table."""
_NARROWEST: Final = 40
"""Width from which a part of a word is divided too."""


def print_rows(names: Sequence[str], cells: Sequence[Sequence[str]], numeric: Sequence[bool]) -> None:
    """Print rows under the names of their columns; those of `numeric` columns are whole, and at the right."""
    from rich.table import Table
    from rich.text import Text

    from leakmeter.report.console import folded

    console = output.console()
    widths = _widths(names, cells, numeric, console.width)
    if widths is None:
        _print_records(names, cells)
        return
    table = Table(box=None, pad_edge=False)
    for name, width, is_number in zip(names, widths, numeric, strict=True):
        table.add_column(Text(folded(name, width)), justify="right" if is_number else "left", min_width=width)
    for row in cells:
        table.add_row(*(Text(folded(cell, width)) for cell, width in zip(row, widths, strict=True)))
    console.print(table)


def _widths(
    names: Sequence[str], cells: Sequence[Sequence[str]], numeric: Sequence[bool], width: int
) -> list[int] | None:
    """Of the columns of a table in which nothing is left out: numbers are whole, and names and texts are folded between
    words and parts of words. None where they do not fit."""
    from rich.cells import cell_len

    from leakmeter.report.console import parts_of

    room = width - _GAP * max(0, len(names) - 1)
    longest = [max((cell_len(row[i]) for row in cells), default=0) for i in range(len(names))]
    most = [max(cell_len(name), n) for name, n in zip(names, longest, strict=True)]
    if sum(most) <= room:
        return most
    least = list[int]()
    for number, (name, is_number) in enumerate(zip(names, numeric, strict=True)):
        texts = [name] if is_number else [name, *(row[number] for row in cells)]
        parts = (min(cell_len(part.rstrip()), _NARROWEST) for text in texts for part in parts_of(text))
        least.append(max([longest[number] if is_number else 1, *parts]))
    if sum(least) > room:
        return None
    # What is left goes to the narrowest that want more, a character at a time.
    while sum(least) < room and (wanting := [i for i in range(len(names)) if least[i] < most[i]]):
        least[min(wanting, key=least.__getitem__)] += 1
    return least


def _print_records(names: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Each row by itself, a line a column."""
    from rich.table import Table
    from rich.text import Text

    console = output.console()
    for number, row in enumerate(cells or [[""] * len(names)], 1):
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(overflow="fold", max_width=console.width // 2)
        table.add_column(overflow="fold")
        for name, cell in zip(names, row, strict=True):
            table.add_row(Text(name), Text(cell))
        console.print(Text(f"row {number}" if cells else "no rows, of these columns:", "bold"))
        console.print(table)
