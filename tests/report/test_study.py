"""A study's rows as Markdown, CSV and figure, and its directory as a report."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from helpers.report_cases import HOSTILE
from helpers.report_checks import PNG, assert_report_harmless, flat
from leakmeter.commands.studies.contexts import Contexts
from leakmeter.commands.studies.study_report import StudyTables, extremes, figure_of, study_report
from leakmeter.commands.studies.table import COMPARED_COLUMNS
from leakmeter.commands.studies.tables import ReadableTable, latex_text, readable, to_csv, to_markdown
from leakmeter.report import blocks as b
from leakmeter.report import charts, html

ROWS = [{"model": "a|b", "nats": 2.0, "nats_low": 1.5, "nats_high": 2.5}, {"model": "c", "nats": None}]
COLUMNS = Contexts.columns
COMMAND = "leakmeter study run mine.toml --data 'a|b.json'"


def tables_of(
    rows: Sequence[dict[str, Any]], *others: ReadableTable, about: Sequence[str] = (), **more: Any
) -> StudyTables:
    main = readable("T", about, rows, COLUMNS)
    found = extremes(main, rows, COLUMNS)
    return StudyTables((main, *others), COMMAND, headline=found.sentence, advice=found.advice, **more)


def page_of(tables: StudyTables, figures: dict[str, bytes] | None = None, **more: Any) -> str:
    return html.page(study_report(tables, figures or {}, **{"directory": "x", **more}))


def test_tables_are_read_back() -> None:
    tables = tables_of(ROWS, readable("Seeds", [], ROWS[:1], COLUMNS), about=["as published"], findings=("yes",))
    first, seeds = tables.tables
    assert first.heads == ("model", "τ̂, nats")
    assert first.rows == (("a|b", "2.00 [1.50, 2.50]"), ("c", "–"))
    assert seeds.rows == (("a|b", "2.00 [1.50, 2.50]"),)
    assert StudyTables.from_dict(json.loads(tables.files()["table.json"])) == tables
    lines = ["# T", "", "- finding: yes", "- as published", f"- command: {COMMAND.replace('|', chr(92) + '|')}", ""]
    assert tables.files()["table.md"].splitlines()[:6] == lines


def test_the_page_has_tables_figures_and_command() -> None:
    page = page_of(tables_of(ROWS, readable("Seeds", [], ROWS[:1], {})), {"figure": PNG}, directory="runs/study-x")
    for said in (
        "<h1><bdi>T</bdi></h1>", "<h2><bdi>Seeds</bdi></h2>",
        '<bdi>a|b</bdi><td data-l="τ̂, nats" class="n"><bdi>2.00 [1.50, 2.50]</bdi>',
        'src="data:image/png;base64,iVBOR', 'alt="figure"',
        "<code>leakmeter study run mine.toml --data &#39;a|b.json&#39;</code>", "runs/study-x",
        "script-src &#39;none&#39;",
    ):  # fmt: skip
        assert said in page.replace("\n", "")


def headline(rows: list[dict[str, Any]], **more: Any) -> str:
    return b.headline_of(study_report(tables_of(rows, **more), {}, directory="x"))


def test_a_page_begins_with_what_was_found() -> None:
    rows: list[dict[str, Any]] = [
        {"model": "m", "openness": name, "nats": mean, "nats_low": mean - 0.25, "nats_high": mean + 0.25}
        for name, mean in (("open", 2.0), ("closed", -1.0), ("both", 1.75))
    ]
    said = (
        "τ̂ changes with openness: from -1.00 nats (openness closed) to 2.00 nats (openness open), beyond the intervals."
    )
    assert flat(headline(rows)) == said
    said = "τ̂ does not clearly change with openness: 1.75 to 2.00 nats, within the intervals."
    assert flat(headline(rows[::2])) == said
    assert flat(headline(rows[:1])) == "τ̂: 2.00 [1.75, 2.25] nats."
    # Of several factors that which does most, and the levels of each in which the ends differ.
    of_two = [
        {"form": form, **row, "nats": row["nats"] + more} for row in rows for form, more in (("a", 0.0), ("b", 0.5))
    ]
    exact = [row | {"nats_low": row["nats"], "nats_high": row["nats"]} for row in of_two]
    assert flat(headline(exact)) == (
        "τ̂ changes most with openness: from -1.00 nats (form a, openness closed) to 2.50 nats (form b, openness open), "
        "beyond the intervals."
    )
    assert (
        flat(headline(exact[:2]))
        == "τ̂ changes with form: from 2.00 nats (form a) to 2.50 nats (form b), beyond the intervals."
    )
    alike = [row | {"openness": "open"} for row in rows]
    assert flat(headline(alike)) == "τ̂: from -1.00 nats to 2.00 nats, beyond the intervals."
    assert flat(headline(alike[::2])) == "τ̂: from 1.75 nats to 2.00 nats, within the intervals."
    # It is of the numbers and not of their digits.
    small = [
        {"model": name, **dict.fromkeys(("nats", "nats_low", "nats_high"), x)} for name, x in (("a", 2e-3), ("b", 1e-3))
    ]
    few, many = "0.0010 nats (model b)", "0.0020 nats (model a)"
    assert flat(headline(small)) == f"τ̂ changes with model: from {few} to {many}, beyond the intervals."
    assert headline([{"model": "m"}]) == ""
    few = [{"model": "m", "nats": 1.0, "nats_low": float("nan"), "nats_high": float("nan")}]
    assert headline(few) == "Undecided: too few records for an interval. That is neither good nor bad."
    assert headline(rows, findings=("nothing was found",), about=["seed 0"]) == "nothing was found"
    page = page_of(tables_of(rows, about=["seed 0"]))
    assert page.count("leakmeter study run") == 1
    assert page.index("<table") < page.index("seed 0") < page.index("leakmeter study run")


def test_a_page_shows_its_figure_first_and_says_once_what_is_the_same_everywhere() -> None:
    rows = [
        {"model": name, "n": n, "relations": 20, "nats": x, "nats_low": x, "nats_high": x}
        for name, n, x in (("a", 80, 1.0), ("b", 160, 2.0))
    ]
    tables = tables_of(rows)
    page = page_of(tables, {"figure": PNG})
    assert page.index("<h2") < page.index("<img") < page.index("<table")
    blocks = study_report(tables, {}, directory="x").blocks
    (table,) = (block for block in blocks if isinstance(block, b.Table))
    assert [(b.plain(column.heading), column.kind) for column in table.columns] == [
        ("model", "text"), ("n", "number"), ("τ̂, nats", "number")
    ]  # fmt: skip
    assert "In all rows: relations 20." in [b.plain(block.text) for block in blocks if isinstance(block, b.Text)]
    # How many values a row rests on does not tell it from others.
    said = "τ̂ changes with model: from 1.00 nats (model a) to 2.00 nats (model b), beyond the intervals."
    assert flat(headline(rows)) == said
    # Differences have digits to compare, and at least three.
    compared = [{"model": "a", "paired_nats": x, "paired_nats_low": x, "paired_nats_high": x} for x in (4.2e-4, 1e-4)]
    assert readable("T", [], compared, COMPARED_COLUMNS).rows[0][1] == "0.00042 [0.00042, 0.00042]"
    compared[0]["paired_nats"] = 0.5
    assert readable("T", [], compared, COMPARED_COLUMNS).rows[0][1].startswith("0.500 ")


def test_a_figure_has_room_for_its_letters_on_a_telephone() -> None:
    chart = figure_of(SWEPT, "cid_lambda", ["nats"], ["model"], columns=COLUMNS, title="t", footer="seed 0 " * 20)
    image = b.Image("figure", charts.files(chart)["png"])
    assert image.inches == 4
    assert '<img class="i4"' in html.page(b.Report("T", "study", [image]))
    assert chart.panels[0].series[0].colour == b.HOUSE


def test_texts_stay_texts() -> None:
    told = HOSTILE.replace("\ud800", "")
    tables = StudyTables((readable(told, [told], [{"model": told, told: 1.0}], {}),), told, (told, told))
    tables = StudyTables.from_dict(json.loads(tables.files()["table.json"]))
    page = assert_report_harmless(study_report(tables, {told: PNG}, directory=told), widths=())
    assert page.count("<img") == 1
    assert "<h1>A study</h1>" in page_of(StudyTables((readable("", [], [], {}),), ""))


def test_figures_that_do_not_fit_are_left_out_and_every_row_is_shown() -> None:
    page = page_of(tables_of([]), {"a": PNG, "b": bytes(html.PAGE_BYTES), "c": PNG})
    assert page.count("<img") == 1
    assert "2 further figures did not fit" in page
    assert len(page.encode()) < html.PAGE_BYTES
    page = page_of(tables_of([{"model": f"m{i}"} for i in range(1100)]))
    assert "m1099" in page
    assert "left out" not in page


NAN = float("nan")
SWEPT: list[dict[str, Any]] = [
    {"model": "a|b", "cid_lambda": 0.5, "n": 3, "nats": 1 / 3, "nats_low": 0.1, "nats_high": 0.5, "nats_q25": 0.2},
    {"model": "a|b", "cid_lambda": 1.0, "n": 1, "nats": 2.0, "nats_low": NAN, "nats_high": NAN, "nats_q25": 2.0},
]


def test_csv_keeps_every_digit_and_empties_what_is_not_there() -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv([*SWEPT, {"cid_lambda": 2.0, "factkb": None}]))))
    assert float(rows[0]["nats"]) == 1 / 3
    assert rows[1]["nats_low"] == rows[2]["nats"] == rows[2]["factkb"] == ""


def test_markdown_shows_intervals_and_escapes() -> None:
    counts = {"repeat_published": 3, "repeat_published_share_low": 0.1, "repeat_published_share_high": 0.2}
    quality = {"rouge_l_f1": 0.123456, "rouge_l_f1_low": 0.1, "rouge_l_f1_high": 0.2}
    rows = [{**SWEPT[0], **counts, **quality}, SWEPT[1]]
    text = to_markdown(readable("A | B", ["one\nline"], rows, COLUMNS))
    heading, rule, first, second = text.splitlines()[-4:]
    cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", first)[1:-1]]
    assert cells == ["a\\|b", "0.5", "3", "0.33 [0.10, 0.50]", "3 (10.0 to 20.0 %)", "12.35 [10.00, 20.00]"]
    assert re.split(r"(?<!\\)\|", heading)[4].strip() == "τ̂, nats"
    assert "nats q25" not in heading
    assert rule.count("---") == len(cells)
    assert second.endswith("| 2.00 | – | – |")
    assert "- one line" in text


SPECIAL = '50 % of $5 & #1_a {b} ~c^ \\\\ <d> | `e` "f" --set – τ̂ ≤ −3 ± λ’s'


def test_small_numbers_have_two_digits_of_the_largest_and_so_has_the_headline() -> None:
    def rows_of(*means: float) -> list[dict[str, Any]]:
        return [{"model": f"m{mean}", "nats": mean, "nats_low": mean / 2, "nats_high": 2 * mean} for mean in means]

    small = tables_of(rows_of(0.0031, 0.00042))
    assert [row[1] for row in small.tables[0].rows] == ["0.0031 [0.0015, 0.0062]", "0.0004 [0.0002, 0.0008]"]
    said = "τ̂ changes with model: from 0.0004 nats (model m0.00042) to 0.0031 nats (model m0.0031)"
    assert flat(small.headline).startswith(said)
    for means, shown in (((0.31, 0.0031), "0.00 [0.00, 0.01]"), ((0.0, 0.0), "0.00 [0.00, 0.00]")):
        assert tables_of(rows_of(*means)).tables[0].rows[1][1] == shown
    assert tables_of(rows_of(1e-12)).tables[0].rows[0][1] == "1.0e-12 [5.0e-13, 2.0e-12]"


def in_paper(tables: StudyTables) -> str:
    """A document of these tables."""
    packages = "\n".join(re.findall(r"^% (\\usepackage.*)$", tables.latex(), re.MULTILINE)[:1])
    return f"\\documentclass{{article}}\n{packages}\n\\begin{{document}}\n{tables.latex()}\\end{{document}}\n"


def test_latex_has_every_cell_escaped_with_caption_label_and_note() -> None:
    rows = [{"model": SPECIAL, "n": 3, "nats": -0.5, "nats_low": -0.75, "nats_high": 0.25}, {"model": "[b]", "n": 1}]
    others = readable("Pairs", ["p: by a rule"], [{"model": "a", "p": 0.25}], COLUMNS)
    text = tables_of(rows, others, about=["intervals: 95 %"], findings=("F is 5 %",)).latex()
    first, second = text.split("\n\n")
    assert first.splitlines()[0] == f"% {COMMAND}"
    for said in (
        r"\caption{T}", r"\label{tab:t}", r"\begin{tabular}{lrr}", r"model & n & $\hat{\tau}$, nats \\",
        r"50 \% of \$5 \& \#1\_a \{b\} \textasciitilde{}c\textasciicircum{} \textbackslash{}\textbackslash{} "
        r"\textless{}d\textgreater{} \textbar{} \textasciigrave{}e\textasciigrave{} \char34{}f\char34{} -{}-set -- "
        r"$\hat{\tau}$ $\le$ $-$3 $\pm$ $\lambda$'s & 3 & $-$0.50 [$-$0.75, 0.25] \\", r"    {}[b] & 1 & -- \\",
        r"{\footnotesize F is 5 \%; intervals: 95 \%; n: how many values a row rests on.\par}",
    ):  # fmt: skip
        assert said in first, said
    assert r"\caption{T: Pairs}" in second
    assert r"\label{tab:t-pairs}" in second
    assert r"\footnotesize p: by a rule.\par" in second


@pytest.mark.parametrize("text", [HOSTILE, SPECIAL, *map(chr, range(33, 127)), "--", "a\\", "\\\\", "{", "\u0302x"])
def test_latex_of_any_text_is_text(text: str) -> None:
    """Nothing of it is a command, a comment or a formula, ends a cell, or opens what it does not close."""
    written = re.compile(r"\\[{}$&#%_]|\\(?:text\w+|char34|ldots|P)\{\}|\$(?:-|\\\w+(?:\{[^{}$]*\})?)\$")
    assert not re.search(r"[\\{}$&#%_~^<>|\"`\n]|--(?!\s|$)", written.sub("", latex_text(text)).replace("{}-", ""))
    tables = tables_of([{"model": text, "n": 3}, {"model": f"x {text}"}], about=[text])
    rows = re.search(r"\\midrule\n(.*)    \\bottomrule", tables.latex(), re.DOTALL)
    assert rows is not None
    assert [len(re.findall(r"(?<!\\)&", line)) for line in rows[1].splitlines()] == [1, 1]


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex here: tables were not typeset")
def test_latex_is_typeset(tmp_path: Path) -> None:
    rows = [{"model": SPECIAL, "n": 3, "nats": -0.5, "nats_low": -0.75, "nats_high": 0.25}, {"model": "[b]", "n": 1}]
    path = tmp_path / "paper.tex"
    path.write_text(in_paper(tables_of(rows, readable(SPECIAL, [SPECIAL], rows, COLUMNS))), encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", path.name]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert ended.returncode == 0, ended.stdout.decode(errors="replace")[-2000:]


@pytest.mark.parametrize("x", ["cid_lambda", "model"])
def test_a_figure_is_the_same_bytes_again(x: str) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    lines = {"cid_lambda": ["model"], "model": ["cid_lambda"]}[x]
    how: dict[str, Any] = {"columns": {}, "title": "τ̂", "footer": "n"}
    one, two = (charts.inline_svg(figure_of(SWEPT, x, ["nats", "factkb"], lines, **how)) for _ in range(2))
    assert one == two


def test_many_points_have_a_band() -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    rows = [{"position": i, "nats": 1.0, "nats_low": 1.0 + 1e-17, "nats_high": NAN if i else 1.0} for i in range(50)]
    for some in (rows, rows[:5]):
        assert charts.inline_svg(figure_of(some, "position", ["nats"], [], columns={}, title="t", footer=""))
