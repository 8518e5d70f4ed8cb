"""Under a bound the prompt without context is run apart, and tells nothing of the context."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from helpers.examples import few
from helpers.measure_items import make_item
from helpers.tiny_models import backend_of, fresh_model
from leakmeter.core.drive import drive
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.request import Request
from leakmeter.core.tree import chunk_of
from leakmeter.instruments.decoding.measure import Decode
from leakmeter.privacy.decoding import Decoding, TargetLogProbsWithLoss
from leakmeter.stats import exact_draw

FRAME, QUERY = Piece("open", "frame", (1, 5, 6)), Piece("query", "query", (9, 8))
TOKENS = (7, 3, 11, 4)
CONTEXTS = {
    "three tokens": (20, 21, 22),
    "three others": (30, 31, 32),
    # The whole prompt without context is then the start of the prompt with it.
    "begins as the query does": (9, 8, 32),
    "is the query": (9, 8),
    "one token": (40,),
    "far longer": (40,) * 60,
    "none": (),
}


def told(kind: str, context: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[bytes]]:
    """Passes of the model, and the weights of the bare branch at each step, bit for bit."""
    model = fresh_model(kind)
    # A back end tries its model out once, before anything is asked.
    backend = backend_of(model)
    passes, seen = [], []

    def draw(weights: Any, bits: Any) -> Any:
        seen.append(np.asarray(weights)[0].tobytes())
        return torch.full((len(weights), 1), TOKENS[len(seen) - 1])

    model.base_model.register_forward_pre_hook(lambda *_: passes.append(1))
    monkeypatch.setattr(exact_draw, "draw", draw)
    item = make_item(Prompt((FRAME, Piece("a", "context", context), QUERY)), None)
    drive(backend, [Decode(epsilon=1.0, max_new_tokens=4, nonce=1).trial(item)])
    return len(passes), seen


@pytest.mark.parametrize("kind", few(["llama", "mamba", "gpt2", "gemma3"], 2))
def test_the_bare_branch_and_the_number_of_passes_are_the_same_for_every_context(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {name: told(kind, context, monkeypatch) for name, context in CONTEXTS.items()}
    first = found["three tokens"]
    assert first[0] == 2 * len(TOKENS)
    assert {name: one == first for name, one in found.items()} == dict.fromkeys(CONTEXTS, True)


def test_a_run_apart_shares_no_token_with_another() -> None:
    prompt = Prompt((FRAME, Piece("a", "context", CONTEXTS["begins as the query does"]), QUERY))
    for bound, n_apart in ((None, 0), (0.5, 1)):
        reduction = TargetLogProbsWithLoss(Decoding(bound_nats=bound), 0, 2)
        chunk = chunk_of([Request((prompt.blank(), prompt), (7, 3), reduction)] * 2)
        assert [branch.apart for branch in chunk.branches].count(True) == n_apart
        assert all(branch.ids.tolist() == [*prompt.blank().ids, 7] for branch in chunk.branches if branch.apart)
        assert all((branch.parent, branch.fork) == (-1, 0) for branch in chunk.branches if branch.apart)
        assert not any(chunk.branches[branch.parent].apart for branch in chunk.branches if branch.parent >= 0)
