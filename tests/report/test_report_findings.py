"""Figures of a measure's cases: what they show is what stands in the cases, texts stay texts, bytes stay the same."""

from __future__ import annotations

from typing import Any

from report_cases import HOSTILE

from leakmeter.report.drawing import Bar, Drawing, label, rows

Case = dict[str, Any]


def axes_of(drawing: Drawing) -> list[Any]:
    """The painted axes, without that of the legend."""
    return drawing.figure().axes[1:]


def ticks(texts: list[Any]) -> list[str]:
    return [text.get_text() for text in texts]


def test_no_text_is_a_formula_or_breaks_a_figure() -> None:
    assert label("pay $5 and $6", 40) == r"pay \$5 and \$6"
    attack = HOSTILE + r" $\frac{1}{0}$ ${ \$x$"
    drawing = Drawing("T", ("x",), lambda panel, _: rows(panel, [Bar(attack, 1.0)], x_label="nats"))
    (shown,) = ticks(axes_of(drawing)[0].get_yticklabels())
    assert "\x1b" not in shown
    assert shown.startswith("</script><img src=x")
