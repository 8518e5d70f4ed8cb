"""Influence: its words, its report in every renderer, and its figures."""

from __future__ import annotations

import json
import math
import re
import time
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.report_browser import CHROMIUM, Browser
from helpers.report_cases import (
    HOSTILE,
    Case,
    clinic,
    disclosing,
    every_case,
    given,
    hostile,
    overlapping,
    sampled,
    several_documents,
    small,
)
from helpers.report_checks import CONTROLS, Page, assert_harmless, assert_markdown_harmless, flat
from helpers.report_snapshots import assert_as_reviewed, printed
from leakmeter.core.plain import visible
from leakmeter.instruments.influence.attribution import remarks_on
from leakmeter.instruments.influence.context import by_nats, leader, stretches
from leakmeter.instruments.influence.controls import ControlContext
from leakmeter.instruments.influence.disclosure_report import words_of
from leakmeter.instruments.influence.disclosures import Disclosure
from leakmeter.instruments.influence.findings import is_finding
from leakmeter.instruments.influence.result import InfluenceResult, PieceInfluence
from leakmeter.instruments.influence.sentences import posterior, verdict
from leakmeter.report import blocks as b
from leakmeter.report import charts, html, markdown, scale
from leakmeter.report.scale import nats_text, percent
from leakmeter.report.words import posterior_cell
from leakmeter.stats.stats import interval_of_mean, posterior_of

report = InfluenceResult.report

SNAPSHOTS = Path(__file__).parent / "snapshots"


def page_of(*cases: Case, **more: Any) -> str:
    return html.page(report(cases, **more))


def text_of(page: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "\n", page))


def data_of(page: str) -> list[str]:
    return [text for _, attributes, text in Page(page).inline if attributes.get("type") == "application/json"]


def chart(name: str, *cases: Case) -> b.Chart:
    found = InfluenceResult.findings(cases).figures[name]
    assert isinstance(found, b.Chart)
    return found


# ---- words ----------------------------------------------------------------------------------------------------------
def test_what_a_report_says_is_as_reviewed() -> None:
    assert_as_reviewed(SNAPSHOTS / "one.txt", report([clinic()], command="leakmeter influence"))


@pytest.mark.parametrize("signed", [-30.0, -0.5])
def test_a_response_that_is_likelier_without_its_context_is_no_evidence_of_it(signed: float) -> None:
    whole = [20.0, signed - 20.0]
    expected = posterior_of(signed, noise_nats=0.004, placebo_nats=0.33)
    told = {"whole_posterior": expected.probability, "whole_posterior_note": expected.note}
    case = replace(clinic(), whole_nats=sum(map(abs, whole)), whole_signed_nats=signed, **told)  # type: ignore[arg-type]
    said = flat(posterior(case))
    assert said.startswith(f"The response is likelier without this context (the signed sum is {nats_text(signed)}")
    assert said.endswith(
        f"gave even odds that this context was there gives {flat(percent(case.whole_posterior))} after this response."
    )
    assert "sure" not in said


def test_every_number_is_there_with_and_without_colour_and_script() -> None:
    page = text_of(page_of(*every_case()))
    for case in every_case():
        shown = [printed(report([case]), colour=colour, width=120) for colour in (False, True)]
        for piece in case.pieces:
            numbers = [scale.nats_cell(piece.nats), scale.nats_cell(piece.alone_nats)]
            for number in (*numbers, scale.signed_cell(piece.signed_nats), posterior_said(case, piece)):
                assert all(flat(number) in flat(out) for out in (*shown, page)), number
        assert all(scale.nats_text(case.whole_nats) in out for out in shown)
        assert ["\x1b[" in out for out in shown] == [False, True]
        assert max(map(len, printed(report([case]), width=40).splitlines())) <= 40
    assert "9.25 [4.12, 13.5], worst 15.8" in page
    assert "repeated elsewhere (s7)" in page
    assert 'title="s1: 15.68"' in page_of(*every_case())


