"""What a study's numbers are over several seeds of its draws: how much of a value is the draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from leakmeter.studies.grid import Study

Row = Mapping[str, Any]

TITLE: Final = "Over seeds"
ABOUT: Final = "mean, standard deviation (n - 1), least and most over seeds; each seed's own values and intervals above"


def over_seeds(study: Study, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """For each choice of the other factors, a row for each value that has an interval.

    Args:
        study: of the rows.
        rows: of its table, one a seed.

    Returns:
        Nothing where the seed is no factor.
    """
    seed = study.kind.replicated
    if not any(seed in cell.factors for cell in study.cells):
        return []
    named = [name for name in study.cells[0].factors if name != seed]
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        words = [name for name, value in row.items() if isinstance(value, str)]
        keys = [name for name in dict.fromkeys((*named, study.show, *words)) if name in row]
        groups.setdefault(tuple((name, row[name]) for name in keys), []).append(row)
    found = []
    for group, of in groups.items():
        for value in (name for name in of[0] if f"{name}_low" in of[0]):
            each = np.array([row[value] for row in of if row.get(value) is not None], dtype=np.float64)
            if each.size:
                told = {"value": value, "n_seeds": int(each.size), "mean": float(each.mean())}
                std = float(each.std(ddof=1)) if each.size > 1 else None
                found.append(
                    {**dict(group), **told, "mean_std": std, "least": float(each.min()), "most": float(each.max())}
                )
    return found
