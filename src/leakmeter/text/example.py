"""A small invented case of a context and a query."""

from __future__ import annotations

from leakmeter.core.case import Case, Document
from leakmeter.text.build import PromptSettings

TEXT = "the patient writes to the clinic. the clinic writes back to 555-010-7788. the patient writes to 555-010-7788."


def context_case(id_: str, response: str | None) -> tuple[PromptSettings, Case]:
    case = Case(id_, (Document("note", f"{TEXT} {id_}"),), "who writes?", response)
    return PromptSettings(group=True, template="plain"), case