def test_a_signed_sum_within_its_baselines_has_no_posterior() -> None:
    said = {0.003: "below the noise floor", -0.2: "below the placebo", 0.33: "below the placebo"}
    for signed, why in said.items():
        _, note = posterior_of(signed, noise_nats=0.004, placebo_nats=0.33)
        case = replace(clinic(), whole_signed_nats=signed, whole_posterior=None, whole_posterior_note=note)
        told = flat(posterior(case))
        assert told == f"No posterior is shown: the signed sum is {nats_text(signed)} nats, {why}."
        assert posterior_cell(case, "whole_") in ("<\u00a0noise", "<\u00a0placebo")
        assert "%" not in told


# ---- terminal -------------------------------------------------------------------------------------------------------
def test_a_notebook_shows_the_view_and_not_the_object() -> None:
    for case in (clinic(), hostile()):
        view = case.to_rich()
        bundle = view._repr_mimebundle_()  # type: ignore[union-attr]
        assert flat(verdict(case)) in flat(bundle["text/plain"])
        # Texts of the case are text in the page, too.
        assert re.findall(r"<(?!/?(?:pre|span)\b)", bundle["text/html"]) == []
        assert "style=" in bundle["text/html"]
        assert view._repr_mimebundle_(include=["text/plain"]).keys() == {"text/plain"}  # type: ignore[union-attr]
        assert repr(view) == "<Composed, for rich.print or the last line of a notebook cell>"


# ---- page and Markdown ----------------------------------------------------------------------------------------------
def test_text_stays_text_and_nothing_is_fetched() -> None:
    attack = hostile().id
    told = b.Provenance(facts=((b.Untrusted(attack), b.Untrusted(attack)),))
    made = report(every_case(), command=attack, provenance=told)
    page = html.page(made)
    assert_harmless(page)
    assert visible(attack) in text_of(page)
    page.encode()
    assert_markdown_harmless(markdown.text(made))
    assert not CONTROLS.search(printed(made))
    # With colours the only sequences are those of styles.
    styled = printed(report([hostile()]), colour=True, width=120)
    assert all(rest.split("m")[0].replace(";", "").isdigit() for rest in styled.split("\x1b[")[1:])
    assert "\x1b]" not in styled


def posterior_said(case: InfluenceResult, piece: PieceInfluence) -> str:
    """What the table says: a posterior above the placebo, with signs and without, and nothing below it; of a response
    that was given whether it is above."""
    if not case.response.sampled:
        return "yes" if is_finding(case, piece) else "no"
    if piece.posterior is not None and case.placebo_nats is not None and piece.nats <= case.placebo_nats:
        return "<\u00a0placebo"
    return posterior_cell(piece)


def test_data_for_the_script_is_numbers_alone() -> None:
    found = data_of(page_of(*every_case()))
    assert len(found) == 5
    ranked = sorted(every_case(), key=lambda case: -case.whole_nats)  # all of them above the placebo
    for case, block in zip(ranked, found, strict=True):
        assert not set("<>&") & set(block)
        data = json.loads(block)
        assert [len(line) for line in data["t"]] == [len(case.response.tokens)] * len(case.pieces)
        assert data["w"] == pytest.approx(case.whole_signed_per_token_nats, rel=0.01)
        assert len(data["p"]) == len(data["q"]) == len(case.response.tokens)


def test_numbers_that_are_none_or_not_finite_still_make_a_page() -> None:
    case = sampled()
    odd = replace(case.pieces[0], nats=float("nan"), alone_nats=float("nan"), signed_per_token_nats=(float("inf"),) * 5)
    case = replace(case, pieces=(odd, *case.pieces[1:]))
    (data,) = data_of(page_of(case))
    assert json.loads(data)["n"][0] == 0  # an undefined number is no finding
    assert json.loads(data)["t"][0] == [None] * 5


@pytest.mark.long
def test_equal_input_gives_equal_bytes_and_a_thousand_cases_stay_small() -> None:
    cases = [small(number) for number in range(1000)]
    began = time.process_time()
    page = page_of(*cases)
    assert time.process_time() - began < 20.0
    assert page == page_of(*(InfluenceResult.from_dict(case.to_dict()) for case in cases))
    assert "object at 0x" not in page
    shown, lines = (page.split("<script>")[0].count(f'<details class="line{kind}"') for kind in ("", " only"))
    assert len(re.sub(r'<details class="line only".*?</details>', "", page).encode()) < 2_000_000
    assert 400 < shown < 1000
    assert lines == 1000 - shown
    assert f"{lines} further cases that disclose less are one line here, not in full" in page
    assert "gave 1,000 responses" in page


