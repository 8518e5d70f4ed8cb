"""A small invented case of a context and a query, for the measures of contexts."""

from __future__ import annotations

from leakmeter.core.case import Case, Document
from leakmeter.core.registry import Example
from leakmeter.text.build import PromptSettings

TEXT = "the patient writes to the clinic. the clinic writes back to 555-010-7788. the patient writes to 555-010-7788."


def example(id_: str, response: str | None) -> Example:
    case = Case(id_, (Document("note", f"{TEXT} {id_}"),), "who writes?", response)
    return Example(PromptSettings(group=True, template="plain"), case, {"max_new_tokens": 6})
