"""Requests to models' APIs and their answers: Chat Completions, Responses, Messages, Converse, and batches of them.

Both sides become one list of messages and items, of which `conversation` makes turns. What an API keeps on its side,
and does not repeat in a request, has to be in the same data, or the request is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from leakmeter.core.case import SYSTEM_ROLES
from leakmeter.core.record import JsonObject
from leakmeter.data.chat import answer_text
from leakmeter.data.conversation import is_part_of_conversation
from leakmeter.data.foreign import (
    CHOICES,
    ITEMS,
    TEXT_PARTS,
    answers_of,
    first,
    getter,
    joined_answer,
    name_of,
    parts_of,
    reasoning_of,
    record,
    request_of,
    retrieved_beside,
    spoken,
    strings,
    turn_of,
)
from leakmeter.data.formats.base import DataFormat, OutcomesOfRows, RowsOfFields, differing
from leakmeter.data.mapping import Fields, listed, nearest, parsed_cell
from leakmeter.data.rows import DataRow
from leakmeter.errors import DataError

_MOST_BEFORE: Final = 1000
"""Messages and items of the requests that one goes on from, each of which repeats them all."""
_DEEPEST: Final = 4
_TEXTS: Final = ("text", "output_text", "answer", "result", "response", "completion", "generated_text")
"""What the text of an answer is called within it."""
_EMITTED: Final = frozenset(("message", *ITEMS, *TEXT_PARTS))
_RETRIEVED: Final = ("all_retrieved_documents", "citations")
"""What Azure retrieved for an answer, in its message's context."""
_CONVERSATION: Final = "conv_"
"""How ids of conversations that an API keeps begin: in a log 'conversation' may be a label."""


@dataclass(frozen=True, slots=True)
class _Exchange:
    """A request and its answers, as far as a record has them."""

    messages: Any = None
    choices: list[list[Any]] | DataError | None = None
    """Of each answer the messages and items that the model emitted; or why that is not known."""
    id: Any = None
    reference: Any = None
    error: Any = None
    before: str | None = None
    """Id of the response or the conversation that the request goes on from, and of which it repeats nothing."""
    answer_id: str | None = None
    is_opening: bool = False
    """Whether it began a conversation, with these messages and no answer yet."""
    system: Any = None
    stored: str | None = None
    """Id of a prompt that the API has, and of which the record has no text."""
    documents: Any = None
    """What stands beside the messages as retrieved."""


def _read(rows: RowsOfFields) -> OutcomesOfRows:
    """In one record, or in two of a batch with one `custom_id`."""
    exchanges: dict[object, tuple[DataRow, _Exchange]] = {}
    for row, fields in rows:
        key = fields.get("custom_id")
        # What is not part of a batch stands alone.
        id_ = key if isinstance(key, str) else (row.source, row.number)
        earlier = exchanges.get(id_)
        parts = _exchange(fields, row.where)
        if earlier is None:
            exchanges[id_] = row, parts
        elif _overlap(parts, earlier[1]):
            exchanges[row.source, row.number] = row, parts
        else:
            # A case stands where its request does.
            is_request = parts.messages is not None
            request, answer = (parts, earlier[1]) if is_request else (earlier[1], parts)
            both = replace(
                request,
                choices=answer.choices,
                error=request.error or answer.error,
                answer_id=answer.answer_id,
                documents=request.documents or answer.documents,
            )
            exchanges[id_] = (row if is_request else earlier[0]), both
    yield from _continued(exchanges.values())


def _overlap(one: _Exchange, other: _Exchange) -> bool:
    return (one.messages is not None and other.messages is not None) or (
        one.choices is not None and other.choices is not None
    )