# ---- figures --------------------------------------------------------------------------------------------------------
def test_pieces_of_several_cases_are_means_with_their_intervals() -> None:
    cases = [
        replace(case, pieces=tuple(replace(piece, nats=piece.nats * (1 + number)) for piece in case.pieces))
        for number, case in enumerate(map(small, range(8)))
    ]
    another = replace(cases[0].pieces[0], name="s3")  # which an eighth of the cases have
    cases[0] = replace(cases[0], pieces=(*cases[0].pieces, another))
    panel = charts.figure(chart("pieces", *cases)).axes[0]
    for place, name in enumerate(("s0", "s1", "s2")):
        nats = [piece.nats for case in cases for piece in case.pieces if piece.name == name]
        assert panel.patches[place].get_height() == pytest.approx(np.mean(nats), rel=1e-12)
        arm: Any = panel.collections[0].get_segments()[place][:, 1]  # type: ignore[attr-defined]
        assert arm.tolist() == pytest.approx(interval_of_mean(nats, seed=0), rel=1e-12)
    assert [tick.get_text() for tick in panel.get_xticklabels()] == ["s0", "s1", "s2"]
    # Those that are not alike are not averaged.
    for unlike in ([clinic(), several_documents()], [replace(small(number), unit="entity") for number in (1, 2)]):
        assert "pieces" not in InfluenceResult.findings(unlike).figures


def test_pieces_of_one_case_have_intervals_where_responses_were_drawn() -> None:
    case = sampled()
    series = chart("pieces", case).panels[0].series
    drawn = {x: ends for one in series for x, *ends in zip(one.x, one.low, one.high, strict=True)}
    assert [tuple(drawn[place]) for place in range(len(case.pieces))] == [piece.interval_nats for piece in case.pieces]
    # Of few responses there are means alone.
    few = replace(case, pieces=tuple(replace(piece, interval_nats=None) for piece in case.pieces))
    series_of_few = chart("pieces", few).panels[0].series
    means = {x: y for one in series_of_few for x, y in zip(one.x, one.y, strict=True)}
    assert [means[place] for place in range(len(few.pieces))] == [piece.mean_nats for piece in few.pieces]
    assert not any(one.low or one.high for one in series_of_few)
    assert "9.25, worst 15.8" in flat(printed(report([few])))
    # What is no finding is faded, and told apart in the legend.
    assert [one.faded for one in series] == [False, True][: len(series)]
    panel = charts.figure(chart("pieces", small(1))).axes[0]
    drawn = [x for line in panel.lines[:2] for x in line.get_xdata()]  # type: ignore[union-attr]
    assert sorted(drawn) == sorted(piece.nats for piece in small(1).pieces)


def test_the_heat_map_is_of_the_case_with_most_influence() -> None:
    case = clinic()
    panel = charts.figure(chart("tokens", small(1), case, small(2))).axes[0]
    units = [piece for piece in case.pieces if piece.kind == "unit"]
    drawn: Any = panel.collections[0].get_array()
    floors = case.placebo_per_token_nats
    assert floors is not None
    for row, piece in zip(drawn.tolist(), units, strict=True):
        found = piece.posterior is not None and piece.nats > 0.41
        above = [max(0.0, nats - floor) for nats, floor in zip(piece.per_token_nats, floors, strict=True)]
        assert row == (above if found else [0.0] * len(above))
    assert panel.get_xticklabels()[7].get_text().strip() == "cough"


def leaking(case: Case, kind: str, text: str, **more: Any) -> Case:
    disclosure = Disclosure(
        text=text, start=0, end=len(text), first_token=0, last_token=1, kind=kind, found_by="shape", relation="copied",
        nats=12.5, interval_nats=(12.4, 12.6), posterior=0.999, surprise_nats=14.0, placebo_nats=0.5, floor_nats=3.0,
        evidence="scores", document="note", source=text, sources=(),
    )  # fmt: skip
    return replace(case, disclosures=(replace(disclosure, **more),))


