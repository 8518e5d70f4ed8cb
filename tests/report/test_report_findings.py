"""Figures of a measure's cases: what they show is what stands in the cases, texts stay texts, bytes stay the same."""

from __future__ import annotations

from typing import Any

from report_cases import HOSTILE

from leakmeter.report.drawing import Bar, Drawing, label, rows
from leakmeter.report.findings_exemplars import of_icl

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


def test_a_row_without_anything_finite_is_left_out() -> None:
    case: Case = {
        "id": "q", "labels": ["a", "b"], "exemplars": [], "loss_nats": None, "prediction": "a", "worst_exemplar": "e1",
        "gold": None, "is_right": None, "noise_floor_nats": 0.0, "warnings": [],
        "label_probabilities": [0.5, 0.5], "label_mass": 1.0, "space": "labels",
    }  # fmt: skip
    exemplar = {"name": "e1", "position": 1, "id": "e", "text": "x", "label": "a", "n_tokens": 1, "loss_nats": None,
                "signed_nats": [None, 0.0], "below_noise_floor": False}  # fmt: skip
    told = {"n": 2, "mean_nats": None, "std_nats": None, "interval_nats": None, "exemplars": None,
            "positions": [{"position": 1, "mean_nats": None, "interval_nats": None}]}  # fmt: skip
    cases = [case | {"exemplars": [exemplar]}] * 2
    assert not of_icl(cases, told).figures
