"""A served model that lies: nothing of it passes for a measurement, and nothing that it sends holds a program up.

What is consistent with a model cannot be told from one: a server that says of every token what another model would
say is that model. Everything else ends in one line, with exit code 2, and leaves nothing half-written.
"""

from __future__ import annotations

import copy
import gzip
import json
import random
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from helpers.command_line import assert_refused
from helpers.model_server import OPENAI, OPENAI_CHAT, VLLM, ModelServer, Routes
from helpers.model_server_llamacpp import LLAMACPP
from helpers.model_server_sglang import SGLANG
from helpers.raw_server import HEAD, RawServer, Script, drip, flood, whole
from helpers.served_requests import SECRET, TEXTS, asked
from helpers.table_files import write_rows
from leakmeter.backends.served import connection
from leakmeter.backends.served.backend import ServedBackend
from leakmeter.backends.served.connection import Connection
from leakmeter.backends.served.load import load_served
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.reductions import FullDistribution, TargetLogProbs, Top
from leakmeter.core.request import DrawRequest
from leakmeter.engine.storage.verify import verify
from leakmeter.errors import LeakmeterError

Cli = Callable[..., Any]
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
SLOW = "does not answer in time"
MOST_TAKEN = 1 << 26
"""Bytes of an answer that are taken, or wait in sockets, where a few were asked for."""

