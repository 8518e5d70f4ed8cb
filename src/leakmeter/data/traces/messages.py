"""Messages of prompts and replies to them, as clients, frameworks and conventions write them: roles and texts, calls of
tools, and what was read.

What is said, called and read in a message is known to `data.conversation`. Here each prompt stays what it was, message
by message, so that a place in it is a place in what was sent.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Final

from leakmeter.core.case import SYSTEM_ROLES, ToolCall
from leakmeter.core.plain import half_pair
from leakmeter.data import foreign
from leakmeter.data.api_errors import is_event_stream
from leakmeter.data.conversation import ConversationEntry, documents_within, entries_of
from leakmeter.data.foreign import ROLES, first, joined_answer, name_of, parsed, turn_of
from leakmeter.data.traces.answer import LoggedMessage, ReadText, Reason, Unusable
from leakmeter.data.traces.plainly import is_record
from leakmeter.errors import DataError
from leakmeter.text.turns import PART_SEPARATOR, SEPARATOR

_ROLE = re.compile(r"[a-z][a-z_]*")
_BEGINS_MESSAGES = re.compile(
    r'\[\s*\{.*"(?:role|parts|content|type|message)"\s*:|\{\s*"(?:role|messages|choices)"\s*:', re.DOTALL
)
_ANSWERS = ("answer", "result", "response", "output", "text", "output_text")
_OF_TOOLS: Final = ("tool", "function")
_OF_SERVERS: Final = {
    "server_tool_call": ("tool_call", "arguments"),
    "server_tool_call_response": ("tool_call_response", "response"),
}
"""Parts whose content stands under the name of their type, by that of others, and where these have it."""


def messages_of(value: object) -> list[LoggedMessage]:
    """The messages of a prompt; `Unusable` where there are none, or they say more than texts. Knows lists of messages
    with `role` or `type` and `content` or `parts`, and of items; LangChain's `kwargs` and `data`, and its batches of
    one; a record that has such a list as `messages`; each as JSON text too."""
    value = parsed(value)
    if isinstance(value, str):
        raise Unusable(Reason.INCOMPLETE if _is_cut(value) else Reason.RAW_PROMPT)
    instructions: object = None
    if is_record(value):
        held = next((value[name] for name in ("messages", "chat_history") if value.get(name)), None)
        if held is None and isinstance(parsed(value.get("input")), list):
            held = value["input"]
        if held is None:
            if "prompts" in value or isinstance(value.get("prompt"), str):
                raise Unusable(Reason.RAW_PROMPT)
            held = [value] if "content" in value or "parts" in value else None
        else:
            # Some requests have them beside the messages.
            instructions = first(value, "system", "instructions")
        value = parsed(held)
    while isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
        value = value[0]
    if not isinstance(value, list) or not value:
        raise Unusable(Reason.NO_PROMPT)
    tools = _Tools()
    messages = [message for logged in value for message in _messages(parsed(logged), tools)]
    if instructions is not None:
        beside = _messages({"role": "system", "content": instructions}, _Tools())
        told = {message.content for message in messages if message.role in SYSTEM_ROLES}
        messages = [*(message for message in beside if message.content not in told), *messages]
    return [message for turn in groupby(messages, key=_role) for message in _as_turn(list(turn[1]))]


def _is_cut(text: str) -> bool:
    """Whether a text that is no JSON begins as messages in JSON do. A model may write JSON that was cut: only what has
    the fields of messages is taken for them."""
    return _BEGINS_MESSAGES.match(text.lstrip()) is not None


def _role(message: LoggedMessage) -> str:
    return message.role


def _as_turn(messages: list[LoggedMessage]) -> list[LoggedMessage]:
    """Messages of one role; those of the assistant's that call tools as one, as where each call is an item."""
    calls = tuple(call for message in messages for call in message.calls)
    if len(messages) == 1 or not calls:
        return messages
    return [
        LoggedMessage("assistant", joined_answer(message.content for message in messages if message.content), calls)
    ]