def test_headlines() -> None:
    """Incidents first; how much of the responses comes from the contexts at all stands behind them."""
    nothing = "The drawn response does not disclose any recognisable personal or secret data."
    assert InfluenceResult.findings([clinic()]).headline == nothing
    found = InfluenceResult.findings([small(1), small(2)])
    assert found.headline == "None of 2 drawn responses discloses any recognisable personal or secret data."
    assert (
        "The contexts changed 2 responses by 16.0 nats (all are equal: no interval) on average, and one by 16.0 nats; "
        "2 of 2 (100 % [34, 100]) by more than an irrelevant text."
    ) in flat(" ".join(printed(report([small(1), small(2)])).split()))
    phone = leaking(replace(small(1), id="a"), "phone", "555 0199")
    person = leaking(replace(small(2), id="b"), "person", "Ada Vale", nats=20.0)
    for cases, said in (
        ([phone, person, small(3)],
         "2 of 3 drawn responses disclose personal or secret data: b name of a person; a phone number."),
        ([phone], "The drawn response discloses personal or secret data: phone number (12.5 nats)."),
        ([leaking(small(1), "phone", "555 0199", evidence=None, nats=0.4)], nothing),
        ([leaking(small(1), "other", "descale it", found_by=None)], nothing),
    ):  # fmt: skip
        assert flat(InfluenceResult.findings(cases).headline) == said


def test_nobody_is_called_sure_of_what_a_response_was_given_for() -> None:
    """A posterior is right for what the scoring model drew; of other responses reports say what was tested."""
    for drawn in (clinic(), disclosing()):
        for made, is_said in (([drawn], True), ([given(drawn)], False), ([given(drawn), given(small(1))], False)):
            for text in (page_of(*made), printed(report(made), width=120), markdown.text(report(made))):
                words = re.findall(r"[Pp]osterior|\b[Ss]ure\b|> 99|even odds", re.sub(r"<style.*?</style>", "", text))
                assert bool([word for word in words if word != "posterior"]) == is_said
    flags = flat(printed(report([given(clinic())]), width=120))
    assert "Finding" in flags
    assert "It is 44.6 nats likelier with this context than without it." in flags
    weak = replace(given(clinic()), whole_posterior_note="below the placebo")
    assert posterior(weak) == "The signed sum is 44.6\u00a0nats, below the placebo."


def test_index_and_sections_have_what_the_list_of_all_cases_has() -> None:
    """A list of 20 pairs and more is cut, and nothing else on the page has what was cut from it."""
    controls = tuple(
        ControlContext(case=str(i), nats=0.0, disclosures=0, worst_nats=6.0 if i < 4 else 0.0) for i in range(10)
    )
    strong, weak = (
        replace(leaking(small(i), "other", text, found_by=None, relation="reworded", nats=nats), controls=controls)
        for i, (text, nats) in enumerate([("he is ill", 20.0), ("based on this", 5.0)], 1)
    )
    made = report([replace(strong, id="a"), replace(weak, id="b")])
    said = flat(printed(made, width=120))
    assert "In other words, or from several pieces: 1 span in 1 of 2 responses." in said
    assert "1 further span in other words is not listed: contexts of other cases do as much" in said
    assert "Of the responses that are listed for such words, at most 10 % are expected to be false." in said
    more = report(
        [replace(strong, id="a"), replace(weak, id="b"), replace(small(3), id="c"), replace(small(4), id="d")]
    )
    chance = "Of 4 responses, chance alone would list 0.19 for such words; 20 checks are too few to say more."
    assert chance in flat(printed(more, width=120))
    index = {b.plain(section.name): [b.plain(cell) for cell in section.cells[1:2]] for section in made.sections}
    assert index == {"a": ["content in other words"], "b": ["no disclosure"]}
    page = html.page(made)
    assert page.count("he is ill") > 1
    assert "based on this" not in page
    # A report of that case alone has no list of all.
    alone = flat(printed(report([replace(weak, id="b")]), width=120))
    assert "The response was also scored beside contexts of other cases of these data, up to 10 each." in alone
    assert "content in other words" not in alone
    assert "based on this" in alone


