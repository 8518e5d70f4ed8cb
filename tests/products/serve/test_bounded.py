"""Answers under a bound for other programs, as the client package of OpenAI asks for them."""

from __future__ import annotations

import json
import socket
import stat
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
import uvicorn

from helpers.docs_blocks import blocks
from helpers.places import later
from helpers.serving import serving_of
from leakmeter.cli.serve import BoundedOptions, _bounded
from leakmeter.errors import UsageError
from leakmeter.products.serve.app import make_app, settings
from leakmeter.products.serve.bounded import KEY, BoundedCompletions, _Drawing, _n_held, api_key, routes
from leakmeter.products.serve.serving import Serving
from leakmeter.text import spans

openai = later("openai")

SECRET = "a key of the tests"
EPSILON = 0.5
QUESTION = [{"role": "user", "content": "How old is Ana?"}]
DOCUMENTS = ["Ana is 41.", {"text": "Ben is 12.", "id": "note 2"}]


@dataclass
class Served:
    """A server that answers under a bound, and a client of it."""

    serving: Serving
    bounded: BoundedCompletions
    client: Any
    model: str

    def ask(self, documents: list[Any] | None = None, **fields: Any) -> Any:
        given = {"model": self.model, "messages": QUESTION, "max_tokens": 4, **fields}
        return self.client.chat.completions.create(**given, extra_body={"documents": documents or DOCUMENTS})

    def spent(self, text: str, identity: str | None = None) -> float:
        return self.bounded.spent.nats_of(self.bounded.spent.names_of(text, identity)[-1])

    def post(self, *, headers: dict[str, str] | None = None, timeout: float = 60, **fields: Any) -> httpx.Response:
        body = {"model": self.model, "messages": QUESTION, "documents": DOCUMENTS, "max_tokens": 4, **fields}
        headers = {"authorization": f"Bearer {SECRET}"} if headers is None else headers
        return httpx.post(
            f"{self.serving.access.origin}/v1/chat/completions", json=body, headers=headers, timeout=timeout
        )


@contextmanager
def served(folder: Path, total: float = 1000.0, model: str = "toy") -> Iterator[Served]:
    bound = socket.create_server(("127.0.0.1", 0))
    port = bound.getsockname()[1]
    serving = serving_of(folder, port=port, key=SECRET, models=(model,))
    bounded = BoundedCompletions.kept_in(folder / "receipts", EPSILON, total)
    server = uvicorn.Server(settings(make_app(serving, more=routes(bounded))))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        with openai.OpenAI(api_key=SECRET, base_url=f"{serving.access.origin}/v1") as client:
            yield Served(serving, bounded, client, model)
    finally:
        server.should_exit = True
        thread.join(10)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served")) as one:
        yield one


def until(condition: Any) -> None:
    """Wait for something, ten seconds at most."""
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.01)
    pytest.fail("it did not come to be")


def test_answers_come_with_a_public_receipt_and_a_private_one_is_kept(shared: Served) -> None:
    assert [model.id for model in shared.client.models.list()] == ["toy"]
    assert shared.client.models.retrieve("toy").owned_by == "leakmeter"
    with pytest.raises(openai.NotFoundError):
        shared.client.models.retrieve("other")
    answer = shared.ask(["Cora is 33."], n=3)
    receipt = answer.leakmeter
    assert [(choice.index, choice.message.content) for choice in answer.choices] == [
        (number, one["text"]) for number, one in enumerate(receipt["responses"])
    ]
    n_tokens = sum(len(one["token_ids"]) for one in receipt["responses"])
    assert answer.usage.completion_tokens == n_tokens
    assert receipt["charged_nats"] == n_tokens * EPSILON == shared.spent("Cora is 33.")
    assert receipt["responses"][0]["guarantee"]["draws"] == {"random_bits": "operating system"}
    path = shared.bounded.receipts / f"{answer.id}.json"
    assert [stat.S_IMODE(place.stat().st_mode) for place in (path, path.parent)] == [0o600, 0o700]
    private = json.loads(path.read_bytes())
    assert len(private["responses"][0]["ledger"]["per_token"]["loss_nats"]) == len(receipt["responses"][0]["token_ids"])
    assert "Cora" not in path.read_text()


