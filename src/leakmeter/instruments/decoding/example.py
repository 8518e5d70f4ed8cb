"""A small case to try it on."""

from __future__ import annotations

from leakmeter.core.instrument import Example
from leakmeter.text.example import context_case


def example(id_: str, response: str | None) -> Example:
    settings, case = context_case(id_, response)
    return Example(settings, case, {"max_new_tokens": 6})
