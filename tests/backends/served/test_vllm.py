"""A vLLM server over the toy model gives the toy's own numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from helpers.model_server import VLLM, ModelServer, Routes
from helpers.served_requests import asked
from leakmeter.backends.served.backend import ServedBackend
from leakmeter.backends.toy import Toy
from leakmeter.core.reductions import FullDistribution
from leakmeter.errors import ModelError, ScoreError

Load = Callable[..., ServedBackend]


def test_rows_that_do_not_sum_to_1_are_refused(served: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer(VLLM, max_top=-1) as server:
        backend = served(server.model)
        rows_of = ModelServer.rows
        monkeypatch.setattr(ModelServer, "rows", lambda *given, **more: rows_of(*given, **more) - 0.02)
        with pytest.raises(ScoreError, match="do not sum to 1"):
            backend.score(asked(FullDistribution()))


def test_a_server_of_fewer_tokens_than_the_tokenizers_is_refused(served: Load) -> None:
    with (
        ModelServer(VLLM, max_top=-1, toy=Toy(256)) as server,
        pytest.raises(ModelError, match="rows of 256 tokens and --tokenizer has 257"),
    ):
        served(server.model)
    # Rows of a padded model have more.
    with ModelServer(VLLM, max_top=-1, toy=Toy(260)) as server:
        assert served(server.model).served.n_vocab == 260


def test_a_probability_of_zero_comes_through(served: Load) -> None:
    class Certain(Toy):
        def logits(self, ids: object, positions: object) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
            found = super().logits(ids, positions)  # type: ignore[arg-type]
            found[ord("e")] = -np.inf
            return found

    with ModelServer(VLLM, toy=Certain()) as server:
        answers = served(server.model).score(asked())
    assert np.isneginf(answers[0].values[:, 1]).all()
    np.testing.assert_array_equal(answers[0].values, Certain().score(asked())[0].values)


def test_a_gateway_that_lets_nothing_through_but_completions(served: Load) -> None:
    less = Routes("vllm", get={"/v1/models": VLLM.get["/v1/models"]}, post=VLLM.post)
    with ModelServer(less) as server:
        assert served(server.model).identity["server_version"] is None
