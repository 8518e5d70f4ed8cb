"""Two runs side by side for a terminal or a log: what was set otherwise, and what moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from leakmeter.core.plain import excerpt
from leakmeter.gating.gate_words import left_out_sentence
from leakmeter.report.scale import nats_in, nats_text

_VALUE_AT_MOST: Final = 60


def setting_line(name: str, first: Any, second: Any) -> str:
    """A setting that two runs have otherwise; what may not be shown is the same word in both."""
    values = "other values, not shown" if first == second else f"{_setting(first)}, then {_setting(second)}"
    return f"{excerpt(name, _VALUE_AT_MOST)}: {values}"


def _setting(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return excerpt("none" if value is None else str(value), _VALUE_AT_MOST)


def incomparable_line(settings: Sequence[Mapping[str, Any]]) -> str:
    listed = "; ".join(setting_line(setting["name"], setting["first"], setting["second"]) for setting in settings)
    return f"No verdict: the numbers mean different things ({listed})"


def comparison_lines(comparison: Mapping[str, Any]) -> list[str]:
    """What goes together, what was set otherwise, and how far each quantity moved
    (`gating.compare.Comparison.to_dict`)."""
    n, first, second, other = (
        comparison[name] for name in ("n_pairs", "n_only_first", "n_only_second", "n_other_texts")
    )
    lines = [f"{n:,} {'case' if n == 1 else 'cases'} in both, {first:,} in A only, {second:,} in B only"]
    if other:
        lines.append(f"{other:,} with other texts in B than in A: the same id, but not the same case")
    settings = [
        setting_line(setting["name"], setting["first"], setting["second"]) for setting in comparison["settings"]
    ]
    lines += [f"set otherwise: {line}" for line in settings]
    if comparison["incomparable"]:
        lines.append(incomparable_line(comparison["incomparable"]))
    return [*lines, *map(_moved, comparison["quantities"]), *map(left_out_line, comparison["left_out"])]


def left_out_line(left_out: Mapping[str, Any]) -> str:
    """Pairs that are not compared (`gating.compare.LeftOut`)."""
    return f"{left_out['quantity']}: {left_out_sentence(left_out['n_pairs'], 'pair', left_out['why'])}"


def _moved(row: Mapping[str, Any]) -> str:
    means = f"{row['quantity']}, {row['unit']}: {nats_text(row['first'])} in A, {nats_text(row['second'])} in B"
    if row["difference"] is None:
        return means
    return f"{means}, by {nats_in(row['difference'], row['interval'])}{_test(row)}"


def _test(row: Mapping[str, Any]) -> str:
    if row["p_value"] is None:
        return ""
    n = row["n_pairs"]
    return (
        f", p {row['holm_p_value']:.2g}, effect {nats_text(row['rank_biserial'])}, "
        f"{n:,} {'pair' if n == 1 else 'pairs'}: {row['verdict']}"
    )
