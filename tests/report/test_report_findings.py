"""Figures of a measure's cases: what they show is what stands in the cases, texts stay texts, bytes stay the same."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from report_cases import HOSTILE, clinic, hostile, sampled, several_documents, small

from leakmeter.errors import UsageError
from leakmeter.instruments.influence.result import InfluenceResult
from leakmeter.instruments.susceptibility.fisher.result import FisherResult, summary
from leakmeter.report.drawing import Bar, Drawing, label, rows
from leakmeter.report.findings_people import of_pii
from leakmeter.report.findings_responses import of_decode, of_influence, of_plans
from leakmeter.stats.stats import bootstrap_interval_of_mean

Case = dict[str, Any]


def axes_of(drawing: Drawing) -> list[Any]:
    """The painted axes, without that of the legend."""
    return drawing.figure().axes[1:]


def ticks(texts: list[Any]) -> list[str]:
    return [text.get_text() for text in texts]


def fisher(number: int, text: str = "identity") -> Case:
    value = {"sigma": text, "fisher_nats": 1.0 + number, "interval_nats": [0.5 + number, 2.0 + number]}
    return {
        "id": f"q{number}", "place": "embeddings", "entropy_nats": 3.0 - 0.1 * number, "n_query_tokens": 5 + number,
        "values": [value], "factors": {}, "cost": {"tree_tokens": 1, "naive_tokens": 1},
    }  # fmt: skip


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


def test_pieces_of_several_cases_are_means_with_their_intervals() -> None:
    cases = [small(number) for number in range(4)]
    for number, case in enumerate(cases):
        case["pieces"] = [piece | {"nats": piece["nats"] * (1 + number)} for piece in case["pieces"]]
    cases[0]["pieces"].append(cases[0]["pieces"][0] | {"name": "s3"})  # which a quarter of the cases have
    (panel,) = axes_of(of_influence(cases).figures["pieces"])
    for place, name in enumerate(("s0", "s1", "s2")):
        nats = [piece["nats"] for case in cases for piece in case["pieces"] if piece["name"] == name]
        assert panel.patches[place].get_height() == pytest.approx(np.mean(nats), rel=1e-12)
        arm = panel.collections[0].get_segments()[place][:, 1]
        assert arm.tolist() == pytest.approx(bootstrap_interval_of_mean(nats, seed=0), rel=1e-12)
    assert ticks(panel.get_xticklabels()) == ["s0", "s1", "s2"]


def test_pieces_that_are_not_alike_are_not_averaged() -> None:
    assert "pieces" not in of_influence([clinic(), several_documents()]).figures
    assert "pieces" not in of_influence([small(1) | {"unit": "entity"}, small(2) | {"unit": "entity"}]).figures


def test_pieces_of_one_case_have_intervals_where_responses_were_drawn() -> None:
    case = sampled()
    (panel,) = axes_of(of_influence([case]).figures["pieces"])
    drawn = panel.collections[0].get_segments()
    for segment, piece in zip(drawn, case["pieces"], strict=True):
        assert segment[:, 0].tolist() == pytest.approx(piece["interval_nats"], rel=1e-12)
    (panel,) = axes_of(of_influence([small(1)]).figures["pieces"])
    assert panel.lines[0].get_xdata().tolist() == [piece["nats"] for piece in small(1)["pieces"]]


def test_the_heat_map_is_of_the_case_that_owes_most() -> None:
    case = clinic()
    panel, _ = axes_of(of_influence([small(1), case, small(2)]).figures["tokens"])
    units = [piece for piece in case["pieces"] if piece["kind"] == "unit"]
    assert panel.collections[0].get_array().tolist() == [piece["per_token"] for piece in units]
    assert ticks(panel.get_xticklabels())[7].strip() == "cough"


def test_headlines() -> None:
    assert of_influence([clinic()]).headline.startswith("The context as a whole changed this response by ")
    assert of_influence([small(1), small(2)]).headline == (
        "The contexts changed 2 responses by 16.0 [16.0, 16.0]\u00a0nats on average, and one by 16.0\u00a0nats."
    )
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


def test_fisher_values_stand_against_what_else_explains_them() -> None:
    cases = [fisher(number) for number in range(12)]
    found = FisherResult.findings(cases)
    assert found.summary == summary(cases)
    length, entropy = axes_of(found.figures["values"])
    assert length.lines[0].get_xdata().tolist() == [case["n_query_tokens"] for case in cases]
    assert entropy.lines[0].get_ydata().tolist() == [case["values"][0]["fisher_nats"] for case in cases]
    assert (length.get_title(), entropy.get_title()) == ("Σ identity, Spearman 1.00", "Σ identity, Spearman −1.00")


def test_no_text_is_a_formula_or_breaks_a_figure() -> None:
    assert label("pay $5 and $6", 40) == r"pay \$5 and \$6"
    attack = HOSTILE + r" $\frac{1}{0}$ ${ \$x$"
    case = hostile()
    case["pieces"] = [piece | {"name": attack, "text": attack} for piece in case["pieces"]]
    case["response"] = case["response"] | {"tokens": [attack] * len(case["response"]["tokens"])}
    for drawing in of_influence([case]).figures.values():
        found = drawing.encoded()
        assert found["png"].startswith(b"\x89PNG")
        assert b"<script" not in found["svg"]
    drawing = Drawing("T", ("x",), lambda panel, _: rows(panel, [Bar(attack, 1.0)], x_label="nats"))
    (shown,) = ticks(axes_of(drawing)[0].get_yticklabels())
    assert "\x1b" not in shown
    assert shown.startswith("</script><img src=x")
    FisherResult.findings([fisher(0, attack)]).figures["values"].encoded()


def test_the_same_cases_give_the_same_bytes() -> None:
    first, again = (of_influence([clinic()]).figures for _ in range(2))
    assert list(first) == ["pieces", "tokens"]
    for name in first:
        assert first[name].encoded() == again[name].encoded()


def test_a_notebook_shows_a_figure() -> None:
    figure = of_influence([small(1)]).figures["pieces"].figure()
    assert vars(figure)["_repr_png_"]() == of_influence([small(1)]).figures["pieces"].encoded()["png"]


def test_without_matplotlib_the_sentence_is_still_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    found = InfluenceResult.findings([small(1)])
    assert found.headline
    with pytest.raises(UsageError, match=r"pip install 'leakmeter\[plots\]'"):
        found.figures["pieces"].figure()


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
