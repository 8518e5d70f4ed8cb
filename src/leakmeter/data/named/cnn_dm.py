"""CNN-DM (See et al. 2017): news articles, with highlights as their summaries."""

from __future__ import annotations

from leakmeter.core.case import Case, Document
from leakmeter.data.named import Dataset, DatasetRecord
from leakmeter.data.records import Fields, text_of


def _to_record(fields: Fields, number: str, where: str) -> DatasetRecord:
    id_ = fields.get("id")
    case = Case(
        id=number if id_ is None else str(id_),
        documents=(Document("article", text_of(fields, ("article",), where)),),
        # The query, that a summary is asked for, is part of the template.
        query="",
    )
    return DatasetRecord(case, text_of(fields, ("highlights", "summary"), where))


DATASET = Dataset(
    name="cnn_dm",
    repository="abisee/cnn_dailymail",
    subset="3.0.0",
    split="test",
    template="article",
    max_context_tokens=1024,
    to_record=_to_record,
)
