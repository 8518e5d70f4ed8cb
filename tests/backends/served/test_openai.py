"""A server that speaks OpenAI's API over the toy model: what of the toy's numbers comes through."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from helpers.model_server import OPENAI, OPENAI_CHAT, VLLM, ModelServer
from helpers.served_requests import TEXTS, asked
from leakmeter.backends.served.backend import ServedBackend
from leakmeter.backends.toy import Toy
from leakmeter.core.reductions import Labels, Top
from leakmeter.errors import LeakmeterError

Load = Callable[..., ServedBackend]


def test_chat_gives_labels_of_the_first_token(served: Load) -> None:
    likeliest = Toy().score(asked(Top(20), "", TEXTS[:1]))[0].values[0, 0, :, 0].astype(int)
    labels = tuple(int(token) for token in likeliest if token < 128)[:2]
    with ModelServer(OPENAI_CHAT) as server:
        backend = served(server.model)
        answer = backend.score(asked(Labels(labels), "", TEXTS[:1]))[0]
        assert not backend.capabilities.targets
        with pytest.raises(LeakmeterError, match="a model loaded here"):
            backend.score(asked())
    np.testing.assert_array_equal(answer.values, Toy().score(asked(Labels(labels), "", TEXTS[:1]))[0].values)


def test_chat_sends_text_without_start_tokens(served: Load) -> None:
    with ModelServer(OPENAI) as server:
        assert served(server.model).capabilities.token_ids
    with ModelServer(OPENAI_CHAT) as server:
        dialect = served(server.model).dialect
        drawn = dialect.generate((10, *b"Say it."), n_tokens=3, temperature=0.0, seed=1, stop_ids=())
        assert server.calls[-1].body["messages"] == [{"role": "user", "content": "Say it."}]
    assert drawn.log_probs == ()


def test_a_model_may_have_a_longer_name_in_answers_but_not_two(served: Load) -> None:
    with ModelServer(OPENAI) as server:
        server.name_now = lambda call: "toy-2026-11"  # type: ignore[method-assign]
        backend = served(server.model)
        assert (backend.name, backend.served.revision) == ("openai:toy", "toy-2026-11")
        backend.score(asked())
        server.name_now = lambda call: "toy-2026-12"  # type: ignore[method-assign]
        with pytest.raises(LeakmeterError, match="another model than at the start"):
            backend.score(asked())


def test_a_server_that_speaks_neither(served: Load) -> None:
    with ModelServer(VLLM) as server, pytest.raises(LeakmeterError, match="chat/completions, answers with status 404"):
        served(server.model.replace("vllm:", "openai:"))
