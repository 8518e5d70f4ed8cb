"""Rows of numbers to tables for people and CSV for programs; the same rows give the same bytes."""

from __future__ import annotations

import csv
import io
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from leakmeter.core.plain import csv_writer, one_line, visible
from leakmeter.core.record import Record

StudyRow = dict[str, Any]
"""Columns to values: factors first; numbers unrounded. See `measured`."""
ValueToText = Callable[[Any], str]
"""A value to its text."""
_INTERVAL = ("_low", "_high")
_SHARE = ("_share_low", "_share_high")
_STD = "_std"
_MOST_DECIMALS: Final = 6
_TINY: Final = "{:.1e}".format


@dataclass(frozen=True, slots=True)
class StudyColumn:
    """How people read a column."""

    heading: str
    form: ValueToText | None = None
    """Of a value and of the ends of its interval. None: `NUMBER` with an interval, else as it is."""
    in_csv_only: bool = False


StudyColumns = Mapping[str, StudyColumn]
"""By the names of columns; what is not there is called by its name."""


@dataclass(frozen=True, slots=True)
class ReadableTable(Record):
    """A table as people read it."""

    title: str
    about: tuple[str, ...]
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def decimals(digits: int = 2, scale: float = 1.0) -> ValueToText:
    """Decimals of a number; without a sign where it is rounded to 0."""
    return lambda value: f"{scale * value:z.{digits}f}"


NUMBER = decimals()
"""The usual form of a number. A column of smaller ones has two digits of the largest: they would all be 0.00."""
DIFFERENCE = decimals(3)
"""The same of differences, which are smaller."""
HUNDREDTHS = decimals(scale=100.0)
"""Tables of the field show some scores times 100."""
P_VALUE = "{:.2g}".format
_LEAST_DIGITS: Final = {NUMBER: 2, DIFFERENCE: 3}


def measured(name: str, value: float | None, interval: tuple[float, float] | None) -> StudyRow:
    """A number and its interval as columns of a row, which are one to people; `_std`, its standard deviation, too."""
    low, high = interval or (math.nan, math.nan)
    return {name: value, f"{name}_low": low, f"{name}_high": high}


def counted(name: str, hits: int, interval: tuple[float, float]) -> StudyRow:
    """A count and the interval of the share behind it, likewise."""
    low, high = interval
    return {name: hits, f"{name}_share_low": low, f"{name}_share_high": high}


def names_of(rows: Iterable[StudyRow]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def shown_names(rows: Sequence[StudyRow], columns: StudyColumns) -> list[str]:
    names = names_of(rows)
    parts = {f"{name}{end}" for name in names for end in (*_INTERVAL, *_SHARE, _STD)}
    return [name for name in names if name not in parts and not (name in columns and columns[name].in_csv_only)]


def heading_of(name: str, columns: StudyColumns) -> str:
    return columns[name].heading if name in columns else name.replace("_", " ")


def to_csv(rows: Sequence[StudyRow]) -> str:
    """Every column and every digit; what a row does not have, or NaN, is an empty cell."""
    names = names_of(rows)
    sink = io.StringIO(newline="")
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow(["" if is_missing(row.get(name)) else row[name] for name in names])
    return sink.getvalue()


def items_to_csv(rows: Iterable[StudyRow]) -> str:
    """A row an item; all have the same columns."""
    rows = list(rows)
    sink = io.StringIO(newline="")
    writer = csv_writer(sink)
    writer.writerow(names_of(rows))
    writer.writerows(row.values() for row in rows)
    return sink.getvalue()


def readable(title: str, about: Iterable[str], rows: Sequence[StudyRow], columns: StudyColumns) -> ReadableTable:
    names = shown_names(rows, columns)
    forms = {name: _form(rows, name, columns[name].form if name in columns else None) for name in names}
    return ReadableTable(
        title,
        tuple(map(one_line, about)),
        tuple(one_line(heading_of(name, columns)) for name in names),
        tuple(tuple(cell_text(row, name, forms[name]) for name in names) for row in rows),
    )


def _form(rows: Sequence[StudyRow], name: str, form: ValueToText | None) -> ValueToText | None:
    has_interval = any(f"{name}{_INTERVAL[0]}" in row for row in rows)
    form = NUMBER if form is None and has_interval else form
    if form not in _LEAST_DIGITS:
        return form
    sizes = [abs(row[name]) for row in rows if isinstance(row.get(name), float) and math.isfinite(row[name])]
    largest = max(sizes, default=0.0)
    if largest == 0.0:
        return form
    digits = max(_LEAST_DIGITS[form], 1 - math.floor(math.log10(largest)))
    return decimals(digits) if digits <= _MOST_DECIMALS else _TINY


def numeric_columns(table: ReadableTable) -> list[bool]:
    return [all(_NUMERIC.fullmatch(row[i]) for row in table.rows) for i in range(len(table.heads))]


def to_markdown(table: ReadableTable, *, level: int = 1) -> str:
    lines = [f"{'#' * level} {table.title}", ""]
    if table.about:
        lines += [*(f"- {_escaped(line)}" for line in table.about), ""]
    for row in (table.heads, ("---",) * len(table.heads), *table.rows):
        lines.append(f"| {' | '.join(map(_escaped, row))} |")
    return "\n".join(lines) + "\n"


_GREEK: Final = (
    *("alpha", "beta", "gamma", "delta", "varepsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu"),
    *("xi", "pi", "rho", "sigma", "tau", "varphi", "chi", "psi", "omega"),
)
_LATEX: Final = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\char34{}", "`": r"\textasciigrave{}",
    "’": "'", "‘": "`", "“": "``", "”": "''", "–": "--", "—": "---", "…": r"\ldots{}", "\u00a0": "~", "¶": r"\P{}",
    "×": r"$\times$", "±": r"$\pm$", "−": "$-$", "≤": r"$\le$", "≥": r"$\ge$", "≠": r"$\ne$", "∅": r"$\emptyset$",
    "∖": r"$\setminus$", "½": r"$\frac{1}{2}$", "²": "$^2$", "·": r"$\cdot$", "∞": r"$\infty$", "→": r"$\to$",
    "↔": r"$\leftrightarrow$", "‖": r"$\Vert$", "µ": r"$\mu$", "Σ": r"$\Sigma$", "Δ": r"$\Delta$",
    **dict(zip("αβγδεζηθικλμνξπρστφχψω", map("$\\{}$".format, _GREEK), strict=True)),
}  # fmt: skip
"""Characters that LaTeX reads as commands, or that its usual fonts have only in formulas."""
_ACCENTS: Final = {"\u0302": "hat", "\u0304": "bar", "\u0303": "tilde"}
"""Of letters that have them as characters of their own."""
_OF_N: Final = "n: how many values a row rests on"
_NUMERIC: Final = re.compile(r"[-−]?[\d.,]+(?:e[-+]?\d+)?(?: %)?(?: ± .*)?(?: [\[(].*)?|–|-?inf")


