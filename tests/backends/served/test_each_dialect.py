"""What each kind of server does in its own way, over the toy model: its answers, its limits, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from helpers.model_server import OPENAI, OPENAI_CHAT, STOP, VLLM, ModelServer, Routes
from helpers.model_server_llamacpp import LLAMACPP
from helpers.served_requests import TEXTS, asked
from leakmeter.backends.served.backend import ServedBackend
from leakmeter.backends.served.dialect import RequestSetting, SequenceToScore
from leakmeter.backends.served.sglang import SGLang
from leakmeter.backends.toy import Toy
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.reductions import FullDistribution, Labels, TargetLogProbs, Top
from leakmeter.core.request import Request
from leakmeter.core.tree import chunk_of
from leakmeter.errors import LeakmeterError, ModelError, ScoreError, UsageError

Load = Callable[..., ServedBackend]


def test_chat_gives_labels_of_the_first_token(served: Load) -> None:
    likeliest = Toy().score(asked(Top(20), "", TEXTS[:1]))[0].values[0, 0, :, 0].astype(int)
    chunk = asked(Labels(tuple(int(token) for token in likeliest if token < 128)[:2]), "", TEXTS[:1])
    with ModelServer(OPENAI_CHAT) as server:
        backend = served(server.model)
        answer = backend.score(chunk)[0]
        assert not backend.abilities.targets
        with pytest.raises(LeakmeterError, match="a model loaded here"):
            backend.score(asked())
    np.testing.assert_array_equal(answer.values, Toy().score(chunk)[0].values)


def test_chat_sends_text_without_start_tokens(served: Load) -> None:
    with ModelServer(OPENAI) as server:
        assert served(server.model).abilities.token_ids
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


@pytest.mark.parametrize("routes", [VLLM, LLAMACPP], ids=lambda routes: routes.dialect)
def test_rows_that_do_not_sum_to_1_are_refused(routes: Routes, served: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer(routes, max_top=-1) as server:
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


def test_tokens_that_no_grammar_forces_are_looked_up(served: Load) -> None:
    prompt, response = tuple(b"Who?"), (65, 200, STOP, 66, 67)
    with ModelServer(LLAMACPP) as server:
        dialect = served(server.model).dialect
        first = len(server.calls)
        found = dialect.target_log_probs(SequenceToScore(prompt, response))
        bodies = [call.body for call in server.calls[first:]]
    (own,) = Toy().score(chunk_of([Request((Prompt((Piece("frame", "frame", prompt),)),), response, TargetLogProbs())]))
    np.testing.assert_array_equal(found, own.values[0])
    grammars = ("<[65]>", "[ -~]+", "[ -~]+", "<[66]> <[67]>")
    assert [body["grammar"] for body in bodies] == [f"root ::= {one}" for one in grammars]
    assert [len(body["prompt"]) for body in bodies] == [4, 5, 6, 7]


def test_another_model_than_the_servers(served: Load) -> None:
    with ModelServer(LLAMACPP) as server, pytest.raises(UsageError, match="another"):
        served(f"llamacpp:{server.url}#another")


def test_the_longest_sequence_that_fits_is_scored(served: Load) -> None:
    with ModelServer(LLAMACPP, window=20) as server:
        backend = served(server.model)
        assert backend.window is not None
        fits = SequenceToScore((65,) * (backend.window - 2), (66, 67))
        assert backend.dialect.whole_rows(fits, range(3)).shape == (3, STOP + 1)


@pytest.mark.parametrize("kind", ["BF16", "Q4_1"])
def test_states_of_quantised_weights_are_not_kept(kind: str, served: Load) -> None:
    props = {**LLAMACPP.get, "/props": lambda server: {**LLAMACPP.get["/props"](server), "model_ftype": kind}}
    quantised = kind.startswith("Q")
    with ModelServer(replace(LLAMACPP, get=props)) as server:
        backend = served(server.model)
        backend.score(asked())
        assert {call.body["cache_prompt"] for call in server.calls[1:]} == {not quantised}
        first = len(server.calls)
        backend.score(asked(FullDistribution()))
        assert not any(call.body["cache_prompt"] for call in server.calls[first:])


def test_settings_are_written_into_the_same_request(served: Load) -> None:
    scored = SequenceToScore(tuple(b"Who is it? Who?"), tuple(b"Me."))
    with ModelServer(LLAMACPP) as server:
        dialect = served(server.model).dialect
        plain = dialect.target_log_probs(scored)
        setting = RequestSetting(temperature=0.5, repetition_penalty=1.3, presence_penalty=0.4, reads_cache=True)
        cached, again = (dialect.probed_log_probs(scored, setting) for _ in range(2))
        uncached = dialect.probed_log_probs(scored, RequestSetting(reads_cache=False))
        sent, probed = server.calls[-4].body, server.calls[-3].body
    for one in (cached, again, uncached):
        np.testing.assert_array_equal(one.log_probs, plain)
    assert (again.n_cached, uncached.n_cached) == (len(scored.prompt) - 1, 0)
    changed = {"temperature": 0.5, "repetition_penalty": 1.3, "repeat_penalty": 1.3, "presence_penalty": 0.4}
    assert probed == {**sent, **changed}


class SGLangs:
    """Answers as SGLang's documentation shows them, with invented numbers."""

    host = "127.0.0.1:30000"

    def __init__(self) -> None:
        self.sent: list[tuple[str, object]] = []

    def get(self, path: str) -> object:
        return {
            "v1/models": {"object": "list", "data": [{"id": "m", "object": "model", "max_model_len": 32768}]},
            "get_model_info": {"model_path": "org/m", "tokenizer_path": "org/m", "is_generation": True},
            "get_server_info": {"version": "0.5.23", "model_path": "org/m", "context_length": None},
        }[path]

    def post(self, path: str, body: dict[str, object], n_values: int = 0) -> object:
        self.sent.append((path, body))
        return {
            "text": " no",
            "output_ids": [9],
            "meta_info": {
                "id": "0a",
                "finish_reason": {"type": "length", "length": 1},
                "prompt_tokens": 5,
                "completion_tokens": 1,
                "cached_tokens": 2,
                "input_token_logprobs": [[None, 13, None], [-1.25, 14, None], [-0.5, 15, None]],
                "output_token_logprobs": [[-0.125, 9, None]],
                "input_top_logprobs": [
                    None,
                    [[-0.75, 7, None], [-1.25, 14, None]],
                    [[-0.5, 15, None], [-2.0, 8, None]],
                ],
                "output_top_logprobs": [[[-0.125, 9, None], [-3.0, 8, None]]],
            },
        }


def test_documented_answers_are_read() -> None:
    told = SGLangs()
    dialect = SGLang(told, None)  # type: ignore[arg-type]
    served = dialect.describe()
    assert (served.model, served.revision, served.server_version, served.window) == ("m", "org/m", "0.5.23", 32766)
    scored = SequenceToScore((11, 12, 13), (14, 15))
    assert dialect.target_log_probs(scored).tolist() == [-1.25, -0.5]
    assert dialect.probed_log_probs(scored, RequestSetting()).n_cached == 2
    first, second = dialect.top_rows(scored, range(2), 2)
    assert list(first.items()) == [(7, -0.75), (14, -1.25)]
    assert list(second.items()) == [(15, -0.5), (8, -2.0)]
    neutral = {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "top_p": 1.0, "top_k": -1}
    body = {
        "input_ids": [11, 12, 13, 14, 15],
        "sampling_params": {"max_new_tokens": 1, "temperature": 0.0, "min_p": 0.0, **neutral},
        "return_logprob": True,
        "logprob_start_len": 2,
        "top_logprobs_num": 0,
    }
    assert told.sent[0] == ("generate", body)
