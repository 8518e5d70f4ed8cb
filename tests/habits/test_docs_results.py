"""Every table of `docs/results` agrees with its CSV file, to the digits that it shows."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest

from helpers.results_tables import PRINTED, RESULTS, TABLES, UNKEPT, Cell, Table

NUMBER = re.compile(r"[−-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[−-]?\d+)?")
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
PAGES = sorted(path.stem for path in RESULTS.glob("*.md") if path.stem != "README")


def cells_of(line: str) -> list[str]:
    return [cell.strip().replace("*", "") for cell in line.strip().strip("|").split("|")]


def tables_of(page: str) -> list[tuple[list[str], list[list[str]]]]:
    out = []
    for match in TABLE.finditer((RESULTS / f"{page}.md").read_text(encoding="utf-8")):
        head, _, *rows = match.group().splitlines()
        out.append((cells_of(head), [cells_of(row) for row in rows]))
    return out


def shown(text: str) -> tuple[float, float]:
    """A number as it is written, and half of its last digit's worth."""
    number = Decimal(text.replace(",", "").replace("−", "-"))
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    digits = text.replace(",", "")
    zeros = len(digits) - len(digits.rstrip("0")) if "," in text else 0  # 1,310,000 has three digits, and so has 100
    return float(number), 0.5 * 10.0 ** (exponent + zeros)


def disagreement(cell: str, expected: Cell) -> str | None:
    """What is wrong with a cell; None where it says what it should, rounded to the digits that it shows."""
    if expected is UNKEPT or expected is PRINTED:
        return None
    if isinstance(expected, str):
        return None if cell == expected else f"'{cell}' instead of '{expected}'"
    found = NUMBER.findall(cell)
    if len(found) != len(expected):
        return f"'{cell}' has {len(found)} numbers instead of {len(expected)}"
    for text, value in zip(found, expected, strict=True):
        if value is not None:
            number, half = shown(text)
            # A number in the middle between two is rounded to either.
            if abs(number - value) > half * (1 + 1e-9):
                return f"'{text}' in '{cell}' instead of {value:.6g}"
    return None


def complaints(page: str, number: int, expected: Table) -> list[str]:
    head, rows = tables_of(page)[number]
    assert [len(row) for row in rows] == [len(head)] * len(rows)
    assert len(rows) == len(expected), f"{len(rows)} rows instead of {len(expected)}"
    return [
        f"{page}, table {number + 1}, {row[0]}, {name}: {wrong}"
        for row, cells in zip(rows, expected, strict=True)
        for name, cell, of in zip(head, row, cells, strict=True)
        if (wrong := disagreement(cell, of)) is not None
    ]


@pytest.mark.parametrize("page", PAGES)
def test_every_table_agrees_with_its_csv(page: str) -> None:
    """And numbers that no CSV file has are said to be none of it."""
    tables = TABLES[page]()
    assert len(tables_of(page)) == len(tables)
    assert [wrong for number, expected in enumerate(tables) for wrong in complaints(page, number, expected)] == []
    cells = [cell for table in tables for row in table for cell in row]
    unkept = any(cell is UNKEPT or (not isinstance(cell, str) and None in cell) for cell in cells)
    text = " ".join((RESULTS / f"{page}.md").read_text(encoding="utf-8").split())
    assert ("not in the CSV" in text) == unkept


def test_every_csv_belongs_to_a_page() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in RESULTS.glob("*.md"))
    assert [path.name for path in sorted(RESULTS.glob("*.csv")) if f"({path.name})" not in text] == []


@pytest.mark.parametrize(
    ("cell", "expected", "is_right"),
    [
        ("8.88", [8.8846], True), ("8.89", [8.8846], False), ("8.885", [8.8846], True), ("−0.47", [-0.4742], True),
        ("0.47", [-0.4742], False), ("1,310,000", [1307458.0], True), ("1,300,000", [1307458.0], True),
        ("1,310,100", [1307458.0], False), ("100", [104.0], False), ("2.1 [1.9, 2.5]", [2.14, 1.94, None], True),
        ("2.1 [1.9, 2.5]", [2.14, 1.94], False), ("1e-5", [1.2e-5], True), ("TREC", "TREC", True), ("x", "TREC", False),
        ("5 / 0", [5.0, 0.0], True), ("90 %", UNKEPT, True), ("0.125", [0.125], True), ("0.12", [0.125], True),
    ],
)  # fmt: skip
def test_rounding_is_as_displayed(cell: str, expected: Cell, is_right: bool) -> None:
    assert (disagreement(cell, expected) is None) == is_right