def _exchange(fields: Fields, where: str) -> _Exchange:
    logged = _of_invocation(fields)
    request = request_of(logged)
    answers = answers_of(logged)
    # The items of Responses may stand beside their input.
    is_beside = isinstance(answers.get("output"), list)
    answered: Mapping[Any, Any] = {"id": logged.get("id")} if is_beside else record(next(iter(answers.values()), None))
    messages = parsed_cell(request.get("messages", logged.get("messages")))
    system: Any = request.get("system")
    choices: list[list[Any]] | DataError | None = None
    if messages is None and (messages := _contents_of(request)) is not None:
        of_google: JsonObject = {**record(request.get("config"))}
        of_google |= request
        system = first(of_google, "systemInstruction", "system_instruction")
        if first(of_google, "cachedContent", "cached_content"):
            choices = DataError(
                f"{where}: the request goes on from 'cachedContent', which is not in the log, so that a part of the "
                "prompt is missing; put it into 'contents'"
            )
    before: str | None = None
    stored: Any = None
    if is_opening := answered.get("object") == "conversation":
        messages, answers = parsed_cell(request.get("items")) or [], {}
    elif messages is None:
        messages = _input_of(request)
        # The answer repeats what the request said of it.
        names = ("instructions", "prompt", "previous_response_id", "conversation")
        system, stored, before, conversation = (request.get(name) or answered.get(name) for name in names)
        before = name_of(before) or _conversation_of(conversation)
    instructions = _instructions(system)
    is_answered = isinstance(messages, list) and bool(messages) and turn_of(messages[-1]).role == "assistant"
    return _Exchange(
        messages,
        choices or _only_choices(answers, where, is_answered=is_answered),
        fields.get("custom_id", fields.get("id", fields.get("requestId"))),
        fields.get("reference"),
        fields.get("error") or answered.get("error") or None,
        before,
        name_of(answered.get("id")),
        is_opening,
        [each for each in instructions if not _is_among(each, messages)],
        name_of(stored.get("id"))
        if isinstance(stored, Mapping) and not isinstance(parsed_cell(system), list)
        else None,
        held if strings(held := parsed_cell(retrieved_beside(fields))) else None,
    )


def _contents_of(request: Mapping[Any, Any]) -> list[Any] | None:
    """What Google's API calls the messages of a request: one or several, with parts or as texts; None where it has
    none."""
    held = parsed_cell(request.get("contents"))
    contents = held if isinstance(held, list) else [held]
    if not contents or not all(isinstance(each, str) or "parts" in record(each) for each in contents):
        return None
    return [
        {"role": "user"} | ({"parts": [each]} if isinstance(each, str) else dict(record(each))) for each in contents
    ]


def _conversation_of(value: Any) -> str | None:
    """The id of a conversation that the API keeps."""
    id_ = name_of(value.get("id") if isinstance(value, Mapping) else value)
    return id_ if id_ is not None and id_.startswith(_CONVERSATION) else None


def _instructions(system: Any) -> list[Any]:
    """What a request has as a system prompt beside its messages: a text, blocks, or the messages of a stored prompt."""
    if not system:
        return []
    held = parsed_cell(system)
    if isinstance(held, Mapping) and isinstance(held.get("parts"), list):
        system = held["parts"]
    is_of_messages = isinstance(held, list) and all(isinstance(each, Mapping) and "role" in each for each in held)
    return held if isinstance(held, list) and is_of_messages else [{"role": "system", "content": system}]


def _is_among(instructions: Any, messages: Any) -> bool:
    """Whether a system prompt stands among the messages too."""
    said = [turn_of(each) for each in (instructions, *(messages if isinstance(messages, list) else ()))]
    texts = ["".join(part.text or "" for part in parts_of(turn.content)) for turn in said if turn.role in SYSTEM_ROLES]
    return texts[0] in texts[1:] if said[0].role in SYSTEM_ROLES else False


def _of_invocation(fields: Fields) -> Fields:
    """A log of Bedrock's invocations as a request and a response; any other record as it is."""
    if not isinstance(fields.get("input"), Mapping) or not isinstance(fields.get("output"), Mapping):
        return fields
    request, answer = (record(fields[name]).get(f"{name}BodyJson") for name in ("input", "output"))
    if request is None and answer is None:
        return fields
    return {"request": request, "response": answer}


def _items(value: object) -> list[Any] | None:
    held = parsed_cell(value)
    is_of_items = isinstance(held, list) and all(isinstance(item, Mapping) and "type" in item for item in held)
    return held or None if isinstance(held, list) and is_of_items else None


def _input_of(request: Mapping[Any, Any]) -> Any:
    """The input of Responses as messages and items; None where there is none."""
    held = parsed_cell(request.get("input"))
    return [{"role": "user", "content": held}] if isinstance(held, str) else held if isinstance(held, list) else None


def _only_choices(answers: Mapping[str, Any], where: str, *, is_answered: bool) -> list[list[Any]] | DataError | None:
    """The choices of the one answer that a record has, maybe in several fields; None where it has none."""
    read = {name: choices for name, answer in answers.items() if (choices := _choices(answer)) is not None}
    if not read:
        # Where the chat has its answer, such a field may be anything.
        name = next((name for name, answer in answers.items() if answer not in ({}, []) and not is_answered), None)
        return None if name is None else _unknown(name, answers[name], where)
    most = max(read, key=lambda name: len(read[name]))
    texts = set(map(_said, read[most]))
    other = next((name for name, choices in read.items() if not texts.issuperset(map(_said, choices))), None)
    return read[most] if other is None else differing(where, *sorted((most, other), key=CHOICES.__contains__))


