"""ICL influence of many queries as one HTML file without any script (see `frame`).

The queries stand in blocks that open one by one, largest losses first. What does not fit into `frame.PAGE_BYTES` is
left out, and the page says so: of a thousand AG News queries with four exemplars each, 870 fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from leakmeter.core.plain import visible
from leakmeter.errors import UsageError
from leakmeter.report import chart, frame, icl, icl_chart, queries, scale, words
from leakmeter.report.icl import Summary
from leakmeter.report.shade import Case, excerpt
from leakmeter.report.view import View, origin_view

QUERIES_A_BLOCK: Final = 50
_QUERY_CHARACTERS: Final = 400
_EXEMPLAR_CHARACTERS: Final = 130


def render_icl(
    cases: Sequence[Case], summary: Summary, *, command: str | None = None, run: Mapping[str, Any] | None = None
) -> str:
    """The page as text: what all queries say, and as many of them as fit; equal input gives equal bytes.

    Args:
        cases: as `leakmeter icl --json` prints them, one or more.
        summary: theirs, see `instruments.icl.result.summary`.
        command: the command line they came from.
        run: what is said of the run they lie in, by name.

    Raises:
        UsageError: there is no case.
    """
    if not cases:
        raise UsageError("no query to show: a page needs at least one, as `leakmeter icl --json` prints them")
    shared = {**_summary(cases, summary), **origin_view(command, run)}
    views = [_query(case) for case in icl.by_loss(cases)]
    return frame.fitting(len(views), lambda n: _page(views[:n], {**shared, "n_left_out": len(views) - n}))


def _page(views: Sequence[View], shared: View) -> str:
    blocks = [
        {"first": first + 1, "queries": views[first : first + QUERIES_A_BLOCK]}
        for first in range(0, len(views), QUERIES_A_BLOCK)
    ]
    return frame.render(
        "icl.html.j2", styles=("page.css", "receipts.css", "icl.css"), blocks=blocks, height=chart.HEIGHT, **shared
    )


def _summary(cases: Sequence[Case], summary: Summary) -> View:
    several = len(cases) > 1
    return {
        "title": "What these answers owe to their exemplars",
        "headline": icl.headline(summary, cases) if several else icl.verdict(cases[0]),
        "accuracy": icl.accuracy(summary) if several else "",
        "meaning": icl.meaning(summary) if several else icl.posterior(cases[0]),
        "vocabulary": icl.vocabulary(cases),
        "reading": icl.READING,
        "intervals": icl.INTERVALS if several else "",
        "caveat": icl.CAVEAT,
        "noise": icl.noise(summary, cases),
        "warnings": queries.warnings(cases),
        # Of a single query its own tables say all of it.
        **(_tables(cases, summary) if several else {}),
        "settings": {**icl.settings(cases[0]), "Cost": queries.cost(cases)},
        "n_queries": len(cases),
        "n_left_out": 0,
    }


def _tables(cases: Sequence[Case], summary: Summary) -> View:
    said = [f"position {row['position']}: {icl.mean_text(row)}\u00a0nats" for row in summary["positions"]]
    return {
        "chart": icl_chart.positions(summary["positions"], said),
        "exemplars": [_exemplar_row(row) for row in summary["exemplars"] or ()],
        "positions": [_mean_row(row, str(row["position"])) for row in summary["positions"]],
        "labels": _label_table(cases, summary),
        "knows_labels": bool(summary["n_with_label"]),
    }


def _mean_row(row: Mapping[str, Any], name: str) -> View:
    mean = queries.infinite(row["mean_nats"])
    return {
        "name": excerpt(name, 40),
        "mean": scale.nats_cell(mean),
        "heat": scale.heat(mean, 0.0),
        "width": scale.percent_of_axis(mean),
        "interval": queries.interval_text(row),
        "std": scale.NOT_MEASURED if row["std_nats"] is None else scale.nats_cell(row["std_nats"]),
    }


def _exemplar_row(row: Mapping[str, Any]) -> View:
    return {
        **_mean_row(row, row["id"] or row["name"]),
        "position": row["position"],
        "label": excerpt(row["label"] or "", 40),
        "text": excerpt(row["text"], 320),
        "most": scale.nats_cell(queries.infinite(row["max_nats"])),
        "worst_share": f"{100 * row['worst_share']:.0f}\u00a0%",
    }


def _label_table(cases: Sequence[Case], summary: Summary) -> list[View]:
    own = icl.by_own_label(cases)
    return [
        {
            **_mean_row(row, row["label"]),
            "n_right": f"{row['n_right_label']:,}",
            "n_predicted": f"{row['n_predicted']:,}",
            "f1": scale.NOT_MEASURED if row["f1"] is None else f"{row['f1']:.2f}",
            "own": scale.nats_cell(own[row["label"]]) if row["label"] in own else scale.NOT_MEASURED,
            "own_heat": scale.heat(own.get(row["label"], 0.0), 0.0),
        }
        for row in summary["labels"]
    ]


def _query(case: Case) -> View:
    floor, worst = case["noise_floor_nats"], icl.worst_exemplar(case)
    rows, n_more = icl.label_rows(case)
    nats = queries.infinite(case["loss_nats"])
    return {
        "id": excerpt(case["id"], 40),
        "line": excerpt(case["query"], 90),
        "text": _shortened(visible(case["query"])),
        "answer": icl.answer(case),
        "said": excerpt(case["prediction"], 24),
        "mark": {None: "", True: "✓", False: "✗"}[case["is_right"]],
        "posterior": words.posterior_cell(case),
        "nats": scale.nats_cell(nats),
        "heat": scale.heat(nats, floor),
        "without": visible(worst["name"]),
        "n_more": n_more,
        "rows": [
            {
                "label": excerpt(row.label, 40),
                "with": icl.probability(row.probability),
                "without": icl.probability(row.without),
                "nats": scale.signed_cell(row.signed_nats),
                "is_prediction": row.is_prediction,
                "is_gold": row.is_gold,
            }
            for row in rows
        ],
        "exemplars": [_of_query(one, floor) for one in case["exemplars"]],
    }


def _of_query(exemplar: Case, floor_nats: float) -> View:
    nats = queries.infinite(exemplar["loss_nats"])
    return {
        "name": visible(exemplar["name"]),
        "id": excerpt(exemplar["id"] or "", 24),
        "text": excerpt(exemplar["text"], _EXEMPLAR_CHARACTERS),
        "nats": scale.nats_cell(nats),
        "heat": scale.heat(nats, floor_nats),
        "changes": excerpt(icl.changed(exemplar), 24),
    }


def _shortened(text: str) -> str:
    return text if len(text) <= _QUERY_CHARACTERS else f"{text[:_QUERY_CHARACTERS].rstrip()}…"