def test_an_answer_has_nothing_that_is_a_function_of_the_documents(shared: Served) -> None:
    short, long = shared.ask(["x"]), shared.ask(["A much longer text about something else. " * 3])
    assert short.usage.prompt_tokens == long.usage.prompt_tokens
    names = "model weights_sha256 dtype temperature min_new_tokens max_new_tokens text tokens token_ids bound_nats"
    assert set(short.leakmeter) == {"epsilon_nats", "epsilon_total_nats", "charged_nats", "neighbours", "responses"}
    assert set(short.leakmeter["responses"][0]) == {*names.split(), "bare_log_prob_nats", "guarantee", "samples"}
    assert set(long.model_dump()) == set(short.model_dump())


def test_a_stream_says_what_its_receipt_says(shared: Served) -> None:
    chunks = list(shared.ask(n=2, max_tokens=6, stream=True, stream_options={"include_usage": True}))
    assert len({chunk.id for chunk in chunks}) == 1
    *pieces, usage = chunks
    assert usage.choices == []
    for index in range(2):
        own = [chunk.choices[0] for chunk in pieces if chunk.choices[0].index == index]
        text = "".join(choice.delta.content or "" for choice in own)
        assert text == pieces[-1].leakmeter["responses"][index]["text"]
        assert [choice.finish_reason for choice in own if choice.finish_reason] in (["length"], ["stop"])
    assert usage.usage.completion_tokens == sum(len(one["token_ids"]) for one in pieces[-1].leakmeter["responses"])


def test_a_stop_text_ends_an_answer_and_only_what_was_drawn_is_charged(shared: Served) -> None:
    for attempt in range(40):
        text = f"Dora is {attempt}."
        answer = shared.ask([text], max_tokens=30, stop=["e", "o", " ", "a"])
        n_tokens = answer.usage.completion_tokens
        assert shared.spent(text) == n_tokens * EPSILON
        assert not any(stop in answer.choices[0].message.content for stop in "eoa ")
        if answer.choices[0].finish_reason == "stop" and n_tokens < 30:
            return
    pytest.fail("no answer came to a stop text")


def test_what_may_begin_a_stop_text_is_held_back() -> None:
    assert [_n_held("The en", stops) for stops in (["end", "x"], ["ten"], [])] == [2, 0, 0]
    assert (_n_held("ab\ufffd", ["bc"]), _n_held("aa", ["aab", "ab"])) == (2, 2)


def test_epsilon_adds_over_requests_and_restarts_and_is_refused_when_spent(tmp_path: Path) -> None:
    with served(tmp_path, total=5.0) as one:
        # The default stop token may end an answer early: what is left is filled by hand.
        one.ask(["Ana is 41."], n=2)
        left = round((5.0 - one.spent("Ana is 41.")) * 1e9)
        one.bounded.spent.charge(one.bounded.spent.names_of("Ana is 41."), left - 10**9)
    with served(tmp_path, total=5.0) as again:
        for documents in (["Ana is 41."], ["Ben is 12.", " Ana  is 41. "]):
            with pytest.raises(openai.RateLimitError) as error:
                again.ask(documents)
            assert error.value.body["code"] == "insufficient_quota"
        assert again.spent("Ben is 12.") == 0.0
        with pytest.raises(openai.RateLimitError):
            again.ask(["Ana is 41."], n=3, max_tokens=1)
        assert again.spent("Ana is 41.") == 4.0
        again.ask(["Ana is 41."], n=2, max_tokens=1)
        assert again.spent("Ana is 41.") == 5.0
        again.ask(["Ben is 12."])


def test_a_document_with_an_id_keeps_what_was_spent_when_its_text_changes(shared: Served) -> None:
    for text in ("Eva is 5.", "Eva is 6."):
        shared.ask([{"text": text, "id": "eva"}], max_tokens=1)
    assert (shared.spent("Eva is 6."), shared.spent("Eva is 6.", "eva")) == (EPSILON, 2 * EPSILON)


def test_requests_at_once_are_all_answered(shared: Served) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(shared.ask, [["Jon is 3."]] * 8))
    assert shared.spent("Jon is 3.") == EPSILON * sum(one.usage.completion_tokens for one in answers)


