"""Figures of a measure's cases: what they show is what stands in the cases, texts stay texts, bytes stay the same."""

from __future__ import annotations

from typing import Any

import pytest
from report_cases import HOSTILE

from leakmeter.report.drawing import Bar, Drawing, label, rows
from leakmeter.report.findings_exemplars import of_icl
from leakmeter.report.findings_people import of_pii
from leakmeter.report.findings_responses import of_decode, of_plans

Case = dict[str, Any]


def axes_of(drawing: Drawing) -> list[Any]:
    """The painted axes, without that of the legend."""
    return drawing.figure().axes[1:]


def ticks(texts: list[Any]) -> list[str]:
    return [text.get_text() for text in texts]


def decoded(losses: list[float | None], *, epsilon: float | None = None) -> Case:
    spent = [0.1] * len(losses)
    return {
        "response": {"tokens": ["x"] * len(losses)},
        "epsilon": None if epsilon is None else {"per_token": epsilon, "response": {"basic_nats": 1.0}},
        "private": {
            "whole_nats": float("inf") if None in losses else sum(nats for nats in losses if nats is not None),
            "spent_nats": sum(spent),
            "per_token": {"loss_nats": losses, "spent_epsilon": spent},
        },
    }


def test_headlines() -> None:
    assert of_decode([decoded([0.5, 0.25])]).headline.startswith("Told 0.75\u00a0nats of the context")
    assert "2 responses told" in of_decode([decoded([0.5]), decoded([0.25])]).headline


def test_losses_add_up_beside_their_bound() -> None:
    (panel,) = axes_of(of_decode([decoded([0.1]), decoded([0.5, 0.25, 0.125], epsilon=0.6)]).figures["loss"])
    lines = {line.get_label(): line.get_ydata() for line in panel.lines}
    assert list(lines["other cases"]) == [0.0, 0.1]
    assert list(lines["told, by the case that told most"]) == [0.0, 0.5, 0.75, 0.875]
    assert lines["spent by it"][-1] == pytest.approx(0.3, rel=1e-12)
    assert lines["promised at most"] == pytest.approx([0.0, 1.8], rel=1e-12)


def test_an_infinite_loss_ends_its_line_and_nothing_else() -> None:
    (panel,) = axes_of(of_decode([decoded([0.5, None, 0.25])]).figures["loss"])
    assert [str(nats) for nats in panel.lines[0].get_ydata()] == ["0.0", "0.5", "nan", "nan"]


def test_plans_leave_less_with_every_step() -> None:
    plan = {
        "whole_nats": 5.0, "steps": [{"left_nats": 3.0}, {"left_nats": 0.5}], "max_loss_nats": 1.0, "reached": True,
        "left_nats": 0.5, "redacted_share": 0.25, "redacted": [],
    }  # fmt: skip
    found = of_plans([plan, plan | {"reached": False}])
    assert found.headline.startswith(
        "1 of 2 plans reach their limit; they leave 0.50 [0.50, 0.50]\u00a0nats and cut 25"
    )
    (panel,) = axes_of(found.figures["left"])
    assert list(panel.lines[0].get_ydata()) == [5.0, 3.0, 0.5]
    assert panel.lines[-1].get_label() == "limit"


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


def test_values_that_a_model_rules_out_are_no_ticks() -> None:
    value = {"type": "phone", "association_nats": float("-inf"), "null_associations_nats": [1.0] * 5, "p_value": 1.0,
             "holm_p": 1.0}  # fmt: skip
    told = {"n_subjects": 2, "n_at_risk": 0, "n_known": 0, "n_extracted": 0,
            "share_at_risk_interval": [0.0, 0.6], "types": [{"type": "phone"}],
            "subjects": [{"subject": "a", "values": [value]}] * 2}  # fmt: skip
    found = of_pii([{}, {}], told)
    (panel,) = axes_of(found.figures["densities"])
    assert "true: none is finite" in ticks(panel.texts)
    (panel,) = axes_of(found.figures["p_values"])
    assert panel.lines[0].get_xdata().tolist() == [0.0, 1.0, 1.0, 1.0]
