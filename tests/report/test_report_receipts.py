"""Receipts of decoding: the terminal's view and the pages, private and public."""

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
from leakmeter.report import chart, receipts
from leakmeter.report.receipts_page import render_private, render_public
from leakmeter.report.receipts_terminal import private_view, public_view

Case = dict[str, Any]
TOKENS = ["The", " code", " is", " 7731", "."]


def composed(n_tokens: int, most: int) -> Case:
    return {
        "n_tokens": n_tokens, "n_tokens_max": most, "basic_nats": 0.4 * n_tokens, "pld_nats": 6.125, "rdp_nats": None,
        "delta": 1e-5,
    }  # fmt: skip


def bounded(**more: Any) -> Case:
    epsilon = {
        "per_token": 0.4,
        "lambda_max": 1.5,
        "draws": {"exact": True, "random_bits": "operating system"},
        "response": composed(5, 20),
        "session": {"n_responses": 3, **composed(33, 60)},
        "note": None,
    }
    said = {"model": "toy", "weights_sha256": "9f" * 32, "dtype": "float32", "temperature": 0.8}
    lengths = {"min_new_tokens": 0, "max_new_tokens": 20}
    return {
        "id": "vault",
        **said,
        "template": "plain",
        "query": "What is the code?",
        "context": "The vault code is 7731.",
        "documents": [],
        "truncated_tokens": 0,
        "cid_lambda": None,
        **lengths,
        "response": {"text": "".join(TOKENS), "tokens": TOKENS, "sampled": True},
        "epsilon": epsilon,
        "private": {
            "per_token": {
                "weight": [0.1, 1.5, 0.3, 0.02, 0.9],
                "log_prob_nats": [-1.0, -2.0, -0.1, -7.0, -0.3],
                "bare_log_prob_nats": [-1.1, -2.0, -0.15, -7.125, -0.35],
                "loss_nats": [0.1, 0.0, 0.05, 0.125, 0.05],
                "max_loss_nats": [0.2, 0.18, 0.2, 0.2, 0.2],
                "spent_epsilon": [0.4, 0.36, 0.4, 0.4, 0.4],
            },
            "whole_nats": 0.325,
            "spent_nats": 1.96,
            "seed": 987654321987654321,
        },
        "public": {
            **said, **lengths, "text": "".join(TOKENS), "tokens": TOKENS, "token_ids": [1, 2, 3, 4, 5],
            "promised_epsilon": [0.4] * 5, "bare_log_prob_nats": [-1.1, -2.0, -0.15, -7.125, -0.35],
            "epsilon": epsilon, "samples": [],
        },
        "samples": [],
        "cost": {},
        "warnings": [],
    } | more  # fmt: skip


def unbounded(**more: Any) -> Case:
    case = bounded(epsilon=None, public=None, cid_lambda=1.0)
    per_token = {name: numbers for name, numbers in case["private"]["per_token"].items() if name != "spent_epsilon"}
    per_token["max_loss_nats"] = [None] * 5
    return case | {"private": case["private"] | {"per_token": per_token, "spent_nats": None}} | more


def hostile() -> Case:
    tokens = ["fine", HOSTILE, "\n\n", "\x1b[2J", " end"]
    case = bounded(
        id=HOSTILE, model=HOSTILE, dtype=HOSTILE, context=HOSTILE, query=HOSTILE, warnings=[HOSTILE],
        truncated_tokens=3, response={"text": HOSTILE, "tokens": tokens, "sampled": False},
    )  # fmt: skip
    return case | {"public": case["public"] | {"model": HOSTILE, "dtype": HOSTILE, "tokens": tokens}}


def printed(view: Any, *, colour: bool = False, width: int = 100) -> str:
    out = io.StringIO()
    Console(
        file=out, width=width, force_terminal=colour, color_system="truecolor" if colour else None, _environ={}
    ).print(view)
    return out.getvalue()


def flat(text: str) -> str:
    return " ".join(text.split())


def test_the_headline_says_told_spent_and_promised() -> None:
    said = flat(printed(private_view(bounded()), width=160))
    assert "told 0.33 nats of the context; spent 1.96 of 2.00 promised (per token at most 0.40 of 0.40)" in said
    assert "response 1" not in said
    assert "this response: 5 of ≤ 20 tokens" in said
    assert "privacy loss distributions, δ = 1e-5 6.12" in said
    assert "Rényi divergences, δ = 1e-5 –" in said
    assert "factor of 1.49 (ε = 0.40 nats)" in said
    assert "at most 88 % sure" in said
    assert "Private: λ, losses" in said
    free = flat(printed(private_view(unbounded())))
    assert "told 0.33 nats of the context (per token at most 0.12)" in free
    assert "Nothing was promised" in free
    assert "spent" not in free


def test_shades_follow_the_losses() -> None:
    out = printed(private_view(bounded()), colour=True)
    assert "\x1b[48;2" in out.replace("38;2", "48;2")
    plain = printed(public_view(bounded()["public"]), colour=True)
    assert "48;2" not in plain


@pytest.mark.parametrize("width", [40, 100])
def test_nothing_private_is_in_the_public_view(width: int) -> None:
    said = printed(public_view(bounded()["public"]), width=width)
    assert all(len(line) <= width for line in said.splitlines())
    flat_said = flat(said)
    assert "Promised: 5 tokens at 0.40 nats each: at most 2.00 nats between any two contexts." in flat_said
    for secret in ("vault code", "1.96", "0.325", "0.33", "spent", "987654321", "What is the code", "vault"):
        assert secret not in flat_said
    page = render_public([bounded()["public"]])
    body = page.split("</style>")[1]
    for secret in ("vault", "1.96", "0.33", "spent", "987654321", "What is the code", "<rect", 'class="h'):
        assert secret not in body
    assert "<b" not in body.replace("<body", "").replace("<bdi", "")


