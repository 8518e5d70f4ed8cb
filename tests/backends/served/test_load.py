"""A served model by its name: what is asked for before anything is sent, and which tokenizer reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import transformers

import leakmeter
from helpers.model_server import OPENAI, VLLM, ModelServer
from helpers.tiny_models import tiny_tokenizer
from leakmeter.backends.hf.tokenizer import load_tokenizer
from leakmeter.backends.served.backend import ServedBackend
from leakmeter.core.backend import Backend
from leakmeter.errors import LeakmeterError, ModelError, UnknownNameError, UsageError
from leakmeter.models import hub
from leakmeter.models.resolve import tokenizer_folder

Load = Callable[..., ServedBackend]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("vllm:127.0.0.1:8000", "needs a server's address after it, as in vllm:http://127.0.0.1:8000#NAME"),
        *((f"vllm:{given}", "needs a server's address after it") for given in ("", "file:///etc/passwd")),
        ("vllm:http://#toy", "address is not valid"),
        ("vllm:http://ana:pw@127.0.0.1#toy", "holds a name, a password"),
        ("vllm:http://llm.example.com:8000#toy", "'llm.example.com' is another machine.*--allow-remote"),
        ("vllm:http://10.0.0.7#toy", "'10.0.0.7' is another machine"),
    ],
)
def test_what_is_no_server_is_refused(model: str, words: str, served: Load) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        served(model)
    assert "pw" not in str(caught.value)


def test_who_is_told_before_texts_leave_the_machine(served: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakmeter.backends.served.load.is_loopback", lambda parts: False)
    told: list[str] = []
    with ModelServer(VLLM) as server:
        served(server.model, allow_remote=True, notify=told.append)
    host = server.url.removeprefix("http://")
    assert told == [f"sending contexts, queries and responses to '{host}' (http, NOT encrypted)"]


def test_a_model_that_the_server_does_not_have(served: Load) -> None:
    with ModelServer(VLLM) as server:
        with pytest.raises(UnknownNameError, match="did you mean 'toy'"):
            served(f"{server.model}y")
        server.model_name = "a name\nof two lines"
        with pytest.raises(UsageError, match="several models, or none"):
            served(f"vllm:{server.url}")


def test_an_address_with_and_without_its_end(served: Load) -> None:
    with ModelServer(VLLM) as server:
        for end in ("", "/", "/v1", "/v1/"):
            assert served(f"vllm:{server.url}{end}#toy").name == "vllm:toy"


def test_options_that_do_not_go_together(served: Load) -> None:
    for given, words in (
        *(({"concurrency": n}, "give 1 to 256 with --concurrency") for n in (0, -1, 1000)),
        ({"tokenizer": None}, "give --tokenizer"),
    ):
        with pytest.raises(UsageError, match=words):
            served("vllm:http://127.0.0.1:1#toy", **given)
    for option in ({"dtype": "float32"}, {"device": "cpu"}, {"memory": "1GiB"}, {"model_id": "a"}):
        with pytest.raises(UsageError, match=f"^{next(iter(option))} is for a model loaded here"):
            leakmeter.load_backend("vllm:http://127.0.0.1:1#toy", **{"tokenizer": "toy", **option})
    for option, named in (
        ({"tokenizer": "toy"}, "tokenizer is"),
        ({"allow_remote": True}, "allow_remote=True is"),
        ({"concurrency": 0}, "concurrency is"),
        ({"tokenizer": "toy", "concurrency": 3}, "tokenizer and concurrency are"),
    ):
        with pytest.raises(UsageError, match=f"^{named} for a served model"):
            leakmeter.load_backend("toy", **option)


def test_a_command_and_a_function_name_options_in_their_own_words(cli: Callable[..., Any], tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("Ana is 41.", encoding="utf-8")
    far = "vllm:http://10.1.2.3:1#toy"
    words = ("influence", "--context-file", note, "--query", "How old?", "--model", far, "--tokenizer", "toy")
    assert "; add --allow-remote to permit this" in cli(*words).err
    for call in (
        lambda: leakmeter.load_backend(far, tokenizer="toy"),
        lambda: leakmeter.Meter(far, tokenizer="toy").backend,
        lambda: leakmeter.doctor(far, tokenizer="toy"),
        lambda: leakmeter.influence(far, context="Ana is 41.", query="How old?", tokenizer="toy"),
    ):
        with pytest.raises(UsageError, match="; add allow_remote=True to permit this"):
            call()


def test_another_tokenizer_than_the_servers(served: Load) -> None:
    words = "tokenises a text differently from --tokenizer"
    with ModelServer(VLLM, faults=["other_tokenizer"]) as server, pytest.raises(ModelError, match=words):
        served(server.model)
    with ModelServer(OPENAI, faults=["other_tokenizer"]) as server:
        assert served(server.model).tokenizer.start_ids == (10,), "which does not say how it makes tokens"


def test_a_back_end_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEAKMETER_API_KEY", raising=False)
    with ModelServer(VLLM) as server:
        backend = leakmeter.load_backend(server.model, tokenizer="toy", concurrency=2)
        assert isinstance(backend, Backend)
        assert backend.weights_sha256 is None
        case = {"context": "Ana is 41.", "query": "How old is Ana?", "response": "41"}
        found = leakmeter.influence(server.model, **case, tokenizer="toy")
        own = leakmeter.influence("toy", **case)
    assert found.whole_nats == own.whole_nats
    assert found.pieces == own.pieces


def test_a_directory_with_nothing_but_a_tokenizer(tmp_path: Path) -> None:
    tiny_tokenizer().backend_tokenizer.save(str(tmp_path / "tokenizer.json"))
    read = load_tokenizer(tokenizer_folder(str(tmp_path), notify=print), "mine")
    text = "the clinic writes <s> back"
    assert read.encode_data(text, first=True).ids == tuple(
        tiny_tokenizer()(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    )


def test_generation_defaults_say_what_ends_a_response(tmp_path: Path) -> None:
    tiny_tokenizer().save_pretrained(tmp_path)
    assert load_tokenizer(tmp_path, "mine").stop_ids == {2}
    transformers.GenerationConfig(eos_token_id=[2, 5]).save_pretrained(tmp_path)
    assert load_tokenizer(tmp_path, "mine").stop_ids == {2, 5}


def test_tokenizers_that_cannot_be_read_or_are_not_there(tmp_path: Path, served: Load) -> None:
    with pytest.raises(ModelError, match=r"has no tokenizer\.json"):
        tokenizer_folder(str(tmp_path), notify=print)
    with pytest.raises(LeakmeterError, match="no model named"):
        tokenizer_folder("smolm2", notify=print)
    for text in ("{", "[]", '{"model": 3}'):
        (tmp_path / "tokenizer.json").write_text(text)
        with pytest.raises(LeakmeterError, match="could not be loaded") as caught:
            load_tokenizer(tmp_path, "mine")
        assert "\n" not in str(caught.value)
    # One out of memory is as good as one of a directory.
    with ModelServer(VLLM) as server, pytest.raises(ModelError, match="tokenises a text differently"):
        served(server.model, tokenizer=tiny_tokenizer())


def test_of_a_model_of_the_hub_no_weights_are_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def fetch(repository: str, **options: Any) -> str:
        asked.append(options)
        (tmp_path / "tokenizer.json").write_text("{}")
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_, **__: None)
    told: list[str] = []
    assert tokenizer_folder("hf:org/name@main", notify=told.append) == tmp_path
    assert told == ["fetching hf:org/name@main from the hub …"]
    assert asked[0]["revision"] == "main"
    assert "*.safetensors" not in asked[0]["allow_patterns"]
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_, **__: str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text("{}")
    assert hub.tokenizer_snapshot("org/name", None, notify=told.append) == tmp_path
    assert len(asked) == 1