def test_reports_say_what_spans_were_held_against() -> None:
    case = disclosing()
    none = flat(printed(report([case]), width=120))
    assert "The response was scored beside no other context: spans may be listed for a style" in none
    built_in = flat(printed(report([replace(case, irrelevant_contexts=3)]), width=120))
    assert "The response was also scored beside 3 built-in texts about other things. The nats of a span are" in built_in
    unknown = "The rate of false alarms is not known: that takes contexts of other cases, and these data have none."
    assert unknown in built_in
    # What narrows the list stands in front, and how it was made one click away.
    brief = flat(printed(report([replace(case, irrelevant_contexts=3)]), width=120, explain=False))
    assert unknown in brief
    assert "built-in texts" not in brief
    other = replace(small(1), irrelevant_contexts=3)
    both = [case, replace(other, controls=(ControlContext(case="x", nats=0.0, disclosures=0, worst_nats=0.0),)), other]
    said = flat(printed(report([replace(both[0], irrelevant_contexts=3), replace(both[1], irrelevant_contexts=None)])))
    assert "1 of 2 responses was also scored beside contexts of other cases of these data, up to 1 each." in said
    assert "1 of 2 responses was also scored beside 3 built-in texts" in said
    # Where others have a rate of false alarms, it is not called unknown.
    assert "False alarms: 0 % (at most " in said
    assert unknown not in said
    assert f"1 response ({case.id}) was scored beside built-in texts only: each context of another case is much" in said


def test_what_to_do_names_the_cases_and_is_one_thing_a_finding() -> None:
    retold = leaking(replace(small(2), id="b"), "other", "he is ill", found_by=None, relation="reworded")
    cases = [leaking(replace(small(1), id="a"), "phone", "555 0199"), retold, replace(small(3), id="c")]
    (advice,) = [block for block in report(cases).blocks if isinstance(block, b.Advice)]
    assert [b.plain(condition) for condition, _ in advice.rows] == [
        "Personal or secret data disclosed (a)",
        "Content of the documents in other words, or put together from several pieces (b)",
        "The context as a whole moved the answer by more than placebo and noise, but nothing is disclosed (c)",
    ]


def test_disclosures_are_listed_most_first_and_what_is_none_stands_apart() -> None:
    cases = [
        leaking(replace(small(1), id="a"), "phone", "555 0199"),
        leaking(replace(small(2), id="b"), "code", "QX-771", nats=30.0),
        leaking(replace(small(3), id="c"), "date", "3 May 1984", evidence=None, nats=0.4),
    ]
    blocks = b.walk(report(cases).blocks)
    tables = {b.plain(block.caption): block for block in blocks if isinstance(block, b.Table)}
    for caption, ids in (("Disclosed", ["b", "a"]), ("Not shown", ["c"])):
        (table,) = (table for name, table in tables.items() if name.startswith(caption))
        assert [b.plain(row.cells[0]) for row in table.rows] == ids  # type: ignore[arg-type]


def test_the_list_shows_the_words_that_matter_whole_and_marked() -> None:
    """However long a response is, and whatever else it copies, its sensitive words stand in the list."""
    padding = "and so on and so forth, without an end in sight, " * 4
    long = (
        "he has been on sick leave with diabetes and a broken hip, which nobody else at the works has been told so far"
    )
    text = f"Per Lind does. {padding}{long}; {padding}lids are free. {padding}"

    def span(words: str, found_by: str | None = None, **more: Any) -> Disclosure:
        start = text.index(words)
        (made,) = leaking(small(1), "health" if found_by else "other", words, found_by=found_by).disclosures
        return replace(made, start=start, end=start + len(words), **more)

    spans = (
        span("Per Lind", "shape"),
        span(long, "meaning"),
        span("lids are free"),
        span("without an end", relation="reworded"),
    )
    case = replace(small(1), response=replace(small(1).response, text=text), disclosures=spans)
    words = words_of(case)
    marks = [part.text for part in b.parts(words) if isinstance(part, b.Untrusted) and part.marked]
    assert marks == ["Per Lind", "without an end", long]
    assert b.plain(words).startswith("Per Lind does. and so on and so forth, without an end in sight, and so on")
    assert f"… {padding[-39:]}{long}; and so on and" in b.plain(words)
    assert b.plain(words).endswith(" …")
    # What only looks harmless is not marked, and of many spans the most sensitive are shown.
    harmless = replace(case, disclosures=spans[2:3])
    assert words_of(harmless) == b.Untrusted(text, 120)
    many = [replace(spans[3], nats=3.0 + n) for n in range(9)]
    shown = words_of(replace(case, disclosures=(*many, *spans)))
    assert next(part.text for part in b.parts(shown) if isinstance(part, b.Untrusted) and part.marked) == "Per Lind"
    assert long in b.plain(shown)
    assert b.plain(shown).endswith(" … and 8 more")


