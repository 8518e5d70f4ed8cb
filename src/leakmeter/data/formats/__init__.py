"""Presets: records as other tools write them to the fields of a case, by name or found out by their fields.

A preset says which records are its own and makes the fields of `cases.cases_of_fields` of each, or whole cases. What it
cannot express it refuses: a prompt that is not the one that was sent would give numbers that mean nothing.
"""

from typing import Final

from leakmeter.data.formats import agentleak, completions, evaluations, retrieval, transcripts
from leakmeter.data.formats.base import (
    ANSWERS,
    CONTEXTS,
    DataFormat,
    document_of,
    documents_by_name,
    only,
    only_context,
)

__all__ = ["ANSWERS", "CONTEXTS", "FORMATS", "DataFormat", "document_of", "documents_by_name", "only", "only_context"]

FORMATS: Final[dict[str, DataFormat]] = {
    format_.name: format_
    for format_ in (
        *(agentleak.FORMAT, *evaluations.FORMATS, *transcripts.FORMATS, completions.FORMAT, *retrieval.FORMATS),
    )
}
"""In the order in which they are tried."""
