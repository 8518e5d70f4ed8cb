"""A server that speaks OpenAI's API over the toy model: what of the toy's numbers comes through."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from helpers.model_server import OPENAI, OPENAI_CHAT, ModelServer
from helpers.served_requests import TEXTS, asked
from leakmeter.backends.served import ServedBackend
from leakmeter.backends.toy import Toy
from leakmeter.core.reductions import Labels, Stretch, TargetLogProbs, Top
from leakmeter.core.request import Reduction
from leakmeter.errors import LeakmeterError

Load = Callable[..., ServedBackend]


@pytest.mark.parametrize("reduction", [TargetLogProbs(), Stretch(TargetLogProbs(), 1, 2), Labels((65, 200))], ids=repr)
def test_an_echo_has_the_toys_numbers(reduction: Reduction, served: Load) -> None:
    with ModelServer(OPENAI) as server:
        backend = served(server.model)
        answers = backend.score(asked(reduction))
    assert backend.capabilities.token_ids
    for answer, own in zip(answers, Toy().score(asked(reduction)), strict=True):
        np.testing.assert_array_equal(answer.values, own.values)


def test_chat_gives_labels_of_the_first_token(served: Load) -> None:
    likeliest = Toy().score(asked(Top(20), "", TEXTS[:1]))[0].values[0, 0, :, 0].astype(int)
    labels = tuple(int(token) for token in likeliest if token < 128)[:2]
    with ModelServer(OPENAI_CHAT) as server:
        backend = served(server.model)
        answer = backend.score(asked(Labels(labels), "", TEXTS[:1]))[0]
        assert not backend.capabilities.targets
        with pytest.raises(LeakmeterError, match="load the model here"):
            backend.score(asked())
    np.testing.assert_array_equal(answer.values, Toy().score(asked(Labels(labels), "", TEXTS[:1]))[0].values)
