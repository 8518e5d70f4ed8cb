"""Audits of private generation as one HTML file without any script (see `frame`): a private one, and one to publish.

The public page is made of what may be published alone: texts, their promise and the settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from leakmeter.core.plain import visible
from leakmeter.errors import UsageError
from leakmeter.report import audit_words as words
from leakmeter.report import frame
from leakmeter.report.audit_chart import HEIGHT, log_log
from leakmeter.report.scale import nats_cell, nats_text
from leakmeter.report.shade import Case, excerpt
from leakmeter.report.view import View, origin_view

_EXEMPLARS_SHOWN: Final = 10
_EXEMPLAR_CHARACTERS: Final = 160


def render_audit(
    cases: Sequence[Case],
    summary: Mapping[str, Any],
    *,
    command: str | None = None,
    run: Mapping[str, Any] | None = None,
) -> str:
    """The page of everything: the verdict on all batches, and as many of them as fit; equal input gives equal bytes.

    Args:
        cases: see `instruments.generation.result.case_object`; one or more.
        summary: theirs, see `instruments.generation.result.summary`.
        command: the command line they came from.
        run: what is said of the run they lie in, by name.

    Raises:
        UsageError: there is no case.
    """
    if not cases:
        raise UsageError("no batch to show: a page needs at least one, as `leakmeter audit run --json` prints them")
    # Broken ones come first: what does not fit is left out at the end.
    ordered = sorted(cases, key=lambda case: case["verdict"]["holds"])
    views = [_batch(case, number) for number, case in enumerate(ordered, 1)]
    shared = {**_summary(cases, summary), **origin_view(command, run)}
    return frame.fitting(len(views), lambda n: _page(views[:n], {**shared, "n_left_out": len(views) - n}))


def render_public_audit(publics: Sequence[Mapping[str, Any]]) -> str:
    """The page that may be published.

    Args:
        publics: the `public` of batches, one or more.

    Raises:
        UsageError: there is none.
    """
    if not publics:
        raise UsageError("nothing may be published: there is no batch")
    most = max((public["guarantee"] for public in publics), key=lambda told: words.infinite(told["epsilon"]))
    return frame.render(
        "audit_public.html.j2",
        styles=("page.css", "receipts.css", "audit.css"),
        title="Texts with a promise",
        texts=[visible(text) for public in publics for text in public["texts"]],
        voted=publics[0]["mechanism"]["name"] == words.VOTING,
        guarantee=words.guarantee(most),
        conditions=words.conditions(publics[0]["draws"]),
        settings=words.settings(publics[0]),
    )


def _page(views: Sequence[View], shared: View) -> str:
    return frame.render(
        "audit.html.j2", styles=("page.css", "receipts.css", "audit.css"), cases=views, height=HEIGHT, **shared
    )


def _summary(cases: Sequence[Case], summary: Mapping[str, Any]) -> View:
    several = len(cases) > 1
    return {
        "title": "Private generation: promised against measured",
        "holds": summary["holds"],
        "verdict": words.verdict(cases),
        "failures": [
            f"{excerpt(case['id'], 40)}: {line}" if several else line for case in cases for line in words.failures(case)
        ],
        "measured": words.measured(cases),
        "meaning": words.MEANING if summary["holds"] else words.PROOF,
        "private_words": words.PRIVATE,
        "guarantee": words.guarantee(summary["guarantee"]),
        "conditions": words.conditions(cases[0]["draws"] if summary["guarantee"] else None),
        "convention": words.CONVENTION,
        "repeated": words.repeated(summary) if summary["n_repeated_texts"] else "",
        "order_heads": words.ORDER_HEADS,
        "settings": words.settings(cases[0]),
        "n_batches": len(cases),
        "n_left_out": 0,
    }


def _batch(case: Case, number: int) -> View:
    ranked = [_exemplar(case, one) for one in words.by_rank(case)]
    return {
        "anchor": f"b{number}",
        "id": excerpt(case["id"], 80),
        "verdict": words.verdict([case]),
        "holds": case["verdict"]["holds"],
        "nearest": words.nearest(case),
        "spent": words.spent(case),
        "warnings": [visible(warning) for warning in case["warnings"]],
        "chart": log_log(case),
        "orders": words.orders(case),
        "order": words.order_text(case["promise"]["order"]),
        "exemplars": ranked[:_EXEMPLARS_SHOWN],
        "others": ranked[_EXEMPLARS_SHOWN:],
        "tokens": words.worst_tokens(case),
        "convention": _convention(case),
        "quality": words.quality(case["text_quality"]),
        "noise": words.noise(case) or "",
        "texts": [_text(one) for one in case["sequences"]],
        "copies": [
            {
                "sequence": one["sequence"] + 1,
                "text": excerpt(one["text"], 200),
                "exemplar": words.exemplar_text(case, one["exemplar"]),
                "n_tokens": f"{one['longest_run']:,}",
            }
            for one in case["text_quality"]["verbatim"]
        ],
    }


def _exemplar(case: Case, one: Mapping[str, Any]) -> View:
    ratio = words.infinite(one["ratio"])
    return {
        "rank": one["rank"],
        "name": words.exemplar_text(case, one["name"]),
        "text": excerpt(one["text"], _EXEMPLAR_CHARACTERS),
        "nats": nats_text(words.infinite(one["measured_nats"])),
        "share": words.share_text(one["ratio"]),
        "width": 100 if ratio >= 1.0 else max(1, round(100 * ratio)),
        "worst": words.share_text(one["worst_token"]["ratio"]),
        "copied": f"{one['copied_tokens']:,}",
    }


def _convention(case: Case) -> list[View]:
    rows = words.convention(case)
    top = max((value for _, value in rows if value != words.infinite(None)), default=1.0) or 1.0
    return [
        {"said": said, "epsilon": nats_cell(value), "width": round(100 * min(1.0, value / top))} for said, value in rows
    ]


def _text(sequence: Mapping[str, Any]) -> View:
    return {
        "text": visible(sequence["text"]),
        "n_tokens": f"{len(sequence['tokens']):,}",
        "perplexity": words.perplexity(sequence["perplexity"]),
    }
