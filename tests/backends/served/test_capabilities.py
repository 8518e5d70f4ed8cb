"""What a served model is asked for, what is refused before anything is asked, and the table of it in the docs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.measure_items import make_item, readings_of
from helpers.toy_dialect import ROWS, TARGETS, TOP, toy_served
from leakmeter.backends.served import capabilities
from leakmeter.backends.served.dialect import Abilities
from leakmeter.backends.toy import Toy
from leakmeter.core import registry
from leakmeter.core.backend import check_needs
from leakmeter.core.drive import drive
from leakmeter.core.item import Prepared
from leakmeter.core.needs import ItemNeeds
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.tree import chunk_of
from leakmeter.engine.measure import check_answered
from leakmeter.errors import CapabilityError
from leakmeter.instruments.decoding.measure import Decode
from leakmeter.instruments.influence.measure import Influence
from leakmeter.instruments.redaction.measure import Redaction
from leakmeter.instruments.susceptibility.case import ClosedAnswer
from leakmeter.instruments.susceptibility.fisher.measure import Fisher
from leakmeter.privacy.decoding import RECEIPT

CONTEXT = (Piece("a", "context", (70, 71)), Piece("b", "context", (80,)))
PROMPT = Prompt((Piece("frame", "frame", (10, 66)), *CONTEXT, Piece("query", "query", (90, 91))))
RESPONSE = (65, 66, 67)


def item(response: tuple[int, ...] | None = RESPONSE, **options: Any) -> Any:
    return make_item(PROMPT, response, placebo=(99, 98), stop_ids=(256,), **options)


def prepared(one: Any) -> Prepared:
    return Prepared(one, "", "", "", "", "", 0)


NO_TARGETS, STALE = replace(TARGETS, targets=False), replace(ROWS, fresh_rows=False)
DECODE = Decode(epsilon=1.0, seed=7, max_new_tokens=4, cid_lambda=1.0)


WHOLE = ("llamacpp", "vllm with --max-logprobs -1")
PLAIN = "; with λ = 1 and T = 1 this server can"


def refused(has: Any, measure: Any, one: Any = None) -> str:
    backend = toy_served(has)
    with pytest.raises(CapabilityError) as error:
        check_answered(backend, measure, [prepared(one or item())])
    assert not backend.dialect.asked  # type: ignore[attr-defined]
    return str(error.value)


@pytest.mark.parametrize(
    ("has", "measure", "one", "what", "who"),
    [
        (TARGETS, Influence(temperature=0.8), None, "T = 0.8", [*WHOLE, PLAIN]),
        (TOP, Influence(temperature=0.8), None, "T = 0.8", [*WHOLE, PLAIN]),
        (TOP, Influence(temperature=1.5), None, "T = 1.5", [*WHOLE, PLAIN]),
        (TOP, Influence(temperature=0.8), item(None), "T = 0.8", [*WHOLE, PLAIN]),
        (TOP, Influence(temperature=0.8, search="top:1"), None, "T = 0.8", [*WHOLE, PLAIN]),
        (TOP, Influence(cid_lambda=1.5), None, "λ = 1.5 at T = 1", [*WHOLE, PLAIN]),
        (TOP, Influence(cid_lambda=0.5), None, "λ = 0.5 at T = 1", [*WHOLE, PLAIN]),
        (TOP, Influence(cid_lambda=0.0, temperature=0.5), None, "λ = 0 at T = 0.5", [*WHOLE, PLAIN]),
        (TOP, Influence(cid_lambda=0.5), item(None), "λ = 0.5", [*WHOLE, PLAIN]),
        (TARGETS, Redaction(cid_lambda=0.5), None, "λ = 0.5 at T = 1", [*WHOLE, PLAIN]),
        (TOP, Redaction(cid_lambda=0.5), None, "λ = 0.5", [*WHOLE, PLAIN]),
        (TOP, Redaction(temperature=0.5), None, "T = 0.5", [*WHOLE, PLAIN]),
        (NO_TARGETS, Influence(), None, "log-probability of a given response", ["llamacpp", "vllm"]),
        *((has, DECODE, item(None), "epsilon", ["llamacpp"]) for has in (TOP, TARGETS, STALE)),
    ],
)
def test_refusal_is_one_line_that_names_who_can(has, measure, one, what, who):
    said = refused(has, measure, one)
    assert what in said
    assert "\n" not in said
    for name in (*who, "a model loaded here"):
        assert name in said
    if PLAIN in who:
        assert not [name for name in ("sglang", "openai") if name in said]
    else:
        assert PLAIN not in said


def test_masks_are_refused_and_cuts_are_not():
    assert "--removal drop" in refused(ROWS, Influence(), item(masks=True))
    check_answered(toy_served(TARGETS), Influence(), [prepared(item())])
    # Without a bound whole rows of any kind will do.
    free = Decode(seed=7, max_new_tokens=2, cid_lambda=1.5)
    check_answered(toy_served(STALE), free, [prepared(item(None))])


def test_a_model_that_is_loaded_here_is_asked_nothing():
    loaded: Any = Toy()
    loaded.score = None
    check_answered(loaded, Influence(temperature=1.5), [prepared(item())])


@pytest.mark.parametrize(
    ("has", "measure", "response"),
    [
        *((has, Influence(), RESPONSE) for has in (TARGETS, TOP, ROWS)),
        # Whole rows give any temperature and weight.
        (ROWS, Influence(temperature=0.7, cid_lambda=1.5), None),
        (ROWS, Influence(temperature=1.3), None),
        (ROWS, Influence(temperature=1.0, cid_lambda=0.4), None),
    ],
)
def test_influence_is_the_models_own(has, measure, response):
    expected = readings_of(Toy(), measure, item(response))
    found = readings_of(toy_served(has), measure, item(response))
    assert found.keys() >= expected.keys()
    for key in expected:
        np.testing.assert_allclose(found[key], expected[key], atol=1e-12, err_msg=str(key))


def test_a_server_without_whole_rows_draws_responses_itself():
    measure, backend = Influence(samples=2, max_new_tokens=5, seed=3), toy_served(TARGETS)
    found = readings_of(backend, measure, item(None))
    kinds = [kind for kind, _ in backend.dialect.asked]  # type: ignore[attr-defined]
    assert kinds[:2] == ["generate", "generate"]
    assert set(kinds[2:]) == {"targets"}
    again = readings_of(toy_served(TARGETS), measure, item(None))
    assert all(np.array_equal(found[key], again[key]) for key in found)
    assert not np.array_equal(found[0, "token", ""], found[1, "token", ""])
    for number in (0, 1):
        drawn = found[number, "token", ""].astype(int)
        given = readings_of(Toy(), Influence(), item(tuple(drawn.tolist())))
        np.testing.assert_allclose(found[number, "whole", ""], given[0, "whole", ""], atol=1e-12)


def test_what_the_server_draws_counts_once() -> None:
    backend = toy_served(TARGETS)
    _, cost = drive(backend, [Influence(max_new_tokens=5).trial(item(None))])
    assert cost.n_tokens_run == backend.n_tokens_run


def test_bounded_decoding_asks_for_the_bare_rows_first_and_alone():
    backend = toy_served(ROWS)
    sent: list[int] = []
    in_order = backend.connection.in_order

    def counted(work: Any, items: Any, after: Any = None) -> Any:
        sent.append(len(items))
        return in_order(work, items, after)

    backend.connection.in_order = counted  # type: ignore[method-assign]
    (found,), _ = drive(backend, [DECODE.trial(item(None))])
    bare = tuple(PROMPT.blank().ids.tolist())
    asked = [scored.prompt == bare for _, scored in backend.dialect.asked]  # type: ignore[attr-defined]
    assert asked == [True, False] * (len(asked) // 2)
    assert set(sent) == {1}
    (expected,), _ = drive(Toy(), [DECODE.trial(item(None))])
    assert len(found) == len(expected) >= len(RECEIPT)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.values, other.values, atol=1e-9, err_msg=one.statistic)


PAGE = Path(__file__).parents[3] / "docs" / "results" / "served.md"
BEGIN, END = "<!-- served-capabilities -->", "<!-- /served-capabilities -->"
GIVEN = "it is so."
ANSWERS = (ClosedAnswer("yes", (" yes",)), ClosedAnswer("no", (" no",)))
NEVER = "masked removal, soft prompts, Fisher information"
TABLE: Mapping[str, tuple[str, str | None, Mapping[str, Any]]] = {
    "influence of a given response": ("influence", GIVEN, {}),
    "… at T ≠ 1, or λ ≠ 1": ("influence", GIVEN, {"temperature": 0.8, "cid_lambda": 0.5}),
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


def needs_of(row: str) -> ItemNeeds:
    """What a measure asks of a model."""
    name, response, parameters = TABLE[row]
    measure_of = registry.instrument(name).measure
    made = registry.instrument(name).example(response=None if response == "answers" else response)
    case = made.case if response != "answers" else replace(made.case, query=replace(made.case.query, answers=ANSWERS))
    toy: Any = Toy()
    item = made.settings.prepare(case, toy, measure_of(**made.parameters)).item
    if name == "icl":  # labels begin with the same space, which is a token of the toy model
        item = replace(item, label_ids=((1, 2), (2, 1)))
    needed = measure_of(**{**made.parameters, **parameters}).needs(item)
    assert not needed.masks
    return needed


def cell(needed: ItemNeeds, has: Abilities) -> str:
    """How a server answers all that a measure asks; '–' where it does not."""
    draws = capabilities.draws_responses(has)
    requests = needed.asked(draws=draws, hides=False)
    try:
        capabilities.check(chunk_of(requests), has)
    except CapabilityError:
        return "–"
    return "yes, the server draws" if draws and needed.draws is not None else "yes"


def table() -> str:
    servers = capabilities.servers()
    lines = [["measured", *servers], ["---"] * (len(servers) + 1)]
    for row in TABLE:
        if row == NEVER:
            lines.append([row, *("–" for _ in servers)])
            continue
        needed = needs_of(row)
        lines.append([row, *(cell(needed, has) for has in servers.values())])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def test_table_of_the_docs_is_what_the_measures_ask() -> None:
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
        check_needs(toy_served(ROWS), Fisher().needs(item))
