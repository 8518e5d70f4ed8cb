"""Rows to Markdown, CSV and figure."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

import pytest

from leakmeter.report import charts
from leakmeter.studies.figure import figure_of
from leakmeter.studies.tables import to_csv, to_markdown

NAN = float("nan")
ROWS: list[dict[str, Any]] = [
    {"model": "a|b", "cid_lambda": 0.5, "n": 3, "nats": 1 / 3, "nats_low": 0.1, "nats_high": 0.5, "nats_q25": 0.2},
    {"model": "a|b", "cid_lambda": 1.0, "n": 1, "nats": 2.0, "nats_low": NAN, "nats_high": NAN, "nats_q25": 2.0},
]


def test_csv_keeps_every_digit_and_empties_what_is_not_there() -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv([*ROWS, {"cid_lambda": 2.0, "factkb": None}]))))
    assert float(rows[0]["nats"]) == 1 / 3
    assert rows[1]["nats_low"] == rows[2]["nats"] == rows[2]["factkb"] == ""


def test_markdown_shows_intervals_and_escapes() -> None:
    counts = {"repeat_published": 3, "repeat_published_share_low": 0.1, "repeat_published_share_high": 0.2}
    quality = {"rouge_l_f1": 0.123456, "rouge_l_f1_low": 0.1, "rouge_l_f1_high": 0.2}
    text = to_markdown("A | B", ["one\nline"], [{**ROWS[0], **counts, **quality}, ROWS[1]])
    heading, rule, first, second = text.splitlines()[-4:]
    cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", first)[1:-1]]
    assert cells == ["a\\|b", "0.5", "3", "0.33 [0.10, 0.50]", "3 (10.0 to 20.0 %)", "12.35 [10.00, 20.00]"]
    assert re.split(r"(?<!\\)\|", heading)[4].strip() == "τ̂, nats"
    assert "nats q25" not in heading
    assert rule.count("---") == len(cells)
    assert second.endswith("| 2.00 | – | – |")
    assert "- one line" in text


@pytest.mark.parametrize("x", ["cid_lambda", "model"])
def test_a_figure_is_the_same_bytes_again(tmp_path: Path, x: str) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    other = "model" if x == "cid_lambda" else "cid_lambda"

    def files(name: str) -> list[bytes]:
        (tmp_path / name).mkdir()
        stem = tmp_path / name / "figure"
        chart = figure_of(ROWS, x=x, lines=[other], ys=["nats", "factkb"], title="τ̂", footer="n")
        paths = charts.write(chart, stem)
        assert [path.name for path in paths] == ["figure.png", "figure.svg"]
        return [path.read_bytes() for path in paths]

    assert files("one") == files("two")


def test_many_points_have_a_band(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    rows = [{"position": i, "nats": 1.0, "nats_low": 1.0 + 1e-17, "nats_high": NAN if i else 1.0} for i in range(50)]
    for some in (rows, rows[:5]):
        charts.write(figure_of(some, x="position", lines=[], ys=["nats"], title="t", footer=""), tmp_path / "figure")