def _unknown(name: str, answer: Any, where: str) -> DataError:
    if name in CHOICES and isinstance(answer.get(name), list) and not answer[name]:
        return DataError(f"{where}: '{name}' has to be a list of one answer or more")
    has, path = (f"an object; it has {listed(answer)}", "") if isinstance(answer, Mapping) else ("a list", "[0]")
    return DataError(
        f"{where}: no answer is known in '{name}', {has}; name its text, as in --map response={name}{path}.PATH"
    )


def _said(emitted: Iterable[Any]) -> str:
    """The text of a choice, which differs where choices do."""
    turns = [turn for turn in map(turn_of, emitted) if turn.role in (None, "assistant", "message")]
    return joined_answer(part.text or "" for turn in turns for part in spoken(parts_of(turn.content))).strip()


def _choices(answer: Any, depth: int = 0) -> list[list[Any]] | None:
    """Of each choice of an answer the messages and items that the model emitted; None of a form that is not known."""
    items = _items(answer) if isinstance(answer, str | list) else None
    if items is not None and (isinstance(answer, list) or {item["type"] for item in items} <= _EMITTED):
        is_message = any(item["type"] in TEXT_PARTS for item in items)
        return [[{"role": "assistant", "content": items}] if is_message else items]
    if isinstance(answer, str):
        return [[{"role": "assistant", "content": answer}]]
    if isinstance(answer, list):
        if answer and all(turn_of(message).role in ("assistant", "tool") for message in answer):
            return [answer]
        return _choices(answer[0], depth + 1) if len(answer) == 1 and depth < _DEEPEST else None
    if not isinstance(answer, Mapping) or depth > _DEEPEST:
        return None
    if isinstance(output := parsed_cell(answer.get("output")), list | Mapping) and output:
        return _choices(output, depth + 1)
    for name in CHOICES:
        held = parsed_cell(answer.get(name))
        if isinstance(held, list) and all(isinstance(choice, Mapping | list) for choice in held):
            return [emitted for choice in held for emitted in _of_choice(choice)] or None
    is_message = any(name in answer for name in ("content", "parts", "lc"))
    if is_message or isinstance(answer.get("message"), Mapping):
        return _of_choice(answer)
    texts = {text for name in _TEXTS if isinstance(text := answer.get(name), str) and text}
    return [[{"role": "assistant", "content": text}] for text in texts] if len(texts) == 1 else None


def _of_choice(choice: Any) -> list[list[Any]]:
    """The answer of a choice; those of a list of choices, as LangChain has them by prompt."""
    if isinstance(choice, list):
        return [emitted for each in choice for emitted in _of_choice(each)]
    if not isinstance(choice, Mapping) or isinstance(choice.get("message"), Mapping):
        return [_message_of(choice)]
    if isinstance(choice.get("content"), Mapping):
        return [[choice["content"]]]
    is_message = any(name in choice for name in ("content", "parts", "lc"))
    text = choice.get("text")
    return [[choice if is_message else {"role": "assistant", "content": text} if isinstance(text, str) else None]]


def _message_of(choice: Any) -> list[Any]:
    """The message of a choice, after what was retrieved for it alone."""
    message = choice.get("message") if isinstance(choice, Mapping) else None
    held = record(getter(message)("context"))
    found = next((list_ for name in _RETRIEVED if isinstance(list_ := parsed_cell(held.get(name)), list) and list_), [])
    if not found or not isinstance(message, Mapping):
        return [message]
    documents = [{"type": "retrieved_document", **document} for document in found if isinstance(document, Mapping)]
    rest = {name: value for name, value in message.items() if name != "context"}
    return [{"role": "tool", "content": documents}, rest]


def _continued(exchanges: Iterable[tuple[DataRow, _Exchange]]) -> OutcomesOfRows:
    """Exchanges with what was said in those that they go on from."""
    said: dict[str, list[Any]] = {}
    for row, parts in exchanges:
        messages = parts.messages
        if row.follows_bad:
            # What could not be read may have been said in any conversation.
            said = {id_: earlier for id_, earlier in said.items() if not id_.startswith(_CONVERSATION)}
        if parts.is_opening and isinstance(messages, list):
            said[parts.answer_id or ""] = messages
            continue
        earlier = [] if parts.before is None else said.get(parts.before)
        if messages is not None and (problem := _missing(parts, earlier)):
            yield row, DataError(f"{row.where}: {problem}")
            continue
        if earlier and isinstance(messages, list):
            messages = [*earlier, *messages]
        if isinstance(messages, list) and isinstance(parts.choices, list) and len(parts.choices) == 1:
            for id_ in filter(None, (parts.answer_id, parts.before)):
                said[id_] = [*messages, *parts.choices[0]]
        if isinstance(messages, list):
            messages = [*(parts.system or []), *messages]
        yield from _completions(row, parts, messages)


