"""`leakmeter study regurgitation`: which of existing responses repeat their contexts; no model, and no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from leakmeter.commands import output
from leakmeter.commands.options import Flag
from leakmeter.core.json_object import JsonObject
from leakmeter.errors import DataError, LeakmeterError
from leakmeter.studies.quality import COLUMNS, Quality, Regurgitation

_COLUMNS = ("generations", "contexts")
_REFERENCES = "references"


def regurgitation(
    *,
    csv: Path,
    thresholds: Annotated[Regurgitation | None, Parameter(name="*")] = None,
    quality: Annotated[Quality | None, Parameter(name="*")] = None,
    seed: int = 0,
    json: Flag = False,
) -> None:
    """Count the responses that repeat their contexts, by shared words and by ROUGE-L, and score their quality.

    Flemings et al. call them Repeat prompts and ROUGE prompts (Section 4.2). "Published" is how their code counts,
    "stated" what their text says.

    Parameters
    ----------
    csv
        A CSV file with columns 'generations' and 'contexts', and 'references' for quality.
    seed
        Seed of the bootstrap.
    json
        Print one JSON object instead of the table.
    """
    from leakmeter.data.records import read_csv
    from leakmeter.studies.quality import counts

    rows = read_csv(csv)
    for column in _COLUMNS:
        if column not in rows[0]:
            raise DataError(f"CSV file '{csv}' has no column '{column}'; it has {', '.join(map(repr, rows[0]))}")
    responses, contexts = ([row[column] for row in rows] for column in _COLUMNS)
    references = [row[_REFERENCES] for row in rows] if _REFERENCES in rows[0] else None
    if references is None:
        output.tell(f"CSV file '{csv}' has no column '{_REFERENCES}'; quality against references is left out")
    table_rows = [
        _Row(name, count.hits / count.n, count.interval, count.hits)
        for name, count in counts(responses, contexts, thresholds).items()
    ]
    table_rows += _qualities(responses, contexts, references, quality or Quality(), seed)
    if json:
        output.print_json({"n": len(rows), **{row.name: row.to_dict() for row in table_rows}})
    else:
        _print(len(rows), table_rows)


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    value: float
    """A share of the prompts, or a mean; in [0, 1]."""
    interval: tuple[float, float]
    prompts: int | None = None
    """How many they are; None of a mean."""

    def to_dict(self) -> JsonObject:
        interval = list(self.interval)
        if self.prompts is None:
            return {"mean": self.value, "interval": interval}
        return {"prompts": self.prompts, "share": self.value, "interval": interval}


def _qualities(
    responses: list[str], contexts: list[str], references: list[str] | None, chosen: Quality, seed: int
) -> list[_Row]:
    from leakmeter.studies import quality
    from leakmeter.studies.expected import estimate

    scores: dict[str, list[float]] = {}
    if references is not None:
        scores["rouge_l_f1"] = quality.rouge_l_f1(responses, references)
    try:
        if chosen.bertscore is not None and references is not None:
            scores["bertscore_f1"] = quality.bertscore_f1(responses, references, chosen.bertscore, layer=chosen.layer)
        if chosen.factkb is not None:
            scores["factkb"] = quality.factkb(responses, contexts, chosen.factkb)
    except LeakmeterError as error:
        output.tell(f"left out: {error}")
    means = {name: estimate(values, seed=seed) for name, values in scores.items()}
    return [_Row(name, score.mean, score.interval) for name, score in means.items()]


def _print(n: int, rows: Sequence[_Row]) -> None:
    cells = [
        (
            COLUMNS[row.name].heading,
            "" if row.prompts is None else f"{row.prompts:,}",
            f"{100 * row.value:.2f}",
            " to ".join(f"{100 * end:.2f}" for end in row.interval),
        )
        for row in rows
    ]
    output.console().print(output.table((f"{n:,} responses", "", "%", "95 % interval"), cells, right=(1, 2, 3)))
