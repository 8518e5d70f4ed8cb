"""What was read as cases, as tables that tests compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leakmeter.core.case import Case
from leakmeter.data.cases import ReadCases, cases_of


def read(data: Any, **how: Any) -> ReadCases:
    """Cases of logs that have their answers."""
    return cases_of(data, needs_response=True, **how)


def sources(case: Case) -> dict[str, str]:
    """What was read before the response, by its name."""
    return {document.name: document.text for document in case.context_documents}


def said(cases: Sequence[Case]) -> list[tuple[str, str, str | None]]:
    """Channel, recipient and text of each emission."""
    return [
        ("answer", "user", case.response)
        if case.emission is None
        else (case.emission.channel, case.emission.recipient, case.response)
        for case in cases
    ]


def fixed_text(case: Case) -> str:
    """All of a chat that is no context."""
    parts = [
        part.text for message in case.messages for n, part in enumerate(message.parts) if n not in message.retrieved
    ]
    return "\n".join(parts)
