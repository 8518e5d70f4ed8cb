"""Evaluation sets from documents: people with what is told of them, found in text and written as subjects."""

from leakmeter.data.extraction.found import Extractor, Find, Found, names_beside_emails
from leakmeter.data.extraction.relationships import KINDS, Candidate, Relationships
from leakmeter.data.extraction.run import Extracted, extract
from leakmeter.data.extraction.structured import Structured
from leakmeter.data.extraction.universities import Universities, load_names

__all__ = [
    "KINDS",
    "Candidate",
    "Extracted",
    "Extractor",
    "Find",
    "Found",
    "Relationships",
    "Structured",
    "Universities",
    "extract",
    "load_names",
    "names_beside_emails",
]
