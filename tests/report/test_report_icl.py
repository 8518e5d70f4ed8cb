"""ICL influence: the words, the terminal's views, the drawing of positions and the page."""

from __future__ import annotations

import io
import math
import re
from pathlib import Path
from typing import Any

import pytest
from report_browser import CHROMIUM, Browser
from report_cases import HOSTILE
from rich.console import Console

from leakmeter.core.plain import visible
from leakmeter.errors import UsageError
from leakmeter.instruments.icl.result import summary
from leakmeter.report import chart, frame, icl, icl_chart, queries
from leakmeter.report.icl_page import render_icl
from leakmeter.report.icl_terminal import icl_overview, icl_view
from leakmeter.stats.posterior import posterior_fields

Case = dict[str, Any]


def exemplar(position: int, *signed: float, **more: Any) -> Case:
    loss = max(map(abs, signed))
    return {
        "name": f"e{position}", "position": position, "id": f"x{position}", "label": ("cat", "dog")[position % 2],
        "text": f"Text: exemplar {position}\nAnswer: {('cat', 'dog')[position % 2]}", "n_tokens": 9, "loss_nats": loss,
        **posterior_fields(max(signed, key=abs), noise_nats=1e-5), "below_noise_floor": loss <= 1e-5,
        "worst_label": ("cat", "dog")[[abs(x) for x in signed].index(loss)], "worst_label_nats": loss,
        "signed_nats": list(signed), "vocabulary": None, "repeats": [], "rank": 1,
    } | more  # fmt: skip


def asked(id_: str = "q1", **more: Any) -> Case:
    """A query whose second exemplar moves 'dog' from 10 % to 20 %, and 'cat' from 90 % to 80 %."""
    exemplars = [exemplar(1, 0.1, -0.3), exemplar(2, math.log(0.8 / 0.9), math.log(2)), exemplar(3, 0.05, 0.1)]
    return {
        "id": id_, "model": "toy", "weights_sha256": None, "dtype": "float32", "template": "plain",
        "query": f"Query {id_} meows.", "context": "…", "space": "labels", "label_scoring": "first-token",
        "calibration": None, "calibration_baseline": "own", "calibration_epsilon": 1e-4, "temperature": 1.0,
        "labels": ["cat", "dog"], "label_probabilities": [0.8, 0.2], "label_mass": 0.5, "prediction": "cat",
        "gold": "cat", "is_right": True, "exemplars": exemplars, "loss_nats": math.log(2), "posterior": 2 / 3,
        "posterior_note": None,
        "worst_exemplar": "e2", "noise_floor_nats": 1e-5,
        "cost": {
            "requests": 4, "tree_tokens": 60, "naive_tokens": 120, "seconds": 0.5, "halvings": 0,
            "predicted": {"tree_tokens": 60, "seconds": 0.25}, "scored_together": 8,
        },
        "warnings": [],
    } | more  # fmt: skip


def several(n: int, *, fixed: bool = True, **more: Any) -> list[Case]:
    cases = [asked(f"q{i}", loss_nats=0.5 + 0.01 * i, **more) for i in range(n)]
    if not fixed:
        for i, case in enumerate(cases):
            case["exemplars"] = [one | {"id": f"{i}-{one['id']}"} for one in case["exemplars"]]
    return cases


def over_vocabulary(**more: Any) -> Case:
    def entry(token: str, loss: float | None) -> Case:
        return {"token": token, "token_id": 7, "log_prob_nats": -9.0, "log_prob_without_nats": -2.0, "loss_nats": loss}

    told = {"farthest": entry(" mou\nse", 7.0), "plausible": entry(" fish", 1.5)}
    exemplars = [exemplar(1, 0.1, -0.3, vocabulary=told), exemplar(2, 0.1, 0.2, loss_nats=7.0, vocabulary=told)]
    return asked(space="vocabulary", exemplars=exemplars, loss_nats=7.0, posterior=0.999, **more)


