"""Audits of private generation on terminal and page: verdict first, guarantee and spent apart, nothing obeyed."""

from __future__ import annotations

import copy
import io
import math
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_browser import CHROMIUM, Browser
from report_cases import HOSTILE
from rich.cells import cell_len
from rich.console import Console

import leakmeter
from leakmeter.errors import UsageError
from leakmeter.instruments.generation.result import summary
from leakmeter.report import audit_chart, audit_figure, frame
from leakmeter.report import audit_words as words
from leakmeter.report.audit_page import render_audit, render_public_audit
from leakmeter.report.audit_terminal import audit_overview, audit_public_view, audit_view

Case = dict[str, Any]
TEXTS = [f"The ferry no. {i} sails at {i}." for i in range(14)]


@pytest.fixture(scope="module")
def audited() -> list[Case]:
    """Two batches of seven exemplars, drawn by the toy model; do not change them."""
    made = leakmeter.audit(
        "toy", exemplars=TEXTS, instruction="Write.", subset_size=7, epsilon=8, sequences=3, max_new_tokens=6, seed=1
    )
    return [result.case for result in made.results]


@pytest.fixture
def case(audited: list[Case]) -> Case:
    return copy.deepcopy(audited[0])


def broken(case: Case) -> Case:
    """The case with two failures."""
    told = {**case["verdict"]["worst_token"], "order": 7.0, "measured_nats": 1.5, "promised_nats": 1.25, "ratio": 1.2}
    total = {**told, "sequence": None, "token": None, "token_text": None, "measured_nats": None, "ratio": None}
    verdict = {**case["verdict"], "holds": False, "failures": [total, told]}
    return {**case, "verdict": verdict}


def hostile(case: Case) -> Case:
    for one in case["exemplars"]:
        one |= {"text": HOSTILE, "id": HOSTILE}
    for one in case["sequences"]:
        one |= {"text": HOSTILE, "tokens": [HOSTILE] * len(one["tokens"])}
    case["verdict"]["worst_token"]["token_text"] = HOSTILE
    copied = {"sequence": 0, "start": 0, "end": 5, "longest_run": 5, "text": HOSTILE, "exemplar": "e1"}
    case["text_quality"] |= {"verbatim": [copied], "longest_verbatim_tokens": 5, "verbatim_share": 0.25}
    case["public"] |= {"texts": [HOSTILE], "query": HOSTILE, "model": HOSTILE}
    case["mechanism"] = {"name": HOSTILE, HOSTILE: HOSTILE}
    return case | {"id": HOSTILE, "model": HOSTILE, "query": HOSTILE, "warnings": [HOSTILE]}


def printed(view: Any, *, width: int = 80) -> str:
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=False, markup=False, highlight=False, _environ={}).print(view)
    return out.getvalue()


