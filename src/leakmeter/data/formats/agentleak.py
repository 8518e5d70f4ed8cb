"""Traces of the benchmark AgentLeak: a model with a person's record, alone or among other agents.

The record, the 'vault', stands as JSON within the system prompt, and what another agent wrote within the user prompt;
both are what was read, and all else stays.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from leakmeter.core.case import Case, Channel, Document, Emission, Message
from leakmeter.core.record import JsonObject
from leakmeter.data.chat import ChatCase, ChatCases, ids_of
from leakmeter.data.context_marker import with_documents
from leakmeter.data.foreign import name_of
from leakmeter.data.formats.base import DataFormat, OutcomesOfRows, RowsOfFields
from leakmeter.data.mapping import Fields, Names, checked_text
from leakmeter.data.recipients import RECIPIENT, recipient_of
from leakmeter.errors import DataError

VAULT: Final = "vault"
_CHANNELS: Final[Mapping[str, Channel]] = {"C1": "answer", "C2": "agent", "C3": "tool", "C4": "tool", "C5": "memory"}
_MOST_OBJECTS: Final = 100
"""Of JSON within a prompt that are held against the record."""
_LONGEST_LABEL: Final = 40
"""Characters before what a model wrote, where a program kept it under a label of its own."""
_MOST_CALLS: Final = 1000


def _read(rows: RowsOfFields) -> OutcomesOfRows:
    for row, fields in rows:
        try:
            if "llm_calls" in fields:
                yield row, _of_agents(fields, row.number, row.where)
            else:
                yield row, _alone(fields, row.where)
        except DataError as error:
            yield row, error


def _alone(fields: Fields, where: str) -> JsonObject:
    messages, vault = fields.get("messages"), fields.get("vault")
    texts = (
        [message.get("content") for message in messages or () if isinstance(message, Mapping)]
        if isinstance(messages, list)
        else []
    )
    documents = [text for content in texts if isinstance(content, str) and (text := _vault_in(content, vault))]
    if not documents:
        raise DataError(f"{where}: the record 'vault' stands in none of the messages")
    own = {"id": fields["id"]} if fields.get("id") is not None else {}
    marked = [{"name": VAULT, "text": text} for text in dict.fromkeys(documents)]
    return {**own, "messages": messages, "marked": marked, RECIPIENT: _told(fields.get("allowed_set"), where)}


def _told(allowed: object, where: str) -> JsonObject | None:
    """What the scenario says the user may know, and may not; of other fields it says nothing."""
    if not isinstance(allowed, Mapping):
        return None
    held = {name: allowed.get(key) for name, key in (("may_know", "fields"), ("may_not_know", "forbidden_fields"))}
    if any(names is not None and not isinstance(names, list) for names in held.values()):
        raise DataError(f"{where}: 'fields' and 'forbidden_fields' of 'allowed_set' have to be lists")
    return {name: names for name, names in held.items() if names is not None}


def _vault_in(text: str, vault: object) -> str | None:
    """The record as a text says it, in JSON."""
    if not isinstance(vault, Mapping) or not vault:
        return None
    decoder = json.JSONDecoder()
    at = -1
    for _ in range(_MOST_OBJECTS):
        at = text.find("{", at + 1)
        if at < 0:
            return None
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            continue
        if value == vault:
            return text[at:end]
    return None


def _of_agents(fields: Fields, number: int, where: str) -> ChatCases:
    """One case of each message on a channel, whose prompt is that of the call that wrote it."""
    calls = _records(fields, "llm_calls", where)
    sent = _records(fields, "channel_messages", where)
    given = fields.get("input")
    vault = given.get("vault") if isinstance(given, Mapping) else None
    told = recipient_of(_told(given.get("allowed_set") if isinstance(given, Mapping) else None, where), where)
    authors = {name_of(message.get("llm_call_id")): name_of(message.get("source")) for message in sent}
    wrote = [authors.get(id_) if (id_ := name_of(call.get("call_id"))) else None for call in calls]
    trace = fields.get("trace_id", number)
    conversation = checked_text(str(trace) if isinstance(trace, int) else trace, "trace_id", where)
    found: list[tuple[Emission, str, tuple[Message, ...]]] = []
    for n, message in enumerate(sent, 1):
        at = f"{where}, channel message {n}"
        content = checked_text(message.get("content"), "content", at)
        turn, response = _written_by(message, content, calls, wrote, at)
        channel, recipient = _received(message, at)
        before = [
            (wrote[i] or "agent", text)
            for i in range(turn)
            if isinstance(text := calls[i].get("response"), str) and text.strip()
        ]
        prompt = _prompt(calls[turn], vault, before, at)
        found.append((Emission(conversation, turn + 1, channel, recipient), response, prompt))
    read = [held for held in found if Case("", messages=held[2]).context_documents]
    ids = ids_of(conversation, [emission for emission, _, _ in read])
    cases = [
        ChatCase(Case(id_, response=response, messages=messages, emission=emission, recipient=told), is_own=True)
        for id_, (emission, response, messages) in zip(ids, read, strict=True)
    ]
    return ChatCases(cases, len(found) - len(read))


def _records(fields: Fields, name: str, where: str) -> list[Fields]:
    held = fields.get(name)
    if not isinstance(held, list) or not all(isinstance(record, Mapping) for record in held):
        raise DataError(f"{where}: '{name}' has to be a list of objects")
    if len(held) > _MOST_CALLS:
        raise DataError(f"{where}: '{name}' has {len(held):,} elements; {_MOST_CALLS:,} are read at most")
    return held


def _received(message: Fields, where: str) -> tuple[Channel, str]:
    channel = message.get("channel")
    if not isinstance(channel, str) or channel not in _CHANNELS:
        raise DataError(f"{where}: 'channel' is none of {', '.join(_CHANNELS)}")
    return _CHANNELS[channel], checked_text(message.get("target", "user"), "target", where)


def _written_by(
    message: Fields, content: str, calls: Sequence[Fields], wrote: Sequence[str | None], where: str
) -> tuple[int, str]:
    """The number of the call that wrote a message, and what of the message it wrote: what is kept in a memory may have
    a label before it and be cut."""
    id_ = message.get("llm_call_id")
    if id_ is not None:
        numbers = [n for n, call in enumerate(calls) if call.get("call_id") == id_]
        if not numbers:
            raise DataError(f"{where}: there is no call with the id of 'llm_call_id'")
        return numbers[0], content
    by_source = sorted(range(len(calls)), key=lambda n: wrote[n] != message.get("source"))
    for start in range(min(_LONGEST_LABEL, len(content))):
        for n in by_source:
            said = calls[n].get("response")
            if isinstance(said, str) and said.startswith(content[start:]):
                return n, content[start:]
    raise DataError(f"{where}: it has no 'llm_call_id', and no call's response begins like it")


def _prompt(call: Fields, vault: object, before: Sequence[tuple[str, str]], where: str) -> tuple[Message, ...]:
    names = Names()
    documents: list[Document] = []
    messages: list[Message] = []
    for role, field in (("system", "system_prompt"), ("user", "user_prompt")):
        text = checked_text(call.get(field, ""), field, where)
        if text:
            messages.append(
                Message(role, f"{role} {len(messages) + 1}", (Document(f"{role} {len(messages) + 1}", text),))
            )
            own = _vault_in(text, vault)
            documents += [Document(VAULT, own)] if own else []
    for name, text in before:
        if any(text in message.text for message in messages):
            documents.append(Document(names.own(name), text))
    return tuple(with_documents(message, documents, where) for message in messages)


def _fits(fields: Fields) -> bool:
    return ("llm_calls" in fields and "channel_messages" in fields) or (
        "messages" in fields and isinstance(fields.get(VAULT), Mapping)
    )


FORMAT: Final = DataFormat(
    "agentleak",
    "messages, or llm_calls and channel_messages, with the vault and what other agents wrote as the context",
    _fits,
    _read,
)
