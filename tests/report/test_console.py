"""A terminal of 80 columns: lines that end between words, numbers that are whole, ids that differ, and the finding at
the end."""

from __future__ import annotations

import io
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from helpers.report_checks import flat
from leakmeter.report import blocks as b
from leakmeter.report import console

UUIDS = [str(UUID(int=3**n)) for n in range(70, 81)]
NUMBERED = [f"conversation-2026-11-30-support-desk-{n:04}-final-answer" for n in range(40)]


def printed(report: b.Report, width: int = 80) -> list[str]:
    sink = io.StringIO()
    Console(file=sink, width=width).print(console.view(report, explain=False, ends_with_headline=True))
    return [line.rstrip() for line in sink.getvalue().splitlines()]


def report_of(ids: list[str], n_lines: int = 0) -> b.Report:
    named = tuple(part for id_ in ids[:3] for part in (b.Untrusted(id_, 24), "; "))
    rows = [b.Row((b.Untrusted(id_), 1.0, "a")) for id_ in ids]
    columns = (b.Column("Case"), b.Column("Nats", "nats"), b.Column("What"))
    return b.Report(
        "Title",
        "influence",
        blocks=[
            b.Headline(("Most: ", *named, "found.")),
            *(b.Text(f"Line {number}.", detail=False) for number in range(n_lines)),
            b.Table(columns, rows, "Disclosed", first=len(rows)),
        ],
        sections=[b.Section(b.Untrusted(id_, 80), (), (1.0,), weight=1.0) for id_ in ids],
        index=(b.Column("Nats", "nats"),),
    )


@pytest.mark.parametrize("ids", [UUIDS, NUMBERED, [f"{n:02}{'x' * 40}{n:02}" for n in range(20)]])
def test_ids_are_short_distinct_and_the_same_wherever_they_are_said(ids: list[str]) -> None:
    lines = printed(report_of(ids))
    table = lines[lines.index("Disclosed") + 2 :][: len(ids)]
    shown = [line.split()[0] for line in table]
    assert len(set(shown)) == len(ids)
    assert max(map(cell_len, shown)) <= 16
    headline = flat(" ".join(lines[:3]))
    assert all(name in headline for name in shown[:3])
    assert not any(id_ in line for id_ in ids for line in lines)


def test_ids_that_fit_stay_as_they_are() -> None:
    report = report_of([f"case-{n}" for n in range(3)])
    assert console.view(report).report is report
    # Those that only some places would cut are whole there too.
    lines = printed(report_of(["a-case-of-16-chr", "b"]))
    assert lines[0].startswith("Most: a-case-of-16-chr; b; ")


def test_names_that_nothing_short_tells_apart_stay_whole() -> None:
    names = [f"{'a' * 30}{n}{'b' * 30}" for n in range(10)] + [f"{'c' * 60}", f"{'c' * 61}"]
    assert console.short_names(names, 16) == {name: name for name in names}
    assert console.short_names(["short", "x" * 17], 16) == {"x" * 17: "xxxxxxxxxx…xxxxx"}
    assert console.short_names([], 16) == {}


def test_the_finding_is_said_again_where_it_has_scrolled_out() -> None:
    (headline, *_) = long = printed(report_of(["a", "b"], n_lines=24))
    assert long[-2:] == ["", headline]
    short = printed(report_of(["a", "b"]))
    assert short.count(headline) == 1
    assert len(short) <= console.SCREEN_LINES


def test_no_line_ends_within_an_interval_or_before_a_unit() -> None:
    text = "the contexts changed 25 given responses by 32.6 [20.9, 46.4] nats on average, 88\u00a0% [70, 96] of them"
    for width in range(20, 90):
        lines = console.wrapped(Text(text), width).plain.split("\n")
        assert " ".join(line.rstrip() for line in lines) == text
        assert all(cell_len(line.rstrip()) <= width for line in lines)
        for line in lines:
            assert line.count("[") == line.count("]")
            assert not line.endswith("88")


@given(st.text(alphabet="ab é漢[],1.9 \n\u00a0", max_size=200), st.integers(1, 40))
def test_wrapping_changes_nothing_but_spaces_to_ends_of_lines(text: str, width: int) -> None:
    made = console.wrapped(Text(text), width)
    assert len(made.plain) == len(Text(text).plain)
    assert made.plain.replace("\n", " ") == Text(text).plain.replace("\n", " ")


def test_styles_keep_their_places() -> None:
    text = Text.assemble("aaaa bbbb ", ("cccc dddd", "bold"))
    made = console.wrapped(text, 9)
    assert made.plain == "aaaa bbbb\ncccc dddd"
    assert [(span.start, span.end) for span in made.spans] == [(10, 19)]


def test_names_of_numbers_are_folded_at_their_marks() -> None:
    columns = (b.Column("Number"), b.Column("Run 1", "number"), b.Column("95\u00a0%", "interval"), b.Column("Verdict"))
    row = b.Row(("influence.disclosures.personal, disclosures", "0.32", "[0.005, 0.95]", "no difference beyond chance"))
    lines = printed(b.Report("T", "m", [b.Table(columns, [row], "Means")]), width=60)
    text = "\n".join(lines)
    assert "[0.005, 0.95]" in text
    words = {word for line in lines for word in line.split()}
    assert {"difference", "disclosures"} <= {word.strip(",.") for word in words}