def hostile() -> Case:
    exemplars = [exemplar(1, 0.5, 1.5) | dict.fromkeys(("id", "text", "label", "worst_label", "name"), HOSTILE)]
    return asked(
        HOSTILE, model=HOSTILE, query=HOSTILE, warnings=[HOSTILE], labels=[HOSTILE, "dog"], prediction=HOSTILE,
        gold=HOSTILE, template=HOSTILE, worst_exemplar=HOSTILE, exemplars=exemplars,
    )  # fmt: skip


def printed(view: Any, *, colour: bool = False, width: int = 80) -> str:
    sink = io.StringIO()
    console = Console(
        file=sink, width=width, force_terminal=colour, color_system="truecolor" if colour else None,
        markup=False, highlight=False, no_color=not colour,
    )  # fmt: skip
    console.print(view)
    return sink.getvalue()


def flat(text: str) -> str:
    return " ".join(text.split())


def rows_of(out: str, first: str) -> list[list[str]]:
    """Words of the lines under the heading that begins with `first`, up to an empty line."""
    lines = out.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(first))
    end = next(i for i in range(at, len(lines)) if not lines[i].strip())
    return [line.split() for line in lines[at + 1 : end]]


def overview(cases: list[Case], **how: Any) -> str:
    return printed(icl_overview(cases, summary(cases)), **how)


def page_of(cases: list[Case], **more: Any) -> str:
    return render_icl(cases, summary(cases), **more)


def test_the_words_say_what_was_measured() -> None:
    cases = several(4)
    told = summary(cases)
    assert flat(icl.headline(told, cases)).startswith("ICLInf 0.52 ± 0.011 nats [0.5")
    assert icl.headline(told, cases).endswith("over 4 queries with 3 exemplars, the same for all.")
    drawn = several(4, fixed=False)
    assert icl.headline(summary(drawn), drawn).endswith("drawn for each.")
    assert "by 0.52 nats: whoever is given that answer multiplies or divides their odds" in flat(icl.meaning(told))
    assert "that the exemplar was there by 1.67. One query in" in flat(icl.meaning(told))
    assert flat(icl.posterior(asked())) == (
        "From even odds, whoever is given the answer “dog” is 67 % sure that the exemplar was there."
    )
    against = flat(icl.posterior(asked(posterior=1 / 3)))
    assert against == (
        "“dog” is likelier without that exemplar: from even odds, whoever is given that answer would give 33 % to the "
        "exemplar having been there."
    )
    silent = asked(posterior=None, posterior_note="below the noise floor")
    assert icl.posterior(silent) == "No posterior is shown: the change is below the noise floor."
    assert flat(icl.accuracy(told)) == "The likeliest answer is right in 100.0 % [51, 100]; macro-F1 1.00."
    assert "no query has a loss below" in icl.noise(told, cases)
    bare = several(2, gold=None, is_right=None)
    assert "is not known" in icl.accuracy(summary(bare))
    assert flat(icl.verdict(cases[0])).startswith(
        "This answer owes 0.50 nats to one exemplar: without e2, “dog” changes"
    )
    quiet = asked(exemplars=[exemplar(1, 1e-6, 1e-7)], worst_exemplar="e1")
    assert "nothing that could be measured" in icl.verdict(quiet)
    assert flat(queries.cost(cases)) == (
        "240 tree tokens in 2.0 s, 50 % saved against 480 of full prompts; predicted 240 in about 1 s"
    )


def test_infinite_losses_are_said_to_be_so() -> None:
    case = asked(
        loss_nats=None, posterior=1.0,
        exemplars=[exemplar(2, 0.2, 1.0, loss_nats=None, worst_label_nats=None, signed_nats=[0.2, None])],
    )  # fmt: skip
    cases = [case, asked("q2")]
    assert icl.headline(summary(cases), cases).startswith("ICLInf ∞, over 2 queries")
    (cat, dog), _ = icl.label_rows(case)
    assert (dog.without, dog.signed_nats) == (0.0, math.inf)
    assert cat.without == pytest.approx(0.8 * math.exp(-0.2))
    never = case | {"label_probabilities": [1.0, 0.0]}
    assert (icl.label_rows(never)[0][1].without, icl.label_rows(never)[0][1].signed_nats) == (None, -math.inf)
    assert "∞" in overview(cases)
    assert "∞" in printed(icl_view(case))
    page = page_of(cases)
    assert "∞" in page
    assert "<svg" not in page