def test_words_of_hostile_or_unspaced_texts_stay_texts_and_whole() -> None:
    text = "彼は糖尿病で休んでいます" * 20
    (made,) = leaking(small(1), "health", "糖尿病", found_by="list").disclosures
    case = replace(
        small(1),
        response=replace(small(1).response, text=text),
        disclosures=(replace(made, start=100, end=103, text=text[100:103]),),
    )
    assert b.plain(words_of(case)) == f"… {text[60:143]} …"
    page = page_of(disclosing(HOSTILE), small(1))
    assert_harmless(page)
    assert "<mark>555-010-2231</mark>" in page


@pytest.mark.parametrize(
    ("words", "is_listed"),
    [("does", False), ("und", False), ("que de la", False), ("¿y?", False), ("is ill", True), ("not", True)],
)
def test_words_that_say_nothing_by_themselves_are_no_finding(words: str, is_listed: bool) -> None:
    case = leaking(small(1), "other", words, found_by=None, relation="reworded")
    assert case.disclosed  # the result keeps it
    made = report([case])
    captions = [block.caption for block in b.walk(made.sections[0].blocks) if isinstance(block, b.Table)]
    assert ("Disclosed" in captions) == is_listed
    (attribution,) = [block for block in made.sections[0].blocks if isinstance(block, b.Attribution)]
    assert len(attribution.disclosures.disclosed) == is_listed
    said = flat(printed(made, width=120))
    assert ("In other words, or from several pieces: 1 span." in said) == is_listed
    assert ("1 span of words that say nothing by themselves, such as “does”, is not listed." in said) != is_listed
    # A value is one also where its words are such.
    value = leaking(small(1), "name", words)
    assert "discloses personal or secret data: name" in InfluenceResult.findings([value]).headline


def test_cases_are_listed_by_what_they_disclose_and_then_by_nats() -> None:
    copied = leaking(replace(small(1), id="copied"), "other", "weighs", found_by=None, nats=90.0)
    cases = [
        replace(small(2), id="moved"),
        copied,
        leaking(replace(small(3), id="retold"), "other", "he is ill", found_by=None, relation="reworded", nats=4.0),
        leaking(replace(small(4), id="phone"), "phone", "555 0199", nats=5.0),
        leaking(replace(small(5), id="code"), "code", "QX-771", nats=30.0),
        leaking(replace(small(7), id="negative"), "phone", "555 0199", nats=-1.0, floor_nats=-2.0),
        replace(copied, id="less", disclosures=(replace(copied.disclosures[0], nats=8.0),)),
        replace(small(6), id="still", whole_nats=0.0, whole_signed_nats=0.0, whole_posterior=None),
    ]
    listed = ["code", "phone", "negative", "retold", "copied", "less", "moved", "still"]
    assert [b.plain(section.name) for section in b.ranked(report(cases))] == listed


def test_commands_in_advice_are_whole() -> None:
    for cases in ([leaking(small(1), "phone", "555 0199")], [leaking(small(n), "phone", "555 0199") for n in (1, 2)]):
        page = page_of(*cases)
        assert '<code class="whole">leakmeter redact --disclosures</code> chooses what to cut' in page
        assert "<code>leakmeter redact &#45;&#45;disclosures</code>" in markdown.text(report(cases))
        assert "leakmeter redact --disclosures" in flat(printed(report(cases)))


