"""The toy model's own numbers come out of answers in the form that SGLang documents."""

from __future__ import annotations

from collections.abc import Callable

from leakmeter.backends.served.backend import ServedBackend
from leakmeter.backends.served.dialect import Scored, Setting
from leakmeter.backends.served.sglang import SGLang

Load = Callable[..., ServedBackend]


class Told:
    """Answers as the documentation shows them, with invented numbers."""

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
    told = Told()
    dialect = SGLang(told, None)  # type: ignore[arg-type]
    served = dialect.describe()
    assert (served.model, served.revision, served.server_version, served.window) == ("m", "org/m", "0.5.23", 32766)
    scored = Scored((11, 12, 13), (14, 15))
    assert dialect.target_log_probs(scored).tolist() == [-1.25, -0.5]
    assert dialect.probed_log_probs(scored, Setting()).n_cached == 2
    first, second = dialect.top_rows(scored, range(2), 2)
    assert list(first.items()) == [(7, -0.75), (14, -1.25)]
    assert list(second.items()) == [(15, -0.5), (8, -2.0)]
    path, body = told.sent[0]
    assert path == "generate"
    assert body == {
        "input_ids": [11, 12, 13, 14, 15],
        "sampling_params": {
            "max_new_tokens": 1,
            "temperature": 0.0,
            "repetition_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "top_p": 1.0,
            "top_k": -1,
            "min_p": 0.0,
        },
        "return_logprob": True,
        "logprob_start_len": 2,
        "top_logprobs_num": 0,
    }
