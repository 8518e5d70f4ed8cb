"""A small case to try it on."""

from __future__ import annotations

from leakmeter.core.instrument import Example
from leakmeter.instruments.icl.prompts import ExemplarSettings
from leakmeter.text import exemplar

_TASK = exemplar.Task("sender", "Say who writes.", (("text", "Note"),), "Sender", (("p", "patient"), ("c", "clinic")))
_EXEMPLARS = (
    exemplar.Example("first", ("the patient writes to the clinic.",), "patient"),
    exemplar.Example("second", ("the clinic writes back.",), "clinic"),
)


def example(id_: str, response: str | None) -> Example:
    query = exemplar.Example(id_, (f"the clinic writes to {id_}.",), "clinic")
    case = exemplar.ExemplarCase(id_, _EXEMPLARS, query)
    return Example(ExemplarSettings(_TASK), case, {"label_scoring": "whole-sequence"})
