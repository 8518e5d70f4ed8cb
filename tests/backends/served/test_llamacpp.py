"""A llama.cpp server over the toy model gives the toy's own numbers, whatever tokens there are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from helpers.model_server import STOP, ModelServer
from helpers.model_server_llamacpp import LLAMACPP
from helpers.served_requests import asked
from leakmeter.backends.served.backend import ServedBackend
from leakmeter.backends.served.dialect import Scored, Setting
from leakmeter.backends.toy import Toy
from leakmeter.core.plan import plan
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.reductions import FullDistribution, TargetLogProbs
from leakmeter.core.request import FloatArray, Request
from leakmeter.errors import ScoreError, UsageError

Load = Callable[..., ServedBackend]
RESPONSES = ("yes.", "né🙂!")


def own(prompt: tuple[int, ...], response: tuple[int, ...]) -> FloatArray:
    whole = Prompt((Piece("frame", "frame", prompt),))
    return Toy().score(plan([Request((whole,), response, TargetLogProbs())]))[0].values[0]


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


def test_another_model_than_the_servers(served: Load) -> None:
    with ModelServer(LLAMACPP) as server, pytest.raises(UsageError, match="another"):
        served(f"llamacpp:{server.url}#another")


def test_the_longest_sequence_that_fits_is_scored(served: Load) -> None:
    with ModelServer(LLAMACPP, window=20) as server:
        backend = served(server.model)
        assert backend.window is not None
        fits = Scored((65,) * (backend.window - 2), (66, 67))
        assert backend.dialect.whole_rows(fits, range(3)).shape == (3, STOP + 1)


@pytest.mark.parametrize("kind", ["BF16", "Q4_1"])
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
