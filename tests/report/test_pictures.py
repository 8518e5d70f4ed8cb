"""Pictures at the heads of pages: each number on a line below its name, in letters that can be read on a telephone."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from helpers.report_cases import HOSTILE
from helpers.report_checks import assert_harmless
from leakmeter.report import blocks as b
from leakmeter.report import charts, html
from leakmeter.report.pictures import PictureLine, picture

LINES = (
    PictureLine("the first", 3.0, "3.00", "high", (2.0, 4.5), (1.0, 1.5)),
    PictureLine(("a query of ", b.Untrusted("somebody")), 1.0, "1.00", "low", None, (0.5,)),
    PictureLine("the last", 0.5, "0.50", "low"),
)


def made(*lines: PictureLine, **more: Any) -> b.Chart:
    told = {"others": "decoys", "guides": [b.Guide(2.5, "limit", "x")]} | more
    return picture("lines", "What was found", b.Axis("loss", "nats"), lines or LINES, **told)


def test_each_number_is_on_its_line_with_what_it_is_compared_with() -> None:
    decoys, high, low = made().panels[0].series
    assert (list(decoys.x), list(decoys.y)) == ([0, 0, 1], [1.0, 1.5, 0.5])
    assert (list(high.x), list(high.y), list(high.low), list(high.high)) == ([0], [3.0], [2.0], [4.5])
    # Without an interval both ends are the number.
    assert (list(low.x), list(low.y), list(low.low), list(low.high)) == ([1, 2], [1.0, 0.5], [1.0, 0.5], [1.0, 0.5])
    assert [series.colour for series in made(colours={"high": 4, "low": 0}).panels[0].series] == [None, 4, 0]
    assert [series.name for series in made(PictureLine("alone", 1.0)).panels[0].series] == [""]


def test_names_stand_above_their_lines_and_nothing_is_drawn_through_them() -> None:
    (axes,) = charts.figure(made()).axes
    at = {text.get_text(): text.get_position()[1] for text in axes.texts}
    assert list(at) == ["the first", "3.00", "a query of somebody", "1.00", "the last", "0.50"]
    assert at["the first"] == at["3.00"]
    low, high = axes.get_ylim()[::-1]
    assert low < at["the first"] < 0 < at["a query of somebody"] < 1 < at["the last"] < 2 < high
    (limit,) = (line for line in axes.lines if line.get_label() == "limit")
    drawn = [y for y in limit.get_ydata() if y == y]  # type: ignore[union-attr]
    assert not any(row - 0.6 < y < row - 0.24 for y in drawn for row in range(3))


@pytest.mark.parametrize("n", [1, 3, 20])
def test_letters_are_11_pixels_high_on_a_telephone(n: int) -> None:
    svg = charts.inline_svg(made(*(PictureLine(f"line {i}", float(i), str(i)) for i in range(n))))
    (width,) = re.findall(r'viewBox="0 0 ([\d.]+) ', svg)
    sizes = [float(size) for size in re.findall(r'font-size="([\d.]+)', svg)]
    # 16 pixels are left free at either side of a page of 390.
    assert sizes
    assert min(sizes) * 358 / float(width) >= 11
    assert svg.count("<text") >= 2 * n


def test_a_page_shows_it_below_what_to_do_and_above_the_cases() -> None:
    sections = [b.Section(name, [b.Text("More.")], weight=1.0) for name in ("one", "two")]
    report = b.Report("T", "m", [b.Headline("Found."), b.Text("Why."), b.Advice([("found", "do")]), made()])
    page = html.page(replace(report, sections=sections))
    order = [page.index(words) for words in ("Found.", "Why.", "What to do</h3>", "<svg", '<details class="line"')]
    assert order == sorted(order)
    assert b.charts_of(report) == [made()]


def test_names_of_users_are_not_obeyed() -> None:
    hostile = b.Untrusted(HOSTILE)
    chart = made(PictureLine(hostile, 1.0, hostile, hostile, (0.5, 2.0), (0.1,)))
    assert_harmless(html.page(b.Report("T", "m", [b.Headline("Found."), chart])))
    assert b"<script" not in charts.files(chart)["svg"]
