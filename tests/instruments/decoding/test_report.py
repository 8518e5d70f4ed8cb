"""Decoding: the private report of what responses told, and the public one, which holds nothing of the context."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers.report_cases import HOSTILE
from helpers.report_checks import assert_report_harmless, flat
from helpers.report_snapshots import assert_as_reviewed, printed
from leakmeter.errors import UsageError
from leakmeter.instruments.decoding.report import PRIVATE, public_report
from leakmeter.instruments.decoding.result import DecodeResult, DecodingDraws, PublicResult, TokenLosses
from leakmeter.report import blocks as b
from leakmeter.report import charts, html, markdown

report = DecodeResult.report

SNAPSHOTS = Path(__file__).parent / "snapshots"
Plain = dict[str, Any]
TOKENS = ["The", " code", " is", " 7731", "."]


def composed(n_tokens: int, most: int) -> Plain:
    return {
        "n_tokens": n_tokens, "n_tokens_max": most, "basic_nats": 0.4 * n_tokens, "pld_nats": 6.125, "rdp_nats": None,
        "delta": 1e-5,
    }  # fmt: skip


def bounded(**more: Any) -> DecodeResult:
    """A result; fields as JSON has them win."""
    guarantee = {
        "epsilon_nats": 0.4, "lambda_max": 1.5, "draws": {"random_bits": "operating system"},
        "response": composed(5, 20), "session": {"n_responses": 3, **composed(33, 60)}, "note": None,
    }  # fmt: skip
    said = {"model": "toy", "weights_sha256": "9f" * 32, "dtype": "float32", "temperature": 0.8}
    lengths = {"min_new_tokens": 0, "max_new_tokens": 20}
    plain = {
        "id": "vault", **said, "template": "plain", "query": "What is the code?", "context": "The vault code is 7731.",
        "documents": [], "truncated_tokens": 0, "cid_lambda": None, **lengths,
        "response": {"text": "".join(TOKENS), "tokens": TOKENS, "sampled": True, "seed": 987654321987654321},
        "guarantee": guarantee,
        "ledger": {
            "per_token": {
                "weight": [0.1, 1.5, 0.3, 0.02, 0.9], "log_prob_nats": [-1.0, -2.0, -0.1, -7.0, -0.3],
                "bare_log_prob_nats": [-1.1, -2.0, -0.15, -7.125, -0.35], "loss_nats": [0.1, 0.0, 0.05, 0.125, 0.05],
                "max_loss_nats": [0.2, 0.18, 0.2, 0.2, 0.2], "spent_nats": [0.4, 0.36, 0.4, 0.4, 0.4],
            },
            "whole_nats": 0.325, "spent_nats": 1.96, "seed": 987654321987654321,
        },
        "public": {
            **said, **lengths, "text": "".join(TOKENS), "tokens": TOKENS, "token_ids": [1, 2, 3, 4, 5],
            "bound_nats": [0.4] * 5, "bare_log_prob_nats": [-1.1, -2.0, -0.15, -7.125, -0.35],
            "guarantee": guarantee, "samples": [],
        },
        "samples": [],
        "cost": {
            "requests": 2, "tree_tokens": 90, "naive_tokens": 300, "seconds": 0.1,
            "out_of_memory_retries": 0, "scored_together": None,
        },
        "warnings": [],
    }  # fmt: skip
    return DecodeResult.from_dict(plain | more)


def unbounded() -> DecodeResult:
    ledger = bounded().ledger.to_dict()
    ledger["per_token"] |= {"spent_nats": None, "max_loss_nats": ["Infinity"] * 5}
    return bounded(guarantee=None, public=None, cid_lambda=1.0, ledger=ledger | {"spent_nats": None})


def public(**more: Any) -> PublicResult:
    return replace(bounded().published(), **more)


def hostile() -> DecodeResult:
    tokens = ("fine", HOSTILE, "\n\n", "\x1b[2J", " end")
    case = bounded(id=HOSTILE, model=HOSTILE, dtype=HOSTILE, context=HOSTILE, query=HOSTILE, warnings=[HOSTILE])
    response = replace(case.response, text=HOSTILE, tokens=tokens, sampled=False)
    shown = public(model=HOSTILE, dtype=HOSTILE, tokens=tokens)
    return replace(case, truncated_tokens=3, response=response, public=shown)


def twice(**more: Any) -> DecodeResult:
    case = bounded(**more)
    (one,) = case.responses
    assert case.public is not None
    return replace(case, samples=(one, one), public=replace(case.public, samples=(case.public, case.public)))


def decoded(losses: list[float], *, epsilon: float | None = None) -> DecodeResult:
    """A case with these losses."""
    case = bounded() if epsilon is not None else unbounded()
    tenths = (0.1,) * len(losses)
    per_token = TokenLosses(
        weight=tenths, log_prob_nats=tenths, bare_log_prob_nats=tenths, max_loss_nats=tenths,
        spent_nats=None if epsilon is None else tenths, loss_nats=tuple(losses),
    )  # fmt: skip
    return replace(
        case,
        response=replace(case.response, tokens=("x",) * len(losses)),
        guarantee=case.guarantee and replace(case.guarantee, epsilon_nats=epsilon or 0.0),
        ledger=replace(case.ledger, per_token=per_token, whole_nats=sum(losses)),
    )


def bars_of(case: DecodeResult) -> list[b.Chart]:
    return [one for one in report([case]).sections[0].blocks if isinstance(one, b.Chart)]


def test_what_decoding_says_is_as_reviewed() -> None:
    assert_as_reviewed(SNAPSHOTS / "private.txt", report([bounded()], command="leakmeter decode"))
    assert_as_reviewed(SNAPSHOTS / "several.txt", report([bounded(id="first"), twice(id="second")]))
    assert_as_reviewed(SNAPSHOTS / "unbounded.txt", report([unbounded()]))
    assert_as_reviewed(SNAPSHOTS / "public.txt", public_report([public()]))


def test_a_run_of_one_response_is_not_summed_up() -> None:
    guarantee = bounded().to_dict()["guarantee"]
    guarantee["session"]["n_responses"] = 1
    assert "of the run" not in printed(report([bounded(guarantee=guarantee)])).replace("of a run", "")


def test_what_is_private_says_so() -> None:
    assert PRIVATE in flat(printed(report([unbounded(), bounded()])))
    assert (DecodeResult.is_public, PublicResult.is_public) == (False, True)
    assert "48;2" in printed(report([bounded()]), colour=True)
    assert "48;2" not in printed(public_report([public()]), colour=True)


@pytest.mark.parametrize("n", [1, 2])
def test_nothing_private_is_in_the_public_report(n: int) -> None:
    outside = b.Provenance(run_id="decode-1", facts=(("Directory", "runs/decode-1"),))
    made = PublicResult.report([public()] * n, command="leakmeter decode --seed 7", provenance=outside)
    said = flat(printed(made))
    if n == 1:
        assert "Guaranteed: 5 tokens at 0.40 nats each: at most 2.00 nats between any two contexts." in said
    body = html.page(made).split("</style>")[1]
    for secret in (
        "vault", "1.96", "0.325", "0.33", "spent", "987654321", "What is the code", "decode-1", "--seed", "runs/",
    ):  # fmt: skip
        assert all(secret not in one for one in (said, body, markdown.text(made)))
    assert not any(mark in body for mark in ("<svg", 'class="h', "<del", "title="))
    assert "<b" not in body.replace("<body", "").replace("<bdi", "")
    # The same whatever the context.
    other = bounded(id="x", context="Another.", query="?", warnings=["w"], truncated_tokens=9)
    other = replace(other, ledger=replace(other.ledger, whole_nats=9.0, spent_nats=0.5))
    one, two = (public_report([case.published()] * n) for case in (bounded(), other))
    assert (html.page(one), printed(one)) == (html.page(two), printed(two))


def test_several_samples_and_every_token_are_shown() -> None:
    case = twice()
    shown = public_report([case.published()])
    assert flat(printed(shown)).count("Guaranteed: 5 tokens") == 2
    assert "Response 2 of 2" in html.page(shown)
    assert "response 1 5 of ≤ 20 2.00" in flat(printed(shown))
    long = public(tokens=("x",) * 300, bound_nats=(0.4,) * 300, bare_log_prob_nats=(-1.5,) * 300)
    assert printed(public_report([long])).count("−1.50") == 300


def test_hostile_texts_are_harmless() -> None:
    case = hostile()
    for made in (
        report([case], command=HOSTILE, provenance=b.Provenance(facts=((b.Untrusted(HOSTILE),) * 2,))),
        report([case, case]),
        public_report([case.published()]),
        public_report([replace(case.published(), text=HOSTILE)] * 2),
    ):
        page = assert_report_harmless(made)
        assert "{{7*7}}" in page
        page.encode()
    for empty in (report, PublicResult.report):
        with pytest.raises(UsageError, match="at least one"):
            empty([])


def test_it_is_said_how_tokens_were_drawn() -> None:
    for bits, told in (("operating system", False), ("seed", True)):
        shown = public_report([public(guarantee=replace(public().guarantee, draws=DecodingDraws(random_bits=bits)))])
        for text in (html.page(shown), flat(printed(shown, width=200))):
            assert "Every token was drawn with exactly" in text
            assert ("does not know the seed" in text) is told
            assert ("seed" in text) is told


def test_an_infinite_loss_is_told_and_ends_its_line() -> None:
    case = decoded([0.5, math.inf, 0.25])
    for told in (case, DecodeResult.from_dict(json.loads(case.to_json()))):
        assert "The response leaks ∞ nats of the context (per token at most ∞)" in flat(printed(report([told])))
    (panel,) = DecodeResult.findings([case]).figures["loss"].panels  # type: ignore[union-attr]
    assert [str(nats) for nats in panel.series[0].y] == ["0.0", "0.5", "nan", "nan"]


def test_bars_stand_beside_their_limit_and_tokens_have_their_numbers() -> None:
    (chart,) = bars_of(bounded())
    (panel,) = chart.panels
    assert (list(panel.y.names), list(panel.series[0].y)) == (["leaked", "spent"], [0.325, 1.96])
    assert [(guide.at, guide.across) for guide in panel.guides] == [(2.0, "x")]
    assert chart.title == "Spent 1.96 of 2.00 guaranteed nats; leaked 0.33"
    assert "var(--c7)" in charts.inline_svg(chart)
    # Without a bound there is nothing to compare with.
    assert bars_of(unbounded()) == []
    assert [chart.panels[0].series[0].y[0] for chart in bars_of(decoded([0.5, math.inf], epsilon=0.4))] == [math.inf]
    for case in (bounded(), unbounded(), decoded([0.5, math.inf])):
        (text,) = (one for one in report([case]).sections[0].blocks if isinstance(one, b.ShadedText))
        segments = text.passages[0].segments
        assert [segment.nats for segment in segments] == list(case.ledger.per_token.loss_nats)
    text = next(one for one in report([bounded()]).sections[0].blocks if isinstance(one, b.ShadedText))
    assert b.plain(text.passages[0].segments[1].note) == "leaked 0; spent 0.36 of 0.40"
    assert "∞" in html.page(report([decoded([0.5, math.inf])]))


def test_a_headline_says_what_leaked_what_was_allowed_and_whether_that_is_a_limit() -> None:
    def limited(each: float, **more: Any) -> DecodeResult:
        guarantee = bounded().to_dict()["guarantee"] | {"epsilon_nats": each}
        guarantee["response"] |= {"basic_nats": 5 * each}
        return bounded(guarantee=guarantee, **more)

    def said(each: float) -> str:
        return flat(printed(report([limited(each)]), explain=False))

    assert "this answer leaked 0.33 nats, and no more than 2.00 were allowed, after which an observer is" in said(0.4)
    assert "5 tokens at 0.40 nats each: at most 2.00 nats between any two contexts. The observer" in said(0.4)
    limits = {
        0.1: ("The limit is strong: this answer", "A limit below 3 nats", "good"),
        0.4: ("The limit is moderate: this answer", "A limit below 3 nats", ""),
        1.0: ("The limit is too weak to rely on, although this answer", "A limit of 3 to 9 nats", "bad"),
        2.0: ("The limit rules nothing out: it allowed", "A limit of 9 nats or more", "bad"),
    }
    for each, (headline, condition, verdict) in limits.items():
        assert headline in said(each)
        assert condition in said(each)
        assert f'class="finding{verdict and " " + verdict}"' in html.page(report([limited(each)]))
        several = flat(b.headline_of(report([limited(each), limited(each)])))
        assert several.startswith(headline.partition("this answer")[0])
        assert "2 answers leaked 0.33 nats" in several
        assert (" may be " in said(each)) is (each >= 1.0)
    # What was not measured of a chat may leak too.
    blocks = report([limited(0.1, unmeasured_answers=1)]).sections[0].blocks
    (part,) = (block for block in blocks if isinstance(block, b.Headline))
    assert part.verdict == ""
    # All responses of a run are about one context, which narrows what is guaranteed.
    assert "All 3 responses of the run together: at most 13.2 nats" in said(0.4)
    for case in (bounded(), unbounded()):
        (headline,) = {b.headline_of(report([case])), DecodeResult.findings([case]).headline}
        for shown in (printed(report([case]), explain=False), markdown.text(report([case])), html.page(report([case]))):
            assert flat(headline) in flat(shown)


def test_losses_add_up_beside_their_bound() -> None:
    found = DecodeResult.findings([decoded([0.1]), decoded([0.5, 0.25, 0.125], epsilon=0.6)])
    assert list(found.figures) == ["loss"]
    (panel,) = found.figures["loss"].panels  # type: ignore[union-attr]
    lines = {series.name: list(series.y) for series in panel.series}
    assert lines["other cases"] == [0.0, 0.1]
    assert lines["leaked, by the case that leaks most"] == [0.0, 0.5, 0.75, 0.875]
    assert lines["spent by it"][-1] == pytest.approx(0.3, rel=1e-12)
    assert lines["guaranteed at most"] == pytest.approx([0.0, 1.8], rel=1e-12)
    assert "2 responses leak" in found.headline
    alone = DecodeResult.findings([decoded([0.5, 0.25])])
    assert alone.headline.startswith("The response leaks 0.75\u00a0nats of the context")
    assert set(charts.files(alone.figures["loss"])) == {"png", "svg"}  # type: ignore[arg-type]
