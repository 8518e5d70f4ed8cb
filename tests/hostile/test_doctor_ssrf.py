"""Names of models that a page sends: the server loads and asks those that it was started with, and nothing else.

Otherwise a page would have it open connections to hosts and read files that only the server's machine reaches.
"""

from __future__ import annotations

import builtins
import io
import json
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import leakmeter
from helpers.model_server import VLLM, ModelServer, RefusedError, Routes
from helpers.raw_server import RawServer
from helpers.serving import CASE, HEADERS, client, events, serving_of
from leakmeter.products.serve.bounded import BoundedCompletions, routes

KEY = "k" * 20
OWN = "vllm:http://127.0.0.1:9#own"
"""A model that the server was started with."""
ROUTES = {
    "/doctor/run": {},
    **{f"/live/{what}": CASE for what in ("measure", "cut", "redact", "mix", "keep")},
    "/runs/measure": {"file": "cases.jsonl", "text": '{"context": "Ana is 41.", "query": "Age?", "response": "41"}'},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Who?"}], "documents": ["Ana."]},
}


def names(port: int, folder: Path) -> Iterator[Any]:
    """Hosts, files and spellings that the server was not started with."""
    there = f"127.0.0.1:{port}"
    for kind in ("vllm", "openai", "sglang", "llamacpp"):
        yield f"{kind}:http://{there}"
    yield from (
        *("vllm:http://169.254.169.254/latest/meta-data", "vllm:http://metadata.google.internal#x"),
        *(f"vllm:http://localhost:{port}", f"vllm:http://[::1]:{port}", f"vllm:http://0.0.0.0:{port}"),
        *(f"vllm:http://2130706433:{port}", f"vllm:http://0x7f000001:{port}", f"vllm:http://127.1:{port}"),
        *(f"vllm:http://own@{there}", f"vllm:http://127.0.0.1:9@{there}#own", f"vllm:http://127.0.0.1:9#@{there}"),
        *(f"vllm:http://{there}/../../#own", f"vllm:http://127.0.0.1:9\\@{there}#own", f"vllm://{there}"),
        *("vllm:file:///etc/passwd", "vllm:unix:/var/run/docker.sock", "vllm:gopher://127.0.0.1:9/_", "vllm:ftp://a/b"),
        *(f"http://{there}/", f"https://{there}/", "//evil.example/x", "hf:org/name", "hf:../../etc", "smollm2-135m"),
        *(f" {OWN}", f"{OWN} ", f"{OWN}/", f"{OWN}\0", f"{OWN}\n", OWN.upper(), OWN.replace("#own", "#other")),
        *(OWN.replace(*change) for change in (("#own", ""), (":9", ":09"), ("127.0.0.1", "127.0.0.1."))),
        *("toy/../toy", "TOY"),
        *("/etc/passwd", "/dev/zero", "/proc/self/environ", "~/.ssh/id_rsa", "../../../etc/passwd", ".", "..", "/"),
        *(str(folder), str(folder / "pipe"), str(folder / "model.gguf"), folder.as_uri(), f"file:{folder}", "\ud800"),
        *(5, True, ["toy"], {"model": "toy"}, "x" * 100_000),
    )


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Hosts that are looked up or connected to, and paths that are looked at."""
    found: list[str] = []

    def watch(owner: Any, name: str, place: int = 0) -> None:
        real: Callable[..., Any] = getattr(owner, name)

        def watched(*given: Any, **named: Any) -> Any:
            found.append(f"{name} {given[place]!r}")
            return real(*given, **named)

        monkeypatch.setattr(owner, name, watched)

    for name in ("connect", "connect_ex"):
        watch(socket.socket, name, 1)
    for name in ("getaddrinfo", "gethostbyname", "create_connection"):
        watch(socket, name)
    for name in ("open", "stat", "lstat", "scandir", "listdir"):
        watch(os, name)
    watch(io, "open")
    watch(builtins, "open")
    return found


@pytest.mark.parametrize("path", ROUTES)
def test_no_other_model_is_asked_or_looked_for(path: str, tmp_path: Path, places: list[str]) -> None:
    folder = tmp_path / "a model of this machine"
    folder.mkdir()
    (folder / "config.json").write_text("{}", encoding="utf-8")
    (folder / "model.gguf").write_bytes(b"GGUF")
    os.mkfifo(folder / "pipe")
    serving = serving_of(tmp_path, models=("toy", OWN), key=KEY)
    kept = BoundedCompletions.kept_in(tmp_path / "receipts", 1.0, 10.0, lambda_max=1.0, max_tokens=4)
    is_program = path.startswith("/v1/")
    headers = {"authorization": f"Bearer {KEY}"} if is_program else HEADERS
    with RawServer() as other, client(serving, more=routes(kept)) as made:
        made.get("/assets/serve.js")
        for name in names(other.port, folder):
            places.clear()
            answer = made.post(path, content=json.dumps({**ROUTES[path], "model": name}), headers=headers)
            assert answer.status_code == (404 if is_program and isinstance(name, str) else 400), name
            assert len(answer.text.splitlines()) == 1
            assert len(answer.text) < 2000
            looked = [one for one in places if not one.startswith(("connect_ex", "stat", "lstat"))]
            assert not [one for one in places if str(folder) in one], name
            assert not [one for one in looked if "connect" in one or "get" in one], name
        assert serving.queue.length == 0
        assert serving.models.loaded is None
        assert other.n_connections == 0


@pytest.mark.parametrize("path", ["/doctor/run", "/live/measure", "/runs/measure"])
def test_a_server_of_the_operators_cannot_point_elsewhere(path: str, tmp_path: Path) -> None:
    with RawServer() as other:

        def move(*_: object) -> Any:
            raise RefusedError(307, headers={"Location": f"{other.url}/v1/models"})

        moving = Routes("vllm", get={"/v1/models": move, "/version": move}, post={"/v1/completions": move})
        with ModelServer(moving) as server:
            serving = serving_of(tmp_path, models=(server.model,))
            serving.models.options = replace(serving.models.options, tokenizer="toy")
            with client(serving) as made:
                ended = events(made.post(path, json=ROUTES[path], headers=HEADERS))[-1]
        assert ended[0] == "failed"
        assert "it redirects" in ended[1]["error"]
        assert "\n" not in ended[1]["error"]
        assert other.n_connections == 0


def test_a_run_that_names_a_model_is_not_continued_with_it(tmp_path: Path) -> None:
    """What a directory of runs says of models has no server asked: only runs that this server began go on."""
    with ModelServer(VLLM) as server:
        backend = leakmeter.load_backend(server.model, tokenizer="toy", cache=False)
        run = leakmeter.influence(backend, [CASE], out=tmp_path / "runs")
        n_calls = len(server.calls)
        (run.path / "spec.json").rename(run.path / "begun.json")
        with client(serving_of(tmp_path)) as made:
            for what in ("", "/found", "/progress", "/report"):
                made.get(f"/runs/{run.path.name}{what}")
            answer = made.post(f"/runs/{run.path.name}/continue", headers=HEADERS)
            assert (answer.status_code, "only a run that this server began" in answer.text) == (400, True)
        assert len(server.calls) == n_calls
