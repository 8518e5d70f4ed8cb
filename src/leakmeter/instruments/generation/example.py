"""A small case to try it on."""

from __future__ import annotations

from leakmeter.core.instrument import Example
from leakmeter.instruments.generation.prompts import GenerationSettings
from leakmeter.text import exemplar


def example(id_: str, response: str | None) -> Example:
    texts = ("the patient writes to the clinic.", f"the clinic writes back to {id_}.")
    exemplars = tuple(exemplar.Example(f"x{i}", (text,), None) for i, text in enumerate(texts))
    case = exemplar.ExemplarCase(id_, exemplars, exemplar.Example(id_, (), None))
    return Example(GenerationSettings(), case, {"max_new_tokens": 6, "sequences": 2})
