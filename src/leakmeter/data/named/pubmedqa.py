"""PubMedQA (Jin et al. 2019, MIT): questions about biomedical abstracts, with answers in a few sentences."""

from __future__ import annotations

from leakmeter.core.case import Case, Document
from leakmeter.data.named import Dataset, DatasetRecord
from leakmeter.data.records import Fields, text_of
from leakmeter.errors import DataError


def _to_record(fields: Fields, number: str, where: str) -> DatasetRecord:
    """A record of `ori_pqal.json` (upper-case fields) or of the hub (lower-case ones)."""
    id_ = fields.get("pubid") or fields.get("id") or number
    case = Case(
        id=str(id_),
        documents=(Document("abstract", _context(fields, where)),),
        query=text_of(fields, ("question",), where),
    )
    return DatasetRecord(case, text_of(fields, ("long_answer",), where))


def _context(fields: Fields, where: str) -> str:
    """The abstract's sections, joined by nothing: the published code of Flemings et al. joins them so."""
    value = fields.get("contexts", fields.get("context"))
    if isinstance(value, dict):
        value = value.get("contexts")
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not value or not all(isinstance(part, str) for part in value):
        raise DataError(f"{where}: 'contexts' has to be text or a list of texts")
    return "".join(value)


DATASET = Dataset(
    name="pubmedqa",
    repository="qiaojin/PubMedQA",
    subset="pqa_labeled",
    split="train",
    template="document",
    max_context_tokens=2048,
    to_record=_to_record,
)