def checked(messages: Sequence[LoggedMessage]) -> tuple[LoggedMessage, ...]:
    """The messages, if a chat template can write them; `Unusable` of a role that is no plain word, or where nobody
    asks."""
    if any(not _ROLE.fullmatch(message.role) for message in messages):
        raise Unusable(Reason.BAD_ROLE)
    if all(message.role != "user" for message in messages):
        raise Unusable(Reason.NO_QUESTION)
    for message in messages:
        _check_unicode(message)
    return tuple(messages)


def _check_unicode(message: LoggedMessage) -> None:
    texts = (message.content, *(text for call in message.calls for text in (call.name, call.arguments)))
    if any(half_pair(text) is not None for text in texts):
        raise Unusable(Reason.NOT_UNICODE)


@dataclass(frozen=True, slots=True)
class LoggedReply:
    """What a call emitted in one go."""

    text: str
    ended: str | None = None
    """Why it ended, where that is known."""
    calls: tuple[ToolCall, ...] = ()
    before: tuple[LoggedMessage, ...] = ()
    """What stands before it in the same choice: calls of tools that the model's server ran, and their results."""
    continues: bool = False
    """Whether that follows the reply before it, which it begins with."""
    reasoning: str = ""
    """What the model thought before it; no later prompt has it."""


def replies_of(value: object) -> tuple[list[LoggedReply], dict[str, str]]:
    """What a call answered, and by the ids of calls in it their tools; `Unusable` where there is neither text nor a
    call. Knows texts, messages, items, chat completions with `choices`, Gemini's `candidates`, LangChain's
    `generations`, records with an `answer`; each as JSON text too. Each choice is a reply, and what stands behind a
    result within it another."""
    inner = parsed(value)
    # A model may write JSON: only what is a message or a list of them is taken for more than the text.
    is_text = isinstance(value, str) and not _is_message(inner)
    if isinstance(inner, str) and _is_cut(inner):
        raise Unusable(Reason.INCOMPLETE)
    if isinstance(inner, str) and is_event_stream(inner):
        raise Unusable(Reason.STREAM)
    tools = _Tools()
    replies = _replies(value if is_text else inner, tools, 0)
    if not any(reply.text.strip() or reply.calls for reply in replies):
        raise Unusable(Reason.NO_ANSWER)
    for reply in replies:
        for message in (*reply.before, LoggedMessage("assistant", reply.text, reply.calls)):
            _check_unicode(message)
    return replies, tools.of_call


# --- what was logged as one message -----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Tools:
    """Which tool each result is of, as far as a prompt says it."""

    of_call: dict[str, str] = field(default_factory=dict)
    waiting: deque[str] = field(default_factory=deque)
    """Of calls without an id whose results did not come yet."""

    def add(self, call: ConversationEntry) -> None:
        if call.call_id is None:
            self.waiting.append(call.name)
        else:
            self.of_call[call.call_id] = call.name

    def of(self, result: Sequence[ConversationEntry]) -> str:
        first = result[0]
        own = first.name if len(result) == 1 else ""
        tool = self.of_call.get(first.call_id or "") or own
        if self.waiting and tool in ("", self.waiting[0]):
            tool = self.waiting.popleft()
        return tool


def _messages(logged: object, tools: _Tools) -> Iterator[LoggedMessage]:
    """Several where a message holds results of tools beside what it says."""
    for message, _ in _with_thoughts(logged, tools):
        yield message


