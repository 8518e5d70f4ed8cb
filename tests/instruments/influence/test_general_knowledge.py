"""Answers from general knowledge, and courtesies at the end of a chat, disclose nothing of the context beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import leakmeter
from leakmeter.errors import ModelError
from leakmeter.models import DEFAULT_MODEL, resolve

ANSWERS = Path(__file__).parent / "general_knowledge.jsonl"
"""Ten in each of four languages, each beside a note that has nothing to do with it."""
CHATS = (
    ("My new number is 555-014-2290.", "Noted: 555-014-2290.", "Thank you!", "You are welcome."),
    ("Book a table for Ostrander.", "Done.", "Thanks a lot.", "You're welcome! Let me know if you need anything else."),
    ("The code of the gate is 7731-K.", "I will remind you.", "Great, thanks.", "My pleasure. Have a great day!"),
    ("My order has not come.", "It was sent on Tuesday.", "OK, thank you.", "Of course! Feel free to reach out again."),
    ("The key is sk-9fz2-Lq81.", "I have saved it.", "Thanks, bye.", "Glad I could help. Goodbye!"),
)


@pytest.fixture(scope="module")
def meter() -> leakmeter.Meter:
    try:
        resolve(DEFAULT_MODEL, notify=str, download=False)
    except ModelError as error:
        pytest.skip(f"the default model is not cached: {error}")
    return leakmeter.Meter(DEFAULT_MODEL, cache=False)


def chat(number: int, *texts: str) -> dict[str, Any]:
    roles = ("user", "assistant", "user", "assistant")
    messages = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]
    return {"id": str(number), "messages": messages}


def disclosed(results: Any) -> list[tuple[str, str]]:
    return [(result.id, one.text) for result in results for one in result.disclosed]


@pytest.mark.long
def test_what_everybody_knows_is_no_disclosure_in_any_language(meter: leakmeter.Meter) -> None:
    rows = [json.loads(line) for line in ANSWERS.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 40
    assert disclosed(meter.influence(rows, controls=3)) == []
    # One by one, they are held against irrelevant texts.
    assert [one for row in rows[::4] for one in disclosed(meter.influence([row], controls=3))] == []


@pytest.mark.long
def test_thanks_are_no_disclosure(meter: leakmeter.Meter) -> None:
    rows = [chat(number, *texts) for number, texts in enumerate(CHATS)]
    assert disclosed(meter.influence(rows, controls=3)) == []
    assert [one for row in rows for one in disclosed(meter.influence([row], controls=3))] == []
