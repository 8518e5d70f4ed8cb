"""The table of the docs that says what is measured on which server: made by the measures' own requests."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers import toy_dialect
from leakmeter.backends.served import capabilities
from leakmeter.backends.served.dialect import Capabilities
from leakmeter.backends.toy import Toy
from leakmeter.core import forecast, registry
from leakmeter.core.forecast import planning_backend, predict
from leakmeter.core.measure import chooses
from leakmeter.core.plan import Chunk
from leakmeter.errors import CapabilityError
from leakmeter.instruments.susceptibility.case import Answer
from leakmeter.instruments.susceptibility.fisher.measure import Fisher

PAGE = Path(__file__).parents[3] / "docs" / "served.md"
BEGIN, END = "<!-- served-capabilities -->", "<!-- /served-capabilities -->"
GIVEN = "it is so."
ANSWERS = (Answer("yes", (" yes",)), Answer("no", (" no",)))
NEVER = "masked removal, soft prompts, Fisher information"
ROWS: Mapping[str, tuple[str, str | None, Mapping[str, Any]]] = {
    "influence of a given response": ("influence", GIVEN, {}),
    "… at T < 1, or 0 ≤ λ < 1": ("influence", GIVEN, {"temperature": 0.8, "cid_lambda": 0.5}),
    "… at T > 1, or λ > 1": ("influence", GIVEN, {"temperature": 0.8, "cid_lambda": 1.5}),
    "expected influence: responses drawn, λ = 1": ("influence", None, {"max_new_tokens": 2}),
    "… with another λ": ("influence", None, {"cid_lambda": 0.5, "max_new_tokens": 2}),
    "redaction": ("redact", GIVEN, {"max_new_tokens": 2}),
    "exemplars, labels by their first token": ("icl", None, {"label_scoring": "first-token"}),
    "exemplars, labels by all their tokens": ("icl", None, {}),
    "exemplars, over the whole vocabulary": ("icl", None, {"space": "vocabulary"}),
    "susceptibility of given answers": ("susceptibility", "answers", {}),
    "susceptibility of the next token": ("susceptibility", None, {}),
    "likelihood of personal data": ("pii", None, {"beams": ()}),
    "generation of personal data, beam 2": ("pii", None, {}),
    "decoding with λ, without a bound": ("decode", None, {"max_new_tokens": 2, "cid_lambda": 1.5, "seed": 0}),
    "decoding with a bound (ε)": ("decode", None, {"max_new_tokens": 2, "epsilon": 1.0, "seed": 0}),
    "audit of generated exemplars": ("private_generation", None, {"max_new_tokens": 2, "sequences": 1}),
    NEVER: ("", None, {}),
}


def asked(row: str, *, draws: bool) -> list[Chunk]:
    """What a measure asks for, of a server that draws responses or does not."""
    name, response, parameters = ROWS[row]
    measure_of = registry.instrument(name).measure
    made = registry.instrument(name).example(response=None if response == "answers" else response)
    case = made.case if response != "answers" else replace(made.case, query=replace(made.case.query, answers=ANSWERS))
    toy: Any = Toy()
    item = made.settings.prepare(case, toy, measure_of(**made.parameters)).item
    if name == "icl":  # labels begin with the same space, which is a token of the toy model
        item = replace(item, label_ids=((1, 2), (2, 1)))
    measure = measure_of(**{**made.parameters, **parameters})
    chunks: list[Chunk] = []
    planning = planning_backend(toy, None)
    planning.check, planning.draws_responses = chunks.append, draws
    item = replace(item, model_noise_nats=0.0)
    predict(planning, measure.longest_trial(item) if chooses(measure) else measure.trial(item))
    return chunks


def cell(row: str, has: Capabilities, chunks: Mapping[bool, Sequence[Chunk]]) -> str:
    """How a server answers all that a measure asks; '–' where it does not."""
    draws = capabilities.draws_responses(has)
    try:
        for chunk in chunks[draws]:
            capabilities.check(chunk, has)
    except CapabilityError:
        return "–"
    kinds = {capabilities.kind_of(request, has) for chunk in chunks[draws] for request in chunk.requests}
    if "interval" in kinds:
        return "interval"
    return "yes, the server draws" if draws and len(chunks[True]) < len(chunks[False]) else "yes"


def table() -> str:
    servers = capabilities.servers()
    lines = [["measured", *servers], ["---"] * (len(servers) + 1)]
    for row in ROWS:
        if row == NEVER:
            lines.append([row, *("–" for _ in servers)])
            continue
        chunks = {draws: asked(row, draws=draws) for draws in (True, False)}
        lines.append([row, *(cell(row, has, chunks) for has in servers.values())])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def test_table_of_the_docs_is_what_the_measures_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "_ANY_VOCAB", 300)
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    told, after = rest.split(END)
    made = table()
    if os.environ.get("LEAKMETER_SNAPSHOTS") and told.strip() != made:
        PAGE.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}", encoding="utf-8")
        return
    assert told.strip() == made, "run with LEAKMETER_SNAPSHOTS=1, and look at what has changed"


def test_nothing_served_gives_gradients():
    made = registry.instrument("susceptibility").example()
    item = made.settings.prepare(made.case, Toy(), Fisher()).item  # type: ignore[arg-type]
    with pytest.raises(CapabilityError, match="gives no gradients"):
        predict(planning_backend(toy_dialect.toy_served(toy_dialect.ROWS), None), Fisher().trial(item))
