"""Pictures at the heads of pages: one number a line or a bar, as wide as a telephone, looked at before
anything is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leakmeter.report import blocks as b


@dataclass(frozen=True, slots=True)
class PictureLine:
    """A number in a picture, on a line of its own."""

    name: b.Phrase
    value: float
    said: b.Phrase = ""
    """At the end of the line."""
    kind: b.Phrase = ""
    """Numbers of a kind have a colour, and a name in the legend."""
    ends: tuple[float, float] | None = None
    """Of its interval."""
    others: Sequence[float] = ()
    """What it is compared with, as strokes."""


def picture(
    name: str,
    title: str,
    axis: b.Axis,
    lines: Sequence[PictureLine],
    *,
    guides: Sequence[b.Guide] = (),
    others: str = "",
    colours: Mapping[b.Phrase, int] | None = None,
    footer: str = "",
) -> b.Chart:
    """The picture at the head of a page, as wide as a telephone. `others` names the strokes; colours of kinds are in
    the order of the lines where none are given."""
    strokes = [(other, place) for place, line in enumerate(lines) for other in line.others]
    xs, places = [other for other, _ in strokes], [place for _, place in strokes]
    series = [b.ChartSeries("ticks", xs, places, others, faded=True)] if strokes else []
    for number, kind in enumerate(dict.fromkeys(line.kind for line in lines)):
        alike = [(place, line) for place, line in enumerate(lines) if line.kind == kind]
        ends = [line.ends or (line.value, line.value) for _, line in alike]
        series.append(
            b.ChartSeries(
                "rows", [line.value for _, line in alike], [place for place, _ in alike], kind,
                [low for low, _ in ends], [high for _, high in ends], labels=[line.said for _, line in alike],
                colour=number if colours is None else colours[kind],
            )
        )  # fmt: skip
    panel = b.Panel(axis, b.Axis("", names=[line.name for line in lines]), series, guides=guides, named_above=True)
    inches = 4.0, 0.75 + 0.36 * max(len(lines), 2)
    return b.Chart(name, title, (panel,), footer=footer, panel_inches=inches, first=True)


def bars(
    name: str,
    title: str,
    axis: b.Axis,
    lines: Sequence[tuple[b.Phrase, float, b.Phrase]],
    guides: Sequence[b.Guide] = (),
) -> b.Chart:
    """The picture of lengths beside limits: a bar for each (name, length, label), as wide as a telephone."""
    names, lengths, labels = zip(*lines, strict=True)
    series = b.ChartSeries("lengths", lengths, labels=labels, colour=b.HOUSE)
    panel = b.Panel(axis, b.Axis("", names=names), (series,), guides=guides)
    return b.Chart(name, title, (panel,), panel_inches=(4.0, 0.75 + 0.3 * len(lines)), on="pages", first=True)
