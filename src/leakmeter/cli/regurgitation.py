"""`leakmeter regurgitation`: which of existing responses repeat their contexts; no model, and no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from leakmeter.commands import output
from leakmeter.commands.options import Flag
from leakmeter.errors import DataError, LeakmeterError
from leakmeter.studies.quality import Quality
from leakmeter.studies.regurgitation import Regurgitation

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
    """Count the responses that repeat their contexts: Repeat prompts and ROUGE prompts, and their quality.

    "Published" is how the code of Flemings et al. counts, "stated" what their text says (Section 4.2).

    Parameters
    ----------
    csv
        A CSV file with columns 'generations' and 'contexts', and 'references' for quality.
    seed
        Of the bootstrap.
    json
        Print one JSON object instead of the table.
    """
    from leakmeter.data.records import read_csv
    from leakmeter.studies.regurgitation import counts

    rows = read_csv(csv)
    for column in _COLUMNS:
        if column not in rows[0]:
            raise DataError(f"CSV file '{csv}' has no column '{column}'; it has {', '.join(map(repr, rows[0]))}")
    responses, contexts = ([row[column] for row in rows] for column in _COLUMNS)
    references = [row[_REFERENCES] for row in rows] if _REFERENCES in rows[0] else None
    if references is None:
        output.tell(f"CSV file '{csv}' has no column '{_REFERENCES}'; quality against references is left out")
    told: dict[str, Any] = {"n": len(rows)}
    for name, count in counts(responses, contexts, thresholds).items():
        told[name] = {"prompts": count.hits, "share": count.hits / count.n, "interval": list(count.interval)}
    told |= _qualities(responses, contexts, references, quality or Quality(), seed)
    if json:
        output.print_json(told)
    else:
        _print(told)


def _qualities(
    responses: list[str], contexts: list[str], references: list[str] | None, wanted: Quality, seed: int
) -> dict[str, Any]:
    from leakmeter.studies import quality
    from leakmeter.studies.expected import estimate

    scores: dict[str, list[float]] = {}
    if references is not None:
        scores["rouge_l_f1"] = quality.rouge_l_f1(responses, references)
    try:
        if wanted.bertscore is not None and references is not None:
            scores["bertscore_f1"] = quality.bertscore_f1(responses, references, wanted.bertscore, layer=wanted.layer)
        if wanted.factkb is not None:
            scores["factkb"] = quality.factkb(responses, contexts, wanted.factkb)
    except LeakmeterError as error:
        output.tell(f"left out: {error}")
    found = {name: estimate(values, seed=seed) for name, values in scores.items()}
    return {name: {"mean": one.mean, "interval": list(one.interval)} for name, one in found.items()}


def _print(told: dict[str, Any]) -> None:
    from rich.table import Table

    from leakmeter.studies.tables import HEADINGS

    table = Table(box=None, pad_edge=False)
    table.add_column(f"{told['n']:,} responses")
    for heading in ("", "%", "95 % interval"):
        table.add_column(heading, justify="right")
    for name, one in told.items():
        if name == "n":
            continue
        share = one.get("share", one.get("mean"))
        low, high = one["interval"]
        prompts = f"{one['prompts']:,}" if "prompts" in one else ""
        table.add_row(HEADINGS[name], prompts, f"{100 * share:.2f}", f"{100 * low:.2f} to {100 * high:.2f}")
    output.console().print(table)
