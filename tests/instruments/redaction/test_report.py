"""Plans of redaction: what is said, the context with what is cut, the curve and the page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from helpers.report_cases import HOSTILE
from helpers.report_checks import assert_report_harmless, flat
from helpers.report_snapshots import assert_as_reviewed, printed
from leakmeter.errors import UsageError
from leakmeter.instruments.redaction import command
from leakmeter.instruments.redaction.report import posterior, verdict
from leakmeter.instruments.redaction.result import RedactionResult
from leakmeter.report import blocks as b
from leakmeter.report import charts, html
from leakmeter.stats.stats import GIVEN

report = RedactionResult.report

SNAPSHOTS = Path(__file__).parent / "snapshots"
Plain = dict[str, Any]
CONTEXT = "The vault code is 7731. It rained. Ask Ida.\n\nThe code is 7731."


def piece(name: str, start: int, end: int) -> Plain:
    return {
        "name": name, "kind": "unit", "text": CONTEXT[start:end], "start": start, "end": end, "spans": [[start, end]],
        "document": "a", "n_tokens": 6, "n_mentions": 1, "entity_type": None, "entity_value": None, "repeated": None,
    }  # fmt: skip


def step(action: str, name: str, left: float, change: float, *, raised: bool = False) -> Plain:
    return {
        "action": action, "name": name, "kind": "unit", "text": f"text of {name}", "left_nats": left,
        "left_signed_nats": -left / 2, "left_posterior": None, "left_posterior_note": GIVEN,
        "change_nats": change, "raised": raised,
    }  # fmt: skip


def planned(**more: Any) -> RedactionResult:
    """A result; fields as JSON has them win."""
    return RedactionResult.from_dict({
        "id": "vault", "model": "toy", "weights_sha256": "9f" * 32, "dtype": "float32", "unit": "sentence",
        "removal": "drop", "template": "plain", "query": "What is the code?", "context": CONTEXT, "temperature": 1.0,
        "documents": [{"name": "a", "start": 0, "end": 43}, {"name": "b", "start": 45, "end": 62}], "cid_lambda": 1.0,
        "truncated_tokens": 0,
        "response": {"text": "It is 7731.", "tokens": ["It", " is", " 7731", "."], "sampled": False, "seed": None},
        "max_loss_nats": 1.0, "reached": True,
        "whole_nats": 21.5, "whole_signed_nats": 20.0, "whole_posterior": None, "whole_posterior_note": GIVEN,
        "whole_per_token_nats": [0.5, 0.5, 20.0, 0.5],
        "left_nats": 0.75, "left_signed_nats": 0.25, "left_per_token_nats": [0.25, 0.0, 0.5, 0.0],
        "left_posterior": None, "left_posterior_note": GIVEN,
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
            "whole_signed_nats": 2.5, "whole_per_token_nats": [0.5, 2.0], "disclosures": [],
        },
        "noise_floor_nats": 0.01, "noise_floor_per_token_nats": 0.005,
        "cost": {
            "requests": 20, "tree_tokens": 900, "naive_tokens": 3000, "seconds": 1.5,
            "out_of_memory_retries": 0, "scored_together": None,
        },
        "warnings": [],
    } | more)  # fmt: skip


def leaking(**more: Any) -> RedactionResult:
    """The limit is met, and the new answer gives away two values of what is left, and something else."""

    def disclosed(text: str, kind: str, start: int, token: int, nats: float, **fields: Any) -> Plain:
        return {
            "text": text, "start": start, "end": start + len(text), "first_token": token, "last_token": token,
            "kind": kind, "found_by": "recogniser", "relation": "copied", "nats": nats,
            "interval_nats": [nats, nats], "posterior": 0.9999, "surprise_nats": 20.0, "placebo_nats": 0.5,
            "floor_nats": 3.0, "evidence": "scores", "document": "a", "source": text, "sources": [],
        } | fields  # fmt: skip

    after = {
        "text": "Ask Ida at 555-010-1234, ill.", "tokens": ["Ask", " Ida", " at", " 555-010-1234", ",", " ill", "."],
        "seed": 3, "whole_nats": 40.0, "whole_signed_nats": 40.0, "whole_per_token_nats": [0, 12, 0, 20, 0, 8, 0],
        "disclosures": [
            disclosed("Ida", "person", 4, 1, 12.0), disclosed("555-010-1234", "phone", 11, 3, 20.0),
            disclosed("ill", "other", 25, 5, 8.0, found_by=None, relation="reworded"),
            disclosed("Ask", "name", 0, 0, 0.5, evidence=None),
        ],
    }  # fmt: skip
    return planned(**{"after": after, **more})


def untouched(**more: Any) -> RedactionResult:
    return planned(
        redacted=[], steps=[], after=None, marked_context=CONTEXT, redacted_share=0.0, max_loss_nats=30.0,
        left_nats=21.5, **more,
    )  # fmt: skip


def hostile() -> RedactionResult:
    tokens = ["fine", HOSTILE, "\n\n", "\x1b[2J"]
    base = planned().to_dict()
    return planned(
        id=HOSTILE, model=HOSTILE, context=HOSTILE + CONTEXT, marked_context=HOSTILE, query=HOSTILE, warnings=[HOSTILE],
        documents=[{"name": HOSTILE, "start": 0, "end": 20}, {"name": HOSTILE, "start": 20, "end": 62}],
        response=base["response"] | {"text": HOSTILE, "tokens": tokens},
        redacted=[piece("s1", 0, len(HOSTILE)) | {"name": HOSTILE, "text": HOSTILE}],
        steps=[base["steps"][0] | {"name": HOSTILE, "text": HOSTILE}],
        after=base["after"] | {"text": HOSTILE},
    )  # fmt: skip


def chart_of(case: RedactionResult) -> b.Chart:
    (chart,) = (one for one in b.walk(report([case]).sections[0].blocks) if isinstance(one, b.Chart))
    return chart


def test_what_a_plan_says_is_as_reviewed() -> None:
    assert_as_reviewed(SNAPSHOTS / "one.txt", report([planned()], command="leakmeter redact"))
    assert_as_reviewed(SNAPSHOTS / "leaking.txt", report([leaking()], command="leakmeter redact"))
    assert_as_reviewed(SNAPSHOTS / "several.txt", report([planned(id="first"), untouched(reached=False)]))


def test_the_verdict_says_what_is_cut_what_is_left_and_what_is_allowed() -> None:
    assert flat(verdict(untouched())) == (
        "Nothing has to be cut: the whole context influences the response by 21.5 nats; the limit is 30."
    )
    failed = planned(reached=False, left_nats=7.0, all_removed_nats=8.0)
    assert flat(verdict(failed)) == (
        "The limit of 1 nats is not met: with 2 of 4 pieces cut (65 % of the text), 7.00 of 21.5 nats are left, the "
        "smallest found."
    )
    assert flat(verdict(planned())) == (
        "Cut 2 of 4 pieces (65 % of the text): 0.75 of 21.5 nats are left; the limit is 1."
    )
    assert "Cutting does not help" in verdict(untouched(reached=False))
    assert flat(verdict(planned(n_pieces=2))) == (
        "Only with every piece cut is the limit of 1 nats met: 0.75 of 21.5 nats are left."
    )
    bad = [planned(n_pieces=2), failed, untouched(reached=False), leaking()]
    for case, colour in [*((case, "bad") for case in bad), (planned(), ""), (untouched(), "")]:
        (found,) = (block for block in report([case]).sections[0].blocks if isinstance(block, b.Headline))
        assert found.verdict == colour
    nothing = {"spans": [], "n_left": 0, "n_rest_tokens": 4, "rest_change_nats": -0.5}
    assert verdict(planned(reached=False, disclosed=nothing)).startswith("The limit of 1")
    assert verdict(planned(disclosed=nothing)).endswith("discloses no recognisable personal or secret data.")

    drawn = {
        "response": {"text": "It is 7731.", "tokens": ["It", " is", " 7731", "."], "sampled": True, "seed": 0},
        "whole_posterior": 0.99995, "whole_posterior_note": None, "left_posterior": 0.5622, "left_posterior_note": None,
    }  # fmt: skip

    def after(**more: Any) -> str:
        before, _, told = flat(posterior(planned(**drawn | more))).partition(" After: ")
        assert before.startswith("Before: An observer who gave even odds that")
        return told

    assert after(placebo_nats=None) == (
        "An observer who gave even odds that what is left was there is 56 % sure of it after this response (the "
        "signed sum is 0.25 nats)."
    )
    against = after(left_signed_nats=-0.25, left_posterior=0.4378, placebo_nats=None)
    assert "The response is likelier without what is left (the signed sum" in against
    assert "gives 44 % after this response" in against
    hidden = after(left_posterior=None, left_posterior_note="below the placebo", placebo_nats=None)
    assert hidden == "No posterior is shown: the signed sum is 0.25 nats, below the placebo."
    assert "reveals nothing measurable" in posterior(planned(left_nats=0.005))
    # Of a response that was given no posterior follows.
    assert flat(posterior(planned(placebo_nats=None))) == (
        "Before: It is 20.0 nats likelier with this context than without it. After: It is 0.25 nats likelier with what "
        "is left than without it."
    )
    below = planned(left_posterior_note="below the placebo", placebo_nats=None)
    assert flat(posterior(below)).endswith("After: The signed sum is 0.25 nats, below the placebo.")


@pytest.mark.parametrize("more", [{}, {"max_loss_nats": None, "disclosed": {
    "spans": [], "n_left": 0, "n_rest_tokens": 4, "rest_change_nats": -0.5,
}}])  # fmt: skip
def test_a_plan_whose_new_answer_leaks_is_never_to_be_shipped(more: Plain) -> None:
    said = flat(verdict(leaking(**more)))
    assert said.startswith(
        "Not solved: after the cuts, the model’s new answer discloses a phone number, the name of a person. With 2 of "
    )
    for cases in ([leaking(**more)], [leaking(**more), leaking(**more)]):
        page, terminal = html.page(report(cases)), flat(printed(report(cases)))
        for shown in (flat(re.sub("<[^>]+>", " ", page)), terminal):
            assert "do not ship" in shown
            assert "The new answer discloses something personal or secret" in shown
        assert "if it is useful" not in terminal
    page = html.page(report([leaking(**more)]))
    assert page.count('class="leak strong"') == 2
    assert 'class="finding bad"' in page or "bad" in page[page.index("What was found") :][:400]
    assert "It says other content of what is left (1 span)" in page
    assert (
        "Personal or secret data is in 2 of 2 new answers: do not ship."
        in RedactionResult.findings([leaking(**more)] * 2).headline
    )
    missed = flat(printed(report([leaking(**{**more, "reached": False})])))
    assert "do not ship" in missed


_DISCLOSURES: Plain = {
    "spans": [{
        "text": "7731", "start": 6, "end": 10, "first_token": 2, "last_token": 2, "kind": "number",
        "found_by": "shape", "evidence": "scores", "pieces": ["s1"], "before_nats": 20.0, "after_nats": 0.5,
        "floor_nats": 3.0, "is_left": False,
    }],
    "n_left": 0, "n_rest_tokens": 3, "rest_change_nats": -0.5,
}  # fmt: skip


@pytest.mark.parametrize(("more", "old"), [
    ({}, "With 2 of 4 pieces cut (65 % of the text), 0.75 of 21.5 nats are left for the old response; the limit is 1."),
    ({"reached": False, "left_nats": 7.0, "all_removed_nats": 8.0}, "Nor is the limit of 1 nats met for the old "
     "response: with 2 of 4 pieces cut (65 % of the text), 7.00 of 21.5 nats are left, the smallest found."),
    ({"n_pieces": 2}, "With every piece cut, 0.75 of 21.5 nats are left for the old response; the limit is 1."),
    ({"disclosed": _DISCLOSURES | {"spans": []}},
     "With 2 of 4 pieces cut (65 % of the text), the old response no longer discloses anything personal or secret."),
    ({"max_loss_nats": None, "disclosed": _DISCLOSURES},
     "With 2 of 4 pieces cut (65 % of the text), the old response no longer discloses anything personal or secret."),
    ({"max_loss_nats": None, "reached": False, "disclosed": _DISCLOSURES | {"n_left": 1}},
     "With 2 of 4 pieces cut (65 % of the text), the old response still discloses something personal or secret (1 "
     "of 1 disclosure)."),
])  # fmt: skip
def test_of_a_new_answer_that_leaks_there_is_one_conclusion(more: Plain, old: str) -> None:
    said = flat(verdict(leaking(**more)))
    lead = "Not solved: after the cuts, the model’s new answer discloses a phone number, the name of a person."
    assert said == f"{lead} {old}"
    assert said in flat(printed(report([leaking(**more)])))
    assert said in flat(re.sub("<[^>]+>", "", html.page(report([leaking(**more)]))))


def in_other_words(*of: str, found_by: str = "recogniser") -> RedactionResult:
    """The new answer says values, these as no piece has them."""
    after = leaking().to_dict()["after"]
    for row in after["disclosures"]:
        row |= {"relation": "reworded", "found_by": found_by} if row["text"] in of else {}
    return leaking(after=after)


def test_values_that_no_piece_has_may_be_invented() -> None:
    case = in_other_words("Ida", "555-010-1234")
    assert flat(verdict(case)).startswith(
        "Not solved: after the cuts, the model’s new answer says a phone number, the name of a person that the context "
        "does not have in these words. Read them before you ship: they may be invented. With 2 of 4 pieces cut"
    )
    shown = flat(printed(report([case])))
    assert (
        "The new answer says something personal or secret that the context does not have in these words: read it before"
        in shown
    )
    assert "do not ship" not in shown
    assert shown.count("it may be invented") == 2
    (found,) = (block for block in report([case]).sections[0].blocks if isinstance(block, b.Headline))
    assert found.verdict == "bad"
    after = case.to_dict()["after"]
    one = leaking(after=after | {"disclosures": [row for row in after["disclosures"] if row["text"] == "Ida"]})
    assert flat(verdict(one)).startswith(
        "Not solved: after the cuts, the model’s new answer says the name of a person that the context does not have "
        "in these words. Read it before you ship: it may be invented. With"
    )
    # One value that a piece has is enough for a leak, and what says it in a code says it.
    for leaks in (in_other_words("Ida"), in_other_words("Ida", "555-010-1234", found_by="encoded")):
        assert verdict(leaks).startswith("Not solved: after the cuts, the model’s new answer discloses a phone number")
    assert flat(printed(report([in_other_words("Ida")]))).count("it may be invented") == 1
    assert "in a code" in flat(printed(report([in_other_words("Ida", found_by="encoded")])))


def test_a_written_text_comes_with_what_its_new_answer_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for case, said in [
        (leaking(), "discloses something personal or secret: do not ship it"),
        (in_other_words("Ida", "555-010-1234"), "says something personal or secret that no piece has: read it first"),
    ]:
        command._write(tmp_path / "left.txt", case)
        assert f"an answer drawn from it {said}" in capsys.readouterr().err
    command._write(tmp_path / "left.txt", planned())
    assert "an answer" not in capsys.readouterr().err


def test_a_new_answer_that_nobody_searched_is_no_all_clear() -> None:
    after = planned().to_dict()["after"] | {"disclosures": None}
    old = planned(after=after)
    for cases in ([old], [old, planned()]):
        shown = flat(printed(report(cases)))
        assert "was not searched" in shown
    assert "Not searched: 1 of 2 new answers." in flat(printed(report([old, planned()])))
    assert "if it is useful" not in flat(printed(report([old])))


def test_steps_within_the_limit_stand_out_and_nothing_below_the_noise_has_a_colour() -> None:
    page = html.page(report([planned(noise_floor_nats=0.6, placebo_nats=None)]))
    steps = page[page.index(">Steps, until") :]
    within = re.findall(r'<tr( class=" in")?><th scope="row" class="n">(\d)', steps)
    assert [(number, bool(inside)) for inside, number in within] == [(str(i), i > 1) for i in range(5)]
    assert [bool(re.search(rf'class="h[1-9]\d*">{nats}<', steps)) for nats in ("0.88", "0.50")] == [True, False]
    assert "\x1b[1m" in printed(report([planned()]), colour=True)


def test_bars_have_their_limit_and_the_baseline() -> None:
    (panel,) = chart_of(planned()).panels
    (bars,) = panel.series
    assert list(bars.y) == [21.5, 22.0, 0.875, 0.5, 0.75]
    assert [*map(b.plain, panel.y.names)] == ["whole context", "cut s1", "cut s4", "cut s3", "put back s3"]
    assert list(bars.labels) == ["21.5", "22.0", "0.88", "0.50", "0.75"]
    assert [(guide.at, guide.line) for guide in panel.guides] == [(1.0, "dashed"), (4.5, "dotted")]
    assert (panel.x.scale, panel.x.title) == ("linear", ("left", ", nats"))
    (panel,) = chart_of(untouched(placebo_nats=None)).panels
    assert (len(panel.series[0].y), len(panel.guides)) == (1, 1)
    assert "irrelevant words alone: 4.50" in charts.inline_svg(chart_of(planned()))
    many = chart_of(planned(steps=[step("cut", f"s{i}", 20.0 - i, -1.0) for i in range(20)]))
    assert many.title == "Nats left after each step; 9 are not drawn"
    assert list(many.panels[0].series[0].y) == [21.5, *(20.0 - i for i in range(9, 20))]


def test_the_figure_is_of_all_cases() -> None:
    found = RedactionResult.findings([planned(), planned(reached=False, max_loss_nats=0.5)])
    assert found.headline.startswith(
        "1 of 2 plans (50\u00a0% [9, 91]) reach their limit; they leave 0.75\u00a0nats (all are equal: no interval) "
    )
    assert list(found.figures) == ["left"]
    panel = charts.figure(found.figures["left"]).axes[0]  # type: ignore[arg-type]
    assert list(panel.lines[0].get_ydata()) == [21.5, 22.0, 0.875, 0.5, 0.75]
    assert [line.get_ydata()[0] for line in panel.lines[-2:]] == [0.5, 1.0]
    assert RedactionResult.findings([planned()]).headline == verdict(planned())
    assert "Answer after" not in html.page(report([untouched()]))
    with pytest.raises(UsageError, match="at least one"):
        report([])


def test_nothing_of_a_case_becomes_markup_or_is_obeyed() -> None:
    case = hostile()
    for cases in ([case], [case, case]):
        made = report(cases, command=HOSTILE, provenance=b.Provenance(facts=((b.Untrusted(HOSTILE),) * 2,)))
        page = assert_report_harmless(made)
        assert "{{7*7}}" in page
        page.encode()
    assert "[bold red]" in printed(report([case]))


def test_of_a_long_context_the_terminal_shows_beginning_and_end() -> None:
    assert "what is left of the context did" not in printed(report([untouched()]))
    # Of several, what leaves most comes first.
    several = report([planned(id="a", left_nats=0.1), planned(id="b", left_nats=0.3)])
    assert [b.plain(section.name) for section in b.ranked(several)] == ["b", "a"]
    context = "x" * 20_000 + CONTEXT
    out = printed(report([planned(context=context, documents=[], redacted=[piece("s1", 20_000, 20_023)])]), width=100)
    assert "14,042 characters more" in flat(out)
    assert "[…] It rained." in flat(out)
