"""Susceptibility: the words, the terminal's views and the page."""

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
from leakmeter.instruments.susceptibility.result import summary
from leakmeter.report import frame
from leakmeter.report import susceptibility as words
from leakmeter.report.susceptibility_page import render_susceptibility
from leakmeter.report.susceptibility_terminal import susceptibility_overview, susceptibility_view

Case = dict[str, Any]
COUNTS = {"n_original": 3, "n_context": 1, "n_neither": 2, "ratio": 0.75, "ratio_interval": [0.3, 0.95]}


def context(i: int, nats: float, **more: Any) -> Case:
    return {
        "id": f"c{i}", "text": f"Context {i} says so.", "weight": 0.25, "answer": None, "persuasion_nats": nats,
        "persuasion_from_bare_nats": nats + 0.5, "susceptibility_without_nats": 0.3, "rank": i,
        "below_noise_floor": False, "greedy_answer": None, "greedy_answer_is": None,
    } | more  # fmt: skip


def asked(id_: str = "q1", nats: float = 0.5, *, n: int = 4, **more: Any) -> Case:
    return {
        "id": id_, "model": "toy", "weights_sha256": None, "dtype": "float32", "template": "plain", "separator": "\n",
        "query": f"Query {id_} meows.", "factors": {"form": "question"}, "answers": [], "answer": None,
        "estimator": "monte-carlo", "temperature": 1.0, "answer_tokens": 0, "n_contexts": n,
        "susceptibility_nats": nats, "standard_error_nats": 0.1, "interval_nats": [nats / 2, 2 * nats],
        "bias_nats": -0.01, "bias_is_small": True, "ceiling_nats": 1.386, "share_of_ceiling": nats / 1.386,
        "from_bare_nats": nats + 0.25, "mixture_from_bare_nats": 0.25, "bare_entropy_nats": 2.0,
        "mixture_entropy_nats": 3.0, "noise_floor_nats": 1e-5, "below_noise_floor": nats <= 1e-5,
        "contexts": [context(i, nats * 2 / i) for i in range(1, n + 1)], "memorisation": None, "warnings": [],
        "cost": {
            "requests": 4, "tree_tokens": 60, "naive_tokens": 120, "seconds": 0.5, "halvings": 0,
            "predicted": {"tree_tokens": 60, "seconds": 0.25}, "scored_together": 8,
        },
    } | more  # fmt: skip


def several(n: int) -> list[Case]:
    forms = ("question", "completion")
    return [asked(f"q{i}", 0.5 + 0.01 * i, factors={"form": forms[i % 2], "entity": f"e{i}"}) for i in range(n)]


def hostile() -> Case:
    contexts = [context(i, 0.1, id=HOSTILE, text=HOSTILE, greedy_answer=HOSTILE) for i in (1, 2)]
    return asked(
        HOSTILE, model=HOSTILE, query=HOSTILE, template=HOSTILE, separator=HOSTILE, warnings=[HOSTILE],
        factors={HOSTILE: HOSTILE}, contexts=contexts, memorisation={"knows": True, **COUNTS},
    )  # fmt: skip


def printed(view: Any, *, width: int = 80) -> str:
    sink = io.StringIO()
    console = Console(file=sink, width=width, color_system=None, markup=False, highlight=False, no_color=True)
    console.print(view)
    return sink.getvalue()


def flat(text: str) -> str:
    return " ".join(text.split())


def page_of(cases: list[Case], **more: Any) -> str:
    return render_susceptibility(cases, summary(cases), **more)


def test_the_words_say_what_was_measured() -> None:
    cases = several(4)
    told = summary(cases)
    assert flat(words.headline(told, cases)).endswith("nats, the mean of 4 queries, each behind 4 contexts.")
    assert flat(words.headline(told, cases)).startswith("Susceptibility 0.52 [0.51, 0.53] nats, ")
    assert "37.2 % of the 1.39 nats that there are to tell" in flat(words.meaning(told, cases))
    assert "without any context the answers move by 0.77 nats" in flat(words.meaning(told, cases))
    uneven = [asked(), asked(n=9)]
    assert "behind 4 to 9 contexts" in words.headline(summary(uneven), uneven)
    assert "More than 1.39 nats cannot be told" in flat(words.reading(cases))
    assert "no query lies below" in words.noise(told, cases)
    assert flat(words.verdict(cases[0])) == (
        "This query has a susceptibility of 0.50 nats [0.25, 1.00], behind 4 contexts."
    )
    assert "nothing that could be measured" in words.verdict(asked(nats=1e-6))
    assert "0.25 of these all of them do together" in flat(words.told(cases[0]))
    infinite = asked(from_bare_nats=None, share_of_ceiling=None)
    assert flat(words.told(infinite)).startswith("Entropy of the answer: 2.00 nats")
    assert words.settings(cases)["Separator"] == r"'\n'"
    assert words.settings([asked(), asked(answers=["Yes"])])["Answers of a query"] == (
        "any next token or its own and the rest"
    )


