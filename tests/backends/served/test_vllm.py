"""A vLLM server over the toy model gives the toy's own numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from helpers.model_server import VLLM, ModelServer, Routes
from helpers.served_requests import asked
from leakmeter.backends.served import ServedBackend
from leakmeter.backends.toy import Toy
from leakmeter.core.plan import plan
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.reductions import (
    FullDistribution,
    Labels,
    MixtureLogProbs,
    NextTokenSample,
    Stretch,
    TargetLogProbs,
    Top,
)
from leakmeter.core.request import Reduction, Request
from leakmeter.errors import CapabilityError, ModelError, ScoreError

Load = Callable[..., ServedBackend]


@pytest.mark.parametrize(
    "reduction",
    [
        TargetLogProbs(),
        Stretch(TargetLogProbs(), 1, 2),
        Top(4),
        Labels((65, 66, 200)),
        Labels((1,)),
        Labels((7, 7)),
    ],
    ids=repr,
)
def test_numbers_are_the_toys_to_the_last_digit(reduction: Reduction, served: Load) -> None:
    with ModelServer(VLLM) as server:
        answers = served(server.model).score(asked(reduction))
    for answer, own in zip(answers, Toy().score(asked(reduction)), strict=True):
        np.testing.assert_array_equal(answer.values, own.values)


@pytest.mark.parametrize(
    "reduction",
    [
        FullDistribution(),
        TargetLogProbs(temperature=0.5),
        Labels((65, 200), temperature=2.0),
        MixtureLogProbs(1.5, temperature=0.7),
        Stretch(MixtureLogProbs(0.5), 0, 2),
        NextTokenSample(0.3, context_weight=0.5),
        Top(300),
    ],
    ids=repr,
)
def test_whole_rows_give_what_the_model_itself_does(reduction: Reduction, served: Load) -> None:
    with ModelServer(VLLM, max_top=-1) as server:
        backend = served(server.model)
        answers = backend.score(asked(reduction))
    assert backend.capabilities.whole_rows
    assert backend.served.n_vocab == 257
    for answer, own in zip(answers, Toy().score(asked(reduction)), strict=True):
        np.testing.assert_allclose(answer.values, own.values, rtol=0, atol=1e-12)


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


@pytest.mark.parametrize(
    "reduction", [FullDistribution(), TargetLogProbs(0.5), MixtureLogProbs(2.0), Top(21)], ids=repr
)
def test_what_a_server_does_not_give_is_refused_before_anything_is_sent(reduction: Reduction, served: Load) -> None:
    with ModelServer(VLLM) as server:
        backend = served(server.model)
        n_calls = len(server.calls)
        with pytest.raises(CapabilityError):
            backend.score(asked(reduction))
        assert len(server.calls) == n_calls


def test_what_the_server_says_of_itself(served: Load) -> None:
    with ModelServer(VLLM, max_top=7, window=200) as server:
        backend = served(server.model)
        identity = dict(backend.identity)
        assert served(f"vllm:{server.url}").name == "vllm:toy"
    assert backend.capabilities.most_top == 7
    assert backend.window == 198
    assert len(identity.pop("fingerprint") or "") == 16
    assert identity == {
        "served_model": "toy",
        "served_revision": "org/toy",
        "dialect": "vllm",
        "server_version": "0.32.0",
        "tokenizer": "toy",
    }


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_responses_are_drawn_by_the_server(temperature: float, served: Load) -> None:
    prompt = tuple(b"Say something.")
    with ModelServer(VLLM) as server:
        dialect = served(server.model).dialect
        one, again = (
            dialect.generate(prompt, n_tokens=4, temperature=temperature, seed=3, stop_ids=[256]) for _ in range(2)
        )
    assert one == again
    assert 1 <= len(one.ids) <= 4
    body = server.calls[-1].body
    assert (body["top_p"], body["top_k"], body["min_p"], body["repetition_penalty"]) == (1.0, -1, 0.0, 1.0)
    whole = (Prompt((Piece("frame", "frame", prompt),)),)
    own = Toy().score(plan([Request(whole, one.ids, TargetLogProbs())]))
    np.testing.assert_array_equal(own[0].values[0], one.log_probs)


def test_a_gateway_that_lets_nothing_through_but_completions(served: Load) -> None:
    less = Routes("vllm", get={"/v1/models": VLLM.get["/v1/models"]}, post=VLLM.post)
    with ModelServer(less) as server:
        assert served(server.model).identity["server_version"] is None