def is_numeric(cells: Sequence[str]) -> bool:
    """Whether a column has numbers, with or without intervals, and nothing else."""
    return bool(cells) and all(map(_NUMERIC.fullmatch, cells))


def to_latex(table: ReadableTable, *, label: str, command: str = "") -> str:
    r"""A table of booktabs, with a caption, a label, and a note on where its numbers come from.

    Cells are text whatever they hold: '_' and '%' are escaped, Greek letters and signs stand in formulas. What has no
    such form stays as it is, and needs a font that has it. `command` made the numbers; LaTeX does not show it.
    """
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.heads)
    form = "".join("r" if is_numeric(column) else "l" for column in columns)
    notes = [*table.about, *([_OF_N] if "n" in table.heads else [])]
    lines = [
        *(["% " + one_line(command)] if command else []),
        r"% \usepackage{booktabs, textcomp}",
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{latex_text(table.title)}}}",
        rf"  \label{{tab:{label}}}",
        rf"  \begin{{tabular}}{{{form}}}",
        r"    \toprule",
        f"    {_latex_row(table.heads)}",
        r"    \midrule",
        *(f"    {_latex_row(row)}" for row in table.rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        *([rf"  \par\smallskip{{\footnotesize {latex_text('; '.join(notes))}.\par}}"] if notes else []),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_row(cells: Sequence[str]) -> str:
    """A bracket or star behind the end of a row would be read as its argument."""
    row = " & ".join(map(latex_text, cells))
    return rf"{'{}' if row.startswith(('[', '*')) else ''}{row} \\"


def latex_text(text: str) -> str:
    """Any text as LaTeX shows it."""
    text = unicodedata.normalize("NFC", visible(one_line(text)))
    shown = list[str]()
    for i, letter in enumerate(text):
        before, behind = text[i - 1 : i], text[i + 1 : i + 2]
        if letter in _ACCENTS:
            # It stands behind its letter.
            shown[-1:] = [rf"$\{_ACCENTS[letter]}{{{shown[-1].strip('$') if shown else ''}}}$"]
        elif letter == "-" and behind.isdigit() and not (before.isalnum() or before in (")", "]")):
            shown.append("$-$")
        else:
            # Two hyphens would become a dash.
            shown.append("{}-" if letter == before == "-" else _LATEX.get(letter, letter))
    return "".join(shown)


def label_of(title: str) -> str:
    """A title as part of a label: 'Influence over λ (Figure 8)' to 'influence-over-figure-8'."""
    return "-".join(re.findall(r"[a-z0-9]+", unicodedata.normalize("NFKD", title).lower())) or "table"


def share_text(share: float) -> str:
    """A share in per cent; one that is neither nothing nor all is not rounded to either."""
    shown = min(max(100.0 * share, 1.0 if share > 0.0 else 0.0), 99.0 if share < 1.0 else 100.0)
    return f"{shown:.0f} %"


def cell_text(row: StudyRow, name: str, form: ValueToText | None = None) -> str:
    """What a row has in a column, with its standard deviation and interval; see `StudyColumn.form`."""
    value = row.get(name)
    if is_missing(value):
        return "–"
    low, high = (row.get(f"{name}{end}") for end in _SHARE)
    if low is not None and high is not None:
        return f"{value} ({100.0 * low:.1f} to {100.0 * high:.1f} %)"
    form = form or (NUMBER if f"{name}{_INTERVAL[0]}" in row else str)
    text = one_line(form(value))
    if not is_missing(row.get(f"{name}{_STD}")):
        text += f" ± {form(row[f'{name}{_STD}'])}"
    ends = interval_of(row, name)
    return text if ends is None else f"{text} [{', '.join(map(form, ends))}]"


def interval_of(row: StudyRow, name: str) -> tuple[float, float] | None:
    low, high = (row.get(f"{name}{end}") for end in _INTERVAL)
    return None if low is None or high is None or math.isnan(low) else (low, high)


def is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
