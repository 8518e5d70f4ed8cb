"""What reports of many queries share, whatever was measured of them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Final

from leakmeter.core.plain import visible
from leakmeter.report import words
from leakmeter.report.scale import nats_text
from leakmeter.report.shade import Case

_NUMBER: Final = re.compile(r"\d[\d.e-]*")


def infinite(nats: float | None) -> float:
    """A loss of a case object as a number: null stands for infinity there."""
    return math.inf if nats is None else float(nats)


def interval_text(row: Any) -> str:
    """Interval of a result or of a row of a summary; empty where it has none."""
    interval = row.interval_nats
    return "" if interval is None else f"[{', '.join(map(nats_text, interval))}]"


def cost(cases: Sequence[Case]) -> str:
    """Tokens and time, predicted and taken."""
    run, naive, seconds = (
        sum(getattr(case.cost, name) for case in cases) for name in ("tree_tokens", "naive_tokens", "seconds")
    )
    saved = f"{words.saved(run, naive)} saved against {naive:,} of full prompts"
    said = f"{run:,} tree tokens in {seconds:.1f}\u00a0s, {saved}"
    tokens, expected = (
        [getattr(case.cost, name) for case in cases] for name in ("predicted_tree_tokens", "predicted_seconds")
    )
    if None in tokens:
        return said
    about = "" if None in expected else f" in {words.about_seconds(sum(expected))}"
    return f"{said}; predicted {sum(tokens):,}{about}"


def warnings(cases: Sequence[Case], what: str = "queries") -> list[str]:
    """The cases' warnings; those that differ in numbers alone are one, told once with how many there are."""
    found: dict[str, list[str]] = {}
    for case in cases:
        for warning in case.warnings:
            found.setdefault(_NUMBER.sub("", warning), []).append(warning)
    n = len(cases)
    return [
        visible(alike[0] if n == 1 else f"In {len(alike):,} of {n:,} {what}, the first: {alike[0]}")
        for alike in found.values()
    ]