ANSWERS: dict[str, tuple[Script, str]] = {
    "endless chunks": (flood(CHUNKED, b"10000\r\n" + b" " * 65_536 + b"\r\n"), "more than was requested"),
    "endless body": (flood(HEAD + b"\r\n", b"[" * 65_536), "more than was requested"),
    "endless headers": (flood(HEAD, b"X: " + b"y" * 1000 + b"\r\n"), "cuts the connection"),
    "endless header": (flood(HEAD + b"X:", b"y" * 10_000), "cuts the connection"),
    "endless trailers": (flood(CHUNKED + b"2\r\n{}\r\n0\r\n", b"X: y\r\n"), "cuts the connection"),
    "endless early hints": (flood(b"", b"HTTP/1.1 103 Early\r\n\r\n"), SLOW),
    "drip of headers": (drip(HEAD, b"X: y\r\n"), SLOW),
    "drip of a status": (drip(b"HTTP/1.1 200 ", b"O"), SLOW),
    "drip of a body": (drip(HEAD + b"Content-Length: 9999\r\n\r\n", b" "), SLOW),
    "drip of progress": (drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), SLOW),
    "drip within a chunk's head": (drip(CHUNKED + b"1;", b"a"), SLOW),
    "drip of trailers": (drip(CHUNKED + b"2\r\n{}\r\n0\r\n", b"X: y\r\n"), SLOW),
    "silence": (drip(b"", b""), SLOW),
    "a bomb in gzip": (whole(gzip.compress(b"0" * 10**7), b"Content-Encoding: gzip"), "compressed"),
    "zstd": (whole(b"(\xb5/\xfd", b"Content-Encoding: zstd"), "compressed"),
    "an unknown encoding": (whole(b"{}", b"Content-Encoding: \xff"), "compressed"),
    "gzip of a transfer": (lambda _: [HEAD + b"Transfer-Encoding: gzip\r\n\r\n"], "cuts the connection"),
    "a page": (whole(b"<html>", b"Content-Type: text/html"), "not JSON"),
    "nothing": (whole(b""), "not JSON"),
    "bytes that are no text": (whole(b'"\xff"'), "not JSON"),
    "100,000 lists": (whole(b"[" * 100_000 + b"]" * 100_000), "not JSON"),
    "100,000 objects": (whole(b'{"a":' * 100_000 + b"1" + b"}" * 100_000), "not JSON"),
    "100,000 digits": (whole(b"9" * 100_000), "not JSON"),
    "no content": (lambda _: [b"HTTP/1.1 204 No\r\n\r\n"], "status 204"),
    "another protocol": (lambda _: [b"HTTP/1.1 101 Go\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"], "cuts"),
    "no protocol": (lambda _: [b"hello"], "cuts the connection"),
    "a status that there is not": (whole(b"{}", status=b"999 X"), "status 999"),
    "a length below 0": (lambda _: [HEAD + b"Content-Length: -5\r\n\r\n{}"], "cuts the connection"),
    "two lengths": (lambda _: [HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"], "cuts the connection"),
    "a length of 30 digits": (lambda _: [HEAD + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n{}"], "cuts"),
    "a chunk of 25 digits": (lambda _: [CHUNKED + b"F" * 25 + b"\r\n{}"], "cuts the connection"),
    "less than its length": (lambda _: [HEAD + b"Content-Length: 9\r\n\r\n{}"], "cuts the connection"),
    **{
        f"a redirection to {where}": (whole(b"{}", b"Location: " + where, status=b"307 T"), "it redirects")
        for where in (
            *(b"/x", b"file:///etc/passwd", b"http://[::1", b"http://169.254.169.254/", b"http://h:999999/"),
            *(b"//evil.example", b"unix:/run/x", "http://ex\u00e4mple\u202e/".encode(), b""),
        )
    },
    **{
        f"busy until {when}": (whole(b"{}", b"Connection: close\r\nRetry-After: " + when, status=b"503 X"), "503")
        for when in (
            *(b"1e400", b"9" * 5000, b"-1e400", b"nan", b"Wed, 21 Oct 0001 07:28:00 GMT"),
            *(b"Mon, 99 Foo 99999 99:99:99", b"Wed, 21 Oct 9999 23:59:59 -2359"),
            b"Wed, 21 Oct 2015 07:28:00 +99999999999999999999",
        )
    },
}
"""Answers as they come over the wire, and what is said of each."""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LEAKMETER_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(connection, "_FIRST_WAIT", 0.001)


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_that_is_none_is_one_line(name: str) -> None:
    script, words = ANSWERS[name]
    seconds = 0.1 if words == SLOW else 30.0
    with RawServer(script) as server:
        with pytest.raises(LeakmeterError, match=re.escape(words)) as caught:
            Connection(server.url, seconds=seconds, patience=0.01).post("ask", {"prompt": SECRET})
        assert server.n_taken < MOST_TAKEN
    told = str(caught.value)
    assert "\n" not in told
    assert SECRET not in told
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_more_may_come_where_more_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_MOST_BYTES", 1 << 23)
    refused = pytest.raises(LeakmeterError, match="more than was requested")
    for n_values in (10**4, 10**9):
        with RawServer(whole(b" " * 6_000_000 + b"1")) as server:
            assert Connection(server.url).post("ask", {}, n_values) == 1
            with refused:
                Connection(server.url).post("ask", {})
        with RawServer(flood(HEAD + b"\r\n", b" " * 65_536)) as server:
            with refused:
                Connection(server.url).post("ask", {}, n_values)
            assert server.n_taken < MOST_TAKEN


def test_a_server_is_sent_no_cookies_of_its_own() -> None:
    expires = b"Set-Cookie: a=b; Path=/; Expires=Wed, 99 Foo 99999999 99:99:99; Max-Age=" + b"9" * 30
    with RawServer(whole(b"{}", expires, b"Set-Cookie: c=d")) as server:
        asks = Connection(server.url)
        asks.get("x")
        assert not list(asks._client.cookies.jar)


# ---- answers with one field that is wrong ----------------------------------------------------------------------------
def nested(depth: int) -> Any:
    return json.loads("[" * depth + "1" + "]" * depth)


ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 3, 2**31, 2**63, 10**400, -(10**400), 1e308, -1e308, 0.005, -9999, "9" * 5000),
    *(float("nan"), float("inf"), float("-inf"), "", "x", "0", "-1", "\ud800", "\u202e", [], {}, [None], [[1]]),
    *({"a": 1}, nested(400), nested(900)),
)
SERVERS: dict[str, tuple[Routes, dict[str, Any]]] = {
    "vllm": (VLLM, {}),
    "vllm with whole rows": (VLLM, {"max_top": -1}),
    "llamacpp": (LLAMACPP, {}),
    "sglang": (SGLANG, {"max_top": 100}),
    "openai": (OPENAI, {}),
    "chat": (OPENAI_CHAT, {}),
}
_SLOW = ("vllm with whole rows", "llamacpp")
_NAMES = re.compile(r"\b(model|root|version|weight_version|model_path|model_ftype|build_info|size|id)$")
"""What a server calls itself."""
_DRAWN = re.compile(r"\b(token_ids|tokens|output_token_logprobs|text|content)\b")
_VALUE = re.compile(r"\b(logprob|token_logprobs|input_token_logprobs|input_top_logprobs)\b")


class Liar:
    """Routes of a dialect whose answers at one path are spoilt by a function."""

    def __init__(
        self, routes: Routes, path: str | None = None, lie: Callable[[Any], Any] = lambda a: a, since: int = 0
    ) -> None:
        self.path, self.lie, self.since = path, lie, since
        self.seen: dict[str, list[Any]] = {}
        kinds = {kind: getattr(routes, kind) for kind in ("get", "post", "plain_post")}
        spoilt = {kind: {path: self._spoiling(path, of[path]) for path in of} for kind, of in kinds.items()}
        self.routes = replace(routes, **spoilt)

    def _spoiling(self, path: str, made: Callable[..., Any]) -> Callable[..., Any]:
        def answer(server: ModelServer, *call: Any) -> Any:
            honest = made(server, *call)
            if self.path is None:
                self.seen.setdefault(path, []).append(honest)
            if path == self.path and (not call or call[0].number >= self.since):
                return self.lie(copy.deepcopy(honest))
            return honest

        return answer


def put(answer: Any, place: tuple[Any, ...], value: Any) -> Any:
    """An answer with another value at a place; the answer where it has no such place."""
    if not place:
        return value
    with suppress(LookupError, TypeError):
        at = reduce(lambda held, name: held[name], place[:-1], answer)
        at[place[-1]]
        at[place[-1]] = value
    return answer


def putting(value: Any, *place: Any) -> Callable[[Any], Any]:
    return lambda answer: put(answer, place, value)


CHOICE = ("choices", 0)


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Places in an answer; of a long list its ends and its middle."""
    yield above
    if isinstance(value, dict):
        for name, one in value.items():
            yield from places(one, (*above, name))
    elif isinstance(value, list):
        n = len(value)
        for number in sorted({0, 1, n // 2, n - 1} & set(range(n))):
            yield from places(value[number], (*above, number))


def numbers_of(model: str) -> list[Any]:
    """Everything that is asked of a served model, as numbers that can be compared."""
    backend = load_served(model, tokenizer="toy", notify=lambda line: None, seconds=5.0, patience=0.01, concurrency=1)
    has, found = backend.abilities, list[Any]()
    prompt = Prompt((Piece("frame", "frame", tuple(TEXTS[0].encode())),))
    reductions = [TargetLogProbs()] if has.targets else []
    reductions += [Top(3)] if has.token_ids and has.most_top != 0 else []  # type: ignore[list-item]
    reductions += [FullDistribution()] if has.whole_rows else []  # type: ignore[list-item]
    for reduction in reductions:
        found.append([one.values.tolist() for one in backend.score(asked(reduction))])
    found.append([one.drawn for one in backend.draw([DrawRequest(prompt, 1.0, 3, (5,), frozenset({256}))])])
    found.append(backend.identity)
    if backend.identity["fingerprint"] is not None:
        backend.confirm()
    return found


def may_differ(path: str, place: tuple[Any, ...], value: Any) -> bool:
    """Whether an answer that is spoilt there is still one that some model might give."""
    where = ".".join(map(str, place))
    if _NAMES.search(where) or _DRAWN.search(where) or (not place and path.endswith("_info")):
        return True
    return bool(_VALUE.search(where)) and isinstance(value, int | float) and value <= 0.005


@pytest.mark.parametrize(
    ("name", "n"),
    [
        *(("vllm", 5), ("sglang", 5), ("openai", 5), ("chat", 5), ("llamacpp", 2)),
        *(pytest.param(name, 60 if name in _SLOW else 300, marks=pytest.mark.long) for name in SERVERS),
    ],
)
def test_a_field_that_is_wrong_is_refused_or_changes_nothing(name: str, n: int) -> None:
    routes, how = SERVERS[name]
    liar = Liar(routes)
    with ModelServer(liar.routes, **how) as server:
        honest = numbers_of(server.model)
        spoilt = [
            (path, place, value)
            for path, answers in liar.seen.items()
            for place in places(answers[len(answers) // 2])
            for value in ODD
        ]
        for path, place, value in random.Random(n).sample(spoilt, min(n, len(spoilt))):
            liar.path, liar.lie = path, lambda answer, at=place, new=value: put(answer, at, new)
            try:
                found = numbers_of(server.model)
            except LeakmeterError as error:
                told = str(error)
                assert "\n" not in told
                assert SECRET not in told
            else:
                assert found == honest or may_differ(path, place, value), (path, place, repr(value)[:40])


def every_log_prob(value: Any) -> Callable[[Any], Any]:
    """A lie of vLLM and of OpenAI's API: all log-probabilities are one."""

    def lie(answer: Any) -> Any:
        if isinstance(answer, dict):
            return {name: value if name == "logprob" else lie(one) for name, one in answer.items()}
        if isinstance(answer, list):
            return [lie(one) for one in answer]
        return answer

    return lie


VLLM_ASK, CHAT_ASK = "/v1/completions", "/v1/chat/completions"
FORM = "does not fit its dialect"
FELL: dict[str, tuple[Routes, str, Callable[[Any], Any], str]] = {
    "all tokens alike": (VLLM, VLLM_ASK, every_log_prob(-3.0), "do not come from a language model"),
    "all tokens certain": (VLLM, VLLM_ASK, every_log_prob(0.0), "sum to more than 1"),
    "all tokens impossible": (VLLM, VLLM_ASK, every_log_prob(-9999), "do not come from a language model"),
    "rows of a dictionary": (LLAMACPP, "/completion", lambda a: {**a, "completion_probabilities": 5}, FORM),
    "fewer texts than tokens": (OPENAI, VLLM_ASK, putting([], *CHOICE, "logprobs", "tokens"), "returns other tokens"),
    "a drawn token beyond all vocabularies": (VLLM, VLLM_ASK, putting(2**40, *CHOICE, "token_ids", 0), FORM),
    "a drawn token below 0": (SGLANG, "/generate", putting(-1, "meta_info", "output_token_logprobs", 0, 1), FORM),
    "a text that is an object": (OPENAI_CHAT, CHAT_ASK, putting({"a": 1}, *CHOICE, "message", "content"), FORM),
}


@pytest.mark.parametrize("name", FELL)
def test_a_lie_that_once_passed(name: str) -> None:
    routes, path, lie, words = FELL[name]
    with ModelServer(Liar(routes, path, lie).routes) as server, pytest.raises(LeakmeterError, match=words):
        numbers_of(server.model)


def test_likeliest_tokens_that_sum_to_more_than_1() -> None:
    """An interval for T < 1 takes what they leave: nothing, and a number that is certain and wrong."""
    with ModelServer(Liar(VLLM, VLLM_ASK, every_log_prob(-0.1)).routes) as server:
        backend: ServedBackend = load_served(server.model, tokenizer="toy", notify=lambda line: None)
        with pytest.raises(LeakmeterError, match="likeliest tokens whose probabilities sum to more than 1"):
            backend.score(asked(Top(3)))


def test_a_window_that_no_model_has_is_none() -> None:
    liar = Liar(VLLM, "/v1/models")
    with ModelServer(liar.routes) as server:
        for n in (0, -5, True, 10**4000, -(10**4000), 1e9, "9"):
            liar.lie = putting(n, "data", 0, "max_model_len")
            assert load_served(server.model, tokenizer="toy", notify=lambda line: None).window is None


# ---- the command line ------------------------------------------------------------------------------------------------
OPTIONS = {"influence": (), "redact": ("--max-loss", "1")}


def impossible(answer: Any) -> Any:
    """The last token that was scored has a probability of 0; of the probes of the model's name it has not."""
    rows = answer["choices"][0]["prompt_logprobs"]
    ids = answer["choices"][0]["prompt_token_ids"]
    if rows and bytes(ids[-3:]) == b"Ana":
        rows[-1][str(ids[-1])]["logprob"] = -9999
    return answer


LIES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "another model": (lambda answer: {**answer, "model": "another"}, "another model than at the start"),
    "no number": (every_log_prob(float("nan")), "NaN"),
    "more than certain": (every_log_prob(0.5), "above 0"),
    "beyond floats": (every_log_prob(10**400), "does not fit its dialect"),
    "impossible": (impossible, "nothing tells them apart"),
    "deep": (putting(nested(900), *CHOICE, "prompt_logprobs"), "rows of log-probabilities"),
}


