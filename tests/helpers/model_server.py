"""A small HTTP server over the toy model, which speaks a dialect and has faults on demand.

    with ModelServer(VLLM, faults={"nan": 3}) as server:      # from the fourth scoring request on
        backend = load_backend(server.model, tokenizer="toy")

A dialect is its name, and what it does at each path: a `Routes`. What dialects share is here: the toy's rows with the
faults that a model may have, drawing, and the faults that a connection may have. Error pages repeat all they were sent,
as some servers do: nothing of it may come through.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import numpy as np

from leakmeter.backends.toy import Toy
from leakmeter.stats import logspace
from leakmeter.stats.arrays import FloatArray

FAULTS: Final = {
    "wrong_order": "rows come back in the reverse order", "missing_rows": "the last row is left out",
    "off_by_one": "each row is that of the place before", "nan": "a log-probability is NaN",
    "cut": "the connection is cut in the middle of the answer", "busy": "429 with Retry-After",
    "slow": "the answer comes a byte at a time", "changed_model": "another model answers, under another name",
    "echo_ignored": "200, and nothing about the prompt", "no_ids": "the prompt's token ids are not told",
    "start_token": "a start token is put before the prompt",
    "tempered": "log-probabilities are those after the request's temperature",
    "scaled": "log-probabilities are multiplied by 0.97, so that rows sum to more than 1",
    "truncated": "half of the likeliest tokens that were asked for",
    "other_tokenizer": "another tokenizer than the toy's",
    "swapped_weights": "another model answers, under the same name", "unstable": "each answer is a little different",
    "company": "log-probabilities are 0.1 nats less where requests overlap",
    "late_echo": "log-probabilities of an echo come one place late, and the last one first",
    "backward_echo": "log-probabilities of an echo come in the reverse order",
    "full_echo": "the first token of an echo has a log-probability",
    "empty_echo": "a further token of an echo has no log-probability",
    "split": "the last token's log-probability is 0.1 nats less than before others",
}  # fmt: skip
START: Final = 10
STOP: Final = 256


@dataclass(frozen=True)
class Call:
    """A request as it came."""

    path: str
    body: dict[str, Any]
    headers: Mapping[str, str]
    number: int
    """Of requests that score or draw, those before."""


class RefusedError(Exception):
    """An answer with another status than 200."""

    def __init__(self, status: int, message: str = "refused", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})


@dataclass(frozen=True, eq=False)
class Routes:
    """What a dialect does at each path."""

    dialect: str
    get: Mapping[str, Callable[[ModelServer], Any]] = field(default_factory=dict)
    post: Mapping[str, Callable[[ModelServer, Call], Any]] = field(default_factory=dict)
    """Requests that score or draw; faults befall them."""
    plain_post: Mapping[str, Callable[[ModelServer, Call], Any]] = field(default_factory=dict)


class ModelServer:
    """The server; `with` starts and stops it.

    Args:
        routes: of a dialect.
        faults: see `FAULTS`; each with the number of the first scoring request that it befalls, and perhaps with that
            of the first one after it: {"nan": 0}, {"cut": (2, 4)}.
        toy: the model.
        key: the bearer token that is asked for; None for none.
        max_top: likeliest tokens of a row that may be asked for; −1 for all.
        window: most tokens.
        tls: encrypts what is sent; the address stays that of http://, and the test makes another of it.
    """

    def __init__(
        self,
        routes: Routes,
        *,
        faults: Mapping[str, int | tuple[int, int]] | Sequence[str] = (),
        toy: Toy | None = None,
        key: str | None = None,
        max_top: int = 20,
        window: int | None = 4096,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        given = faults if isinstance(faults, Mapping) else dict.fromkeys(faults, 0)
        assert set(given) <= set(FAULTS), set(given) - set(FAULTS)
        self.faults = {name: when if isinstance(when, tuple) else (when, 10**9) for name, when in given.items()}
        self.routes, self.key, self.max_top, self.window = routes, key, max_top, window
        self.tls = tls
        self.toy = toy or Toy()
        self.other = Toy(seed=1)
        self.model_name = "toy"
        self.calls: list[Call] = []
        """Requests that scored or drew, in the order in which they came."""
        self._kept: dict[tuple[Toy, tuple[int, ...]], FloatArray] = {}
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def model(self) -> str:
        """As `--model` takes it."""
        return f"{self.routes.dialect}:{self.url}#{self.model_name}"

    def start(self) -> None:
        """Start, again at the same port where it has been up before."""
        self._server = _Server(("127.0.0.1", self._port), self)
        self._port = self._server.server_address[1]
        if self.tls is not None:
            self._server.socket = self.tls.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        """Stop, and cut all connections."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server.cut_all()
            self._server = None

    def __enter__(self) -> ModelServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def has(self, fault: str, call: Call) -> bool:
        first, stop = self.faults.get(fault, (0, 0))
        return first <= call.number < stop

    def name_now(self, call: Call) -> str:
        """The model's name, as an answer tells it."""
        return "another" if self.has("changed_model", call) else self.model_name

    def fed(self, ids: Sequence[int], call: Call) -> list[int]:
        """Token ids that the model reads."""
        return [START, *ids] if self.has("start_token", call) else list(ids)

    def rows(self, ids: Sequence[int], call: Call, *, temperature: float = 1.0) -> FloatArray:
        """Log-probabilities of what follows each token, with the faults that a model may have, (token, vocab)."""
        changed = self.has("changed_model", call) or self.has("swapped_weights", call)
        toy = self.other if changed else self.toy
        logits = self._logits(toy, tuple(ids))
        if self.has("unstable", call):
            logits = logits + 0.01 * np.random.default_rng(call.number).normal(size=logits.shape)
        if self.has("tempered", call) and temperature > 0:
            logits = logits / temperature
        rows = np.asarray(logspace.log_softmax(logits))
        if self.has("scaled", call):
            rows = 0.97 * rows
        if self.has("company", call):
            time.sleep(0.002)
            rows = rows - 0.1 * (len(self.calls) > call.number + 1)
        if self.has("off_by_one", call):
            rows = np.concatenate([rows[:1], rows[:-1]])
        if self.has("nan", call):
            rows[-1] = rows[-2:-1] = np.nan
        return rows

    def _logits(self, toy: Toy, ids: tuple[int, ...]) -> FloatArray:
        """The model's own, kept: a run asks for the same sequences often."""
        if (toy, ids) not in self._kept:
            array, positions = np.asarray(ids, dtype=np.int64), np.arange(len(ids))
            rows = [toy.logits(array[:end], positions[:end]) for end in range(1, len(ids) + 1)]
            self._kept[toy, ids] = np.stack(rows)
        return self._kept[toy, ids]

    def scored_rows(self, ids: Sequence[int], call: Call, *, temperature: float = 1.0) -> list[tuple[int, FloatArray]]:
        """Each token but the first with the row that predicts it, with the faults that a list of rows may have."""
        rows = self.rows(ids, call, temperature=temperature)
        found = list(zip(ids[1:], rows[:-1], strict=True))
        if self.has("split", call):
            found[-1] = found[-1][0], found[-1][1] - 0.1
        if self.has("wrong_order", call):
            found = found[::-1]
        if self.has("missing_rows", call):
            found = found[:-1]
        return found

    def drawn(
        self, ids: Sequence[int], call: Call, *, n: int, temperature: float, seed: int, stop_ids: Sequence[int] = ()
    ) -> list[tuple[int, FloatArray]]:
        """Drawn tokens, each with the raw row that it was drawn from; the likeliest ones at temperature 0."""
        rng, found = np.random.default_rng(seed), list[tuple[int, FloatArray]]()
        while len(found) < n and not (found and found[-1][0] in (*stop_ids, STOP)):
            row = self.rows([*ids, *(token for token, _ in found)], call, temperature=temperature)[-1]
            is_greedy = temperature == 0 or np.isnan(row).any()
            p = None if is_greedy else np.exp(logspace.log_softmax(row, temperature))
            found.append((int(np.argmax(row)) if is_greedy else int(rng.choice(len(row), p=p)), row))
        return found

    def top(self, row: FloatArray, k: int, call: Call) -> list[int]:
        """Ids of the likeliest tokens of a row, all with −1."""
        k = len(row) if k == -1 else k
        k = k // 2 if self.has("truncated", call) else k
        # Most requests ask for one, and to sort every row takes longer than all else.
        ids: list[int] = [int(np.argmax(row))] if k == 1 else np.argsort(-row, kind="stable")[:k].tolist() if k else []
        return ids

    def check_top(self, k: int) -> None:
        """Refuse more of the likeliest tokens of a row than there may be asked for."""
        if self.max_top != -1 and not 0 <= k <= self.max_top:
            raise RefusedError(400, f"Requested logprobs of {k}, which is greater than max allowed: {self.max_top}")

    def tokenized(self, text: str) -> list[int]:
        """Ids of a text, without a start token."""
        data = text.lower() if "other_tokenizer" in self.faults else text
        return list(data.encode())

    def take(self, path: str, body: dict[str, Any], headers: Mapping[str, str], *, counts: bool) -> Call:
        with self._lock:
            call = Call(path, body, headers, len(self.calls))
            self.calls += [call] * counts
            return call


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], owner: ModelServer) -> None:
        self.owner = owner
        self._open: set[socket.socket] = set()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def cut_all(self) -> None:
        for one in list(self._open):
            self.shutdown_request(one)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients leave in the middle."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        owner = self.server.owner
        self._answer({path: lambda _, made=made: made(owner) for path, made in owner.routes.get.items()}, {})

    def do_POST(self) -> None:
        owner = self.server.owner
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        routes = {**owner.routes.plain_post, **owner.routes.post}
        counts = self.path in owner.routes.post
        self._answer({path: partial(route, owner) for path, route in routes.items()}, body, counts=counts)

    def _answer(self, routes: Mapping[str, Callable[[Call], Any]], body: Any, *, counts: bool = False) -> None:
        owner, status, headers = self.server.owner, 200, {}
        call = owner.take(self.path, body, dict(self.headers), counts=counts)
        try:
            if owner.key is not None and self.headers["Authorization"] != f"Bearer {owner.key}":
                raise RefusedError(401, "no such key")
            if self.path not in routes:
                raise RefusedError(404, "no such path")
            if counts and owner.has("busy", call):
                raise RefusedError(429, "busy", {"Retry-After": "0.05"})
            answer = routes[self.path](call)
        except RefusedError as refusal:
            status, headers = refusal.status, refusal.headers
            answer = {"error": {"message": refusal.message, "sent": body, "headers": dict(self.headers)}}
        content = json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": len(content), **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if counts and owner.has("cut", call):
            self.wfile.write(content[: len(content) // 2])
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        elif counts and owner.has("slow", call):
            for byte in content:
                self.wfile.write(bytes((byte,)))
                self.wfile.flush()
                time.sleep(0.02)
        else:
            self.wfile.write(content)


def finite(value: float) -> float:
    """As vLLM writes a log-probability: −∞, of which JSON has no number, as −9999."""
    return -9999.0 if value == -np.inf else float(value)


def _models(server: ModelServer) -> Any:
    one = {"id": server.model_name, "object": "model", "root": "org/toy", "max_model_len": server.window}
    return {"object": "list", "data": [one]}


def _vllm_completion(server: ModelServer, call: Call) -> Any:
    for k in (call.body.get("prompt_logprobs"), call.body.get("logprobs")):
        if k is not None:
            server.check_top(k)
    if call.body.get("logprobs", 0) < 0:
        raise RefusedError(400, "`logprobs` must be a positive value.")
    choices = [_vllm_choice(server, call, i, prompt) for i, prompt in enumerate(call.body["prompt"])]
    if server.has("wrong_order", call):
        choices = choices[::-1]
    return {"object": "text_completion", "model": server.name_now(call), "choices": choices}


def _vllm_choice(server: ModelServer, call: Call, index: int, prompt: list[int]) -> Any:
    body, ids = call.body, server.fed(prompt, call)
    n, temperature = body["max_tokens"], body.get("temperature", 1.0)
    if len(prompt) + n > (server.window or 10**9):
        raise RefusedError(400, "the prompt is too long")
    how = {"temperature": temperature, "seed": body.get("seed", 0), "stop_ids": body.get("stop_token_ids", ())}
    drawn = server.drawn(ids, call, n=n, **how)
    tokens = [token for token, _ in drawn]
    choice: dict[str, Any] = {"index": index, "text": server.toy.tokenizer.decode(tokens), "finish_reason": "length"}
    if body.get("return_token_ids"):
        choice |= {"token_ids": tokens, "prompt_token_ids": None if server.has("no_ids", call) else ids}

    def top(token: int, row: FloatArray, k: int) -> list[int]:
        return [*server.top(row, k, call), token]

    if (k := body.get("prompt_logprobs")) is not None:
        entries = [
            {str(t): {"logprob": finite(row[t]), "rank": int((row >= row[t]).sum())} for t in top(token, row, k)}
            for token, row in server.scored_rows(ids, call, temperature=temperature)
        ]
        choice["prompt_logprobs"] = None if server.has("echo_ignored", call) else [None, *entries]
    choice["logprobs"] = None
    if (k := body.get("logprobs")) is not None:
        choice["logprobs"] = {
            "tokens": [f"token_id:{token}" for token in tokens],
            "token_logprobs": [finite(row[token]) for token, row in drawn],
            "top_logprobs": [{f"token_id:{t}": finite(row[t]) for t in top(token, row, k)} for token, row in drawn],
        }
    return choice


def vllm_tokenize(server: ModelServer, call: Call) -> Any:
    ids = server.tokenized(call.body["prompt"])
    ids = [START, *ids] if call.body.get("add_special_tokens", True) else ids
    return {"tokens": ids, "count": len(ids), "max_model_len": server.window}


VLLM: Final = Routes(
    "vllm",
    get={"/v1/models": _models, "/version": lambda server: {"version": "0.32.0"}},
    post={"/v1/completions": _vllm_completion},
    plain_post={"/tokenize": vllm_tokenize},
)


def _openai_completion(server: ModelServer, call: Call) -> Any:
    (prompt,) = call.body["prompt"]
    body, ids = call.body, server.fed(prompt, call)
    n, temperature = body["max_tokens"], body["temperature"]
    drawn = server.drawn(ids, call, n=n, temperature=temperature, seed=body.get("seed", 0))
    echoes = body.get("echo", False) and not server.has("echo_ignored", call)
    scored = [*(server.scored_rows(ids, call, temperature=temperature) if echoes else []), *drawn]
    decode = server.toy.tokenizer.decode
    first: list[int] = ids[:1] if echoes else []
    values: list[float | None] = [*(None for _ in first), *(finite(row[token]) for token, row in scored)]
    if echoes:
        values = values[-1:] + values[:-1] if server.has("late_echo", call) else values
        values = values[::-1] if server.has("backward_echo", call) else values
        values[0] = -1.0 if server.has("full_echo", call) else values[0]
        values[2] = None if server.has("empty_echo", call) else values[2]
    told = {
        "tokens": [decode([token]) for token in (*first, *(token for token, _ in scored))],
        "token_logprobs": values,
    }
    text = decode([*(ids if echoes else []), *(token for token, _ in drawn)])
    choice = {"index": 0, "text": text, "logprobs": told if "logprobs" in body else None, "finish_reason": "length"}
    return {"object": "text_completion", "model": server.name_now(call), "choices": [choice]}


def _openai_chat(server: ModelServer, call: Call) -> Any:
    body, decode = call.body, server.toy.tokenizer.decode
    (message,) = body["messages"]
    ids = server.fed(server.tokenized(message["content"]), call)
    drawn = server.drawn(ids, call, n=body["max_tokens"], temperature=body["temperature"], seed=body.get("seed", 0))
    choice: dict[str, Any] = {"index": 0, "message": {"role": "assistant", "content": decode([t for t, _ in drawn])}}

    def entry(token: int, row: FloatArray) -> dict[str, Any]:
        return {"token": decode([token]), "logprob": finite(row[token])}

    if body.get("logprobs"):
        server.check_top(k := body["top_logprobs"])
        top = [[entry(t, row) for t in server.top(row, k, call)] for _, row in drawn]
        content = [{**entry(*one), "top_logprobs": few} for one, few in zip(drawn, top, strict=True)]
        choice["logprobs"] = {"content": content}
    return {"object": "chat.completion", "model": server.name_now(call), "choices": [choice]}


OPENAI: Final = Routes("openai", get={"/v1/models": _models}, post={"/v1/completions": _openai_completion})
OPENAI_CHAT: Final = Routes("openai", get={"/v1/models": _models}, post={"/v1/chat/completions": _openai_chat})