def test_probabilities_are_never_rounded_to_none_or_all() -> None:
    shares = (0.0, 1e-9, 0.0015, 0.25, 0.9996, 1.0, None)
    assert [flat(icl.probability(share)) for share in shares] == [
        *("0.00 %", "< 0.01 %", "0.15 %", "25.0 %", "> 99.9 %", "100.0 %", "–")
    ]


def test_of_many_labels_those_that_matter_are_shown() -> None:
    labels = [f"l{i}" for i in range(14)]
    signed = [0.01] * 13 + [-0.9]
    probabilities = [0.5, 0.3, 0.05, 0.05, 0.03, 0.03, *[0.005] * 8]
    case = asked(
        labels=labels, label_probabilities=probabilities, prediction="l0", gold="l12", worst_exemplar="e1",
        exemplars=[exemplar(1, 0.01) | {"signed_nats": signed, "worst_label": "l13"}],
    )  # fmt: skip
    rows, n_more = icl.label_rows(case)
    assert [row.label for row in rows] == ["l0", "l1", "l2", "l3", "l12", "l13"]
    assert n_more == 8
    assert "and 8 more" in printed(icl_view(case))
    assert "and 8 more" in page_of([case, case | {"id": "b", "gold": None}])


def test_one_query_shows_its_answer_with_and_without() -> None:
    out = printed(icl_view(asked()))
    assert flat(out).startswith("This answer owes 0.69 nats to one exemplar: without e2, “dog” changes most.")
    assert rows_of(out, "label")[0][:6] == ["cat", "80.0", "%", "90.0", "%", "−0.12"]
    assert rows_of(out, "label")[1][:6] == ["dog", "20.0", "%", "10.0", "%", "+0.69"]
    assert [row[0] for row in rows_of(out, "# ")] == ["1", "2", "3"]
    assert "Before renormalising, all labels have 50.0 % together." in flat(out)
    assert "noise floor 1e-5 nats" in flat(out)
    token = printed(icl_view(over_vocabulary(worst_exemplar="e2")))
    assert "without e2, “ mou↵se” changes most" in token
    for width in (40, 60, 80, 160):
        assert all(len(line) <= width for line in printed(icl_view(asked()), width=width).splitlines())


def test_many_queries_are_summed_up_in_80_columns() -> None:
    cases = several(12, warnings=["The labels have a probability of 0.01 together: few."])
    cases[3]["warnings"] = ["The labels have a probability of 2e-05 together: few."]
    out = overview(cases)
    assert "! In 12 of 12 queries, the first: The labels have a probability of 0.01" in flat(out)
    assert "[" in rows_of(out, "# ")[0][-5]
    assert [row[0] for row in rows_of(out, "# ")] == ["2", "1", "3"]
    assert rows_of(out, "label")[0][:3] == ["cat", "12", "1.00"]
    assert [row[0] for row in rows_of(out, "query text")] == [f"q{i}" for i in range(11, 3, -1)]
    assert "position" not in rows_of(out, "Labels")[0]
    drawn = overview(several(12, fixed=False))
    assert [row[0] for row in rows_of(drawn, "position")] == ["1", "2", "3"]
    assert all(len(line) <= 80 for line in (out + drawn).splitlines())
    assert "over tokens with a probability of 1e-6 or more" in flat(
        overview([over_vocabulary(worst_exemplar="e2"), over_vocabulary(id="b", worst_exemplar="e1")])
    ).replace("Over", "over")
    assert "\x1b[" in overview(cases, colour=True)


