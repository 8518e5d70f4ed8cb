"""What a measure says that it needs is all that its trials ask, of every instrument; and what follows from it."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from helpers.measure_items import make_item
from leakmeter.backends.toy import Toy
from leakmeter.core import registry
from leakmeter.core.backend import check_needs
from leakmeter.core.drive import drive
from leakmeter.core.needs import ItemNeeds
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.request import Request
from leakmeter.core.tree import Chunk
from leakmeter.errors import CapabilityError
from leakmeter.instruments.influence.measure import Influence
from leakmeter.instruments.susceptibility.fisher.measure import Fisher

CONTEXT = (Piece("a", "context", (70, 71)), Piece("b", "context", (80,)))
PROMPT = Prompt((Piece("frame", "frame", (10, 66)), *CONTEXT, Piece("query", "query", (90, 91))))


def kind_of(request: Request) -> tuple[Any, ...]:
    """What decides which model can answer."""
    reduction: Any = request.reduction
    return (
        reduction.needs,
        reduction.bare_first,
        getattr(reduction, "temperature", 1.0),
        getattr(reduction, "context_weight", 1.0),
    )


@pytest.mark.parametrize("response", [None, "the clinic"])
@pytest.mark.parametrize("name", [name for name in registry.instruments() if name != "fisher"])
def test_needs_cover_all_that_a_trial_asks(name: str, response: str | None) -> None:
    toy = Toy()
    kind = registry.instrument(name).measure
    known = {field.name for field in fields(kind)}
    example = registry.instrument(name).example("one", response)
    given = {**example.parameters, "max_new_tokens": 3, "max_loss": 1e-3, "temperature": 0.7}
    measure = kind(**{field: value for field, value in given.items() if field in known})
    prepared: Any = example.settings.prepare(example.case, toy, measure)  # type: ignore[arg-type]
    # As of a served model, of which noise is known: only there is it refused what cannot be asked.
    item = replace(prepared.item, model_noise_nats=0.0)
    chunks: list[Chunk] = []
    drive(toy, [measure.trial(item)], on_plan=chunks.append)
    asked = {kind_of(request) for chunk in chunks for request in chunk.requests}
    needed = measure.needs(item)
    assert asked
    assert asked <= {kind_of(request) for request in needed.asked(draws=False, hides=True)}
    prompts = [prompt for chunk in chunks for request in chunk.requests for prompt in request.prompts]
    assert needed.masks == any(prompt.next_position != len(prompt.ids) for prompt in prompts)


def test_masks_and_hidden_pieces_are_seen() -> None:
    plain, masked = (make_item(PROMPT, (65, 66), masks=masks) for masks in (False, True))
    measure = Influence(search="top:1")
    assert (measure.needs(plain).masks, measure.needs(masked).masks) == (False, True)
    hides = measure.needs(plain).hides
    assert hides is not None
    assert any(prompt.hidden for prompt in hides.prompts)
    assert hides in measure.needs(plain).asked(draws=False, hides=True)
    assert hides not in measure.needs(plain).asked(draws=False, hides=False)
    assert Influence().needs(plain).hides is None


def test_only_a_response_of_the_models_own_is_drawn_by_it() -> None:
    undrawn = make_item(PROMPT, None)
    for weight, drawn_there in ((1.0, True), (0.5, False)):
        needed = Influence(cid_lambda=weight).needs(undrawn)
        assert (needed.draws is not None) is drawn_there
        assert len(needed.asked(draws=True, hides=False)) == (1 if drawn_there else 2)


def test_gradients_are_refused_in_one_line() -> None:
    made = registry.instrument("fisher").example()
    item = made.settings.prepare(made.case, Toy(), Fisher()).item  # type: ignore[arg-type]
    with pytest.raises(CapabilityError, match="gives no gradients"):
        check_needs(Toy(), Fisher().needs(item))
    check_needs(Toy(), ItemNeeds())