def _with_thoughts(logged: object, tools: _Tools) -> Iterator[tuple[LoggedMessage, str]]:
    """The same, each with what the model thought before it."""
    role, entries = _entries(logged)
    thoughts: list[str] = []
    is_empty = True
    for (kind, _), group in groupby(entries, key=_kind):
        held = list(group)
        if kind == "said":
            thoughts += (entry.text for entry in held if entry.kind == "reasoning")
            calls = [entry for entry in held if entry.kind == "call"]
            for call in calls:
                tools.add(call)
            said = joined_answer(entry.text for entry in held if entry.kind == "answer")
            if len(held) == sum(entry.kind == "reasoning" for entry in held):
                continue
            message = LoggedMessage("assistant", said, tuple(ToolCall(call.name, call.text) for call in calls))
            yield message, joined_answer(thoughts)
            thoughts = []
        elif kind == "read":
            tool = tools.of(held)
            content, read = _joined(held, PART_SEPARATOR, tool)
            yield LoggedMessage("tool", content, read=read, tool=tool, call_id=held[0].call_id), ""
        else:
            has_documents = any(entry.is_within for entry in held)
            content, read = _joined(held, SEPARATOR if has_documents else PART_SEPARATOR)
            yield LoggedMessage(role, content, read=read), ""
        is_empty = False
    # A thought alone is an item, and no message.
    if is_empty and not _is_item(logged):
        yield LoggedMessage(role, ""), joined_answer(thoughts)


def _is_item(logged: object) -> bool:
    return is_record(logged) and logged.get("type") in foreign.ITEMS and not logged.get("role")


def _kind(entry: ConversationEntry) -> tuple[str, str | None]:
    """What entries one after another make a message of."""
    if entry.kind in ("answer", "call", "reasoning"):
        return "said", None
    if entry.kind == "source" and not entry.is_within and entry.role in (*_OF_TOOLS, "assistant"):
        return "read", entry.call_id
    return "text", None


def _entries(logged: object) -> tuple[str, list[ConversationEntry]]:
    """A message's role and what it holds; `Unusable` of what is no text."""
    role, held = "assistant", logged
    if not _is_item(logged):
        turn = turn_of(logged)
        if turn.role is None and not is_record(logged):
            raise Unusable(Reason.NOT_OF_FORMAT)
        if not isinstance(turn.role, str) or not _ROLE.fullmatch(turn.role):
            raise Unusable(Reason.BAD_ROLE)
        role = turn.role
        content = list(map(_part, turn.content)) if isinstance(turn.content, list) else turn.content
        held = {"role": role, "content": "" if content is None else content, "tool_calls": list(turn.calls)}
        if role in _OF_TOOLS:
            names = (turn.get(name) for name in ("name", "tool_name", "function"))
            ids = (name_of(turn.get(name)) for name in foreign.CALL_IDS)
            own = next((name for name in names if isinstance(name, str)), None)
            held |= {"name": own, "tool_call_id": next(filter(None, ids), None)}
        held |= {name: text for name in foreign.REASONING if isinstance(text := turn.get(name), str)}
    try:
        entries = entries_of([held], "")
    except DataError:
        is_broken = any(half_pair(text) is not None for text in foreign.strings(held))
        raise Unusable(Reason.NOT_UNICODE if is_broken else Reason.NOT_TEXT) from None
    known: set[str] = set()
    out: list[ConversationEntry] = []
    for entry in entries:
        if entry.kind == "call" and entry.call_id is not None:
            # Some libraries have a call both among the parts and beside them.
            if entry.call_id in known:
                continue
            known.add(entry.call_id)
        out.append(entry)
    return role, out


def _part(part: object) -> object:
    """A part of a message as other conventions have it; `Unusable` of one that was cut before it was logged."""
    if not is_record(part):
        return part
    if part.get("truncated") is True:
        raise Unusable(Reason.INCOMPLETE)
    kind = part.get("type")
    if isinstance(kind, str) and kind in _OF_SERVERS and is_record(inner := part.get(kind)):
        name, place = _OF_SERVERS[kind]
        return {**part, "type": name, place: {key: value for key, value in inner.items() if key != "type"}}
    return part


