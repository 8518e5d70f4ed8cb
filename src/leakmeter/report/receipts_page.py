"""Receipts of decoding as one HTML file without any script (see `frame`): a private one, and one that may be published.

The public page is made of public receipts, which hold nothing that is a function of the context: no shades, no names of
cases, no command line, no run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leakmeter.core.plain import visible
from leakmeter.errors import UsageError
from leakmeter.report import chart, frame, receipts, scale
from leakmeter.report.shade import Case, excerpt
from leakmeter.report.view import View, origin_view, token_view


def render_private(cases: Sequence[Case], *, command: str | None = None, run: Mapping[str, Any] | None = None) -> str:
    """The page of everything: shaded responses, receipts and promises.

    Args:
        cases: as `leakmeter decode --json` prints them, one or more.
        command: the command line they came from.
        run: what is said of the run they lie in, by name.

    Raises:
        UsageError: there is no case.
    """
    views = [_private(case, number) for number, case in enumerate(cases, 1)]
    return _page(
        views,
        title="What this response told of its context",
        public=False,
        private_words=receipts.PRIVATE,
        unbounded=receipts.UNBOUNDED,
        **origin_view(command, run),
    )


def render_public(cases: Sequence[Case]) -> str:
    """The page of public receipts.

    Args:
        cases: as `leakmeter decode --public --json` prints them, one or more.

    Raises:
        UsageError: there is no case.
    """
    views = [_public(case, number) for number, case in enumerate(cases, 1)]
    return _page(
        views, title="A response with a promise", public=True, private_words="", unbounded="", **origin_view(None, None)
    )


def _page(views: Sequence[View], **own: Any) -> str:
    """What both pages have around their cases; what else either shows is given to it, so that none gets the other's."""
    if not views:
        raise UsageError("no case to show: a page needs at least one, as `leakmeter decode --json` prints them")

    def page(n: int) -> str:
        return frame.render(
            "receipts.html.j2",
            styles=("page.css", "receipts.css"),
            cases=views[:n],
            n_left_out=len(views) - n,
            conditions=receipts.CONDITIONS,
            counted=receipts.COUNTED,
            height=chart.HEIGHT,
            **own,
        )

    return frame.fitting(len(views), page)


def _private(case: Case, number: int) -> View:
    return {
        **_common(case, number),
        "id": excerpt(case["id"], 80),
        "context": visible(case["context"]),
        "query": visible(case["query"]),
        "cut": case["truncated_tokens"],
        "warnings": [visible(warning) for warning in case["warnings"]],
        "responses": [_response(one) for one in case["samples"] or [case]],
    }


def _public(case: Case, number: int) -> View:
    return {**_common(case, number), "responses": [_receipt(one) for one in case["samples"] or [case]]}


def _receipt(one: Case) -> View:
    return {
        "headline": f"Promised: {receipts.promise(one)}.",
        "given": False,
        "shaded": False,
        "tokens": [{"gap": "", "text": visible(token), "heat": 0, "nats": ""} for token in one["tokens"]],
        "charts": [],
        "columns": ["promised ε", "log p without context"],
        "rows": [
            (str(i), _shown(token), [scale.nats_cell(epsilon), scale.nats_cell(receipts.infinite(bare))])
            for i, (token, epsilon, bare) in enumerate(
                zip(one["tokens"], one["promised_epsilon"], one["bare_log_prob_nats"], strict=True), 1
            )
        ],
    }


def _common(case: Case, number: int) -> View:
    bounded = case["epsilon"] is not None
    return {
        "anchor": f"c{number}",
        "number": number,
        "bounded": bounded,
        "heads": receipts.composition_heads(case) if bounded else (),
        "compositions": receipts.compositions(case) if bounded else (),
        "note": case["epsilon"]["note"] if bounded else None,
        "meaning": receipts.meaning(case) if bounded else (),
        "settings": {name: visible(text) for name, text in receipts.settings(case).items()},
    }


def _response(one: Case) -> View:
    tokens = one["response"]["tokens"]
    columns = _columns(one)
    return {
        "headline": receipts.headline(one)[0].upper() + receipts.headline(one)[1:] + ".",
        "given": not one["response"]["sampled"],
        "shaded": True,
        "tokens": [token_view(token, nats, 0.0) for token, nats in zip(tokens, receipts.losses(one), strict=True)],
        "charts": _charts(one),
        "columns": list(columns),
        "rows": [
            (str(i), _shown(token), [scale.nats_cell(receipts.infinite(x)) for x in numbers])
            for i, (token, *numbers) in enumerate(zip(tokens, *columns.values(), strict=True), 1)
        ],
    }


def _columns(one: Case) -> dict[str, Sequence[float | None]]:
    per_token = one["private"]["per_token"]
    columns = {
        "λ": per_token["weight"],
        "told": per_token["loss_nats"],
        "most any token would have told": per_token["max_loss_nats"],
        "spent ε": per_token.get("spent_epsilon"),
        "log p with context": per_token["log_prob_nats"],
        "without": per_token["bare_log_prob_nats"],
    }
    return {name: numbers for name, numbers in columns.items() if numbers is not None}


def _charts(one: Case) -> list[chart.Chart]:
    per_token, epsilon = one["private"]["per_token"], one["epsilon"]
    columns = _columns(one)
    words = [
        f"{i}. {_shown(token)}: "
        + ", ".join(f"{name} {scale.nats_text(receipts.infinite(x))}" for name, x in zip(columns, row, strict=True))
        for i, (token, *row) in enumerate(zip(one["response"]["tokens"], *columns.values(), strict=True), 1)
    ]
    if epsilon is None:
        told = [receipts.infinite(x) for x in per_token["loss_nats"]]
        return [chart.bars(told, words, label="Nats told by each token")]
    return [
        chart.bars(
            [receipts.infinite(x) for x in per_token["spent_epsilon"]],
            words,
            label="ε spent by each token, nats",
            limit=epsilon["per_token"],
            limit_label=f"promised {scale.nats_text(epsilon['per_token'])}",
        ),
        chart.bars(
            [receipts.infinite(x) for x in per_token["weight"]],
            words,
            label="λ of each token",
            limit=epsilon["lambda_max"],
            limit_label=f"largest {epsilon['lambda_max']:g}",
        ),
    ]


def _shown(token: str) -> str:
    return visible(token).replace("\n", "↵").strip(" ") or "␣"
