"""SGLang's dialect of the test server, in the form that its documentation describes; no SGLang server was asked."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from helpers.model_server import Call, ModelServer, RefusedError, Routes, vllm_tokenize
from leakmeter.stats.arrays import FloatArray

_INFO: Final = {"model_path": "org/toy", "is_generation": True, "weight_version": "default"}


def _models(server: ModelServer) -> Any:
    return {"object": "list", "data": [{"id": server.model_name, "max_model_len": server.window}]}


def _generate(server: ModelServer, call: Call) -> Any:
    body, ids = call.body, server.fed(call.body["input_ids"], call)
    sampling, k = body["sampling_params"], body.get("top_logprobs_num", 0)
    n, temperature = sampling["max_new_tokens"], sampling["temperature"]
    if len(ids) + n > (server.window or 10**9):
        raise RefusedError(400, "the input is longer than the model's context length")
    how = {"temperature": temperature, "seed": sampling.get("sampling_seed", 0)}
    drawn = server.drawn(ids, call, n=n, stop_ids=sampling.get("stop_token_ids", ()), **how)
    told: dict[str, Any] = {
        "prompt_tokens": len(ids), "cached_tokens": 0, "completion_tokens": len(drawn),
        "weight_version": "other" if server.has("changed_model", call) else "default",
        "output_token_logprobs": [_triple(token, row) for token, row in drawn], "input_token_logprobs": [],
        "input_top_logprobs": [],
    }  # fmt: skip
    start = body.get("logprob_start_len", -1)
    if start >= 0 and not server.has("echo_ignored", call):
        rows = server.scored_rows(ids, call, temperature=temperature)[start:]
        told["input_token_logprobs"] = [[None, ids[start], None], *(_triple(token, row) for token, row in rows)]
        told["input_top_logprobs"] = [None, *([_triple(t, row) for t in server.top(row, k, call)] for _, row in rows)]
    return {"text": "", "output_ids": [token for token, _ in drawn], "meta_info": told}


def _triple(token: int, row: FloatArray) -> list[Any]:
    value = row[token]
    return [None if np.isnan(value) else float(value), token, None]


SGLANG: Final = Routes(
    "sglang",
    get={
        "/v1/models": _models,
        "/get_model_info": lambda server: _INFO,
        "/get_server_info": lambda server: {"version": "0.5.23"},
    },
    post={"/generate": _generate},
    plain_post={"/tokenize": vllm_tokenize},
)
