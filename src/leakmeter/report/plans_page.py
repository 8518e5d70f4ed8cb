"""Plans of redaction as one HTML file without any script (see `frame`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from leakmeter.core.plain import visible
from leakmeter.errors import UsageError
from leakmeter.report import chart, frame, plans, scale, words
from leakmeter.report.shade import Case, excerpt, stretches
from leakmeter.report.view import View, origin_view, token_view


def render_plans(cases: Sequence[Case], *, command: str | None = None, run: Mapping[str, Any] | None = None) -> str:
    """The page as text: one section a case, with an index when there are several; equal input gives equal bytes.

    Args:
        cases: as `leakmeter redact-plan --json` prints them, one or more.
        command: the command line they came from.
        run: what is said of the run they lie in, by name.

    Raises:
        UsageError: there is no case.
    """
    if not cases:
        raise UsageError("no case to show: a page needs at least one, as `leakmeter redact-plan --json` prints them")
    views = [_case(case, number) for number, case in enumerate(cases, 1)]

    def page(n: int) -> str:
        return frame.render(
            "plans.html.j2",
            styles=("page.css", "receipts.css", "plans.css"),
            title="What to cut from this context",
            cases=views[:n],
            n_left_out=len(views) - n,
            caveat=plans.CAVEAT,
            height=chart.HEIGHT,
            **origin_view(command, run),
        )

    return frame.fitting(len(views), page)


def _case(case: Case, number: int) -> View:
    tokens, floor = case["response"]["tokens"], case["noise_floor_per_token_nats"]
    after = case["after"]
    return {
        "anchor": f"c{number}",
        "id": excerpt(case["id"], 80),
        "verdict": plans.verdict(case),
        "posterior": plans.posterior(case),
        "whole": scale.nats_cell(case["whole_nats"]),
        "whole_heat": scale.heat(case["whole_nats"], case["noise_floor_nats"]),
        "left": scale.nats_cell(case["left_nats"]),
        "left_heat": scale.heat(case["left_nats"], case["noise_floor_nats"]),
        "cut": excerpt(", ".join(piece["name"] for piece in case["redacted"]), 72),
        "warnings": [visible(warning) for warning in words.warnings(case)],
        "blocks": _blocks(case),
        "marked": visible(case["marked_context"]),
        "query": visible(case["query"]),
        "provenance": words.provenance(case),
        "before": [token_view(token, nats, floor) for token, nats in zip(tokens, case["whole_per_token"], strict=True)],
        "same": [token_view(token, nats, floor) for token, nats in zip(tokens, case["left_per_token"], strict=True)],
        "after": None if after is None else visible(after["text"]),
        "after_line": plans.after_line(case),
        "curve": _curve(case),
        "rows": [_row(row, case) for row in plans.rows(case)],
        "settings": plans.settings(case),
    }


def _blocks(case: Case) -> list[View]:
    """The context, one block a document, in stretches that are cut or stay."""
    several = len(case["documents"]) > 1
    blocks = []
    parts = stretches({"context": case["context"], "documents": case["documents"], "pieces": case["redacted"]})
    for document, group in groupby(parts, lambda part: part.document if several else None):
        spans = [
            {
                "text": part.text,
                "cut": ", ".join(excerpt(case["redacted"][i]["name"], 40) for i in (*part.units, *part.values)),
            }
            for part in group
        ]
        name = "" if document is None else excerpt(case["documents"][document]["name"], 80)
        # The blank line between two documents needs no block of its own.
        if name or any(span["text"].strip() for span in spans):
            blocks.append({"name": name, "spans": spans})
    return blocks


def _curve(case: Case) -> chart.Curve:
    rows = plans.rows(case)
    told = [
        f"{row.number}. {row.action} {excerpt(row.name, 40)}: {scale.nats_text(row.left_nats)} nats left"
        if row.number
        else f"the whole context: {scale.nats_text(row.left_nats)} nats"
        for row in rows
    ]
    return chart.curve(
        [row.left_nats for row in rows],
        told,
        [row.action == "put back" for row in rows],
        label="Nats left after each step",
        limit=case["max_loss_nats"],
        limit_label=f"at most {case['max_loss_nats']:g}",
        yardstick=case["placebo_nats"],
        yardstick_label=plans.yardstick(case),
    )


def _row(row: plans.Row, case: Case) -> View:
    return {
        "number": row.number,
        "action": row.action,
        "name": excerpt(row.name, 24),
        "text": excerpt(row.text, 160),
        "flag": row.flag,
        "left": scale.nats_cell(row.left_nats),
        "heat": scale.heat(row.left_nats, case["noise_floor_nats"]),
        "change": "" if row.change_nats is None else scale.signed_cell(row.change_nats),
        "signed": scale.signed_cell(row.left_signed_nats),
        "posterior": row.posterior,
        "within": row.left_nats <= case["max_loss_nats"],
    }
