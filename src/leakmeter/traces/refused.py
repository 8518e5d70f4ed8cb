"""Calls that cannot be measured, and why: one of a few reasons, never what the log says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Why a record, or a call of a model, is left out."""

    MALFORMED = "malformed"
    TOO_LONG = "too-long"
    NOT_OF_FORMAT = "not-of-format"
    OTHER_VERSION = "other-version"
    TOO_MANY_SPANS = "too-many-spans"
    SAME_ID = "same-id"
    INCOMPLETE = "incomplete"
    NO_PROMPT = "no-prompt"
    RAW_PROMPT = "raw-prompt"
    NOT_TEXT = "not-text"
    NOT_UNICODE = "not-unicode"
    TOOL_CALL = "tool-call"
    BAD_ROLE = "bad-role"
    NO_QUESTION = "no-question"
    NO_ANSWER = "no-answer"
    FAILED = "failed"
    NO_DOCUMENTS = "no-documents"
    DOCUMENT_WITHOUT_TEXT = "document-without-text"
    DOCUMENT_NOT_FOUND = "document-not-found"
    DOCUMENT_CHANGED = "document-changed"
    DOCUMENTS_OVERLAP = "documents-overlap"
    DOCUMENT_WITHIN_ANOTHER = "document-within-another"
    TOO_MANY_DOCUMENTS = "too-many-documents"

    @property
    def sentence(self) -> str:
        """What it means.

        >>> Reason.NO_DOCUMENTS.sentence
        'Nothing was retrieved for this call.'
        """
        return _SENTENCES[self]


_SENTENCES = {
    Reason.MALFORMED: "The record is no JSON object, or is no UTF-8, or is nested too deep.",
    Reason.TOO_LONG: "The record is longer than records that are read.",
    Reason.NOT_OF_FORMAT: "The record has not the fields of its format.",
    Reason.OTHER_VERSION: "The record is of a version of leakmeter's log that this one cannot read; update leakmeter.",
    Reason.TOO_MANY_SPANS: "The trace has more spans, or more text, than traces that are read.",
    Reason.SAME_ID: "Another call of the trace has the same id, and other texts.",
    Reason.INCOMPLETE: "The prompt or the retrieved texts were cut before they were logged.",
    Reason.NO_PROMPT: "The call's messages were not logged.",
    Reason.RAW_PROMPT: "The prompt is one text without messages; only chats are measured.",
    Reason.NOT_TEXT: "The prompt has an image, a file or another part that is no text.",
    Reason.NOT_UNICODE: "A text is no valid Unicode: it has half a surrogate pair.",
    Reason.TOOL_CALL: "A message or the answer calls a tool; the model read or wrote more than the texts show.",
    Reason.BAD_ROLE: "A message has a role that is no plain word.",
    Reason.NO_QUESTION: "The prompt has no message of role 'user'.",
    Reason.NO_ANSWER: "The call has no answer, or an empty one.",
    Reason.FAILED: "The call failed.",
    Reason.NO_DOCUMENTS: "Nothing was retrieved for this call.",
    Reason.DOCUMENT_WITHOUT_TEXT: "The log has a retrieved document's id and not its text.",
    Reason.DOCUMENT_NOT_FOUND: "No part of a retrieved text stands in the prompt.",
    Reason.DOCUMENT_CHANGED: "A part of a retrieved text stands in the prompt, and not the whole as it was retrieved.",
    Reason.DOCUMENTS_OVERLAP: "Two retrieved texts share a part of the prompt.",
    Reason.DOCUMENT_WITHIN_ANOTHER: "A retrieved text stands in the prompt only as a part of another.",
    Reason.TOO_MANY_DOCUMENTS: "The retrieved texts are so many, and the prompt so long, that they are not looked for.",
}


@dataclass(frozen=True, slots=True)
class Refused:
    """A record or a call that was left out."""

    reason: Reason
    where: str
    """File and line."""
    trace_id: str | None = None
    span_id: str | None = None


class Unusable(Exception):  # noqa: N818 (no user meets it)
    """Raised within this package where a call is to be refused."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.sentence)
        self.reason = reason
