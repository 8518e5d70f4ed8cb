"""`leakmeter study regurgitation`: which of existing responses repeat their contexts; no model, and no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from leakmeter.commands import output
from leakmeter.commands.options import FlagOption
from leakmeter.commands.studies.quality import COLUMNS, Quality, Regurgitation
from leakmeter.core.record import JsonObject
from leakmeter.data.mapping import listed
from leakmeter.errors import DataError, LeakmeterError

if TYPE_CHECKING:
    from leakmeter.data.rows import DataRow

_COLUMNS = ("generations", "contexts")
_REFERENCES = "references"


def regurgitation(
    *,
    csv: Path,
    thresholds: Annotated[Regurgitation | None, Parameter(name="*")] = None,
    quality: Annotated[Quality | None, Parameter(name="*")] = None,
    seed: int = 0,
    json: FlagOption = False,
) -> None:
    """Count the responses that repeat their contexts, by shared words and by ROUGE-L, and score their quality.

    Flemings et al. call them Repeat prompts and ROUGE prompts (Section 4.2). "Published" is how their code counts,
    "stated" what their text says.

    Parameters
    ----------
    csv
        A CSV, JSON lines, JSON or Parquet file with columns 'generations' and 'contexts', and 'references' for quality.
    seed
        Seed of the bootstrap.
    json
        Print one JSON object instead of the table.
    """
    from leakmeter.data.rows import kind_of_name, read_rows
    from leakmeter.report.blocks import interrupted

    kind = kind_of_name(csv) or "csv"
    noun = "CSV file" if kind == "csv" else "data file"
    where, rows = f"{noun} '{csv}'", list(read_rows(csv, kind=kind, noun=noun))
    if not rows:
        raise DataError(f"{where} has no rows; expected one or more with {' and '.join(map(repr, _COLUMNS))}")
    responses, contexts = ([_text(row, column, where) for row in rows] for column in _COLUMNS)
    has_references = _REFERENCES in rows[0].fields
    references = [_text(row, _REFERENCES, where) for row in rows] if has_references else None
    if references is None:
        output.tell(f"{where} has no column '{_REFERENCES}'; quality against references is left out")
    table_rows, verdicts, rouge = list[_Row](), list[dict[str, bool]](), list[float]()
    try:
        _count(responses, contexts, references, thresholds or Regurgitation(), verdicts, rouge)
        table_rows += _counted(verdicts, rouge, seed)
        _add_qualities(table_rows, responses, contexts, references, quality or Quality(), seed)
    except KeyboardInterrupt:
        if verdicts and not json:
            output.print_text(interrupted(len(verdicts), len(rows), "responses"))
            _print(len(verdicts), table_rows or _counted(verdicts, rouge, seed))
        raise KeyboardInterrupt("nothing is kept, and the same command starts again") from None
    if json:
        output.print_json({"n": len(rows), **{row.name: row.to_dict() for row in table_rows}})
    else:
        _print(len(rows), table_rows)


def _text(row: DataRow, column: str, where: str) -> str:
    if column not in row.fields:
        place = where if row.number == 1 else row.where
        raise DataError(f"{place} has no column '{column}'; it has {listed(row.fields)}")
    value = row.fields[column]
    if value is not None and not isinstance(value, str):
        raise DataError(f"{row.where}: '{column}' is no text")
    return value or ""


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    value: float
    """A share of the prompts, or a mean; in [0, 1]."""
    interval: tuple[float, float] | None
    """None of a mean of fewer than eight."""
    prompts: int | None = None
    """How many they are; None of a mean."""

    def to_dict(self) -> JsonObject:
        interval = None if self.interval is None else list(self.interval)
        if self.prompts is None:
            return {"mean": self.value, "interval": interval}
        return {"prompts": self.prompts, "share": self.value, "interval": interval}


def _count(
    responses: list[str],
    contexts: list[str],
    references: list[str] | None,
    thresholds: Regurgitation,
    verdicts: list[dict[str, bool]],
    rouge: list[float],
) -> None:
    from leakmeter.commands.progress import counting
    from leakmeter.commands.studies.quality import rouge_l_f1

    repeating = "{:,.0f} repeat their contexts, as published"
    findings: dict[str, float] = {}
    with counting("responses", findings) as advance:
        for number, (response, context) in enumerate(zip(responses, contexts, strict=True)):
            score = None if references is None else rouge_l_f1([response], [references[number]])
            verdict = thresholds.verdicts(response, context)
            verdicts.append(verdict)
            rouge += score or []
            findings[repeating] = findings.get(repeating, 0) + verdict["repeat_published"]
            advance(len(verdicts), len(responses))


def _counted(verdicts: Sequence[dict[str, bool]], rouge: Sequence[float], seed: int) -> list[_Row]:
    from leakmeter.commands.studies.quality import tallied

    rows = [_Row(name, count.hits / count.n, count.interval, count.hits) for name, count in tallied(verdicts).items()]
    return [*rows, _mean("rouge_l_f1", rouge, seed)] if rouge else rows


def _mean(name: str, values: Sequence[float], seed: int) -> _Row:
    from leakmeter.commands.studies.expected import estimate

    score = estimate(list(values), seed=seed)
    return _Row(name, score.mean, score.interval)


def _add_qualities(
    rows: list[_Row],
    responses: list[str],
    contexts: list[str],
    references: list[str] | None,
    chosen: Quality,
    seed: int,
) -> None:
    """Those that take a model, each as soon as it is scored."""
    from leakmeter.commands.studies import quality

    try:
        if chosen.bertscore is not None and references is not None:
            values = quality.bertscore_f1(responses, references, chosen.bertscore, layer=chosen.layer)
            rows.append(_mean("bertscore_f1", values, seed))
        if chosen.factkb is not None:
            rows.append(_mean("factkb", quality.factkb(responses, contexts, chosen.factkb), seed))
    except LeakmeterError as error:
        output.tell(f"left out: {error}")


def _print(n: int, rows: Sequence[_Row]) -> None:
    cells = [
        (
            COLUMNS[row.name].heading,
            "" if row.prompts is None else f"{row.prompts:,}",
            f"{100 * row.value:.2f}",
            " to ".join(f"{100 * end:.2f}" for end in row.interval or ()),
        )
        for row in rows
    ]
    output.console().print(output.table((f"{n:,} responses", "", "%", "95 % interval"), cells, right=(1, 2, 3)))
