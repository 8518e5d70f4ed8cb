"""Evaluation sets from documents: people with what is told of them, found in text and written as subjects."""

from leakmeter.instruments.pii.extraction.found import Extractor, Find, Found, names_beside_emails
from leakmeter.instruments.pii.extraction.relationships import KINDS, Candidate, Relationships
from leakmeter.instruments.pii.extraction.run import Extracted, extract
from leakmeter.instruments.pii.extraction.structured import Structured
from leakmeter.instruments.pii.extraction.universities import Universities, load_names

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