@pytest.fixture
def cases(tmp_path: Path) -> str:
    told = [{"id": f"c{i}", "context": f"Ana is {i}. She sings.", "query": "Who?", "response": "Ana"} for i in range(2)]
    return write_rows(tmp_path, told)


@pytest.mark.parametrize(("name", "command"), [*((name, "influence") for name in LIES), ("impossible", "redact")])
def test_a_lie_ends_a_command_in_one_line_and_leaves_nothing(name: str, command: str, cli: Cli, cases: str) -> None:
    lie, words = LIES[name]
    # The first request finds out what the server can.
    with ModelServer(Liar(VLLM, VLLM_ASK, lie, since=1).routes) as server:
        given = ("--model", server.model, "--tokenizer", "toy", "--data", cases, "--out", "runs", *OPTIONS[command])
        assert_refused(cli(command, *given), words)
    assert not Path("runs").exists()


def test_a_lie_in_the_middle_leaves_whole_parts_alone(cli: Cli, cases: str) -> None:
    def lie(answer: Any) -> Any:
        second = b"Ana is 1" in bytes(answer["choices"][0]["prompt_token_ids"])
        return every_log_prob(float("nan"))(answer) if second else answer

    with ModelServer(Liar(VLLM, VLLM_ASK, lie).routes) as server:
        given = ("--model", server.model, "--tokenizer", "toy", "--data", cases, "--out", "runs")
        # The first case is not scored beside the context of the second.
        ended = cli("influence", *given, "--concurrency", "1", "--controls", "0")
    assert (ended.code, "NaN" in ended.err) == (2, True)
    (run,) = Path("runs").iterdir()
    left = ["begun.json", "cases-00000.json", "measurements-00000.parquet"]
    assert sorted(one.name for one in run.iterdir() if not one.name.startswith(".")) == left
    assert verify(run).state == "unfinished"
