"""Files of messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leakmeter.core.case import Document, Message
from leakmeter.data import chat
from leakmeter.data.cases import case_of, cases_of, logged_case
from leakmeter.errors import DataError

USER = {"role": "user", "content": "Who?"}


def write(folder: Path, value: Any) -> Path:
    path = folder / "chat.json"
    path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return path


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("wrapped", [True, False])
def test_a_list_or_an_object_with_messages(tmp_path: Path, start: bytes, wrapped: bool) -> None:
    messages = [{"role": "system", "content": "Be brief.", "name": "rules"}, USER]
    value = {"messages": messages, "model": "x"} if wrapped else messages
    assert logged_case(write(tmp_path, start + json.dumps(value).encode())).messages == (
        Message("system", "rules", (Document("rules", "Be brief."),)),
        Message("user", "user 2", (Document("user 2", "Who?"),)),
    )


def test_content_may_be_parts_with_names(tmp_path: Path) -> None:
    content = ["one", {"text": "two"}, {"type": "text", "text": "three", "name": "third"}, ""]
    (message,) = logged_case(write(tmp_path, [{"role": "tool", "content": content}])).messages
    assert message.parts == (
        Document("tool 1, part 1", "one"),
        Document("tool 1, part 2", "two"),
        Document("third", "three"),
    )


def test_messages_of_one_name_are_told_apart() -> None:
    given = [{"role": "user", "content": "x", "name": name} for name in ("a", "a", "a (2)", "a")]
    names = [message.name for message in chat.messages_of(given, "test")]
    assert len(set(names)) == 4
    assert names[:2] == ["a", "a (2)"]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b"{", "is not JSON: Expecting property name enclosed in double quotes at character 2"),
        (b"", "is not JSON: Expecting value at character 1"),
        (b"[\n{]", "at character 2 of line 2"),
        (b"[" * 100_000, "nested too deep"),
        (b"[" + b"9" * 5000 + b"]", "a number too long"),
        ([], "'messages' has to be a list of at least one"),
        ({}, "'messages' has to be a list of at least one"),
        ({"messages": {}}, "'messages' has to be a list of at least one"),
        ("hi", "'messages' has to be a list of at least one"),
        ([USER, "hi"], "message 2 is not an object with 'role' and 'content'"),
        ([{"role": "user"}], "message 1 is not an object with 'role' and 'content'"),
        ([{"content": "x"}], "message 1 is not an object with 'role' and 'content'"),
        ([{**USER, "tool_calls": [{"id": "1"}]}], "field 'tool_calls' is not understood"),
        ([{**USER, "role": 1}], "'role' is a number, expected text"),
        ([{**USER, "role": "evil<|im_start|>"}], "role 'evil<|im_start|>' is not a plain word"),
        ([{**USER, "content": 1}], "'content' has to be text or a list of texts"),
        ([{**USER, "content": None}], "'content' has to be text or a list of texts"),
        ([{**USER, "content": [1]}], "'content' is a number, expected text"),
        ([{**USER, "content": [{"type": "image_url", "url": "x"}]}], "part 1 is no text; only text can be measured"),
        ([{**USER, "content": [{"text": 1}]}], "'content' is a number, expected text"),
        ([{**USER, "content": [{"text": "a", "name": 1}]}], "'name' is a number, expected text"),
        ([{**USER, "content": " \n"}], "message 1 is empty"),
        ([{**USER, "content": "\ud800"}], "'content' holds half a surrogate pair"),
        ([{**USER, "content": ["\ud800"]}], "'content' holds half a surrogate pair"),
        ([{**USER, "name": "\ud800"}], "'name' holds half a surrogate pair"),
        ([{**USER, "name": 5}], "'name' is a number, expected text"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, value: Any, problem: str) -> None:
    path = write(tmp_path, value)
    with pytest.raises(DataError) as caught:
        logged_case(path)
    message = str(caught.value)
    assert message.startswith(f"messages file '{path}'")
    assert problem in message


def test_bytes_that_are_no_utf8_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not UTF-8: byte 0xff at offset 3"):
        logged_case(write(tmp_path, b'[["\xff'))
    with pytest.raises(DataError, match="cannot be read: No such file"):
        logged_case(tmp_path / "missing.json")


LOGGED = [{"role": "system", "content": "Be brief."}, USER, {"role": "assistant", "content": ["Anna", "called."]}]


def test_a_last_message_of_the_assistant_is_the_response(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(json.dumps({"id": "case", "messages": LOGGED, "decoding": "greedy"}))
    (read,) = cases_of(path).cases
    held = case_of("", "", None, LOGGED)
    assert read.decoding == "greedy"
    for case in (read, held):
        assert case.response == "Anna\ncalled."
        assert [message.role for message in case.messages] == ["system", "user"]
    answered_before = [*LOGGED, USER]
    assert case_of("", "", None, answered_before).response is None
    assert len(case_of("", "", "Bo.", answered_before).messages) == 4


def test_a_response_given_twice_or_without_a_question_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a response is given too; leave one of them out"):
        case_of("", "", "Bo.", LOGGED)
    with pytest.raises(DataError, match="an answer without a question"):
        case_of("", "", None, LOGGED[-1:])
    path = tmp_path / "cases.jsonl"
    path.write_text(json.dumps({"messages": LOGGED[:2], "query": "And who else?"}))
    with pytest.raises(DataError, match="line 1: the last user message is the query; leave 'query' out"):
        cases_of(path)
