"""llama.cpp's dialect of the test server, as the server of the xllamacpp wheel was seen to answer."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np

from helpers.model_server import STOP, Call, ModelServer, RefusedError, Routes
from leakmeter.stats.arrays import FloatArray

_LOWEST: Final = -3.4028234663852886e38  # what it writes for −∞
_TOKEN: Final = re.compile(r"<\[(\d+)\]>")
_PRINTABLE: Final = range(0x20, 0x7F)
_UNFORCED: Final = range(0x80, STOP + 1)
"""Bytes that are no whole characters, and the token that ends a response."""


def _props(server: ModelServer) -> Any:
    told = {"model_ftype": "all F32", "build_info": "b1-test", "default_generation_settings": {"n_ctx": server.window}}
    return {"model_path": f"/home/somebody/{server.model_name}", **told}


def _models(server: ModelServer) -> Any:
    return {"data": [{"id": f"/home/somebody/{server.model_name}", "meta": {"n_vocab": STOP + 1, "size": 1}}]}


def _tokenize(server: ModelServer, call: Call) -> Any:
    assert call.body["parse_special"] is False
    return {"tokens": server.tokenized(call.body["content"])}


def _completion(server: ModelServer, call: Call) -> Any:
    body, ids = call.body, server.fed(call.body["prompt"], call)
    if len(ids) >= (server.window or 10**9):
        raise RefusedError(400, "the request exceeds the available context size")
    n, temperature = body["n_predict"], body["temperature"]
    if grammar := body.get("grammar"):
        forced = [int(token) for token in _TOKEN.findall(grammar)]
        if any(token in _UNFORCED for token in forced):
            raise RefusedError(500, "Unexpected empty grammar stack")
        # Without tokens it is the one that any printable character fits.
        given = forced[:n] or [_PRINTABLE[0]]
        rows = server.rows([*ids, *given[:-1]], call, temperature=temperature)[len(ids) - 1 :]
        drawn = list(zip(given, rows, strict=True))
    else:
        assert body["samplers"] == ["penalties", "temperature"]
        drawn = server.drawn(ids, call, n=n, temperature=temperature, seed=body["seed"])
    entries = [
        {**_pair(token, row), "top_logprobs": [_pair(one, row) for one in server.top(row, body["n_probs"], call)]}
        for token, row in drawn
        if token < 0x80
    ]
    if server.has("wrong_order", call):
        entries = entries[::-1]
    if server.has("missing_rows", call):
        entries = entries[:-1]
    told: dict[str, Any] = {
        "model": f"/home/somebody/{server.name_now(call)}",
        "tokens": [token for token, _ in drawn],
        "tokens_evaluated": len(ids),
        "timings": {"cache_n": _n_cached(server, call)},
    }
    if not server.has("echo_ignored", call):
        told["completion_probabilities"] = entries
    return {name: value for name, value in told.items() if name in body["response_fields"]}


def _pair(token: int, row: FloatArray) -> dict[str, Any]:
    # Their JSON has no NaN: it says null.
    value = None if np.isnan(row[token]) else max(float(row[token]), _LOWEST)
    return {"id": token, "bytes": [token] if token < STOP else [], "logprob": value}


def _n_cached(server: ModelServer, call: Call) -> int:
    """Tokens that a prompt shares with the one before it; the last one is always read anew."""
    if not call.body["cache_prompt"] or not call.number:
        return 0
    before, now = server.calls[call.number - 1].body["prompt"], call.body["prompt"][:-1]
    return next((i for i, token in enumerate(now) if i >= len(before) or before[i] != token), len(now))


LLAMACPP: Final = Routes(
    "llamacpp",
    get={"/props": _props, "/v1/models": _models},
    post={"/completion": _completion},
    plain_post={"/tokenize": _tokenize},
)