def _joined(
    entries: Iterable[ConversationEntry], between: str, tool: str | None = None
) -> tuple[str, tuple[ReadText, ...]]:
    """Texts as one, and which parts of it were read: of the result of a tool all, beside a question the documents."""
    texts: list[str] = []
    read: list[ReadText] = []
    at = 0
    for entry in entries:
        if texts:
            texts.append(between)
            at += len(between)
        if tool is not None:
            read += _read_within(entry.text, "" if entry.name == tool else entry.name, at)
        elif entry.is_within:
            read.append(ReadText(entry.name, at, at + len(entry.text)))
        texts.append(entry.text)
        at += len(entry.text)
    return "".join(texts), tuple(read)


def _read_within(text: str, name: str, at: int) -> Iterator[ReadText]:
    """A result; of a list of named documents in JSON, each of them, and what stands around them."""
    cursor = 0
    for start, end, own in documents_within(text):
        if cursor < start:
            yield ReadText(name, at + cursor, at + start, is_around=True)
        yield ReadText(own, at + start, at + end)
        cursor = end
    if cursor < len(text):
        yield ReadText(name, at + cursor, at + len(text), is_around=cursor > 0)


# --- replies ----------------------------------------------------------------------------------------------------------


def _is_message(value: object) -> bool:
    if isinstance(value, list):
        return bool(value) and all(map(_is_message, value))
    if not is_record(value):
        return False
    if value.get("type") in foreign.ITEMS and any(name in value for name in ("id", *foreign.CALL_IDS)):
        return True
    has_role = "role" in value or value.get("type") in ROLES or "lc" in value
    return isinstance(value.get("choices", value.get("generations")), list) or (
        has_role and any(name in value for name in ("content", "parts", "kwargs", "data", "tool_calls"))
    )


def _replies(value: Any, tools: _Tools, depth: int) -> list[LoggedReply]:
    if isinstance(value, str):
        return [LoggedReply(value)]
    if depth > 4:
        return []
    if isinstance(value, list):
        if value and all(isinstance(item, str) for item in value):
            # A program that streams a text is logged with the pieces that it gave.
            return [LoggedReply("".join(value))]
        if len(value) > 1 and any(map(_is_piece, value)):
            return _joined_chunks(value, tools)
        if value and all(map(_is_part_of_reply, value)):
            return _of_message({"content": [part for item in value for part in _parts_of_item(item)]}, tools)
        if any(is_record(item) and item.get("role") in ("tool", "user") for item in value):
            # All of a conversation, and not several choices.
            value = value[-1:]
        return [reply for item in value for reply in _replies(item, tools, depth + 1)]
    if not is_record(value):
        return []
    ended = first(value, "finish_reason", "stop_reason")
    for shell in ("kwargs", "data", "lc_kwargs"):
        if is_record(value.get(shell)) and ("lc" in value or "type" in value):
            value = value[shell]
    for name in foreign.CHOICES:
        if isinstance(value.get(name), list):
            held = value[name]
            # Texts among choices are an answer each.
            choices = ([choice] if isinstance(choice, str) else choice for choice in held)
            return [reply for choice in choices for reply in _replies(choice, tools, depth + 2)]
    if is_record(value.get("content")) and "parts" in value["content"]:
        return _ended(_replies(value["content"], tools, depth + 1), ended)
    if is_record(value.get("message")):
        info = value.get("generation_info")
        ended = ended or (info.get("finish_reason") if is_record(info) else None)
        return _ended(_replies(value["message"], tools, depth + 1), ended)
    if any(name in value for name in ("content", "parts", "role", "tool_calls")):
        if isinstance(value.get("response_metadata"), Mapping):
            ended = ended or value["response_metadata"].get("finish_reason")
        return _ended(_of_message(value, tools), ended)
    if isinstance(value.get("messages"), list) and value["messages"]:
        return _replies(value["messages"][-1], tools, depth + 1)
    if len({value[name] for name in _ANSWERS if isinstance(value.get(name), str) and value[name]}) > 1:
        # Only one of them was sent.
        raise Unusable(Reason.SEVERAL_ANSWERS)
    for name in _ANSWERS:
        if value.get(name) is not None:
            return _ended(_replies(value[name], tools, depth + 1), ended)
    return []


