"""A small case to try it on."""

from __future__ import annotations

from leakmeter.core.instrument import Example
from leakmeter.instruments.susceptibility.case import Context, Query, QueryCase
from leakmeter.instruments.susceptibility.prompts import QuerySettings

_CONTEXTS = ("the patient writes to the clinic.", "the clinic writes back.", "the patient writes on the same day.")


def example(id_: str, response: str | None) -> Example:
    contexts = tuple(Context(f"c{i}", text) for i, text in enumerate(_CONTEXTS))
    return Example(QuerySettings(), QueryCase(id_, Query(id_, f"who writes to {id_}?"), contexts))
