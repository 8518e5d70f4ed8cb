"""A study's finished cells to the generations of each record, side by side: what `generations_report` shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest
from typing import Any, Final

from leakmeter.core.measurement import Measurement
from leakmeter.data.named.base import Record
from leakmeter.report import html
from leakmeter.studies.cells import FinishedCell
from leakmeter.studies.expected import whole_by_token
from leakmeter.studies.generations_report import Column, Generation, Generations, generations_report
from leakmeter.studies.grid import Study
from leakmeter.studies.quality import rouge_l_f1
from leakmeter.studies.regurgitation import Regurgitation
from leakmeter.studies.tables import HEADINGS

MOST_RECORDS: Final = 100
"""Records that a page may show; its size may allow fewer."""


def generations_page(study: Study, cells: Sequence[FinishedCell], about: Sequence[str]) -> str:
    """The page of a study whose measure draws responses.

    Args:
        study: says which factor stands side by side: the figure's axis.
        cells: all of them, in order.
        about: where the numbers come from, one line each.
    """
    # Of several data sets each has its share of the page.
    by_dataset = [
        [(dataset, id_) for id_ in _ids([one for one in cells if one.cell.dataset == dataset])]
        for dataset in dict.fromkeys(one.cell.dataset for one in cells)
    ]
    found = [one for one in chain.from_iterable(zip_longest(*by_dataset)) if one is not None]
    shown = [_of_record(study, cells, dataset, id_) for dataset, id_ in found[:MOST_RECORDS]]
    return html.page(generations_report(shown, title=study.title, about=about, n_records=len(found)))


def _ids(cells: Sequence[FinishedCell]) -> list[str]:
    return list(dict.fromkeys(record.case.id for one in cells for record in one.records))


def _of_record(study: Study, cells: Sequence[FinishedCell], dataset: str, id_: str) -> Generations:
    found = [
        (one, record, measured)
        for one in cells
        if one.cell.dataset == dataset
        for record, measured in zip(one.records, one.measured, strict=True)
        if record.case.id == id_
    ]
    _, record, (texts, _) = found[0]
    columns = [_column(study, one, record, texts, measurements) for one, record, (texts, measurements) in found]
    return Generations(id_, dataset, texts["query"], record.reference, columns)


def _in_words(name: str, value: Any) -> str:
    heading = HEADINGS.get(name, name.replace("_", " "))
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{heading} = {shown}" if len(heading) == 1 else f"{heading} {shown}"


def _column(
    study: Study, one: FinishedCell, record: Record, texts: Mapping[str, Any], measurements: Sequence[Measurement]
) -> Column:
    said = {name: _in_words(name, value) for name, value in one.cell.factors.items() if name != "dataset"}
    # Without an axis all cells stand side by side.
    name = said.pop(study.x) if study.x in said else ", ".join(said.values())
    line = ", ".join(said.values()) if study.x in one.cell.factors else ""
    rule = Regurgitation()
    generations = [
        Generation(
            tokens=response["tokens"],
            nats=[float(loss) for loss in losses],
            text=response["text"],
            rouge_l_f1=rouge_l_f1([response["text"]], [record.reference])[0],
            verdicts=rule.verdicts(response["text"], texts["context"]),
        )
        for response, losses in zip(texts["responses"], whole_by_token(measurements), strict=True)
    ]
    return Column(line, name or "the only cell", texts["context"], texts["truncated_tokens"], generations)