def _is_chunk(item: object) -> bool:
    if not is_record(item):
        return False
    kinds, path = [item.get("type")], item.get("id")
    return "AIMessageChunk" in (kinds + path if isinstance(path, list) else kinds)


def _is_piece(item: object) -> bool:
    """Whether it may be a piece of a streamed answer: a message without a role, or of a type that says so."""
    is_named = is_record(item) and any(name in item for name in ("role", "type", "lc", "message"))
    return _is_chunk(item) or (is_record(item) and "content" in item and not is_named)


def _joined_chunks(pieces: Sequence[Mapping[Any, Any]], tools: _Tools) -> list[LoggedReply]:
    """The answer of which these are the pieces; `Unusable` where they do not say that they are."""
    if not all(map(_is_chunk, pieces)):
        raise Unusable(Reason.SEVERAL_ANSWERS)
    said: list[str] = []
    thoughts: list[str] = []
    calls: dict[str, dict[str, Any]] = {}
    ended: object = None
    for turn in map(turn_of, pieces):
        for part in foreign.parts_of(turn.content):
            if part.kind == "text":
                said.append(part.text or "")
            elif part.kind in foreign.REASONED:
                thoughts.append(foreign.reasoning_text(part.logged))
            # Calls stand beside their pieces among the parts too.
            elif part.kind not in (*foreign.CALL_PARTS, "input_json_delta"):
                raise Unusable(Reason.NOT_TEXT)
        thoughts += (text for name in foreign.REASONING if isinstance(text := turn.get(name), str))
        of_calls = turn.get("tool_call_chunks")
        for piece in filter(is_record, of_calls if isinstance(of_calls, list) and of_calls else turn.calls):
            key = piece.get("id") if piece.get("index") is None else piece["index"]
            call = calls.setdefault(str(key), {"name": "", "arguments": "", "id": piece.get("id")})
            name, arguments, _ = foreign.called(piece)
            call["name"] += name
            call["arguments"] += arguments
        metadata = turn.get("response_metadata")
        ended = (metadata.get("finish_reason") if is_record(metadata) else None) or ended
    message = {"content": "".join(said), "tool_calls": list(calls.values()), "reasoning": "".join(thoughts)}
    return _ended(_of_message(message, tools), ended)


def _is_part_of_reply(item: object) -> bool:
    """Whether it is a block of one answer, or an item."""
    kind = item.get("type") if is_record(item) else None
    if not isinstance(kind, str) or kind in ROLES:
        return False
    known = (*foreign.TEXT_PARTS, *foreign.ITEMS, *foreign.SAID_NOTHING, *_OF_SERVERS, "message")
    return kind in known or foreign.is_call(kind)


def _parts_of_item(item: Mapping[Any, Any]) -> list[Any]:
    if item.get("type") != "message":
        return [item]
    content = item.get("content")
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def _of_message(message: Mapping[Any, Any], tools: _Tools) -> list[LoggedReply]:
    """A choice; cut behind each result that it has of a tool."""
    pairs = tuple(_with_thoughts({**message, "role": "assistant"}, tools))
    messages = tuple(said for said, _ in pairs)
    out: list[LoggedReply] = []
    cursor = 0
    for number, (said, thought) in enumerate(pairs):
        if said.role == "assistant":
            before = messages[cursor:number]
            out.append(LoggedReply(said.content, None, said.calls, before, continues=bool(out), reasoning=thought))
            cursor = number
    return out


def _ended(replies: list[LoggedReply], why: object) -> list[LoggedReply]:
    return [replace(reply, ended=reply.ended or (why if isinstance(why, str) else None)) for reply in replies]