def test_the_memorisation_ratio_is_told_or_why_there_is_none() -> None:
    assert words.memorisation(None) is None
    one = flat(words.memorisation({"knows": True, **COUNTS}) or "")
    assert one.startswith("Memorisation ratio 75 % [30, 95]: greedy answers behind contexts that state another are 3")
    many = flat(words.memorisation({"n": 9, "n_knows": 4, **COUNTS}) or "")
    assert "in the 4 of 9 queries that are answered right without a context are 3 original, 1 of the context" in many
    none = {**COUNTS, "ratio": None, "ratio_interval": None, "n_original": 0, "n_context": 0}
    assert "there is no ratio" in (words.memorisation({"knows": True, **none}) or "")
    assert "the right answer is not given without a context" in (words.memorisation({"knows": False, **none}) or "")
    assert "to none of 9 queries" in (words.memorisation({"n": 9, "n_knows": 0, **none}) or "")


def test_one_query_shows_its_contexts_by_persuasion() -> None:
    out = printed(susceptibility_view(asked(n=30)))
    assert all(len(line) <= 80 for line in out.splitlines())
    rows = [line.split() for line in out.splitlines() if re.match(r" *\d+ c\d+ ", line)]
    assert [row[:2] for row in rows] == [[str(i), f"c{i}"] for i in range(1, 13)]
    assert "1.00" in rows[0]
    assert "and 18 more" in out
    assert "noise floor 1e-5 nats" in flat(out)


def test_many_queries_are_ranked_in_80_columns() -> None:
    cases = several(25)
    out = printed(susceptibility_overview(cases, summary(cases)))
    assert all(len(line) <= 80 for line in out.splitlines())
    queries = [line.split()[1] for line in out.splitlines() if re.match(r" *\d+ q\d+ ", line)]
    assert queries == [f"q{i}" for i in range(24, 4, -1)]
    assert "and 5 more" in out
    factors = out[out.index("Factors, mean") :]
    assert re.search(r"form +question +13 0\.62", factors)
    assert re.search(r"completion +12 0\.62", factors)
    assert "entity" not in factors[: factors.index("0\u00a0nats")]
    bare = [asked("a", factors={}), asked("b", factors={})]
    assert "Factors" not in printed(susceptibility_overview(bare, summary(bare)))


def test_the_page_has_every_query_most_susceptible_first() -> None:
    cases = several(30)
    page = page_of(cases, command="leakmeter susceptibility", run={"directory": "runs/x"})
    assert page == page_of(cases, command="leakmeter susceptibility", run={"directory": "runs/x"})
    ids = re.findall(r'<summary>.*?<bdi class="id">([^<]*)</bdi>', page)
    assert ids == [f"q{i}" for i in range(29, -1, -1)]
    assert "runs/x" in page
    assert "<caption>Factors" in page
    assert "<caption>Contexts, most persuasive first" in page
    assert "Greedy answer" not in page
    single = page_of([asked(n=30, contexts=[context(i, 1 / i, greedy_answer=" Poe") for i in range(1, 31)])])
    assert 'class="asked" open' in single
    assert "and 10 more" in single
    assert "Greedy answer" in single
    assert "<caption>Contexts" not in single
    with pytest.raises(UsageError, match="at least one"):
        render_susceptibility([], {})


def test_a_page_of_many_queries_is_under_2_megabytes() -> None:
    page = page_of([asked(f"q{i}", 0.5 + 1e-4 * i, n=25) for i in range(700)])
    n = page.count('class="asked"')
    assert len(page.encode()) <= frame.PAGE_BYTES
    assert 200 <= n < 700
    assert f"{700 - n} less susceptible queries are left out" in page


def test_nothing_of_a_case_becomes_markup_or_obeyed() -> None:
    case = hostile()
    cases = [case, case | {"id": "b"}, case | {"factors": {HOSTILE: "x"}}]
    out = printed(susceptibility_view(case)) + printed(susceptibility_overview(cases, summary(cases)))
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
        assert "style=" not in page


@pytest.mark.long
@pytest.mark.skipif(not CHROMIUM, reason="no Chromium to look at pages with")
def test_a_browser_shows_the_page_without_complaint(tmp_path: Path) -> None:
    path = tmp_path / "susceptibility.html"
    path.write_text(page_of(several(12)), encoding="utf-8")
    opened = "document.querySelectorAll('.asked[open]').length"
    with Browser() as browser:
        browser.open(path.as_uri())
        assert browser.complaints == []
        assert browser.requests == [path.as_uri()]
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")
        # By the keyboard alone.
        browser.run("document.querySelector('.asked > summary').focus()")
        assert browser.run(opened) == 0
        browser.press("Enter")
        assert browser.run(opened) == 1
