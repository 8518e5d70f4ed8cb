"""A llama.cpp server over the toy model gives the toy's own numbers, whatever tokens there are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from helpers.model_server import STOP, ModelServer
from helpers.model_server_llamacpp import LLAMACPP
from helpers.served_requests import asked
from leakmeter.backends.served import ServedBackend
from leakmeter.backends.served.dialect import Scored, Setting
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
from leakmeter.core.request import FloatArray, Reduction, Request
from leakmeter.errors import ScoreError, UsageError

Load = Callable[..., ServedBackend]
RESPONSES = ("yes.", "né🙂!")


def own(prompt: tuple[int, ...], response: tuple[int, ...]) -> FloatArray:
    whole = Prompt((Piece("frame", "frame", prompt),))
    return Toy().score(plan([Request((whole,), response, TargetLogProbs())]))[0].values[0]


@pytest.mark.parametrize("response", RESPONSES)
@pytest.mark.parametrize(
    "reduction",
    [
        TargetLogProbs(),
        Stretch(TargetLogProbs(), 1, 3),
        Top(4),
        Labels((65, 66, 200)),
        FullDistribution(),
        TargetLogProbs(temperature=0.5),
        MixtureLogProbs(1.5, temperature=0.7),
        NextTokenSample(0.3, context_weight=0.5),
        Top(300),
    ],
    ids=repr,
)
def test_numbers_are_the_toys(reduction: Reduction, response: str, served: Load) -> None:
    with ModelServer(LLAMACPP) as server:
        answers = served(server.model).score(asked(reduction, response))
    for answer, toy in zip(answers, Toy().score(asked(reduction, response)), strict=True):
        np.testing.assert_allclose(answer.values, toy.values, rtol=0, atol=1e-12)


def test_tokens_that_no_grammar_forces_are_looked_up(served: Load) -> None:
    prompt, response = tuple(b"Who?"), (65, 200, STOP, 66, 67)
    with ModelServer(LLAMACPP) as server:
        dialect = served(server.model).dialect
        first = len(server.calls)
        found = dialect.target_log_probs(Scored(prompt, response))
        bodies = [call.body for call in server.calls[first:]]
    np.testing.assert_array_equal(found, own(prompt, response))
    assert [body["grammar"] for body in bodies] == [
        "root ::= <[65]>",
        "root ::= [ -~]+",
        "root ::= [ -~]+",
        "root ::= <[66]> <[67]>",
    ]
    assert [len(body["prompt"]) for body in bodies] == [4, 5, 6, 7]


def test_what_the_server_says_of_itself(served: Load) -> None:
    with ModelServer(LLAMACPP, window=100) as server:
        backend = served(server.model)
        # The model's name may be left out, and is what stands behind the last slash: paths are the server's own.
        assert served(f"llamacpp:{server.url}").name == "llamacpp:toy"
        with pytest.raises(UsageError, match="another"):
            served(f"llamacpp:{server.url}#another")
        identity = dict(backend.identity)
    assert backend.window == 99
    assert backend.served.n_vocab == STOP + 1
    assert len(identity.pop("fingerprint") or "") == 16
    assert identity == {
        "served_model": "toy",
        "served_revision": "toy, all F32, 1 bytes",
        "dialect": "llamacpp",
        "server_version": "b1-test",
        "tokenizer": "toy",
    }


def test_the_longest_sequence_that_fits_is_scored(served: Load) -> None:
    with ModelServer(LLAMACPP, window=20) as server:
        backend = served(server.model)
        assert backend.window is not None
        fits = Scored((65,) * (backend.window - 2), (66, 67))
        assert backend.dialect.whole_rows(fits, range(3)).shape == (3, STOP + 1)


@pytest.mark.parametrize("kind", ["all F32", "F16", "BF16", "Q4_1", "Q8_0"])
def test_states_of_quantised_weights_are_not_kept(kind: str, served: Load) -> None:
    props = {**LLAMACPP.get, "/props": lambda server: {**LLAMACPP.get["/props"](server), "model_ftype": kind}}
    quantised = kind.startswith("Q")
    with ModelServer(type(LLAMACPP)("llamacpp", props, LLAMACPP.post, LLAMACPP.plain_post)) as server:
        backend = served(server.model)
        backend.score(asked())
        assert {call.body["cache_prompt"] for call in server.calls[1:]} == {not quantised}
        first = len(server.calls)
        backend.score(asked(FullDistribution()))
        assert not any(call.body["cache_prompt"] for call in server.calls[first:])


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_responses_are_drawn_by_the_server(temperature: float, served: Load) -> None:
    prompt = tuple(b"Say something.")
    with ModelServer(LLAMACPP) as server:
        dialect = served(server.model).dialect
        drawn = [
            dialect.generate(prompt, n_tokens=3, temperature=temperature, seed=seed, stop_ids=[STOP])
            for seed in (*range(8), 0)
        ]
    assert drawn[0] == drawn[-1]
    assert (len(set(drawn)) == 1) == (temperature == 0.0)
    for one in drawn:
        # The server leaves out the rows of what is no whole character.
        assert (one.log_probs == ()) == any(token >= 0x80 for token in one.ids)
        if one.log_probs:
            np.testing.assert_array_equal(one.log_probs, own(prompt, one.ids))


def test_a_drawn_response_ends_with_the_first_stop_id(served: Load) -> None:
    prompt = tuple(b"Say something.")
    with ModelServer(LLAMACPP) as server:
        dialect = served(server.model).dialect
        whole = dialect.generate(prompt, n_tokens=6, temperature=1.0, seed=1, stop_ids=())
        cut = dialect.generate(prompt, n_tokens=6, temperature=1.0, seed=1, stop_ids=whole.ids[2:3])
    assert cut.ids == whole.ids[: whole.ids.index(whole.ids[2]) + 1]


def test_settings_are_written_into_the_same_request(served: Load) -> None:
    scored = Scored(tuple(b"Who is it? Who?"), tuple(b"Me."))
    with ModelServer(LLAMACPP) as server:
        dialect = served(server.model).dialect
        plain = dialect.target_log_probs(scored)
        setting = Setting(temperature=0.5, repetition_penalty=1.3, presence_penalty=0.4, reads_cache=True)
        cached, again = (dialect.probed_log_probs(scored, setting) for _ in range(2))
        uncached = dialect.probed_log_probs(scored, Setting(reads_cache=False))
        sent, probed = server.calls[-4].body, server.calls[-3].body
    for one in (cached, again, uncached):
        np.testing.assert_array_equal(one.log_probs, plain)
    assert (again.n_cached, uncached.n_cached) == (len(scored.prompt) - 1, 0)
    changed = {"temperature": 0.5, "repetition_penalty": 1.3, "repeat_penalty": 1.3, "presence_penalty": 0.4}
    assert probed == {**sent, **changed}


def test_rows_that_do_not_sum_to_one_are_refused(served: Load) -> None:
    with ModelServer(LLAMACPP) as server:
        dialect = served(server.model).dialect
        server.faults["tempered"] = (0, 10**9)
        scored = Scored((65,), (66,))
        halves = LLAMACPP.post["/completion"]

        def tempered(server: ModelServer, call: object) -> object:
            answer = halves(server, call)  # type: ignore[arg-type]
            for entry in answer["completion_probabilities"]:
                for one in entry["top_logprobs"]:
                    one["logprob"] /= 2
            return answer

        server.routes = type(LLAMACPP)("llamacpp", LLAMACPP.get, {"/completion": tempered}, LLAMACPP.plain_post)
        with pytest.raises(ScoreError, match="do not sum to 1"):
            dialect.whole_rows(scored, range(2))
