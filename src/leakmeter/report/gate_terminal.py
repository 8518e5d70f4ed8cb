"""What a gate found, line by line, for a terminal or a log."""

from __future__ import annotations

from collections.abc import Sequence

from leakmeter.core.check import Check
from leakmeter.report.scale import nats_text


def check_lines(checks: Sequence[Check]) -> list[str]:
    """A line a check, and under a broken one its worst cases."""
    several = len({check.run for check in checks}) > 1
    lines = []
    for check in checks:
        run = f"run {check.run}: " if several else ""
        missing = f" {check.n_missing:,} without it." if check.n_missing else ""
        lines.append(f"{'holds ' if check.holds else 'BROKEN'}  {run}{check.explained}{missing}")
        if check.worst:
            told = ", ".join(f"case {item.number} {nats_text(item.value)}" for item in check.worst)
            lines.append(f"        worst: {told}")
    return lines
