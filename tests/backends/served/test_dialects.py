"""A server of every dialect over the toy model gives the toy's own numbers, or refuses before anything is sent."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import numpy as np
import pytest

from helpers.model_server import OPENAI, STOP, VLLM, ModelServer, Routes
from helpers.model_server_llamacpp import LLAMACPP
from helpers.model_server_sglang import SGLANG
from helpers.served_requests import asked
from leakmeter.backends.served import DIALECTS
from leakmeter.backends.served.backend import ServedBackend
from leakmeter.backends.served.dialect import Dialect
from leakmeter.backends.toy import Toy
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.reductions import (
    FullDistribution,
    Labels,
    MixtureLogProbs,
    NextTokenSample,
    PartialRows,
    TargetLogProbs,
    Top,
)
from leakmeter.core.request import Reduction, Request
from leakmeter.core.tree import chunk_of
from leakmeter.errors import CapabilityError

Load = Callable[..., ServedBackend]
TOLD: list[Reduction] = [TargetLogProbs(), PartialRows(TargetLogProbs(), 1, 2), Labels((65, 66, 200)), Labels((1,))]
OF_WHOLE_ROWS: list[Reduction] = [
    FullDistribution(),
    TargetLogProbs(temperature=0.5),
    Labels((65, 200), temperature=2.0),
    MixtureLogProbs(1.5, temperature=0.7),
    PartialRows(MixtureLogProbs(0.5), 0, 2),
    NextTokenSample(0.3, context_weight=0.5),
    Top(300),
]


@pytest.mark.parametrize(
    ("routes", "max_top", "reductions", "refused"),
    [
        (VLLM, 20, [*TOLD, Top(4), Labels((7, 7))], [*OF_WHOLE_ROWS[:2], MixtureLogProbs(2.0), Top(21)]),
        (VLLM, -1, OF_WHOLE_ROWS, []),
        (SGLANG, 20, [*TOLD, Top(4), Top(100)], [*OF_WHOLE_ROWS[:2], Top(101)]),
        (LLAMACPP, 20, [*TOLD, Top(4), *OF_WHOLE_ROWS], []),
        (OPENAI, 20, TOLD[:3], []),
    ],
    ids=lambda value: getattr(value, "dialect", "") if isinstance(value, Routes) else None,
)
def test_numbers_are_the_toys(
    routes: Routes, max_top: int, reductions: list[Reduction], refused: list[Reduction], served: Load
) -> None:
    # Of whole rows sums are taken here.
    near = 1e-12 if FullDistribution() in reductions else 0.0
    with ModelServer(routes, max_top=max_top) as server:
        backend = served(server.model)
        for reduction in reductions:
            for response in ("yes.", "né🙂!") if routes is LLAMACPP else ("yes.",):
                chunk = asked(reduction, response)
                for answer, toy in zip(backend.score(chunk), Toy().score(chunk), strict=True):
                    np.testing.assert_allclose(answer.values, toy.values, rtol=0, atol=near, err_msg=repr(reduction))
        n_calls = len(server.calls)
        for reduction in refused:
            with pytest.raises(CapabilityError):
                backend.score(asked(reduction))
        assert len(server.calls) == n_calls


@pytest.mark.parametrize("routes", [VLLM, SGLANG, LLAMACPP], ids=lambda routes: routes.dialect)
def test_responses_are_drawn_by_the_server(routes: Routes, served: Load) -> None:
    prompt = tuple(b"Say something.")
    whole_prompt = Prompt((Piece("frame", "frame", prompt),))
    with ModelServer(routes) as server:
        dialect = served(server.model).dialect
        for temperature in (0.0, 1.0):
            drawn = [
                dialect.generate(prompt, n_tokens=4, temperature=temperature, seed=seed, stop_ids=[STOP])
                for seed in (*range(8), 0)
            ]
            assert drawn[0] == drawn[-1]
            assert (len(set(drawn)) == 1) == (temperature == 0.0)
            for one in drawn:
                assert 1 <= len(one.ids) <= 4
                # llama.cpp leaves out the rows of what is no whole character.
                assert (one.log_probs == ()) == (routes is LLAMACPP and any(token >= 0x80 for token in one.ids))
                if one.log_probs:
                    (own,) = Toy().score(chunk_of([Request((whole_prompt,), one.ids, TargetLogProbs())]))
                    np.testing.assert_array_equal(one.log_probs, own.values[0])
        whole = dialect.generate(prompt, n_tokens=6, temperature=1.0, seed=1, stop_ids=())
        cut = dialect.generate(prompt, n_tokens=6, temperature=1.0, seed=1, stop_ids=whole.ids[2:3])
        assert cut.ids == whole.ids[: whole.ids.index(whole.ids[2]) + 1]
        if routes is VLLM:
            body = server.calls[-1].body
            assert (body["top_p"], body["top_k"], body["min_p"], body["repetition_penalty"]) == (1.0, -1, 0.0, 1.0)
        if routes is SGLANG:
            # They are told where they are raw.
            assert not dialect.generate(prompt, n_tokens=4, temperature=0.5, seed=3, stop_ids=[STOP]).log_probs


@pytest.mark.parametrize(
    ("routes", "revision", "version"),
    [(VLLM, "org/toy", "0.32.0"), (LLAMACPP, "toy, all F32, 1 bytes", "b1-test")],
    ids=lambda value: getattr(value, "dialect", ""),
)
def test_what_the_server_says_of_itself(routes: Routes, revision: str, version: str, served: Load) -> None:
    with ModelServer(routes, max_top=7, window=200) as server:
        backend = served(server.model)
        # The model's name may be left out, and is what stands behind the last slash: paths are the server's own.
        assert served(f"{routes.dialect}:{server.url}").name == f"{routes.dialect}:toy"
        identity = dict(backend.identity)
    if routes is VLLM:
        assert (backend.abilities.most_top, backend.window) == (7, 198)
    else:
        assert (backend.served.n_vocab, backend.window) == (STOP + 1, 199)
    assert len(identity.pop("fingerprint") or "") == 16
    assert identity == {
        "served_model": "toy",
        "served_revision": revision,
        "dialect": routes.dialect,
        "server_version": version,
        "tokenizer": "toy",
    }


@pytest.mark.parametrize("name", DIALECTS)
def test_a_dialect_has_what_the_class_lists(name: str) -> None:
    kind = import_module(f"leakmeter.backends.served.{name}").DIALECT
    assert kind.name == name
    assert issubclass(kind, Dialect)
    assert not kind.__abstractmethods__
    # Whose requests can be given a setting answers by one.
    assert (kind.probed_log_probs is not Dialect.probed_log_probs) == bool(kind.controls)
    assert kind.translates == (name == "openai")