def test_refused_fields_are_named_and_cost_nothing(shared: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        shared.ask(["Fred is 9."], user="someone")
    assert error.value.body["param"] == "user"
    with monkeypatch.context() as patched:
        patched.setattr(shared.serving.models.use("toy").backend, "window", 40)
        with pytest.raises(openai.BadRequestError, match="window") as error:
            shared.ask(["Fred is 9."])
    assert not any(character.isdigit() for character in error.value.body["message"])
    with pytest.raises(openai.BadRequestError, match="single message"):
        shared.ask(["Fred is 9."], messages=[{"role": "system", "content": "Be short."}, *QUESTION])
    with pytest.raises(openai.NotFoundError):
        shared.ask(["Fred is 9."], model="gpt-4o")
    assert shared.spent("Fred is 9.") == 0.0


def test_the_example_of_the_documentation_is_answered(shared: Served, capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = [one.text for one in blocks("python") if one.page.name == "serve_completions.md"]
    for shown, here in (
        ("http://127.0.0.1:8000", shared.serving.access.origin),
        ("lm-…", SECRET),
        ("smollm2-135m", shared.model),
    ):
        assert shown in example
        example = example.replace(shown, here)
    exec(compile(example, "serve_completions.md", "exec", dont_inherit=True), {})
    assert float(capsys.readouterr().out.splitlines()[-1]) > 0


def test_only_the_key_lets_in(shared: Served) -> None:
    with httpx.Client(base_url=shared.serving.access.origin) as browser:
        browser.get(shared.serving.access.new_link())
        body = {"model": "toy", "messages": QUESTION, "documents": DOCUMENTS}
        assert browser.cookies
        answer = browser.post("/v1/chat/completions", json=body, headers={"x-leakmeter": "1"})
        assert answer.status_code == 401
        assert answer.json()["error"]["message"]
    assert shared.post(headers={"authorization": "Bearer wrong"}).status_code == 401
    for name, code in (("host", 421), ("origin", 403)):
        headers = {"authorization": f"Bearer {SECRET}", name: "evil.example"}
        assert shared.post(headers=headers).status_code == code


def test_a_client_that_goes_ends_the_drawing_and_stays_charged_in_full(shared: Served, monkeypatch: Any) -> None:
    n_drawn = 0
    told = _Drawing._is_over

    def slowly(self: Any, *args: Any, **kwargs: Any) -> bool:
        nonlocal n_drawn
        n_drawn += 1
        time.sleep(0.02)
        told(self, *args, **kwargs)
        return False

    monkeypatch.setattr(_Drawing, "_is_over", slowly)
    # No token of the toy model's ends the answer, so that it would go on for four seconds.
    monkeypatch.setattr(type(shared.serving.models.use("toy").backend.tokenizer), "stop_ids", frozenset())
    with shared.ask(["Gina is 8."], max_tokens=200, stream=True) as stream:
        next(iter(stream))
    until(lambda: shared.serving.queue.length == 0)
    assert n_drawn < 150
    n_drawn = 0
    with pytest.raises(httpx.ReadTimeout):
        shared.post(documents=["Hal is 8."], max_tokens=200, timeout=0.5)
    until(lambda: shared.serving.queue.length == 0)
    assert n_drawn < 150
    assert shared.spent("Gina is 8.") == shared.spent("Hal is 8.") == 200 * EPSILON


def test_a_client_that_goes_early_is_not_charged(shared: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    job, is_reached = None, threading.Event()
    tokenizer = type(shared.serving.models.use("toy").backend.tokenizer)
    encode = tokenizer.encode_joined

    def waiting_until_cancelled(self: Any, parts: Any) -> Any:
        nonlocal job
        if job is None:
            job = shared.serving.queue._running
            is_reached.set()
            assert job is not None
            assert job._stop.wait(10)
        return encode(self, parts)

    monkeypatch.setattr(tokenizer, "encode_joined", waiting_until_cancelled)
    monkeypatch.setattr(spans, "of_units", lambda *_: pytest.fail("the preparation went on"))
    body = {"model": "toy", "messages": QUESTION, "documents": ["Kim is 2."], "max_tokens": 4}
    request = httpx.Request(
        "POST",
        f"{shared.serving.access.origin}/v1/chat/completions",
        json=body,
        headers={"authorization": f"Bearer {SECRET}"},
    )
    head = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
    with socket.create_connection(("127.0.0.1", shared.serving.access.port)) as client:
        client.sendall(f"POST /v1/chat/completions HTTP/1.1\r\n{head}\r\n".encode() + request.content)
        assert is_reached.wait(10)
    until(lambda: shared.serving.queue.length == 0)
    assert (getattr(job, "state", None), shared.spent("Kim is 2.")) == ("cancelled", 0.0)
    monkeypatch.undo()
    shared.ask(["Kim is 2."], max_tokens=1)
    assert shared.spent("Kim is 2.") == EPSILON


def test_a_failure_after_the_charge_says_nothing_private_and_stays_charged(shared: Served, monkeypatch: Any) -> None:
    def failing(*_: Any, **__: Any) -> bool:
        raise ValueError("Ines is 70.")

    monkeypatch.setattr(_Drawing, "_is_over", failing)
    answer = shared.post(documents=["Ines is 70."])
    assert (answer.status_code, answer.headers["x-should-retry"]) == (500, "false")
    assert "Ines" not in answer.text
    assert shared.spent("Ines is 70.") == 4 * EPSILON
    with pytest.raises(openai.APIError, match="remain charged"):
        list(shared.ask(["Ines is 70."], stream=True))
    assert shared.spent("Ines is 70.") == 8 * EPSILON


def test_a_key_of_the_environment_is_used_and_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY, raising=False)
    (first, is_new), (second, _) = api_key(), api_key()
    assert is_new
    assert first != second
    monkeypatch.setenv(KEY, SECRET.replace(" ", "-"))
    assert api_key() == (SECRET.replace(" ", "-"), False)
    for bad in ("", "short", "with a space in the middle"):
        monkeypatch.setenv(KEY, bad)
        with pytest.raises(UsageError, match=KEY):
            api_key()


@pytest.mark.parametrize(
    ("options", "dtype", "why"),
    [
        ({"epsilon": 0.5}, None, "epsilon-total"),
        ({"epsilon_total": 5.0}, None, "give --epsilon"),
        ({"epsilon": 0.5, "epsilon_total": 5.0}, "bfloat16", "float32"),
        ({"epsilon": 0.5, "epsilon_total": 0.0}, None, "epsilon-total is 0"),
    ],
)
def test_options_that_keep_no_bound(options: dict[str, Any], dtype: str | None, why: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=why):
        _bounded(BoundedOptions(receipts=tmp_path / "kept", **options), dtype)
    for bad in ({"total": -1.0}, {"lambda_max": -1.0}, {"max_tokens": 0}, {"epsilon": 0.0}, {"epsilon": 1e9}):
        given: dict[str, Any] = {"epsilon": 0.5, "total": 1.0, **bad}
        with pytest.raises(UsageError):
            BoundedCompletions.kept_in(tmp_path / "kept", **given)
    assert not (tmp_path / "kept").exists()


@pytest.mark.long
def test_the_default_model_answers_a_chat_about_documents(tmp_path: Path) -> None:
    turns = ["Answer in a few words.", "Hello", "Hello.", "How can I reach Tobias?"]
    roles = ("system", "user", "assistant", "user")
    messages = [{"role": role, "content": text} for role, text in zip(roles, turns, strict=True)]
    texts = ["Tobias Quillmere, ferry mechanic. His number is 555-010-7788.", "The ferry leaves at nine."]
    with served(tmp_path, model="smollm2-135m") as one:
        answer = one.ask(texts, messages=messages)
        chunks = list(one.ask(["Something else."], messages=messages, stream=True))
        assert answer.usage.prompt_tokens > 20
        streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        assert streamed == chunks[-1].leakmeter["responses"][0]["text"]
        private = json.loads((one.bounded.receipts / f"{answer.id}.json").read_bytes())
        spent = private["responses"][0]["ledger"]["per_token"]["spent_nats"]
        assert 0 < max(spent) <= EPSILON
