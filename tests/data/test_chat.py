"""Files of messages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from enum import Enum
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from leakmeter.core.case import Case, Document, Message
from leakmeter.data import chat, foreign
from leakmeter.data.cases import case_of, cases_of, logged_case
from leakmeter.data.traces import messages as traced_messages
from leakmeter.errors import DataError, UsageError
from leakmeter.text.entities import pattern

USER = {"role": "user", "content": "Who?"}


def write(folder: Path, value: Any) -> Path:
    path = folder / "chat.json"
    path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return path


def refusal(call: Callable[..., Any], *given: Any, kind: type[Exception] = DataError, **how: Any) -> str:
    with pytest.raises(kind) as caught:
        call(*given, **how)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_list_or_an_object_with_messages(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "Be brief.", "name": "rules"}, USER]
    for start, value in product((b"", b"\xef\xbb\xbf"), (messages, {"messages": messages, "model": "x"})):
        assert logged_case(write(tmp_path, start + json.dumps(value).encode())).messages == (
            Message("system", "rules", (Document("rules", "Be brief."),)),
            Message("user", "user 2", (Document("user 2", "Who?"),)),
        )
    # A message of which nothing is said goes with the context.
    assert not Message("system", "rules", ()).fixed


def test_content_may_be_parts_with_names(tmp_path: Path) -> None:
    content = ["one", {"text": "two"}, {"type": "text", "text": "three", "name": "third"}, ""]
    (message,) = logged_case(write(tmp_path, [{"role": "tool", "content": content}])).messages
    names = ("tool 1, part 1", "tool 1, part 2", "third")
    assert [message.parts[i] for i in message.retrieved] == list(map(Document, names, ("one", "two", "three")))
    assert message.text == "one\ntwo\nthree"


def test_messages_of_one_name_are_told_apart() -> None:
    given = [{"role": "user", "content": "x", "name": name} for name in ("a", "a", "a (2)", "a")]
    names = [message.name for message in chat.messages_of(given, "test")]
    assert (len(set(names)), names[:2]) == (4, ["a", "a (2)"])


NO_OBJECT = "is not an object with 'role' and 'content'"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b"{", "is not JSON: Expecting property name enclosed in double quotes at character 2"),
        (b"", "is not JSON: Expecting value at character 1"),
        (b"[\n{]", "at character 2 of line 2"),
        (b"[" * 100_000, "nested too deep"),
        (b"[" + b"9" * 5000 + b"]", "a number too long"),
        (b'[["\xff', "is not UTF-8: byte 0xff at offset 3"),
        *((of, "'messages' has to be a list of at least one") for of in ([], {}, {"messages": {}}, "hi")),
        ([USER, "hi"], f"message 2 {NO_OBJECT}"),
        *(([of], f"message 1 {NO_OBJECT}") for of in ({"role": "user"}, {"content": "x"})),
        (
            [{**USER, "tool_calls": [{"id": "1"}]}],
            "a message of role 'user' calls a tool; only the assistant's do",
        ),
        ([{**USER, "role": 1}], "'role' is a number, expected text"),
        ([{**USER, "role": "evil<|im_start|>"}], "role 'evil<|im_start|>' is none of 'system'"),
        ([{**USER, "content": None}], "'content' has to be text or a list of texts"),
        *(([{**USER, "content": [of]}], "'content' is a number, expected text") for of in (1, {"text": 1})),
        ([{**USER, "content": [{"type": "image_url", "url": "x"}]}], "part 1 is not text; only text can be measured"),
        ([{**USER, "content": [{"text": "a", "name": 1}]}], "'name' is a number, expected text"),
        ([{**USER, "content": " \n"}], "message 1 is empty"),
        *(([{**USER, "content": of}], "'content' holds half a surrogate pair") for of in ("\ud800", ["\ud800"])),
        ([{**USER, "name": "\ud800"}], "'name' holds half a surrogate pair"),
        ([{**USER, "name": 5}], "'name' is a number, expected text"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, value: Any, problem: str) -> None:
    path = write(tmp_path, value)
    said = refusal(logged_case, path)
    assert said.startswith(f"messages file '{path}'")
    assert problem in said
    assert "cannot be read: No such file" in refusal(logged_case, tmp_path / "missing.json")


LOGGED = [{"role": "tool", "content": "Anna called."}, USER, {"role": "assistant", "content": ["Anna", " called."]}]


def test_a_last_message_of_the_assistant_is_the_response(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(json.dumps({"id": "case", "messages": LOGGED, "decoding": "greedy"}))
    (read,) = cases_of(path).cases
    held = case_of("", "", None, LOGGED)
    assert read.decoding == "greedy"
    for case in (read, held):
        assert case.response == "Anna called."
        assert [message.role for message in case.messages] == ["tool", "user"]
    answered_before = [*LOGGED, USER]
    assert case_of("", "", None, answered_before).response is None
    assert len(case_of("", "", "Bo.", answered_before).messages) == 4


def test_a_response_given_twice_or_without_a_question_is_refused(tmp_path: Path) -> None:
    assert "a response is given too; leave one of them out" in refusal(case_of, "", "", "Bo.", LOGGED)
    assert "an answer and no question" in refusal(case_of, "", "", None, LOGGED[-1:])
    path = tmp_path / "cases.jsonl"
    path.write_text(json.dumps({"messages": LOGGED[:2], "query": "And who else?"}))
    assert "line 1: the last user message is the query; leave 'query' out" in refusal(cases_of, path)


TURN = "Use the notes.\nNotes:\n Anna called at nine.\nBo ate. \n\nQuestion: Who called?"


def marked(turn: str, regex: str, *more: dict[str, Any]) -> Message:
    *_, message = case_of(messages=[*more, {"role": "user", "content": turn}], context_from=regex).messages
    return message


def test_a_group_of_the_users_turn_is_context_and_the_turn_stays_as_it_is() -> None:
    patterns = ("Notes:(.*)Question:", "(Notes):(?P<context>.*)Question:", r"Notes:\s*((?:.|\n)*?)\s*Question")
    for message in (marked(TURN, regex) for regex in patterns):
        assert "".join(part.text for part in message.parts) == TURN
        assert [message.parts[i] for i in message.retrieved] == [Document("retrieved", "Anna called at nine.\nBo ate.")]
        assert {part.name for i, part in enumerate(message.parts) if i not in message.retrieved} == {"user 1"}


def test_each_match_is_a_document_and_the_last_user_message_is_the_one_that_is_looked_at() -> None:
    turn = "<d>Anna called.</d> <d> </d><d>Bo ate.</d>Who?"
    message = marked(turn, "<d>(.*?)</d>", {"role": "user", "content": "<d>No.</d>", "name": "retrieved"})
    found = [message.parts[i] for i in message.retrieved]
    assert found == [Document("retrieved (2)", "Anna called."), Document("retrieved (3)", "Bo ate.")]
    assert "".join(part.text for part in message.parts) == turn


@given(parts=st.lists(st.text("a \n()", max_size=8), min_size=1, max_size=4))
def test_nothing_of_a_turn_is_lost_or_moved(parts: list[str]) -> None:
    content = [{"text": f"{part}?"} for part in parts]
    assume(re.search(r"\([^)]*[^)\s][^)]*\)", "\n".join(one["text"] for one in content)))
    (message,) = case_of(messages=[{"role": "user", "content": content}], context_from=r"\(([^)]*)\)").messages
    assert "".join(part.text for part in message.parts) == "\n".join(f"{part}?" for part in parts)
    assert all(message.parts[i].text == message.parts[i].text.strip() for i in message.retrieved)


@pytest.mark.parametrize(
    ("regex", "problem"),
    [
        ("Notes:.*", "has no group; put the retrieved part in brackets"),
        ("(", "--context-from '(': missing )"),
        ("x" * 20_000, "is too large"),
        ("Nots:(.*)Question", "messages: --context-from finds nothing in the last user message"),
        ("Notes:( *)", "messages: --context-from finds nothing in the last user message"),
        ("(.*)", "messages: --context-from matches the whole last user message; leave the query out of the match"),
        (r"((?:a|a)*)$", "messages: --context-from took longer than 0.05 s; the usual cause"),
    ],
)
def test_a_pattern_that_says_nothing_is_refused(regex: str, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    is_endless = "a|a" in regex
    if is_endless:
        monkeypatch.setattr(pattern, "SECONDS_AT_MOST", 0.05)
    assert problem in refusal(marked, "a" * 60 + "!" if is_endless else TURN, regex, kind=UsageError)


def test_context_from_is_for_what_has_no_context(tmp_path: Path) -> None:
    twice = "gives another; leave one of them out"
    assert twice in refusal(case_of, "Anna sang.", "Who?", context_from="(.)", kind=UsageError)
    assert twice in refusal(cases_of, [{"context": "a", "query": "b"}], context_from="(.)")
    assert "no message of role 'user'" in refusal(cases_of, [{"messages": [BRIEF]}], context_from="(.)")
    (case,) = cases_of([{"query": TURN, "response": "Anna."}], context_from="Notes:(.*)Question:").cases
    assert (case.response, case.messages) == ("Anna.", (marked(TURN, "Notes:(.*)Question:"),))
    assert case_of(query=TURN, context_from="Notes:(.*)Question:").messages == case.messages
    path = tmp_path / "cases.jsonl"
    path.write_text("\n".join(json.dumps({"messages": [{"role": "user", "content": text}]}) for text in (TURN, "Hi")))
    found = cases_of(path, context_from="Notes:(.*)Question:", skip_bad=True)
    assert (len(found.cases), len(found.problems)) == (1, 1)
    assert "line 2: --context-from finds nothing" in found.problems[0]


def test_records_of_chats_without_marks_are_what_they_were() -> None:
    texts = [{"role": "user", "content": "Anna called."}, {"role": "assistant", "content": "Noted."}, *LOGGED[1:]]
    record = json.dumps(case_of(messages=texts).record())
    assert not any(name in record for name in ("retrieved", "fixed", "calls", "emission", "begun"))
    (message,) = case_of(messages=[{"role": "user", "content": TURN}], context_from="Notes:(.*)Q").record()["messages"]
    assert message["retrieved"] == (1,)


@pytest.mark.parametrize("answer", [{"choices": [{"message": {"content": "Anna."}}]}, {"response": "Anna."}, {}])
def test_a_log_of_a_completion_is_a_messages_file_too(tmp_path: Path, answer: dict[str, Any]) -> None:
    path = write(tmp_path, {"model": "m", "messages": LOGGED[:2], **answer})
    case = logged_case(path, None if answer else "Anna.")
    assert (case.response, len(case.messages)) == ("Anna.", 2)
    if answer:
        assert "has an answer, and a response is given too" in refusal(logged_case, path, "Bo.")
    several = write(tmp_path, {"messages": LOGGED[:2], "choices": [{"message": {"content": text}} for text in "ab"]})
    assert "has 2 answers; give it with --data" in refusal(logged_case, several)


def test_fields_of_a_message_that_say_nothing_are_left_aside() -> None:
    logged = {"role": "assistant", "content": "Anna.", "refusal": None, "tool_calls": [], "function_call": None}
    assert case_of(messages=[USER, logged]).response == "Anna."


class Role(str, Enum):  # noqa: UP042 (what a text of it shows is not its value)
    """As LlamaIndex has it."""

    USER = "user"


def test_messages_of_llamaindex_are_understood() -> None:
    asked = {"role": Role.USER, "additional_kwargs": {}, "blocks": [{"block_type": "text", "text": "Who?"}]}
    system = {"role": "system", "additional_kwargs": {}, "blocks": [{"block_type": "text", "text": "Anna called."}]}
    case = case_of(messages=[system, asked], context_from="system")
    said = [(message.role, message.parts[0].text) for message in case.messages]
    assert said == [("system", "Anna called."), ("user", "Who?")]
    assert (case.messages[1].name, case.has_only_system_context) == ("user 2", True)
    for bad, problem in (
        ({**asked, "blocks": [{"block_type": "image", "url": "x"}]}, "only text can be measured"),
        (
            {**asked, "additional_kwargs": {"tool_calls": [1]}},
            "a message of role 'user' calls a tool; only the assistant's do",
        ),
    ):
        assert problem in refusal(case_of, messages=[system, bad], context_from="system")


BRIEF, TOOL = {"role": "system", "content": "Be brief."}, {"role": "tool", "content": "Anna called."}


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([BRIEF], True), ([{**BRIEF, "role": "developer"}], True), ([{**BRIEF, "name": "notes"}], False),
        ([BRIEF, TOOL], False), ([TOOL], False), ([], False),
    ],
)  # fmt: skip
def test_a_system_prompt_alone_is_refused(tmp_path: Path, others: list[dict[str, str]], expected: bool) -> None:
    """In a call, in data and in a file of messages; unless it is said what is context."""
    messages = [*others, {"role": "user", "content": "Notes: Anna called. Who called?"}]
    path = write(tmp_path, messages)
    for read in (
        lambda **more: case_of(messages=messages, **more),
        lambda **more: cases_of([{"messages": messages}], **more).cases[0],
        lambda **more: logged_case(path, **more),
    ):
        if expected:
            said = refusal(read)
            assert "the system prompt is the only context" in said
            assert "--context-from REGEX, or give --context-from system" in said
            assert "Anna" not in said
            assert read(context_from="system").has_only_system_context
        else:
            assert not read().has_only_system_context
        assert not read(context_from=r"Notes:(.*)Who").has_only_system_context
    if expected:
        assert cases_of([{"messages": messages}, {"messages": LOGGED}], skip_bad=True).problems


def test_the_system_prompt_is_meant_and_all_else_stays() -> None:
    before = [{"role": role, "content": "Good day."} for role in ("user", "assistant")]
    case = case_of(messages=[BRIEF, *before, TOOL, USER], context_from="system")
    # Beside the system prompt, what was read is context.
    assert [message.fixed for message in case.messages] == [False, True, True, True, True]
    assert [document.name for document in case.context_documents] == ["system 1", "tool 4"]
    # A system prompt and a question alone are the case that they are without a word.
    (bare,) = cases_of([Case("case", messages=case_of(messages=[BRIEF, USER], context_from="system").messages)]).cases
    assert [message.fixed for message in bare.messages] == [False, False]
    for messages in ([TOOL, USER], [USER]):
        said = refusal(case_of, messages=messages, context_from="system")
        assert "--context-from system measures the message of role 'system'" in said
    said = refusal(case_of, messages=[BRIEF, USER], context_from="sytem", kind=UsageError)
    assert re.search("has no group; put .*, or give 'system' for the system prompt", said)
    rows = [{"messages": [BRIEF, USER]}, {"messages": [TOOL, USER]}]
    (case,) = cases_of(rows, context_from="system", skip_bad=True).cases
    assert case.messages[0].role == "system"


@pytest.mark.parametrize(
    "message",
    [
        {"role": "tool", "content": "Anna called."},
        {"role": "tool", "parts": [{"type": "text", "content": "Anna called."}]},
        {"role": "tool", "contents": [{"message_content": {"type": "text", "text": "Anna called."}}]},
        {"role": "tool", "blocks": [{"block_type": "text", "text": "Anna called."}]},
        {"type": "tool", "data": {"content": "Anna called."}},
        {"lc": 1, "type": "constructor", "id": ["messages", "ToolMessage"], "kwargs": {"content": "Anna called."}},
        {"message": {"role": "tool", "content": [{"type": "input_text", "text": "Anna called."}]}},
        ["tool", "Anna called."],
    ],
)
def test_cases_logs_and_traces_read_the_same_messages(message: Any) -> None:
    (first, _) = case_of(messages=[message, USER]).messages
    logged, _ = foreign.messages_of([message, USER])
    traced, _ = traced_messages.messages_of([message, USER])
    assert (first.role, first.parts[0].text) == (logged["role"], logged["content"]) == (traced.role, traced.content)
    assert first.parts[0].text == "Anna called."
