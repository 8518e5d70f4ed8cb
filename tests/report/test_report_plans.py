"""Plans of redaction: the words, the terminal's view, the curve and the page."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from report_browser import CHROMIUM, Browser
from report_cases import HOSTILE
from rich.console import Console

from leakmeter.core.plain import visible
from leakmeter.errors import UsageError
from leakmeter.report import chart, plans
from leakmeter.report.plans_page import render_plans
from leakmeter.report.plans_terminal import plan_overview, plan_view

Case = dict[str, Any]
CONTEXT = "The vault code is 7731. It rained. Ask Ida.\n\nThe code is 7731."


def piece(name: str, start: int, end: int) -> Case:
    return {
        "name": name, "kind": "unit", "text": CONTEXT[start:end], "start": start, "end": end, "spans": [[start, end]],
        "document": "a", "n_tokens": 6, "n_mentions": 1, "entity_type": None, "entity_value": None, "repeated": None,
    }  # fmt: skip


def step(action: str, name: str, left: float, change: float, *, raised: bool = False) -> Case:
    return {
        "action": action, "name": name, "kind": "unit", "text": f"text of {name}", "left_nats": left,
        "left_signed_nats": -left / 2, "left_posterior": 0.125, "left_posterior_note": None,
        "change_nats": change, "raised": raised,
    }  # fmt: skip


def planned(**more: Any) -> Case:
    return {
        "id": "vault", "model": "toy", "weights_sha256": "9f" * 32, "dtype": "float32", "unit": "sentence",
        "removal": "drop", "template": "plain", "query": "What is the code?", "context": CONTEXT, "temperature": 1.0,
        "documents": [{"name": "a", "start": 0, "end": 43}, {"name": "b", "start": 45, "end": 62}], "cid_lambda": 1.0,
        "truncated_tokens": 0,
        "response": {"text": "It is 7731.", "tokens": ["It", " is", " 7731", "."], "sampled": False, "seed": None},
        "max_loss_nats": 1.0, "reached": True,
        "whole_nats": 21.5, "whole_signed_nats": 20.0, "whole_posterior": 0.99995, "whole_posterior_note": None,
        "whole_per_token": [0.5, 0.5, 20.0, 0.5],
        "left_nats": 0.75, "left_signed_nats": 0.25, "left_per_token": [0.25, 0.0, 0.5, 0.0],
        "left_posterior": 0.5622, "left_posterior_note": None,
        "all_removed_nats": None, "n_pieces": 4,
        "redacted": [piece("s1", 0, 23), piece("s4", 45, 62)], "redacted_share": 0.65, "placebo_nats": 4.5,
        "placebo_signed_nats": 0.125,
        "redacted_documents": [{"name": "a", "text": "It rained. Ask Ida."}, {"name": "b", "text": ""}],
        "marked_context": "[…] It rained. Ask Ida.\n\n[…]",
        "steps": [
            step("cut", "s1", 22.0, 0.5, raised=True), step("cut", "s4", 0.875, -21.125),
            step("cut", "s3", 0.5, -0.375), step("put back", "s3", 0.75, 0.25),
        ],
        "after": {
            "text": "I do not know.", "tokens": ["I", " do not know."], "seed": 3, "whole_nats": 2.5,
            "whole_signed_nats": 2.5, "whole_per_token": [0.5, 2.0],
        },
        "noise_floor_nats": 0.01, "noise_floor_per_token_nats": 0.005,
        "cost": {
            "requests": 20, "tree_tokens": 900, "naive_tokens": 3000, "seconds": 1.5,
            "predicted": {"tree_tokens": 2000, "seconds": 3.0}, "halvings": 0,
        },
        "warnings": [],
    } | more  # fmt: skip


def untouched(**more: Any) -> Case:
    return planned(
        redacted=[], steps=[], after=None, marked_context=CONTEXT, redacted_share=0.0, max_loss_nats=30.0,
        left_nats=21.5, **more,
    )  # fmt: skip


def hostile() -> Case:
    tokens = ["fine", HOSTILE, "\n\n", "\x1b[2J"]
    base = planned()
    return planned(
        id=HOSTILE, model=HOSTILE, context=HOSTILE + CONTEXT, marked_context=HOSTILE, query=HOSTILE, warnings=[HOSTILE],
        documents=[{"name": HOSTILE, "start": 0, "end": 20}, {"name": HOSTILE, "start": 20, "end": 62}],
        response=base["response"] | {"text": HOSTILE, "tokens": tokens},
        redacted=[piece("s1", 0, len(HOSTILE)) | {"name": HOSTILE, "text": HOSTILE}],
        steps=[base["steps"][0] | {"name": HOSTILE, "text": HOSTILE}],
        after=base["after"] | {"text": HOSTILE},
    )  # fmt: skip


def printed(view: Any, *, colour: bool = False, width: int = 100) -> str:
    out = io.StringIO()
    Console(
        file=out, width=width, force_terminal=colour, color_system="truecolor" if colour else None, _environ={}
    ).print(view)
    return out.getvalue()


def flat(text: str) -> str:
    return " ".join(text.split())


def test_the_verdict_says_what_is_cut_what_is_left_and_what_is_allowed() -> None:
    assert flat(plans.verdict(planned())) == (
        "Cutting 2 of 4 pieces (65 % of the text) leaves 0.75 of 21.5 nats; the limit is 1."
    )
    assert flat(plans.verdict(untouched())) == (
        "Nothing has to be cut: the response owes 21.5 nats to the whole context; the limit is 30."
    )
    failed = planned(reached=False, left_nats=7.0, all_removed_nats=8.0)
    assert "leaves 7.00 of 21.5 nats, the least that was found; the limit is 1." in flat(plans.verdict(failed))
    assert "Cutting does not help" in plans.verdict(untouched(reached=False))
    assert flat(plans.posterior(planned())) == (
        "From even odds, an observer of this response would be 56 % sure that what is left was there (with signs the "
        "sum is 0.25 nats)."
    )
    against = planned(left_signed_nats=-0.25, left_posterior=0.4378)
    assert flat(plans.posterior(against)).startswith("The response is likelier without what is left (with signs")
    assert "44 %" in flat(plans.posterior(against))
    hidden = planned(left_posterior=None, left_posterior_note="below the placebo")
    assert flat(plans.posterior(hidden)) == (
        "No posterior is shown: with signs the sum is 0.25 nats, below the placebo."
    )
    assert "nothing that could be measured" in plans.posterior(planned(left_nats=0.005))


def test_the_terminal_shows_the_text_the_answers_and_the_steps() -> None:
    out = printed(plan_view(planned()), width=120)
    assert "[…] It rained. Ask Ida." in out
    assert "I do not know." in out
    assert "it owes 2.50 nats to that" in flat(out)
    lines = [line.split() for line in out.splitlines()]
    rows = [line for line in lines if line and line[0] in "01234"][:5]
    assert [row[0] for row in rows] == list("01234")
    assert "21.50" in rows[0]
    assert rows[1][1:3] == ["cut", "s1"]
    assert "+0.50" in rows[1]
    assert rows[4][1:4] == ["put", "back", "s3"]
    assert "raised the loss" in out
    assert "predicted at most 2,000 tokens in about 3 s; it took 900" in flat(out)
    assert "what is left of the context did" not in printed(plan_view(untouched()))
    for width in (40, 72, 200):
        assert all(len(line) <= width for line in printed(plan_view(planned()), width=width).splitlines())
    long = planned(marked_context="x" * 20_000 + "[…] the end")
    assert "14,011 characters more" in flat(printed(plan_view(long)))
    assert "[…] the end" in printed(plan_view(long))


def test_many_cases_are_a_table() -> None:
    table = printed(plan_overview([planned(id=f"c{i}") for i in range(4)] + [untouched(reached=False)]))
    rows = [line.split() for line in table.splitlines()]
    assert rows[1] == ["c0", "21.5", "0.75", "yes", "2", "of", "4", "s1,", "s4"]
    assert rows[5][3] == "no"


def test_a_curve_has_a_level_for_each_step_and_its_limit_in_sight() -> None:
    drawn = chart.curve(
        [20.0, 10.0, 12.0, 0.5], list("abcd"), [False, False, True, False], label="x", limit=1.0, limit_label="l"
    )
    assert [dot[0] for dot in drawn.dots] == [125, 375, 625, 875]
    heights = [dot[1] for dot in drawn.dots]
    assert heights[0] == 0
    assert heights[0] < heights[2] < heights[1] < drawn.line < heights[3] < chart.HEIGHT
    assert [dot[4] for dot in drawn.dots] == [False, False, True, False]
    assert drawn.path == f"M0.0 0.0H250.0V{heights[1]}H500.0V{heights[2]}H750.0V{heights[3]}H1000.0"
    assert [label for _, label in drawn.levels] == ["0", "1", "3", "10"]
    assert chart.HEIGHT - drawn.line > 20
    flat_one = chart.curve([0.0], ["a"], [False], label="x", limit=5.0, limit_label="l")
    assert (flat_one.line, flat_one.dots[0][1]) == (0, chart.HEIGHT)
    many = chart.curve([1.0] * 300, [""] * 300, [False] * 300, label="x", limit=1.0, limit_label="l")
    assert len(many.ticks) <= 12
    assert {dot[3] for dot in many.dots} == {""}


def test_the_page_strikes_out_what_is_cut() -> None:
    page = render_plans([planned()], command="leakmeter redact-plan", run={"directory": "runs/x"})
    assert page == render_plans([planned()], command="leakmeter redact-plan", run={"directory": "runs/x"})
    assert re.findall(r"<del title=\"([^\"]*)\">([^<]*)</del>", page) == [
        ("s1", "The vault code is 7731."),
        ("s4", "The code is 7731."),
    ]
    assert page.count("<circle") == 5
    assert page.count('class="back"') == 1
    assert page.count('class="limit"') == page.count('class="yardstick"') == 1
    assert "dotted: irrelevant words as the only context" in page
    assert "yardstick" not in render_plans([planned(placebo_nats=None)]).split("</style>")[1]
    assert "raised the loss" in page
    assert "I do not know." in page
    assert "at most 2,000 tokens" in page
    assert "runs/x" in page
    assert "Answer after" not in render_plans([untouched()])
    several = render_plans([planned(), untouched()])
    assert 'href="#c2"' in several
    assert "2 cases" in several
    with pytest.raises(UsageError, match="at least one"):
        render_plans([])


def test_nothing_of_a_case_becomes_markup_or_obeyed() -> None:
    case = hostile()
    out = printed(plan_view(case)) + printed(plan_overview([case]))
    assert not any(c in out for c in "\x1b\x07\x08\x00\x7f\x9b\u202e\u2066")
    assert "[bold red]" in out
    page = render_plans([case, case], command=HOSTILE, run={HOSTILE: HOSTILE})
    assert "<img" not in page
    assert "<script" not in page
    assert page.count("</style>") == 1
    assert page.count("<del ") == page.count("</del>") == 6
    assert "{{7*7}}" in page
    assert not re.search(r"[\x00\x08\x1b\x7f\u202e\ud800]", page)
    page.encode()
    assert visible(HOSTILE)[:20] in page.replace("&lt;", "<").replace("&gt;", ">")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    assert "script-src &#39;none&#39;" in policy[1]
    assert "unsafe" not in policy[1]
    assert "style=" not in page


@pytest.mark.long
@pytest.mark.skipif(not CHROMIUM, reason="no Chromium to look at pages with")
def test_a_browser_shows_the_page_without_complaint(tmp_path: Path) -> None:
    path = tmp_path / "plan.html"
    path.write_text(render_plans([planned(), hostile()]), encoding="utf-8")
    with Browser() as browser:
        browser.open(path.as_uri())
        assert browser.complaints == []
        assert browser.requests == [path.as_uri()]
        assert browser.run("document.images.length") == 0
        assert browser.run("document.querySelectorAll('#c1 del').length") == 2
        assert browser.run("document.querySelectorAll('#c1 .chart circle').length") == 5
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")