def test_several_samples_are_all_shown() -> None:
    one = {name: bounded()[name] for name in ("response", "epsilon", "private", "public")}
    case = bounded(samples=[one, one], public=bounded()["public"] | {"samples": [one["public"]] * 2})
    assert flat(printed(private_view(case))).count("told 0.33 nats") == 2
    assert flat(printed(public_view(case["public"]))).count("Promised: 5 tokens") == 2
    assert render_private([case]).count("ε spent by each token, nats</h3>") == 2
    assert "Response 2 of 2" in render_public([case["public"]])
    assert "Response 1 as a whole" in render_public([case["public"]])


def test_hostile_text_stays_text() -> None:
    case = hostile()
    for view in (private_view(case), public_view(case["public"])):
        out = printed(view)
        assert not any(c in out for c in "\x1b\x07\x08\x00\x7f\x9b\u202e\u2066")
        assert "[bold red]" in out
    for page in (
        render_private([case, case], command=HOSTILE, run={HOSTILE: HOSTILE}),
        render_public([case["public"]]),
    ):
        assert "<img" not in page
        assert page.count("</style>") == 1
        assert "<script" not in page
        assert "{{7*7}}" in page
        assert not re.search(r"[\x00\x08\x1b\x7f\u202e\ud800]", page)
        page.encode()
    assert visible(HOSTILE)[:20] in render_private([case]).replace("&lt;", "<").replace("&gt;", ">")


def test_the_policy_allows_no_script() -> None:
    for page in (render_private([bounded()]), render_public([bounded()["public"]]), render_private([unbounded()])):
        policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
        assert policy
        assert "script-src &#39;none&#39;" in policy[1]
        assert "unsafe" not in policy[1]
        assert "style=" not in page


def test_pages_need_a_case_and_say_what_is_promised() -> None:
    with pytest.raises(UsageError, match="at least one"):
        render_private([])
    with pytest.raises(UsageError, match="at least one"):
        render_public([])
    page = render_private([bounded(), bounded()], command="leakmeter decode", run={"directory": "runs/x"})
    assert page == render_private([bounded(), bounded()], command="leakmeter decode", run={"directory": "runs/x"})
    assert 'href="#c2"' in page
    assert "adds to this" in page
    assert receipts.PRIVATE.split("'")[0] in page
    assert "Nothing was promised" in render_private([unbounded()])
    assert receipts.PRIVATE.split("'")[0] not in render_private([unbounded()])


def test_it_is_said_how_tokens_were_drawn() -> None:
    def said(**draws: Any) -> str:
        case = bounded()
        public = case["public"] | {"epsilon": case["epsilon"] | {"draws": draws}}
        page, terminal = render_public([public]), flat(printed(public_view(public), width=200))
        for words in (receipts.EXACT, receipts.ROUNDED, receipts.SEEDED):
            assert (words in page) == (words in terminal)
        return page

    page = said(exact=True, random_bits="operating system")
    assert receipts.EXACT in page
    assert receipts.SEEDED not in page
    assert receipts.ROUNDED not in page
    page = said(exact=True, random_bits="seed")
    assert receipts.EXACT in page
    assert receipts.SEEDED in page
    page = said(exact=False, random_bits="seed")
    assert receipts.EXACT not in page
    assert receipts.ROUNDED in page


def test_bars_keep_to_their_axis() -> None:
    drawn = chart.bars([0.0, 0.2, 0.4, float("inf")], list("abcd"), label="x", limit=0.4, limit_label="promised")
    assert drawn.line == 0
    assert [bar[3] for bar in drawn.bars] == [0, chart.HEIGHT / 2, chart.HEIGHT, chart.HEIGHT]
    assert all(x >= 0 and x + wide <= chart.WIDTH and 0 <= y <= chart.HEIGHT for x, y, wide, _, _ in drawn.bars)
    far = chart.bars([0.01, 0.02], ["a", "b"], label="λ", limit=1.5, limit_label="largest 1.5")
    assert far.line is None
    assert far.label == "λ; largest 1.5"
    assert [bar[3] for bar in far.bars] == [chart.HEIGHT / 2, chart.HEIGHT]
    assert [label for _, label in chart.bars([0.0] * 50, [""] * 50, label="x").ticks][:3] == ["1", "5", "10"]
    assert len(chart.bars([1.0] * 3000, [""] * 3000, label="x").ticks) <= 11


@pytest.mark.long
@pytest.mark.skipif(not CHROMIUM, reason="no Chromium to look at pages with")
def test_a_browser_shows_the_pages_without_complaint(tmp_path: Path) -> None:
    with Browser() as browser:
        for number, html in enumerate(
            (
                render_private([bounded(), hostile()]),
                render_public([hostile()["public"]]),
                render_private([unbounded()]),
            )
        ):
            path = tmp_path / f"{number}.html"
            path.write_text(html, encoding="utf-8")
            browser.open(path.as_uri())
            assert browser.complaints == []
            assert browser.requests[-1] == path.as_uri()
            assert browser.run("document.images.length") == 0
            assert browser.run("document.querySelectorAll('.chart rect').length") == (20, 0, 5)[number]
            assert browser.run("document.documentElement.scrollWidth <= innerWidth")
        assert len(browser.requests) == 3
