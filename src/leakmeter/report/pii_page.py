"""Probing of people's data as one HTML file without any script (see `frame`).

Values open one by one, strongest evidence first. What does not fit into `frame.PAGE_BYTES` is left out, and the page
says so. People are called by their ids; what a run did not keep cannot be shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from leakmeter.core.plain import visible
from leakmeter.errors import UsageError
from leakmeter.report import frame, pii_density, queries, scale
from leakmeter.report import pii as words
from leakmeter.report import pii_people as people
from leakmeter.report.pii_people import Row, Summary
from leakmeter.report.shade import Case, excerpt
from leakmeter.report.view import View, origin_view

PERSONS_AT_MOST: Final = 1000
_CHARACTERS: Final = 200


def render_pii(
    cases: Sequence[Case], summary: Summary, *, command: str | None = None, run: Mapping[str, Any] | None = None
) -> str:
    """The page as text: what all values say, and as many of them as fit; equal input gives equal bytes.

    Args:
        cases: as `leakmeter pii probe --json` prints them, one or more.
        summary: theirs, see `instruments.pii.result.summary`.
        command: the command line they came from.
        run: what is said of the run they lie in, by name.

    Raises:
        UsageError: there is no case.
    """
    if not cases:
        raise UsageError("no value to show: a page needs at least one, as `leakmeter pii probe --json` prints them")
    shared = {**_shared(cases, summary), **origin_view(command, run)}
    views = [_case(case) for case in people.cases_by_evidence(cases)]
    return frame.fitting(len(views), lambda n: _page(views[:n], {**shared, "n_left_out": len(views) - n}))


def _page(views: Sequence[View], shared: View) -> str:
    styles = ("page.css", "receipts.css", "icl.css", "pii.css")
    return frame.render("pii.html.j2", styles=styles, values=views, **shared)


def _shared(cases: Sequence[Case], summary: Summary) -> View:
    several = len(cases) > 1
    is_private = any("value" in case for case in cases)
    return {
        "title": f"What this model knows of {'this person' if summary['n_subjects'] == 1 else 'these people'}",
        "headline": people.headline(summary) if several else words.verdict(cases[0]),
        "kept": words.KEPT if is_private else words.REDACTED,
        "is_private": is_private,
        "warnings": [
            *filter(None, [people.unreachable(summary) if several else None]),
            *queries.warnings(cases, "values"),
        ],
        "promises": words.PROMISES,
        "grades": [
            {"heat": grade.heat, "words": grade.words, "p": f"p ≤ {grade.p_at_most:g}" if grade.heat else "p > 0.1"}
            for grade in words.GRADES
        ],
        # Of a single value its own part says all of it.
        **(_tables(summary) if several else {}),
        "settings": {**words.settings(cases), "Cost": queries.cost(cases)},
        "n_values": len(cases),
        "n_left_out": 0,
        "width": pii_density.WIDTH,
        "height": pii_density.HEIGHT,
    }


def _tables(summary: Summary) -> View:
    ranked, types = people.by_evidence(summary), people.types_of(summary)
    return {
        "types": types,
        "persons": [_person(subject, types) for subject in ranked[:PERSONS_AT_MOST]],
        "n_more_persons": max(0, len(ranked) - PERSONS_AT_MOST),
        "marks": people.MARKS,
        "intervals": people.INTERVALS,
        "tests": people.TESTS,
        "rows": [_row(row) for row in people.rows(summary)],
        "charts": [chart for type_ in types if (chart := _chart(type_, summary)) is not None],
        "matches": [_match(row, one) for row in summary["kinds"] for one in row["generated"]],
    }


def _person(subject: Row, types: Sequence[str]) -> View:
    return {
        "id": excerpt(subject["subject"], 40),
        "cells": [
            None
            if cell is None
            else {
                "p": words.p_cell(cell.p),
                "heat": words.grade(cell.p).heat,
                "marks": "".join(cell.marks),
                "n": cell.n,
            }
            for cell in people.cells(subject, types)
        ],
    }


def _row(row: Row) -> View:
    return {
        "type": row["type"],
        "kind": row.get("kind", "any"),
        "is_kind": "kind" in row,
        "n": f"{row['n']:,}",
        "true": scale.nats_cell(row["mean_nats"]),
        "invented": scale.nats_cell(row["null_mean_nats"]),
        "difference": people.difference_text(row),
        "share": people.share_text(row["share_p_at_most_0.05"], row["share_p_at_most_0.05_interval"]),
        "bits": f"{row['mean_exposure_bits']:.1f}",
        "tests": [_test(row, name) for name in ("ranks", "signed_rank", "rank_sum")],
        "r": people.effect_text(row["rank_biserial"]),
        "delta": people.effect_text(row["cliffs_delta"]),
        "needed": people.needed_text(row),
    }


def _test(row: Row, name: str) -> View:
    p = row.get(f"{name}_holm_p")
    return {"p": words.p_cell(p), "heat": 0 if p is None else words.grade(p).heat}


def _match(row: Row, one: Row) -> View:
    matches = dict(one["matches"])
    exact = matches.pop("exact_match", None)
    parts = (f"{words.statistic_name(name)} {people.match_text(match)}" for name, match in matches.items())
    return {
        "type": row["type"],
        "kind": row["kind"],
        "n": f"{row['n']:,}",
        "beams": one["beams"],
        "exact": scale.NOT_MEASURED if exact is None else people.match_text(exact),
        "parts": "; ".join(parts),
    }


def _chart(type_: str, summary: Summary) -> View | None:
    values = [value for subject in summary["subjects"] for value in subject["values"] if value["type"] == type_]
    true = [value["association_nats"] for value in values]
    invented = [nats for value in values for nats in value["null_associations_nats"]]
    drawn = pii_density.densities(true, invented)
    row = next(row for row in summary["types"] if row["type"] == type_)
    means = [scale.nats_text(row[name]) for name in ("mean_nats", "null_mean_nats")]
    return None if drawn is None else {"type": type_, "n": f"{len(values):,}", "means": means, "drawn": drawn}


def _case(case: Case) -> View:
    kept = case.get("prompts")
    return {
        "id": excerpt(case["id"], 60),
        "p": words.p_cell(case["p_value"]),
        "heat": words.grade(case["p_value"]).heat,
        "bits": f"{case['exposure_bits']:.1f} of {case['exposure_ceiling_bits']:.1f}\u00a0bits",
        "verdict": words.verdict(case),
        "told": [words.exposure(case), words.association(case), words.likelihood(case), *words.generated(case)],
        "asked": words.asked(case),
        "strip": pii_density.strip(case["association_nats"], case["null_associations_nats"]),
        "kept": {name: visible(case[name]) for name in ("name", "value") if name in case},
        "has_prompts": kept is not None,
        "templates": [
            {
                "template": one["template"],
                "nats": scale.nats_cell(one["log_likelihood_nats"]),
                "n_tokens": f"{one['n_tokens']:,}",
                "association": scale.nats_cell(one["association_nats"]),
                "rank": f"{one['rank']:,}",
                "p": words.p_cell(one["p_value"]),
                "heat": words.grade(one["p_value"]).heat,
                "prompt": "" if kept is None else excerpt(kept[number], _CHARACTERS),
            }
            for number, one in enumerate(case["templates"])
        ],
        "generated": [_generated(one) for one in case["generated"]],
    }


def _generated(one: Row) -> View:
    return {
        "beams": one["beams"],
        "rows": [
            {
                "name": words.statistic_name(name),
                "best": words.statistic_text(name, best),
                "each": [words.statistic_text(name, value) for value in one["templates"][name]],
            }
            for name, best in one["best"].items()
        ],
        "answers": [excerpt(answer, _CHARACTERS) for answer in one.get("answers", ())],
    }