def _missing(parts: _Exchange, earlier: Sequence[Any] | None) -> str | None:
    """What of the prompt the data do not have; None where they have all of it."""
    if parts.stored is not None:
        return (
            f"the request uses the stored prompt '{parts.stored[:40]}', whose text is not in the log; log the whole "
            "response, whose 'instructions' have it"
        )
    if earlier is None and parts.before is not None:
        of, more = "response", ""
        if parts.before.startswith(_CONVERSATION):
            of, more = "conversation", ", or all items of the conversation as 'messages'"
        return (
            f"the request goes on from {of} '{parts.before[:40]}', which is not in the data before it, so that a part "
            f"of the prompt is missing; give its record too{more}"
        )
    if earlier is not None and len(earlier) > _MOST_BEFORE:
        return (
            f"the request goes on from {len(earlier):,} messages and items; {_MOST_BEFORE:,} are put before it at most"
        )
    return None


def _completions(row: DataRow, parts: _Exchange, messages: Any) -> Iterator[tuple[DataRow, Fields | DataError]]:

    def bad(problem: str) -> tuple[DataRow, DataError]:
        return row, DataError(f"{row.where}: {problem}")

    if messages is None:
        if parts.error is not None:
            yield bad("the request failed, and there is no answer")
        else:
            yield bad(
                "an answer of a batch without its request; give the lines of both files, as in: "
                "cat requests.jsonl answers.jsonl | leakmeter influence --data -"
            )
        return
    fields: JsonObject = {"messages": messages}
    own = {"id": parts.id, "reference": parts.reference, "marked": parts.documents}
    fields |= {name: value for name, value in own.items() if value is not None}
    if parts.choices is None or isinstance(parts.choices, DataError):
        if parts.error is not None:
            yield bad("the request failed, and there is no answer")
        else:
            yield row, fields if parts.choices is None else parts.choices
        return
    for number, emitted in enumerate(parts.choices, 1):
        id_ = {} if number == 1 else {"id": f"{fields.get('id', row.number)} (choice {number})"}
        if len(emitted) > 1 or any(map(_is_more_than_text, emitted)):
            if not isinstance(messages, list):
                yield bad("'messages' has to be a list")
                continue
            yield row, fields | {"messages": [*messages, *map(_answered, emitted)]} | id_
            continue
        turn = turn_of(emitted[0] if emitted else None)
        try:
            text = answer_text(turn.content, f"choice {number}")
        except DataError as error:
            yield bad(str(error))
            continue
        thought = reasoning_of(turn)
        if thought and isinstance(messages, list) and messages and turn_of(messages[-1]).role != "assistant":
            parts_said = [{"type": "thinking", "thinking": thought}, {"type": "text", "text": text}]
            yield row, fields | {"messages": [*messages, {"role": "assistant", "content": parts_said}]} | id_
        else:
            yield row, fields | {"response": text} | id_


def _is_more_than_text(message: Any) -> bool:
    turn = turn_of(message)
    return bool(turn.calls) or any(map(is_part_of_conversation, parts_of(turn.content)))


def _answered(message: Any) -> Any:
    if isinstance(message, Mapping) and not message.get("type") and not message.get("role"):
        return {**message, "role": "assistant"}
    return message


def _fits(fields: Fields) -> bool:
    body, answer = fields.get("body", fields.get("request")), fields.get("response")
    if isinstance(body, Mapping) and ("messages" in body or "body" in body or _contents_of(body) is not None):
        return True
    if isinstance(answer, Mapping) and ("choices" in answer or isinstance(answer.get("body"), Mapping)):
        return True
    if isinstance(body, Mapping) and isinstance(answer, Mapping) and _items(answer.get("output")) is not None:
        return _input_of(body) is not None
    if isinstance(answer, Mapping) and answer.get("object") == "conversation":
        return True
    if "custom_id" in fields or fields.get("schemaType") == "ModelInvocationLog":
        return True
    if _input_of(fields) is not None and _items(fields.get("output")) is not None:
        return True
    # Logs have fields of all kinds; one that is nearly called 'response' is no reason to draw another.
    misspelled = any(nearest(name, ("response",), at_least=90) for name in fields if name != "response")
    is_request = "messages" in fields or _contents_of(fields) is not None
    return is_request and not {"context", "query"} & set(fields) and not misspelled


FORMAT: Final = DataFormat("openai", "messages, with choices as the response", _fits, _read)