def flat(text: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", text).split())


def test_the_verdict_comes_first_and_the_guarantee_is_not_what_was_spent(case: Case) -> None:
    case["promise"]["spent"] |= {"n_tokens": 9, "epsilon": 4.25}
    for said in (flat(printed(audit_view(case))), flat(render_audit([case], summary([case])).split("</style>")[1])):
        assert said.index("Kept: nothing that was measured is above its promise.") < 120
        assert "ε = 8.00 at δ = 1e-5, for up to 18 tokens" in said
        assert "ε = 4.25 for the 9 tokens there are; no guarantee, since the texts themselves decide" in said
        assert "never confirm it" in said
        assert flat(words.measured([case])) in said
    assert flat(printed(audit_view(case))).startswith("Kept")


def test_a_broken_promise_names_exemplar_and_token(case: Case) -> None:
    told = broken(case)
    worst = told["verdict"]["worst_token"]
    where = f"token {worst['token'] + 1} of sequence {worst['sequence'] + 1}"
    for said in (flat(printed(audit_view(told))), flat(render_audit([told], summary([told])))):
        assert "Broken: more was measured than was promised." in said
        assert "Kept" not in said.split("Measured : D")[0]
        assert f"Exemplar {worst['exemplar']} ({worst['exemplar_id']}), {where}" in said
        assert "1.50 of 1.25 nats promised at order 7 (120 %)" in said
        assert "all tokens together: ∞ of 1.25 nats promised" in said
        assert "never confirm" not in said
        assert "cannot show this" in said
        assert "Guarantee" not in said


def test_who_paid_most_is_first_and_the_paper_stands_beside_no_leak(case: Case) -> None:
    ranked = words.by_rank(case)
    assert [one["rank"] for one in ranked] == list(range(1, 8))
    told = [one["measured_nats"] for one in ranked]
    assert told == sorted(told, reverse=True)
    said = printed(audit_view(case))
    paid = said[said.index("Exemplars that paid most") : said.index("Tokens that used most")]
    assert paid.index(words.exemplar_text(case, ranked[0]["name"])) < paid.index(
        words.exemplar_text(case, ranked[1]["name"])
    )
    (_, epsilon), (_, zero), (_, promised) = words.convention(case)
    assert zero < epsilon
    assert promised == case["promise"]["guarantee"]["epsilon"]
    assert "which is no verdict" in said
    assert "of a mechanism that tells nothing" in said


def test_the_worst_tokens_are_those_that_used_most(case: Case) -> None:
    shares = [
        (share, f"{i + 1}, {t + 1}")
        for i, one in enumerate(case["sequences"])
        for t, share in enumerate(one["per_token"]["share_of_promise"])
    ]
    rows = words.worst_tokens(case)
    assert [row.place for row in rows] == [place for _, place in sorted(shares, key=lambda of: -of[0])[: len(rows)]]
    worst = case["verdict"]["worst_token"]
    assert rows[0].place == f"{worst['sequence'] + 1}, {worst['token'] + 1}"
    assert rows[0].exemplar == words.exemplar_text(case, worst["exemplar"])
    assert rows[0].share == words.share_text(worst["ratio"])


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(audited: list[Case], width: int) -> None:
    views = (
        audit_view(audited[0]), audit_overview(audited, summary(audited)),
        audit_public_view([case["public"] for case in audited]),
    )  # fmt: skip
    for view in views:
        assert all(cell_len(line) <= width for line in printed(view, width=width).split("\n"))


def test_several_batches_have_one_verdict_and_a_line_each(audited: list[Case]) -> None:
    other = broken(audited[1])
    for cases, said in (
        (audited, "Kept: nothing that was measured in any of 2 batches is above its promise."),
        ([audited[0], other], "Broken: more was measured than was promised in 1 of 2 batches."),
    ):
        told = flat(printed(audit_overview(cases, summary(cases))))
        page = flat(render_audit(cases, summary(cases)))
        assert told.startswith(said)
        assert said in page
        assert "batch 1 kept" in told
        assert "which share no exemplar" in page
    # The broken one comes first.
    text = render_audit([audited[0], other], summary([audited[0], other]))
    assert text.index('<p class="eyebrow"><bdi>batch 2') < text.index('<p class="eyebrow"><bdi>batch 1')


def test_a_text_in_two_batches_is_told(audited: list[Case]) -> None:
    cases = [audited[0], {**audited[0], "id": "again"}]
    said = "7 exemplars stand in several batches with the same text; for whoever wrote it, these batches add up."
    assert said in flat(printed(audit_overview(cases, summary(cases))))
    assert said in flat(render_audit(cases, summary(cases)))


def test_what_does_not_fit_is_left_out_and_said(audited: list[Case], monkeypatch: pytest.MonkeyPatch) -> None:
    many = [{**audited[0], "id": f"b{i}"} for i in range(9)]
    whole = render_audit(many, summary(many))
    monkeypatch.setattr(frame, "PAGE_BYTES", len(whole.encode()) * 2 // 3)
    less = render_audit(many, summary(many))
    assert len(less.encode()) <= frame.PAGE_BYTES
    n_shown = less.count('<article class="case"')
    assert 1 <= n_shown < 9
    assert f"{9 - n_shown} further batches are left out of this page" in flat(less)
    with pytest.raises(UsageError, match="no batch to show"):
        render_audit([], {})


def test_hostile_texts_are_shown_and_not_obeyed(case: Case) -> None:
    told = hostile(case)
    cases = [told, told]
    pages = (
        render_audit(cases, summary(cases), command=HOSTILE, run={"directory": HOSTILE}),
        render_public_audit([told["public"]]),
    )
    for page in pages:
        assert "<script" not in page
        assert "\x1b" not in page
        assert "\u202e" not in page
    for view in (audit_view(told), audit_overview(cases, summary(cases)), audit_public_view([told["public"]])):
        said = printed(view, width=200)
        assert "\x1b" not in said
        assert "\u202e" not in said


def test_the_public_page_has_texts_and_promise_and_nothing_else(audited: list[Case]) -> None:
    publics = [case["public"] for case in audited]
    page, view = render_public_audit(publics), printed(audit_public_view(publics))
    body = page.split("</style>")[1]
    for said in (flat(body), flat(view)):
        assert "ε = 8.00 at δ = 1e-5, for up to 18 tokens" in said
        assert "one exemplar more or less" in said
        for secret in ("ferry", "Kept", "spent", "Spent", "measured", "batch 1", "e1", "<svg"):
            assert secret not in said
    assert body.count("<li>") == sum(len(public["texts"]) for public in publics)
    assert "all of them voted" in flat(body)
    other = [{**public, "mechanism": {"name": "BoundedCid", "epsilon": 0.5}} for public in publics]
    assert "all of them voted" not in flat(render_public_audit(other))
    with pytest.raises(UsageError, match="nothing may be published"):
        render_public_audit([])


def test_nothing_is_promised_of_texts_that_were_given(case: Case) -> None:
    case["promise"]["guarantee"], case["public"] = None, None
    for said in (flat(printed(audit_view(case))), flat(render_audit([case], summary([case])))):
        assert "Nothing is promised of these texts" in said


def places(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"([\d.]+) ([\d.]+)", path)]


def test_both_axes_of_the_drawing_are_logarithmic(case: Case) -> None:
    rows = [row for row in case["by_order"] if row["order"] is not None]
    for row, nats in zip(rows, np.geomspace(1e-3, 10.0, len(rows)), strict=True):
        row |= {"promised_nats": 40.0 * nats, "measured_nats": nats, "sum_of_maxima_nats": 2 * nats}
    drawn = audit_chart.log_log(case)
    assert drawn is not None
    xs = [x for x, _ in places(drawn.promised.path)]
    logs = [math.log(row["order"]) for row in rows]
    assert np.polyfit(logs, xs, 1) @ [logs[2], 1] == pytest.approx(xs[2], abs=0.2)
    decade = drawn.levels[0][0] - drawn.levels[1][0]
    for (_, above), (_, below) in zip(places(drawn.promised.path), places(drawn.measured.path), strict=True):
        assert below - above == pytest.approx(decade * math.log10(40), abs=0.2)
    assert [label for _, label in drawn.levels] == ["0.001", "0.01", "0.1", "1", "10", "100", "1000"]
    assert drawn.order_x == next(x for x, label in drawn.ticks if f"α = {label}" == drawn.order_label)
    names = sorted(line.label_y for line in (drawn.promised, drawn.measured, drawn.maxima))
    assert all(b - a > 17 for a, b in pairwise(names))


def test_zero_lies_on_the_floor_of_the_drawing_and_infinity_is_not_drawn(case: Case) -> None:
    case["by_order"][0] |= {"measured_nats": 0.0, "sum_of_maxima_nats": 0.0}
    drawn = audit_chart.log_log(case)
    assert drawn is not None
    assert places(drawn.measured.path)[0][1] == audit_chart.HEIGHT
    assert "order 2: measured, of one exemplar 0 nats" in drawn.measured.dots[0][2]
    case["by_order"][0]["measured_nats"] = None
    assert audit_chart.log_log(case) is None
    assert "<svg" not in render_audit([case], summary([case]))
    assert "∞" in printed(audit_view(case))


@pytest.mark.parametrize(("clip", "temperature", "n_vocab"), [(2.0, 1.0, 5), (10.0, 4.8, 50_000), (0.1, 3.0, 2)])
def test_the_likeliest_token_is_that_of_a_softmax(clip: float, temperature: float, n_vocab: int) -> None:
    votes = np.full(n_vocab, -clip) / temperature
    votes[0] = clip / temperature
    assert words.most_likely(clip, temperature, n_vocab) == pytest.approx(
        np.exp(votes[0]) / np.exp(votes).sum(), rel=1e-12
    )


def test_settings_that_leave_noise_alone_are_told(case: Case) -> None:
    for temperature, is_told in ((4.8, True), (1.0, False)):
        case["mechanism"] |= {"clip": 10.0, "temperature": temperature}
        for said in (flat(printed(audit_view(case))), flat(render_audit([case], summary([case])))):
            assert ("gets 0.129 % at most. Most of what is drawn is noise then" in said) == is_told
    case["mechanism"] = {"name": "BoundedCid", "epsilon": 0.5}
    assert words.noise(case) is None


def rows_of_study() -> list[dict[str, Any]]:
    return [
        {
            "target_epsilon": epsilon, "promised_rdp_nats": epsilon / 2, "measured_rdp_nats": measured,
            "sum_of_maxima_nats": measured, "promised_epsilon": epsilon, "paper_epsilon": 0.95 * epsilon,
            "zero_leak_epsilon": 0.9 * epsilon, "printed_epsilon": None if epsilon == 1.0 else 0.97 * epsilon,
        }
        for epsilon, measured in ((1.0, 0.01), (10.0, 0.1), (100.0, math.inf))
    ]  # fmt: skip


def test_the_figure_of_a_study_is_the_same_bytes_again(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in ("one", "two"):
        paths = audit_figure.draw(
            rows_of_study(), x="target_epsilon", lines=[], title="T", footer="f", stem=tmp_path / name
        )
        assert [path.suffix for path in paths] == [".png", ".svg"]
    for suffix in (".png", ".svg"):
        assert (tmp_path / f"one{suffix}").read_bytes() == (tmp_path / f"two{suffix}").read_bytes()


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: the page was not opened in a browser")
def test_the_page_asks_nothing_of_the_network_and_fits_a_telephone(audited: list[Case], tmp_path: Path) -> None:
    file = tmp_path / "audit.html"
    file.write_text(render_audit(audited, summary(audited)), encoding="utf-8")
    with Browser() as browser:
        browser.call("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=True)
        browser.open(file.as_uri())
        assert browser.run("document.documentElement.scrollWidth") <= 390
        assert browser.requests == [file.as_uri()]
        assert browser.complaints == []
