"""What a chat completion may ask for, and that everything else is refused by its name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from helpers.toy_chat import ToyChat
from leakmeter.backends.toy import Toy
from leakmeter.instruments.decoding.measure import Decode
from leakmeter.products.serve.completions import (
    MOST_DOCUMENTS,
    MOST_MESSAGES,
    CompletionRequest,
    GivenDocument,
    RequestFieldError,
    parsed,
)
from leakmeter.text.build import PromptSettings

GIVEN: dict[str, Any] = {
    "model": "toy",
    "messages": [{"role": "user", "content": "How old is Ana?"}],
    "documents": ["Ana is 41."],
}


def asked(**fields: Any) -> CompletionRequest:
    return parsed(json.dumps({**GIVEN, **fields}).encode(), ("toy",), 7)


def refused(**fields: Any) -> RequestFieldError:
    with pytest.raises(RequestFieldError) as error:
        asked(**fields)
    return error.value


def test_what_is_not_said_has_defaults() -> None:
    found = asked()
    assert (found.n, found.max_tokens, found.temperature, found.stop, found.is_streamed) == (1, 7, 1.0, (), False)
    assert found.documents == (GivenDocument(text="Ana is 41."),)
    assert asked(max_tokens=3).max_tokens == asked(max_completion_tokens=3).max_tokens == 3
    assert asked(stop="\n").stop == ("\n",)
    assert asked(seed=None, user=None) == found


def test_fields_that_ask_for_nothing_are_taken() -> None:
    neutral = {"top_p": 1.0, "frequency_penalty": 0, "presence_penalty": 0.0, "logprobs": False, "logit_bias": {}}
    assert asked(**neutral, response_format={"type": "text"}, store=False) == asked()


REFUSED: dict[str, list[dict[str, Any]]] = {
    "seed": [{"seed": 0}],
    "top_p": [{"top_p": value} for value in (0.9, True, 10**400)],
    "logprobs": [{"logprobs": value} for value in (True, 0)],
    "top_logprobs": [{"top_logprobs": 2}],
    "frequency_penalty": [{"frequency_penalty": value} for value in (0.1, -(10**400))],
    "logit_bias": [{"logit_bias": {"5": 1}}],
    "tools": [{"tools": []}],
    "user": [{"user": "someone"}],
    "response_format": [{"response_format": {"type": "json_object"}}],
    "epsilon": [{"epsilon": 50.0}],
    "temperature": [{"temperature": t} for t in (0, 2.5, True, 10**400, -(10**400), 1e-31, 5e-324)],
    "n": [{"n": value} for value in (0, 17, 1.5, 10**400)],
    "max_tokens": [*({"max_tokens": n} for n in (10**400, 2.0, 0)), {"max_tokens": 5, "max_completion_tokens": 5}],
    "max_completion_tokens": [{"max_completion_tokens": "5"}],
    "stop": [{"stop": value} for value in (["a", "b", "c", "d", "e"], [""], 3)],
    "stream": [{"stream": "yes"}],
    "stream_options": [
        {"stream_options": {"include_usage": True}},
        {"stream": True, "stream_options": {"include_obfuscation": True}},
    ],
    "documents": [{"documents": value} for value in ([], None, ["a"] * (MOST_DOCUMENTS + 1))],
    "documents[0]": [{"documents": ["  "]}, {"documents": ["\ud800"]}],
    "documents[0].text": [{"documents": [{"id": "a"}]}],
    "documents[0].id": [{"documents": [{"text": "a", "id": 1}]}],
    "documents[0].title": [{"documents": [{"text": "a", "title": "b"}]}],
    "messages": [
        {"messages": [{"role": "user", "content": "a"}] * (MOST_MESSAGES + 1)},
        {"messages": []},
        {"messages": [{"role": "assistant", "content": "Hello"}]},
    ],
    "messages[0].role": [{"messages": [{"role": "tool", "content": "x"}]}],
    "messages[0].name": [{"messages": [{"role": "user", "content": "x", "name": "y"}]}],
    "messages[0].content[0].type": [{"messages": [{"role": "user", "content": [{"type": "image_url", "text": "x"}]}]}],
    "model": [{"model": "gpt-4o"}, {"model": None}],
}


@pytest.mark.parametrize("param", REFUSED)
def test_a_field_that_cannot_be_kept_is_refused_by_its_name(param: str) -> None:
    for fields in REFUSED[param]:
        assert refused(**fields).param == param, fields


def test_a_refusal_quotes_no_value() -> None:
    for error in (refused(user="Tobias"), refused(documents=[{"text": "Tobias", "x": "Tobias"}]), refused(stop=[1])):
        assert "Tobias" not in str(error)
    assert "\x1b" not in str(refused(**{"\x1b[2J": 1}))


def test_a_body_that_is_no_object_is_refused() -> None:
    numbers = (b'{"n": NaN}', b'{"n": 1' + b"0" * 5000 + b"}", b'{"n": 1, "n": 2}')
    for body in (b"", b"[]", b"null", b"{", *numbers, b"\xff", b"[" * 100_000, b'{"a":' * 50_000):
        with pytest.raises(RequestFieldError):
            parsed(body, ("toy",), 7)


def test_as_many_documents_and_messages_as_are_taken_are_taken() -> None:
    many = asked(documents=["a"] * MOST_DOCUMENTS, messages=GIVEN["messages"] * MOST_MESSAGES)
    assert (len(many.documents), len(many.messages)) == (MOST_DOCUMENTS, MOST_MESSAGES)
    too_many = refused(documents=["a"] * (MOST_DOCUMENTS + 1))
    assert (too_many.status, str(too_many)) == (400, "documents has 1,001 texts; 1,000 are taken at most")


def test_every_message_stays_without_the_documents() -> None:
    turns = [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": [{"type": "text", "text": "Hello"}, {"type": "text", "text": "there"}]},
        {"role": "assistant", "content": "Hello."},
        *GIVEN["messages"],
    ]
    case = asked(messages=turns, documents=["Ana is 41.", "Ben is 12."]).case
    assert all(message.fixed for message in case.messages)
    assert [message.retrieved for message in case.messages] == [(), (), (), (0, 1)]
    assert case.messages[1].parts[0].text == "Hello\nthere"
    assert [part.text for part in case.messages[3].parts] == ["Ana is 41.\n\n", "Ben is 12.\n\n", "How old is Ana?"]


@pytest.mark.parametrize(
    ("backend", "turns"), [(Toy(), []), (ToyChat(), []), (ToyChat(), [{"role": "system", "content": "Be short."}])]
)
def test_the_prompt_without_documents_is_the_same_whatever_they_are(backend: Toy, turns: list[dict[str, str]]) -> None:
    measure = Decode(epsilon=0.5, max_new_tokens=3).seeded()
    messages = [*turns, *GIVEN["messages"]]
    items = [
        PromptSettings(unit="whole").prepare(asked(messages=messages, documents=texts).case, backend, measure).item
        for texts in (["Ana is 41."], ["x"], ["  <user> \n\n", "\nBen is 12. "], ["How old is Ana?"] * 3)
    ]
    assert len({(tuple(item.blank.ids), tuple(item.blank.positions)) for item in items}) == 1
    assert len({tuple(item.prompt.ids) for item in items}) == len(items)
    if turns:
        ids = items[0].blank.ids[-200:].tolist()
        assert bytes(ids).decode(errors="replace").endswith(backend.tokenizer.render_chat(messages, answer=True))
