"""Finished cells of private generation to rows: Rényi against Rényi, and ε in the paper's convention beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from leakmeter.instruments.generation.result import PrivateGenerationResult
from leakmeter.studies.cells import FinishedCell
from leakmeter.studies.grid import Study
from leakmeter.studies.kind import Row, Tables

Case = Mapping[str, Any]

PRINTED: Final[Mapping[str, Mapping[float, tuple[float, float]]]] = {
    "temperature": {
        0.5: (68.58, 0.462),
        1.0: (36.18, 0.910),
        5.0: (8.53, 4.556),
        10.0: (4.80, 9.698),
        20.0: (2.81, 9.900),
        50.0: (1.42, 21.892),
        100.0: (0.94, 23.158),
    },
    "clip": {1.0: (0.55, 0.916), 5.0: (2.34, 4.526), 10.0: (4.16, 9.65), 50.0: (14.12, 20.782), 100.0: (21.20, 20.774)},
    "subset_size": {5.0: (214, 4.598), 10.0: (121, 6.374), 50.0: (36, 21.118), 100.0: (24, 22.066)},
}
"""By the free setting and the target: the setting and ε_empirical of Tables 4, 5 and 6, which are of 50 sequences of 40
tokens at δ = 1e-5, by Qwen2.5-7B-Instruct."""
_PRINTED_DELTA: Final = 1e-5
_NOT_PRINTED: Final = (None, None)
_DISTINCT: Final = "distinct_2"


def cases_of(finished: FinishedCell) -> list[dict[str, Any]]:
    """The case objects of a cell's batches, in order; see `instruments.generation.result`."""
    return [
        result.case for result in PrivateGenerationResult.from_run(finished.measured, asdict(finished.cell.measure))
    ]


def tables(study: Study, cells: Sequence[FinishedCell]) -> Tables:
    """The tables of a study.

    Args:
        study: says what is shown.
        cells: all of them, in order.
    """
    rows: list[Row] = []
    shown: list[Row] = []
    for finished in cells:
        found = cases_of(finished)
        for case in found:
            which = {**finished.cell.factors, **({"batch": case["id"]} if len(found) > 1 else {})}
            free, target = (getattr(finished.cell.choice, name, None) for name in ("free", "target_epsilon"))
            row = row_of(case, str(free).replace("-", "_"), target)
            rows.append({**which, **row})
            shown.append({**which, **_shown(row)})
    return Tables(rows, shown)


def row_of(case: Case, free: str, target: float | None) -> Row:
    """Every number of a batch; nats.

    Args:
        case: see `instruments.generation.result.case_object`.
        free: the setting that was calibrated: 'temperature', 'clip' or 'subset_size'.
        target: ε that it was calibrated to.
    """
    at = next(row for row in case["by_order"] if row["order"] == case["promise"]["order"])
    paper, quality = case["paper_convention"], case["text_quality"]
    has_printed = target is not None and case["delta"] == _PRINTED_DELTA
    setting, printed = PRINTED[free].get(target or 0.0, _NOT_PRINTED) if has_printed else _NOT_PRINTED
    return {
        "free": free,
        "setting": {**case["mechanism"], "subset_size": case["subset_size"]}[free],
        "order": at["order"],
        "n_tokens": case["promise"]["spent"]["n_tokens"],
        "promised_epsilon": paper["promised_epsilon"],
        "promised_rdp_nats": at["promised_nats"],
        "measured_rdp_nats": _infinite(at["measured_nats"]),
        "sum_of_maxima_nats": _infinite(at["sum_of_maxima_nats"]),
        "rdp_ratio": _infinite(at["ratio"]),
        "worst_token_ratio": _infinite(at["worst_token_ratio"]),
        "worst_token_any_order_ratio": _infinite(case["verdict"]["worst_token"]["ratio"]),
        "holds": case["verdict"]["holds"],
        "paper_epsilon": _infinite(paper["epsilon"]),
        "zero_leak_epsilon": paper["zero_leak_epsilon"],
        "printed_setting": setting,
        "printed_epsilon": printed,
        "perplexity": _infinite(quality["perplexity"]),
        _DISTINCT: quality[_DISTINCT],
        "verbatim_share": quality["verbatim_share"],
    }


def _shown(row: Row) -> Row:
    """The numbers for people."""
    return {
        row["free"].replace("_", " "): f"{row['setting']:.4g}",
        "α*": f"{row['order']:g}",
        "tokens": f"{row['n_tokens']:,}",
        "RDP promised, nats": f"{row['promised_rdp_nats']:.3g}",
        "measured, worst exemplar": f"{row['measured_rdp_nats']:.3g}",
        "sum of maxima": f"{row['sum_of_maxima_nats']:.3g}",
        "measured / promised": _percent(row["rdp_ratio"]),
        "worst token": _percent(row["worst_token_ratio"]),
        "at any order": _percent(row["worst_token_any_order_ratio"]),
        "verdict": "kept" if row["holds"] else "broken",
        "ε, paper’s convention": f"{row['paper_epsilon']:.4g}",
        "of no leak": f"{row['zero_leak_epsilon']:.4g}",
        "paper printed": "–" if row["printed_epsilon"] is None else f"{row['printed_epsilon']:.4g}",
        "its setting": "–" if row["printed_setting"] is None else f"{row['printed_setting']:.4g}",
        "perplexity": f"{row['perplexity']:.3g}",
        "distinct-2": _percent(row[_DISTINCT]),
        "verbatim": _percent(row["verbatim_share"]),
    }


def _percent(ratio: float | None) -> str:
    return "–" if ratio is None else "∞" if math.isinf(ratio) else f"{100 * ratio:.3g} %"


def _infinite(nats: float | None) -> float:
    return math.inf if nats is None else float(nats)
