"""Fisher susceptibility: the words, the terminal's views and the page."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from report_browser import CHROMIUM, Browser
from report_cases import HOSTILE
from rich.console import Console

from leakmeter.errors import UsageError
from leakmeter.instruments.susceptibility.fisher.result import summary
from leakmeter.report import fisher as words
from leakmeter.report import fisher_page
from leakmeter.report.fisher_page import render_fisher
from leakmeter.report.fisher_terminal import fisher_overview, fisher_view

Case = dict[str, Any]


def value(sigma: str, nats: float, **more: Any) -> Case:
    return {
        "sigma": sigma, "fisher_nats": nats, "spread_nats": nats / 4, "drift_nats": 0.75 * nats,
        "standard_error_nats": 0.1, "interval_nats": [nats / 2, 2 * nats],
        "trace_nats_per_square": 2 * nats if sigma == "identity" else None,
    } | more  # fmt: skip


def asked(id_: str = "q1", nats: float = 0.5, **more: Any) -> Case:
    return {
        "id": id_, "model": "tiny", "weights_sha256": None, "dtype": "float32", "template": "plain", "separator": "\n",
        "query": f"Query {id_} meows.", "factors": {"form": "question"}, "answers": [], "answer": None,
        "estimator": "fisher", "method": "deflated", "sigma": ["identity", "empirical"], "place": "layer:3",
        "probes": 8, "directions": 8, "top_k": 16, "slot_tokens": 16, "relative_error": None, "max_probes": 256,
        "seed": 0, "n_contexts": 4, "values": [value("identity", 100 * nats), value("empirical", nats)],
        "entropy_nats": 3.0, "n_query_tokens": 9, "n_probes": 8, "top_mass": None, "warnings": [],
        "cost": {
            "requests": 1, "tree_tokens": 60, "naive_tokens": 60, "seconds": 0.5, "halvings": 0,
            "predicted": {"tree_tokens": 60, "seconds": 2.25}, "scored_together": 8,
        },
    } | more  # fmt: skip


def several(n: int) -> list[Case]:
    forms = ("question", "completion")
    return [
        asked(f"q{i}", 0.5 + 0.01 * i, factors={"form": forms[i % 2], "entity": f"e{i}"}, n_query_tokens=40 - i)
        for i in range(n)
    ]


def printed(view: Any, *, width: int = 80) -> str:
    sink = io.StringIO()
    console = Console(file=sink, width=width, color_system=None, markup=False, highlight=False, no_color=True)
    console.print(view)
    return sink.getvalue()


def flat(text: str) -> str:
    return " ".join(text.split())


def page_of(cases: list[Case], **more: Any) -> str:
    return render_fisher(cases, summary(cases), **more)


def test_the_words_say_what_was_measured() -> None:
    cases = several(4)
    assert flat(words.headline(summary(cases))) == (
        "Fisher susceptibility 51.5 [50.5, 52.5] (half the trace, sigma identity); 0.52 [0.51, 0.53] nats (sigma "
        "empirical): the mean of 4 queries."
    )
    assert flat(words.verdict(asked())) == (
        "Fisher susceptibility 50.0 [25.0, 100] (half the trace, sigma identity); 0.50 [0.25, 1.00] nats (sigma "
        "empirical), at place layer:3."
    )
    assert flat(words.told(asked())).endswith("9 tokens of the query. 8 random directions.")
    assert "directions" not in words.told(asked(n_probes=0))
    deaf, identity, empirical = words.readings(cases)
    assert deaf.startswith("0: ")
    assert "in units of squared states: it ranks queries of one model, and is no number of nats" in identity
    assert empirical.startswith("Sigma empirical: nats, to second order")
    assert "squared embeddings" in words.readings([asked(place="query")])[1]
    assert words.settings(cases)["Estimator"] == "fisher, deflated with 8 probes and 8 directions"
    taken = [asked(method="sketch", n_probes=n) for n in (4, 30)]
    assert words.settings(taken)["Estimator"] == "fisher, sketch with 4 to 30 probes"
    assert words.settings([asked(method="top-k")])["Estimator"] == "fisher, top-k of 16"
    assert flat(words.cost(cases)) == "240 tokens forward and backward in 2.0 s; predicted 240 in about 9 s"


def test_colours_that_stand_for_nats_are_not_given_to_a_trace() -> None:
    assert words.shade("identity", 5.0) == 0 < words.shade("empirical", 5.0)


def test_what_else_explains_the_ranks_stands_beside_them() -> None:
    (row, _), (few, _) = (summary(several(n))["values"] for n in (12, 9))
    # Where entropies are all alike there is nothing to correlate with.
    assert flat(words.correlations(row) or "").startswith(
        "Spearman correlation of sigma identity -1.00 with the query’s length in tokens: ranks that these explain"
    )
    assert words.correlations(few) is None
    both = words.correlations({"sigma": "identity", "spearman_with_length": 0.5, "spearman_with_entropy": -0.25})
    assert "0.50 with the query’s length in tokens and -0.25 with the entropy" in (both or "")
    cases = several(12)
    assert "Spearman" in printed(fisher_overview(cases, summary(cases)))
    assert "Spearman" in page_of(cases)


def test_one_query_shows_its_values() -> None:
    out = printed(fisher_view(asked()))
    assert all(len(line) <= 80 for line in out.splitlines())
    assert re.search(r"identity +50\.00 \[25\.0, 100\] +12\.50 37\.50", out)
    assert re.search(r"empirical +0\.50 \[0\.25, 1\.00\] +0\.13 +0\.38|empirical +0\.50 \[0\.25, 1\.00\] +0\.12", out)
    assert "no number of nats" in flat(out)


def test_many_queries_are_ranked_in_80_columns() -> None:
    cases = several(25)
    out = printed(fisher_overview(cases, summary(cases)))
    assert all(len(line) <= 80 for line in out.splitlines())
    queries = [line.split()[1] for line in out.splitlines() if re.match(r" *\d+ q\d+ ", line)]
    assert queries == 2 * [f"q{i}" for i in range(24, 4, -1)]
    assert out.count("and 5 more") == 2
    assert "Factors, mean of sigma identity, half the trace" in out
    assert re.search(r"form +question +13 0\.62", out[out.index("Factors, mean of sigma empirical, nats") :])


def test_the_page_has_every_query_of_each_sigma(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = several(30)
    page = page_of(cases, command="leakmeter susceptibility", run={"directory": "runs/x"})
    assert page == page_of(cases, command="leakmeter susceptibility", run={"directory": "runs/x"})
    ids = re.findall(r'<tr class="asked">.*?<th scope="row"><bdi>([^<]*)</bdi>', page)
    assert ids == 2 * [f"q{i}" for i in range(29, -1, -1)]
    assert "runs/x" in page
    assert page.count("<caption>Factors") == 2
    assert "no number of nats for contexts that exist" in page
    assert "9 tokens of the query" in page_of([asked()])
    monkeypatch.setattr(fisher_page, "QUERIES_SHOWN", 28)
    assert "2 further queries are left out" in page_of(cases)
    with pytest.raises(UsageError, match="at least one"):
        render_fisher([], {})


def test_nothing_of_a_case_becomes_markup_or_obeyed() -> None:
    case = asked(
        HOSTILE, model=HOSTILE, query=HOSTILE, template=HOSTILE, warnings=[HOSTILE], factors={HOSTILE: HOSTILE}
    )
    cases = [case, case | {"id": "b"}, case | {"factors": {HOSTILE: "x"}}]
    out = printed(fisher_view(case)) + printed(fisher_overview(cases, summary(cases)))
    assert not any(c in out for c in "\x1b\x07\x08\x00\x7f\x9b\u202e\u2066")
    assert "[bold red]" in out
    for page in (page_of(cases, command=HOSTILE, run={HOSTILE: HOSTILE}), page_of([case])):
        assert "<img" not in page
        assert "<script" not in page


@pytest.mark.long
@pytest.mark.skipif(not CHROMIUM, reason="no Chromium to look at pages with")
def test_a_browser_shows_the_page_without_complaint(tmp_path: Path) -> None:
    path = tmp_path / "fisher.html"
    path.write_text(page_of(several(12)), encoding="utf-8")
    with Browser() as browser:
        browser.open(path.as_uri())
        assert browser.complaints == []
        assert browser.requests == [path.as_uri()]
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")
