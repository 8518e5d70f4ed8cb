"""Reports of private generation: the verdict first, nothing private in public, no text obeyed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.cells import cell_len

import leakmeter
from helpers.report_cases import HOSTILE
from helpers.report_checks import assert_report_harmless
from helpers.report_snapshots import assert_as_reviewed, printed
from leakmeter.errors import UsageError
from leakmeter.instruments.generation import calibration, words
from leakmeter.instruments.generation.calibration import CalibratedGuarantee, Calibration
from leakmeter.instruments.generation.report import public_report
from leakmeter.instruments.generation.result import (
    ClippedLogits,
    CopiedPassage,
    OwnMechanism,
    PrivateGenerationResult,
    PublicTexts,
)
from leakmeter.report import blocks as b
from leakmeter.report import charts, html, markdown

SNAPSHOTS = Path(__file__).parent / "snapshots"
Case = PrivateGenerationResult
TEXTS = [f"The ferry no. {i} sails at {i}." for i in range(14)]
report = PrivateGenerationResult.report


@pytest.fixture(scope="module")
def audited() -> list[Case]:
    """Two batches of seven exemplars, drawn by the toy model."""
    how: dict[str, Any] = {"subset_size": 7, "epsilon": 8, "samples": 3, "max_new_tokens": 6, "seed": 1}
    return list(leakmeter.generate("toy", TEXTS, instruction="Write.", **how))


@pytest.fixture
def case(audited: list[Case]) -> Case:
    return audited[0]


def broken(case: Case) -> Case:
    """The case with two failures."""
    told = replace(case.verdict.worst_token, order=7.0, measured_nats=1.5, bound_nats=1.25, ratio=1.2)
    total = replace(told, sample=None, token=None, token_text=None, measured_nats=math.inf, ratio=math.inf)
    return replace(case, verdict=replace(case.verdict, holds=False, failures=(total, told)))


def hostile(case: Case) -> Case:
    worst = replace(case.verdict.worst_token, token_text=HOSTILE, exemplar_id=HOSTILE)
    copied = CopiedPassage(sample=0, start=0, end=5, longest_run_tokens=5, text=HOSTILE, exemplar="e1")
    quality = replace(case.text_quality, verbatim=(copied,), longest_verbatim_tokens=5, verbatim_share=0.25)
    mechanism = OwnMechanism(name=HOSTILE, settings={HOSTILE: HOSTILE})
    said: dict[str, Any] = {"query": HOSTILE, "model": HOSTILE, "mechanism": mechanism}
    return replace(
        case, id=HOSTILE, warnings=(HOSTILE,), text_quality=quality, verdict=replace(case.verdict, worst_token=worst),
        exemplars=tuple(replace(one, text=HOSTILE, id=HOSTILE) for one in case.exemplars),
        samples=tuple(replace(one, text=HOSTILE, tokens=(HOSTILE,) * len(one.tokens)) for one in case.samples),
        publishable=replace(case.public, texts=(HOSTILE,), **said), **said,
    )  # fmt: skip


def flat(text: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", re.sub("</?bdi>", "", text)).split())


def said_of(cases: Sequence[Case]) -> tuple[str, str]:
    """What a reader of the terminal and of the page sees."""
    return flat(printed(report(cases))), flat(html.page(report(cases)).split("</style>")[1])


def panels(cases: Sequence[Case], name: str) -> Sequence[b.Panel]:
    return next(chart for chart in b.charts_of(report(cases)) if chart.name == name).panels


def charts_on_pages(cases: Sequence[Case], name: str) -> list[b.Chart]:
    walked = b.walk(b.blocks_of(report(cases)))
    return [one for one in walked if isinstance(one, b.Chart) and (one.name, one.on) == (name, "pages")]


CALIBRATED = Calibration(
    free="temperature", value=4.79512, target_epsilon=10.0, adjacency="add-remove", delta=1e-5, clip=10.0,
    subset_size=50, temperature=4.79512, normalise_by="fixed", samples=50, max_new_tokens=40, n_tokens=2000,
    guarantees={
        name: CalibratedGuarantee(
            n_tokens=2000, delta=1e-5, epsilon=epsilon, order=3.0, rdp_nats=5.125, rdp_per_token_nats=0.0025625,
            max_per_token_nats=0.0841, pure_epsilon=168.2, rho=1.7,
        )
        for name, epsilon in (("add-remove", 9.9999), ("replace-one", 30.25))
    },
)  # fmt: skip
MADE: dict[str, Callable[[list[Case]], b.Report]] = {
    "one": lambda cases: report(cases[:1], command="leakmeter generate"),
    "several": report,
    "broken": lambda cases: report([cases[0], broken(cases[1])]),
    "public": lambda cases: public_report([case.public for case in cases]),
    "calibrated": lambda _: calibration.report(CALIBRATED),
}


@pytest.mark.parametrize("name", MADE)
def test_what_a_report_says_is_as_reviewed_and_no_wider_than_the_terminal(audited: list[Case], name: str) -> None:
    made = MADE[name](audited)
    assert_as_reviewed(SNAPSHOTS / f"{name}.txt", made, with_page=False)
    for width in (60, 120):
        said = printed(made, width=width)
        assert all(cell_len(line) <= width for line in said.split("\n"))
        assert "\x1b" not in said


def test_a_broken_guarantee_names_exemplar_and_token(case: Case) -> None:
    told = broken(case)
    worst = told.verdict.worst_token
    for said in said_of([told]):
        for part in (
            *("Broken: a measurement is above its bound.", "all tokens together: ∞ nats measured, bound 1.25"),
            f"Exemplar {worst.exemplar_id}, token {worst.token + 1} of sample {worst.sample + 1}",
            *("1.50 nats measured, bound 1.25 at order 7 (120 %)", "cannot show this"),
        ):
            assert part in said
        assert "No violation found" not in said
        assert "never prove" not in said
        assert "Guarantee" not in said
    assert "bad" in html.page(report([told])).split("</style>")[1].split("Broken")[0].rsplit("<h2", 1)[1]


def test_bars_stand_beside_what_is_promised(audited: list[Case], case: Case) -> None:
    (chart,) = charts_on_pages([case], "share-of-bound")
    (panel,) = chart.panels
    assert list(panel.y.names) == ["all tokens", "worst token"]
    assert list(panel.series[0].y) == [100 * case.at_guarantee.ratio, 100 * case.verdict.worst_token.ratio]
    assert [(guide.at, guide.label, guide.across) for guide in panel.guides] == [(100.0, "promised", "x")]
    (chart,) = charts_on_pages([broken(case)], "share-of-bound")
    assert list(chart.panels[0].series[0].y) == [math.inf, 120.0]
    assert list(chart.panels[0].series[0].labels) == ["∞ of 1.25 nats", "1.50 of 1.25 nats"]
    (chart,) = charts_on_pages([*audited, broken(case)], "share-of-bound")
    assert max(chart.panels[0].series[0].y) == chart.panels[0].series[0].y[0] == math.inf
    assert len(chart.panels[0].y.names) == 3
    (chart,) = charts_on_pages(audited * 6, "share-of-bound")
    assert len(chart.panels[0].y.names) == 10
    assert chart.title.endswith("the 10 nearest of 12 batches")


def test_every_renderer_says_that_nothing_is_proved(audited: list[Case], case: Case) -> None:
    for cases in ([case], audited):
        for said in (*said_of(cases), flat(printed(report(cases), explain=False)), flat(markdown.text(report(cases)))):
            assert "No violation found: " in said
            assert "That is not a proof." in said
        assert PrivateGenerationResult.findings(cases).headline == words.verdict(cases)


def test_the_papers_figure_stands_beside_no_leak_and_shares_keep_three_digits(case: Case) -> None:
    (_, epsilon), (_, zero), (_, guaranteed) = words.convention(case)
    assert zero < epsilon
    assert case.bounds.guarantee is not None
    assert guaranteed == case.bounds.guarantee.epsilon
    first, second, *others = case.exemplars
    exemplars = (replace(first, rank=0, ratio=0.000123456, copied_tokens=7), replace(second, ratio=math.inf), *others)
    for said in said_of([replace(case, exemplars=exemplars)]):
        assert "0.0123 %" in said
        assert "∞" in said


def test_the_worst_tokens_are_those_that_used_most(case: Case) -> None:
    shares = [
        (share, i + 1, t + 1)
        for i, one in enumerate(case.samples)
        for t, share in enumerate(one.per_token.share_of_bound)
    ]
    tables = [one for one in b.walk(report([case]).sections[0].blocks) if isinstance(one, b.Table)]
    rows = next(one for one in tables if b.plain(one.caption).startswith("Tokens")).rows
    assert [(row.cells[3], *row.cells[:2]) for row in rows] == sorted(shares, key=lambda of: -of[0])[: len(rows)]
    worst = case.verdict.worst_token
    assert rows[0].cells[:2] == (worst.sample + 1, worst.token + 1)
    assert rows[0].cells[3:] == (worst.ratio, words.exemplar(case, worst.exemplar))


def test_batches_with_the_same_texts_add_up(audited: list[Case]) -> None:
    same = "The same text stands in several batches (7 exemplars): for its author, these batches add up."
    for said in said_of([audited[0], replace(audited[0], id="again")]):
        assert same in said


def test_hostile_texts_are_shown_and_not_obeyed(case: Case) -> None:
    told = hostile(case)
    assert told.publishable is not None
    facts = b.Provenance(facts=(("Directory", b.Untrusted(HOSTILE)),))
    several, one = report([told, told], command=HOSTILE, provenance=facts), report([broken(told)])
    for made in (several, one, public_report([told.publishable])):
        assert_report_harmless(made, widths=(200,))
    for chart in b.charts_of(one):
        assert "<img" not in charts.files(chart)["svg"].decode()


def test_what_may_be_published_is_texts_and_guarantee_and_nothing_else(audited: list[Case]) -> None:
    publics = [case.public for case in audited]
    page = PublicTexts.render_page(publics, command="leakmeter SECRET", run=Path("runs/SECRET"))
    body, made = page.split("</style>")[1], public_report(publics)
    assert page == html.page(made)
    for said in (flat(body), flat(printed(made)), flat(markdown.text(made))):
        assert "ε = 8.00 at δ = 1e-5, for up to 18 tokens" in said
        assert "one exemplar more or less" in said
        for secret in (
            "ferry",
            "No violation",
            "Broken",
            "spent",
            "Spent",
            "measured",
            "batch 1",
            "e1",
            "<svg",
            "SECRET",
        ):
            assert secret not in said
    assert body.count('<div class="text query"') == sum(len(public.texts) for public in publics)
    assert b.charts_of(made) == []
    assert "<script" not in page
    assert "clipped logits of all of them were averaged" in flat(body)
    mechanism = OwnMechanism(name="BoundedCid", settings={"epsilon": 0.5})
    other = [replace(public, mechanism=mechanism) for public in publics]
    assert "clipped logits of all" not in flat(html.page(public_report(other)))
    for empty in (PublicTexts.report, report):
        with pytest.raises(UsageError, match="at least one"):
            empty([])
    case = replace(audited[0], bounds=replace(audited[0].bounds, guarantee=None), publishable=None)
    assert all("These texts have no guarantee" in said for said in said_of([case]))


def test_both_axes_of_the_drawing_are_logarithmic(case: Case) -> None:
    rows = [
        replace(row, bound_nats=40.0 * nats, measured_nats=nats, sum_of_maxima_nats=2 * nats)
        for row, nats in zip(case.by_order[:-1], np.geomspace(1e-3, 10.0, len(case.by_order) - 1), strict=True)
    ]
    case = replace(case, by_order=(*rows, case.by_order[-1]))
    (panel,) = panels([case], "orders")
    assert (panel.x.scale, panel.y.scale) == ("log", "log")
    bound, maxima, measured = panel.series
    names = [b.plain(one.name) for one in panel.series]
    assert names == ["bound", "measured, sum of maxima", "measured, worst exemplar"]
    assert list(bound.x)[: len(rows)] == list(measured.x)[: len(rows)] == [row.order for row in rows]
    assert np.allclose(bound.y, 40.0 * np.asarray(measured.y))
    assert np.allclose(maxima.y, 2.0 * np.asarray(measured.y))
    (guide,) = panel.guides
    assert (guide.at, guide.across) == (case.bounds.order, "x")
    assert guide.at in panel.x.ticks
    assert all(later / earlier > 1.2 for earlier, later in zip(panel.x.ticks, panel.x.ticks[1:], strict=False))
    (page_chart,) = charts_on_pages([case], "orders-of-batch")
    assert page_chart.panels[0].series == panel.series
    assert "<title>order 2: bound" in charts.inline_svg(page_chart)


def test_the_points_of_exemplars_are_theirs(case: Case) -> None:
    (panel,) = panels([case], "exemplars")
    diagonal, points = panel.series
    assert diagonal.x == diagonal.y
    found = set(zip(points.x, points.y, strict=True))
    expected = {
        (row.bound_nats, nats)
        for one in case.exemplars
        for row, nats in zip(case.by_order, one.by_order_nats, strict=True)
        if row.order < math.inf and nats > 0.0
    }
    assert found == expected


def test_figures_have_six_batches_at_most(audited: list[Case]) -> None:
    many = [replace(audited[0], id=f"b{i}") for i in range(8)]
    found = PrivateGenerationResult.findings(many)
    assert found.headline == words.verdict(many)
    assert list(found.figures) == ["orders", "exemplars"]
    for chart in b.charts_of(report(many)):
        assert len(chart.panels) == 6
        assert "2 more batches left out" in chart.footer


def test_zero_and_infinity_are_in_the_table_and_not_in_the_drawing(case: Case) -> None:
    first, second, *others = case.by_order
    second = replace(second, measured_nats=math.inf, ratio=math.inf)
    case = replace(case, by_order=(replace(first, measured_nats=0.0), second, *others))
    (panel,) = panels([case], "orders")
    assert len(panel.series[2].y) == len(panel.series[0].y) - 2
    said = printed(report([case]))
    assert re.search(r"^ +2 +\S+ +0 ", said, re.MULTILINE)
    assert "∞" in said
    all_infinite = dict.fromkeys(("bound_nats", "measured_nats", "sum_of_maxima_nats"), math.inf)
    case = replace(case, by_order=tuple(replace(row, **all_infinite) for row in case.by_order))
    assert not charts_on_pages([case], "orders-of-batch")
    assert "∞ of ∞ nats" in html.page(report([case]))
    assert "Chart" not in printed(report([case]))
    for chart in b.charts_of(report([case])):
        assert charts.files(chart)["png"].startswith(b"\x89PNG")


def test_settings_that_leave_noise_alone_are_told(case: Case) -> None:
    votes = np.full(50_000, -10.0) / 4.8
    votes[0] = 10.0 / 4.8
    share = np.exp(votes[0]) / np.exp(votes).sum()
    assert words.most_likely(10.0, 4.8, 50_000) == pytest.approx(share, rel=1e-12)
    for temperature, is_told in ((4.8, True), (1.0, False)):
        assert isinstance(case.mechanism, ClippedLogits)
        case = replace(case, mechanism=replace(case.mechanism, clip=10.0, temperature=temperature))
        for said in said_of([case]):
            assert ("gets 0.129 % at most. Most of the drawn text is then noise" in said) == is_told
    own = OwnMechanism(name="BoundedCid", settings={"epsilon": 0.5})
    assert words.noise(replace(case, mechanism=own)) is None