def test_every_renderer_says_the_same_headline() -> None:
    for cases in ([disclosing()], [disclosing(), small(1)], [clinic()], [small(1), small(2)]):
        headline = InfluenceResult.findings(cases).headline
        made = report(cases)
        assert b.headline_of(made) == headline
        assert flat(headline) in flat(printed(made, explain=False))
        assert flat(headline) in flat(text_of(html.page(made)).replace("\n", ""))
        assert flat(headline) in flat(re.sub(r"</?code>|\*\*", "", unescape(markdown.text(made))).replace("\u200b", ""))
        if len(cases) == 1:
            assert headline in repr(cases[0])


# ---- in a browser ---------------------------------------------------------------------------------------------------
@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: the page was not opened in a browser")
def test_a_table_with_surrogates_shows_one_token_in_the_right_columns(tmp_path: Path) -> None:
    case = small(1)
    swapped = {"swapped_nats": 1.25, "surrogate": "<b>Ida</b>", "entity_type": "person", "repeated": "no"}
    case = replace(case, pieces=tuple(replace(piece, n_mentions=2, **swapped) for piece in case.pieces))
    file = tmp_path / "page.html"
    file.write_text(page_of(case), encoding="utf-8")
    cells = "[...document.querySelector('.pieces tbody tr').cells].map(c => c.textContent)"
    heads = "[...document.querySelectorAll('.pieces thead tr > *')].map(c => c.textContent.trim())"
    with Browser() as browser:
        browser.open(file.as_uri())
        expected = ["Without it", "", "With a surrogate", "Signed", "Alone", "Posterior"]
        assert browser.run(heads)[2:] == expected
        before = browser.run(cells)
        assert before[4] == "1.25"
        assert "surrogate: <b>Ida</b>" in before[1]
        browser.run("document.querySelectorAll('.tokens b')[0].click()")
        name, _, nats, _, invented, signed, only, posterior = browser.run(cells)
        piece = next(one for one in case.pieces if one.name == name)
        assert float(nats) == float(f"{piece.per_token_nats[0]:.2f}")
        # How far noise and placebo move one token with signs is not known: no posterior.
        assert (invented, only, posterior) == ("–", "–", "–")
        assert signed[0] in "+−0"
        browser.press("Escape")
        assert browser.run(cells) == before
        assert browser.complaints == []


def test_nothing_is_advised_to_be_shipped_whose_context_as_a_whole_leaks() -> None:
    case = clinic()
    quiet = tuple(replace(piece, nats=0.0, signed_nats=0.0, posterior=None) for piece in case.pieces)
    whole = replace(case, pieces=quiet)
    assert (is_finding(whole), leader(whole)) == (True, None)
    none = replace(whole, whole_nats=0.0, whole_signed_nats=0.0, whole_posterior=None)
    ship = "No personal or secret data recognised, and nothing reworded: read the"
    look = "The context as a whole moved the answer"
    # The terminal has those rows of the table alone that the cases meet.
    for shown, said in (([whole], look), ([none], ship), ([whole, replace(none, id="b")], look)):
        told = flat(printed(report(shown)))
        assert [row for row in (ship, look) if row in told] == [said]


def test_of_a_system_prompt_alone_that_nothing_is_found_leads_to_nothing() -> None:
    """The headline says what was measured, and no row of a table of advice follows, least of all to ship."""
    documents = tuple(replace(document, name="system 1") for document in clinic().documents)
    alone = replace(clinic(), unmarked_query_tokens=12, documents=documents)
    shown = flat(printed(report([alone])))
    assert shown.startswith("Only the system prompt was measured. The drawn response does not disclose, as far")
    assert "→" not in shown
    for cases, n_advised, said in (
        ([alone, replace(alone, id="other")], 0,
         "Only the system prompt was measured. None of 2 drawn responses is known to disclose"),
        ([alone, clinic(), clinic()], 1,
         "In 1 of 3 cases, only the system prompt was measured. None of 3 drawn responses is known"),
    ):  # fmt: skip
        assert InfluenceResult.findings(cases).headline.startswith(said)
        advice = [block for block in report(cases).blocks if isinstance(block, b.Advice)]
        assert len(advice) == n_advised
        # The measured system prompt is none of the cases that the advice names.
        assert "system" not in repr(advice)


