"""Runs as a page of several shows them, and what a comparison of two says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from helpers.report_cases import clinic
from leakmeter.core.quantity import Number
from leakmeter.instruments.influence.report import report
from leakmeter.products.pages.render import ShownRun

NATS = Number(7.31, (5.2, 9.9), "nats", 120)


def shown(*cases: Any, **more: Any) -> ShownRun:
    told = ShownRun(
        directory="runs/influence-1f2e", measure="influence", model="toy", n_cases=120,
        label="before, cases.jsonl, unit word, 2026-03-04 05:06 UTC", headline="The contexts changed 120 responses.",
        quantities={"influence.mean": NATS}, about={"influence.mean": "Influence of the context."},
        report=report(cases or [clinic()]),
    )  # fmt: skip
    return replace(told, **more)


def comparison(**more: object) -> dict[str, object]:
    row = {
        "quantity": "influence", "unit": "nats", "first": 1.85, "second": 2.95, "difference": 1.1,
        "interval": [0.4, 1.9], "p_value": 0.01, "holm_p_value": 0.03, "n_pairs": 117, "verdict": "worse",
        "sense": "leak", "worse": "more",
    }  # fmt: skip
    settings = [{"name": "prompts.template", "first": "plain", "second": "chat"}]
    number = {"quantity": "influence", "unit": "nats", "first": 1.0, "second": 9.5}
    changed = [{"id": "t13", "has_other_texts": True, "numbers": [number]}]
    counts = {"n_pairs": 117, "n_other_texts": 0, "n_only_first": 0, "n_only_second": 3}
    told = {**counts, "settings": settings, "incomparable": [], "left_out": [], "changed": changed, "deciding": {}}
    return {**told, "quantities": [row], **more}