def test_positions_are_drawn_from_zero_with_their_intervals() -> None:
    rows = [
        {"position": i, "mean_nats": mean, "interval_nats": (mean - 0.5, mean + 0.5)}
        for i, mean in enumerate([2.5, 1.0, 1.5], 1)
    ]
    drawn = icl_chart.positions(rows, ["a", "b", "c"])
    assert drawn is not None
    top = 3.0
    assert [point.y for point in drawn.points] == [round(chart.HEIGHT * (1 - x / top), 1) for x in (2.5, 1.0, 1.5)]
    assert (drawn.points[0].low, drawn.points[0].high) == (round(chart.HEIGHT / 3, 1), 0.0)
    assert drawn.points[0].x < drawn.points[1].x < drawn.points[2].x
    assert [label for _, label in drawn.levels] == ["0", "1", "2", "3"]
    assert drawn.path.count("L") == 2
    assert icl_chart.positions(rows[:1], ["a"]) is None
    assert icl_chart.positions([*rows, {"position": 4, "mean_nats": None, "interval_nats": None}], list("abcd")) is None
    same = [{"position": i, "mean_nats": 0.0, "interval_nats": None} for i in range(40)]
    none = icl_chart.positions(same, [""] * 40)
    assert none is not None
    assert {point.y for point in none.points} == {chart.HEIGHT}
    assert sum(bool(point.tick) for point in none.points) == 20
    for power in range(-6, 6):
        for digit in (1.0, 1.9, 2.0, 4.99, 5.0, 9.99):
            levels = icl_chart.positions(
                [{"position": i, "mean_nats": digit * 10.0**power, "interval_nats": None} for i in (1, 2)], ["", ""]
            )
            assert levels is not None
            assert 3 <= len(levels.levels) <= 6


def test_the_page_has_every_query_largest_losses_first() -> None:
    cases = several(120, fixed=False)
    page = page_of(cases, command="leakmeter icl", run={"directory": "runs/x"})
    assert page == page_of(cases, command="leakmeter icl", run={"directory": "runs/x"})
    ids = re.findall(r'<bdi class="id">([^<]*)</bdi>', page)
    assert ids == [f"q{i}" for i in range(119, -1, -1)]
    assert re.findall(r"<summary>(Queries[^<]*)</summary>", page) == [
        *("Queries 1 to 50: 1.69 to 1.20 nats", "Queries 51 to 100: 1.19 to 0.70 nats"),
        "Queries 101 to 120: 0.69 to 0.50 nats",
    ]
    assert page.count('class="block" open') == 1
    assert page.count("<circle") == 3
    assert "Positions" in page
    assert "runs/x" in page
    assert "drawn for each" in page
    fixed = page_of(several(5))
    assert "Exemplars, the same for all queries" in fixed
    single = page_of([asked()])
    assert "<svg" not in single
    assert 'class="asked" open' in single
    assert "This answer owes" in single
    with pytest.raises(UsageError, match="at least one"):
        render_icl([], {})


def test_a_page_of_a_thousand_queries_is_under_2_megabytes() -> None:
    cases = several(1000, fixed=False)
    for case in cases:
        case["query"] = "word " * 60
        for one in case["exemplars"]:
            one["text"] = "text " * 60
    page = page_of(cases)
    n = page.count('class="asked"')
    assert len(page.encode()) <= frame.PAGE_BYTES
    assert 800 <= n <= 1000
    assert n == 1000 or f"{1000 - n} further quer" in page


def test_nothing_of_a_case_becomes_markup_or_obeyed() -> None:
    case = hostile()
    cases = [case, case | {"id": "b"}]
    out = printed(icl_view(case)) + overview(cases)
    assert not any(c in out for c in "\x1b\x07\x08\x00\x7f\x9b\u202e\u2066")
    assert "[bold red]" in out
    for page in (page_of(cases, command=HOSTILE, run={HOSTILE: HOSTILE}), page_of([case])):
        assert "<img" not in page
        assert "<script" not in page
        assert page.count("</style>") == 1
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
    path = tmp_path / "icl.html"
    path.write_text(page_of(several(60, fixed=False)), encoding="utf-8")
    opened = "document.querySelectorAll('.asked[open]').length"
    with Browser() as browser:
        browser.open(path.as_uri())
        assert browser.complaints == []
        assert browser.requests == [path.as_uri()]
        assert browser.run("document.querySelectorAll('.chart circle').length") == 3
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")
        # By the keyboard alone.
        browser.run("document.querySelector('.asked > summary').focus()")
        assert browser.run(opened) == 0
        browser.press("Enter")
        assert browser.run(opened) == 1
        assert browser.run("document.querySelector('.asked[open] .both').getBoundingClientRect().height") > 50
