"""A frontier as a figure and in a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.examples import few
from helpers.report_cases import HOSTILE
from helpers.report_checks import assert_report_harmless
from helpers.report_snapshots import assert_as_reviewed, printed
from leakmeter.commands.studies.tables import readable, share_text, to_markdown
from leakmeter.instruments.decoding.frontier import COLUMNS, Frontier
from leakmeter.instruments.decoding.frontier_report import figure_of, report
from leakmeter.report import charts

SNAPSHOTS = Path(__file__).parent / "snapshots"


def told(
    kind: str = "cid_lambda", verdict: str = "knee", *, n: int = 4, intervals: bool = True, **more: Any
) -> Frontier:
    rows: list[dict[str, Any]] = []
    for i in range(n):
        row: dict[str, Any] = {kind: 0.5 * i + 0.5, "n": 9}
        if kind == "epsilon":
            row |= {"guaranteed_nats_most": 12.0 * i, "spent_nats_most": 3.25}
        for name, value in (("nats", 2.0 * i), ("nats_per_token", 0.1 * i), ("rouge_l_f1", 0.2 - 0.1 / (i + 1))):
            row |= {name: value, f"{name}_low": value - 0.01 if intervals else None}
            row[f"{name}_high"] = value + 0.02 if intervals else None
        if i < n - 1:
            row |= {f"rouge_l_f1_less_best{end}": -0.01 for end in ("", "_low", "_high")}
        row["rouge_l_f1_knee_share"] = (0.994 if i == 1 else 0.002) if verdict == "knee" else None
        rows.append(row)
    knee = rows[1][kind] if verdict == "knee" else None
    choice = {
        "verdict": verdict, "ship": knee, "settled": verdict == "knee" and kind == "epsilon", "best": rows[-1][kind],
        "least_leaking": rows[0][kind], "no_knee_share": None, "n_resamples": 2000, "knee": knee,
        "efficient": [row[kind] for row in rows if row[kind] != 1.5], "sentence": "ROUGE-L F1: ship it.",
    }  # fmt: skip
    decoding = {"temperature": 0.8, "lambda_max": 1.0, "min_new_tokens": 0, "max_new_tokens": 24, "samples": 2}
    model = {"name": "toy", "dtype": "float64", "device": "cpu"}
    plain = {"kind": kind, "model": model, "decoding": decoding, "n_cases": 9, "n_truncated": 0, "settings": rows}
    return Frontier.from_dict(plain | {"choices": {"rouge_l_f1": choice}} | more)


def shown(found: Frontier) -> str:
    return printed(report(found), width=160)


@pytest.mark.parametrize(
    ("kind", "verdict", "n", "intervals"),
    few([
        ("cid_lambda", "knee", 4, True), ("epsilon", "one setting", 1, True), ("epsilon", "same utility", 2, False),
        ("cid_lambda", "same utility", 4, True),
    ]),
)  # fmt: skip
def test_a_figure_is_the_same_bytes_again(tmp_path: Path, kind: str, verdict: str, n: int, intervals: bool) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    figure = figure_of(told(kind, verdict, n=n, intervals=intervals), footer="from nowhere")
    paths = [charts.write(figure, tmp_path / name) for name in ("one", "two")]
    assert [path.name for both in paths for path in both] == ["one.png", "one.svg", "two.png", "two.svg"]
    one, two = ([path.read_bytes() for path in both] for both in paths)
    assert one == two


def test_the_terminal_has_a_line_for_each_setting_and_says_what_to_ship() -> None:
    text = shown(told())
    assert "uaranteed" not in text
    assert "The end of 2 contexts did not fit" in shown(told(n_truncated=2))
    assert "[1.99" not in shown(told("epsilon", intervals=False))
    shares = (0.0, 0.0005, 0.25, 0.9999, 1.0)
    assert [share_text(share) for share in shares] == ["0 %", "1 %", "25 %", "99 %", "100 %"]


def test_what_a_frontier_says_is_as_reviewed() -> None:
    assert_as_reviewed(SNAPSHOTS / "frontier.txt", report(told("epsilon")))
    assert_report_harmless(report(told(model={"name": HOSTILE, "dtype": "float64", "device": "cpu"})))


def test_markdown_shows_shares_and_hundredths() -> None:
    text = to_markdown(readable("t", [], told("epsilon").settings, COLUMNS))
    assert "| 1.0 | 9 | 12.00 | 3.25 | 2.00 [1.99, 2.02] |" in text
    assert "-1.00 [-1.00, -1.00]" in text
    assert "99 %" in text
    assert text.splitlines()[-1].endswith("| – | 1 % |")


def test_the_figure_marks_the_knee_and_says_what_another_setting_beats() -> None:
    (panel,) = figure_of(told("epsilon"), footer="f").panels
    curve, beaten, chord, knee = panel.series
    assert list(curve.labels) == ["0.5", "1", "1.5", "2"]
    assert (curve.low[0], curve.high[0], curve.x_low[1]) == pytest.approx((9.0, 12.0, 1.99))
    assert (list(beaten.x), list(chord.x), list(knee.x)) == ([4.0], [0.0, 6.0], [2.0])
    assert knee.remark == "knee: ε = 1, in 99 % of resamples"
    assert figure_of(told(), footer="f").panels[0].series[-1].remark.startswith("unsettled knee: λ = 1")
    (panel,) = figure_of(told(verdict="same utility"), footer="f").panels
    assert panel.series[0].remark == "no knee: utility does not rise by more than its interval"