def test_stretches_are_the_context_again() -> None:
    first, *others = overlapping().pieces
    # Spans outside the context are cut.
    outside = replace(first, spans=((-5, 3), (10**9, 10**9 + 5), (7, 7)))
    for case in (*every_case(), replace(overlapping(), pieces=(outside, *others))):
        found = stretches(case.context, case.documents, case.pieces)
        assert "".join(stretch.text for stretch in found) == visible(case.context)


def test_a_character_takes_its_strongest_piece() -> None:
    case = overlapping()
    (attribution,) = (block for block in report([case]).sections[0].blocks if isinstance(block, b.Attribution))
    segments = [segment for passage in attribution.context.passages for segment in passage.segments]
    assert max(len(segment.pieces) for segment in segments) == 2
    for segment in segments:
        covering = [case.pieces[i] for i in segment.pieces]
        if covering:
            strongest = max(covering, key=lambda piece: (is_finding(case, piece), piece.nats))
            assert segment.nats == (strongest.nats if is_finding(case, strongest) else 0.0)
            assert case.pieces[segment.pieces[0]] == strongest


def test_a_row_says_which_of_its_sums_is_within_the_placebo() -> None:
    case = replace(overlapping(), placebo_nats=2.0, placebo_signed_nats=1.5, noise_floor_nats=0.1)
    weak = {"posterior": None, "below_noise_floor": False}
    for nats, signed, note, said in (
        (1.9, -1.2, "below the placebo", "below the placebo"),
        (4.7, -1.2, "below the placebo", "with signs −1.20, within the placebo’s 1.50"),
        (4.7, 0.05, "below the noise floor", "with signs below the noise floor"),
    ):
        piece = replace(case.pieces[0], nats=nats, signed_nats=signed, posterior_note=note, **weak)
        shown = replace(case, pieces=(piece, *case.pieces[1:]))
        flags = [b.plain(remark) for remark in remarks_on(shown, piece)]
        assert [flag for flag in flags if "placebo" in flag or "noise" in flag] == [said]


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: the page was not opened in a browser")
def test_a_page_ranks_last_what_is_no_finding(tmp_path: Path) -> None:
    case = overlapping()
    weak = replace(case.pieces[3], nats=50.0, posterior=None, posterior_note="below the placebo")
    strong = [replace(piece, nats=float(n), posterior=0.9) for n, piece in enumerate(case.pieces[:3], 5)]
    shown = replace(case, pieces=(*strong, weak))
    file = tmp_path / "page.html"
    file.write_text(page_of(shown), encoding="utf-8")
    with Browser() as browser:
        browser.open(file.as_uri())
        order = "[...document.querySelector('.pieces').tBodies[0].rows].map(row => +row.dataset.p)"
        # As the page was written, and as its script sorts it by default.
        assert browser.run(order) == by_nats(shown, "unit") == [2, 1, 0, 3]
        browser.run("document.querySelectorAll('.tokens b')[0].click()")
        browser.press("Escape")
        assert browser.run(order) == [2, 1, 0, 3]


def test_an_undefined_number_ranks_last_and_a_weak_piece_leads_nothing() -> None:
    case = overlapping()
    numbers = (math.nan, 2.0, 2.0, 5.0)
    pieces = [replace(piece, nats=nats, posterior=0.9) for piece, nats in zip(case.pieces, numbers, strict=False)]
    shown = replace(case, pieces=tuple(pieces))
    assert by_nats(shown, "unit") == [3, 1, 2, 0]
    assert leader(shown) == pieces[3]
    quiet = replace(shown, pieces=tuple(replace(piece, posterior=None) for piece in pieces))
    assert leader(quiet) is None
    assert leader(replace(shown, placebo_nats=5.0)) is None  # signs or none: both sums have to be above the placebo
    assert by_nats(replace(shown, pieces=(*pieces[:3], replace(pieces[3], posterior=None))), "unit") == [1, 2, 3, 0]
    assert leader(replace(case, pieces=())) is None


def test_one_next_token_has_a_heat_map_of_words() -> None:
    import leakmeter

    result = leakmeter.influence("toy", context="Anna saw one.", query="What?", unit="ngram:1", max_new_tokens=1)
    assert result.matrix.shape == (len(result.pieces), 1)
    assert {piece.n_tokens for piece in result.pieces} == {1}
    assert result.to_rich() is not None
