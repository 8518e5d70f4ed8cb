"""Presets: results of evaluations, as promptfoo, inspect_ai and DeepEval write them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from leakmeter.core.record import JsonObject
from leakmeter.data.foreign import as_text, described, getter, has_reasoned, parts_of, record, spoken
from leakmeter.data.formats.base import (
    DataFormat,
    OutcomesOfRows,
    RowsOfFields,
    first,
    has,
    listed_cell,
    of_fields,
    with_tools,
)
from leakmeter.data.mapping import Fields, listed, parsed_cell, parsed_list
from leakmeter.errors import DataError
from leakmeter.text.repeats import is_repeated

_QUERIES: Final = ("query", "question", "input", "user_input", "prompt", "message", "instruction", "task", "q")
_CONTEXTS: Final = (
    *("context", "contexts", "documents", "docs", "passages", "chunks", "sources", "notes", "retrieved_contexts"),
    *("search_results", "knowledge", "records", "record", "document", "background", "memory"),
)
_MOST_LINES: Final = 1000
"""Lines of variables that are looked for in a prompt, which does not have the whole text."""
_BAR: Final = re.compile(r"(?<=\S)\|(?=\S)")
_TABLE: Final = re.compile(r"^[ \t]*\|.*\|[ \t]*$|\|[ \t]*:?-+:?[ \t]*\|", re.MULTILINE)
_ATTACHMENT: Final = "attachment://"
_OF_MESSAGE: Final = ("role", "content", "tool_calls", "tool_call_id", "function", "name")
"""Fields of a message of inspect_ai that say what it is; others are the tool's own."""


def _promptfoo(fields: Fields, where: str) -> Iterator[Fields | DataError]:
    """Results of a file, or one result of JSON lines."""
    held = fields.get("results")
    results = held.get("results") if isinstance(held, Mapping) else held
    if results is None:
        yield _result(fields, where, "")
        return
    if not isinstance(results, list):
        raise DataError(f"{where}: 'results' has to be a list")
    for number, result in enumerate(results, 1):
        try:
            yield _result(result, f"{where}, result {number}", f", result {number}")
        except DataError as error:
            yield error


def _result(result: Any, where: str, place: str) -> Fields:
    if not isinstance(result, Mapping):
        raise DataError(f"{where} is not an object")
    answer = result.get("response")
    output = answer.get("output") if isinstance(answer, Mapping) else answer
    if output is None and first(result, "error") is not None:
        raise DataError(f"{where}: the request failed, and there is no answer")
    prompt = result.get("prompt")
    raw = prompt.get("raw") if isinstance(prompt, Mapping) else prompt
    chat = parsed_cell(raw)
    chat = chat if isinstance(chat, list) else [{"role": "user", "content": raw}]
    texts = [*_texts_of_messages(chat)]
    read = _read_of(result)
    marked = [document for document in read if any(document["text"] in text for text in texts)]
    others = [document for document in read if document not in marked] if marked else []
    lines = [line for other in others for line in other["text"].splitlines()]
    if is_repeated("\n".join(texts), lines[:_MOST_LINES]):
        raise DataError(
            f"{where}: of {listed(other['name'] for other in others)} a part is in the prompt, and not word for word; "
            "give variables as the template writes them"
        )
    if not marked:
        found = "variable of the test" + (" that stands in the prompt word for word" if read else "")
        raise DataError(
            f"{where}: no {found} is known as a context; name it 'context', or give the texts with --map "
            "cases=results.results,query=vars.NAME,context=vars.NAME,response=response.output"
        )
    return {
        "id": result.get("id"),
        "messages": chat,
        "marked": marked,
        "response": None if output is None else as_text(output),
        "place": place,
    }


def _read_of(result: Fields) -> list[dict[str, str]]:
    """What a test's variables say was read: those with the name of a context, or all beside the question."""
    held = first(result, "vars") or record(result.get("testCase")).get("vars")
    variables = dict(held) if isinstance(held, Mapping) else {}
    named = {name: value for name, value in variables.items() if _is_one_of(name, _CONTEXTS)}
    if not named and any(_is_one_of(name, _QUERIES) for name in variables):
        named = {name: value for name, value in variables.items() if not _is_one_of(name, _QUERIES)}
    documents: list[dict[str, str]] = []
    for name, value in named.items():
        texts = value if isinstance(value, list) else [value]
        for number, each in enumerate(texts, 1):
            text = described(each).text
            if text is not None and text.strip():
                documents.append({"name": str(name) if len(texts) == 1 else f"{name} {number}", "text": text})
    return documents


def _is_one_of(name: object, names: Sequence[str]) -> bool:
    return str(name).lower().replace("-", "_") in names


def _texts_of_messages(chat: Sequence[Any]) -> Iterator[str]:
    for message in chat:
        for part in parts_of(getter(message)("content")):
            if part.text is not None:
                yield part.text


def _fits_promptfoo(fields: Fields) -> bool:
    held = fields.get("results")
    if isinstance(held, Mapping) and isinstance(held.get("results"), list):
        return "evalId" in fields or "prompts" in held
    return has(("vars", "testCase"), ("prompt",), ("response",), ("promptIdx", "testIdx", "promptId"))(fields)


def _inspect(rows: RowsOfFields) -> OutcomesOfRows:
    """Samples, each with its messages, in which long texts stand for themselves elsewhere."""
    for row, fields in rows:
        messages = fields.get("messages")
        if not isinstance(messages, list):
            yield row, DataError(f"{row.where}: a sample has to have a list of 'messages'")
            continue
        attached = record(fields.get("attachments"))
        chat = [_with_attached(_message(message), attached) for message in messages]
        try:
            chats = list(_each_answered(chat, fields.get("output"), attached, row.where))
        except DataError as error:
            yield row, error
            continue
        own: JsonObject = {}
        epoch, id_ = fields.get("epoch"), fields.get("id", row.number)
        own["id"] = f"{id_} (epoch {epoch})" if isinstance(epoch, int) and epoch > 1 else str(id_)
        target = fields.get("target")
        target = target[0] if isinstance(target, list) and target else target
        own |= {"reference": target} if isinstance(target, str) and target.strip() else {}
        n_reasoned = int(has_reasoned(messages))
        n_hidden = _n_elsewhere(fields, messages) + n_reasoned
        # Of a sample, which may be long, no more is needed.
        beside = {"metadata": fields.get("metadata"), "model": record(fields.get("output")).get("model")}
        of_sample = replace(row, content={"n_hidden": n_hidden, "n_reasoned": n_reasoned, **beside})
        for number, answered in enumerate(chats, 1):
            id_ = {} if number == 1 else {"id": f"{own['id']} (choice {number})"}
            yield of_sample, own | {"messages": answered} | id_


def _each_answered(chat: list[Any], output: Any, attached: Mapping[Any, Any], where: str) -> Iterator[list[Any]]:
    """A sample's chat with each choice of its output, of which it may have one as its last message."""
    choices = [_with_attached(_message(choice), attached) for choice in _choices(output)]
    if getter(chat[-1] if chat else None)("role") != "assistant":
        yield from ([*chat, choice] for choice in choices)
        if not choices:
            yield chat
        return
    said, texts = _letters_of(chat[-1]), list(map(_letters_of, choices))
    completion = _letters_of({"content": _with_attached(record(output).get("completion"), attached)})
    if (any(texts) and said not in texts) or completion not in ("", said, *texts):
        raise DataError(
            f"{where}: 'output' and the last of 'messages' differ, and each may be the answer; leave one of them out"
        )
    yield chat
    others = (choice for choice, text in zip(choices, texts, strict=True) if text not in ("", said))
    yield from ([*chat[:-1], other] for other in others)


def _letters_of(message: Any) -> str:
    """What a message says, but for white space, which may differ where it stands twice."""
    return "".join("".join(part.text or "" for part in spoken(parts_of(getter(message)("content")))).split())


def _message(message: Any) -> Any:
    if not isinstance(message, Mapping):
        return message
    held = {name: message[name] for name in _OF_MESSAGE if message.get(name) is not None}
    error = message.get("error")
    if isinstance(error, Mapping) and isinstance(error.get("message"), str):
        # Of a call that failed, this is what the model read.
        held["content"] = error["message"]
    return held


def _with_attached(value: Any, attached: Mapping[Any, Any]) -> Any:
    if isinstance(value, str):
        if not value.startswith(_ATTACHMENT):
            return value
        text = attached.get(value.removeprefix(_ATTACHMENT))
        return text if isinstance(text, str) else value
    if isinstance(value, Mapping):
        return {key: _with_attached(inner, attached) for key, inner in value.items()}
    return [_with_attached(inner, attached) for inner in value] if isinstance(value, list) else value


def _choices(output: Any) -> list[Any]:
    held = listed_cell(record(output).get("choices"))
    return [choice["message"] for choice in held if isinstance(choice, Mapping) and choice.get("message") is not None]


def _n_elsewhere(fields: Fields, messages: Sequence[Any]) -> int:
    """Calls of a model that are in none of the sample's messages, such as those of other agents."""
    known = {id_ for message in messages if isinstance(id_ := getter(message)("id"), str)}
    n = 0
    for event in listed_cell(fields.get("events")):
        if isinstance(event, Mapping) and event.get("event") == "model":
            id_ = getter(next(iter(_choices(event.get("output"))), None))("id")
            n += isinstance(id_, str) and id_ not in known
    return n


def _fits_inspect(fields: Fields) -> bool:
    return has(("messages",), ("epoch",), ("output", "events", "scores"))(fields)


def _deepeval(fields: Fields, where: str) -> Iterable[Fields]:
    """A test case of one turn, or of several."""
    reference = _either(fields, "expected_output")
    rest = {"id": fields.get("id"), "reference": reference if isinstance(reference, str) and reference else None}
    turns = listed_cell(fields.get("turns"))
    if turns:
        yield {**rest, "messages": [message for turn in turns for message in _messages_of_turn(turn)]}
        return
    query, answer = fields.get("input"), _either(fields, "actual_output")
    context, called = _read_beside(fields)
    if called:
        messages = with_tools(query, called)
        yield {**rest, "messages": [*messages[:1], *_retrieved_beside(context), *messages[1:]], "response": answer}
    elif context:
        yield {**rest, "query": query, "context": context, "response": answer}
    else:
        raise DataError(
            f"{where}: there is no 'retrieval_context', nor an output of a tool in 'tools_called', so there is nothing "
            "to measure; 'context' of a test case is what is right, and no model read it"
        )


def _either(fields: Fields, name: str) -> Any:
    """A field under its name in Python, or under that of its JSON."""
    head, *words = name.split("_")
    return first(fields, name, head + "".join(map(str.capitalize, words)))


def _read_beside(fields: Fields) -> tuple[list[Any], list[tuple[Any, Any, Any]]]:
    """What was retrieved, and the calls of tools, of a test case or a turn."""
    held = parsed_list(_either(fields, "retrieval_context"))
    # In tables and JSON lines it is one text.
    texts = _parts_of(held) if isinstance(held, str) else held if isinstance(held, list) else []
    context = [
        {"name": text["source"], "text": text.get("context")}
        if isinstance(text, Mapping) and isinstance(text.get("source"), str)
        else text
        for text in texts
    ]
    called = [
        (call.get("name"), _either(call, "input_parameters"), call.get("output"))
        for call in listed_cell(_either(fields, "tools_called"))
        if isinstance(call, Mapping)
    ]
    called += [
        (call.get("name"), call.get("args"), call.get("result"))
        for call in listed_cell(_either(fields, "mcp_tools_called"))
        if isinstance(call, Mapping)
    ]
    return context, called


def _parts_of(text: str) -> list[str]:
    """Texts that DeepEval has joined by a bar; one that has a table of Markdown is left whole."""
    parts = [text] if _TABLE.search(text) else _BAR.split(text)
    return [part for part in parts if part.strip()]


def _retrieved_beside(context: Sequence[Any]) -> list[JsonObject]:
    if not context:
        return []
    parts = [
        text if isinstance(text, Mapping) else {"name": f"d{n}", "text": text} for n, text in enumerate(context, 1)
    ]
    return [{"role": "tool", "name": "retrieval_context", "content": parts}]


def _messages_of_turn(turn: Any) -> Iterator[Any]:
    if not isinstance(turn, Mapping) or turn.get("role") != "assistant":
        yield {"role": turn.get("role"), "content": turn.get("content")} if isinstance(turn, Mapping) else turn
        return
    context, called = _read_beside(turn)
    yield from _retrieved_beside(context)
    yield from with_tools("", called)[1:]
    yield {"role": "assistant", "content": turn.get("content")}


def _fits_deepeval(fields: Fields) -> bool:
    if "turns" in fields:
        turns = listed_cell(fields["turns"])
        own = (
            *("retrieval_context", "retrievalContext", "tools_called", "toolsCalled"),
            *("mcp_tools_called", "mcpToolsCalled"),
        )
        return "scenario" in fields or any(name in turn for turn in turns if isinstance(turn, Mapping) for name in own)
    names = ("actual_output", "actualOutput"), ("retrieval_context", "retrievalContext", "tools_called", "toolsCalled")
    return has(("input",), *names)(fields)


FORMATS: Final = (
    DataFormat("inspect", "the messages of a sample, target as the reference", _fits_inspect, _inspect),
    DataFormat(
        "promptfoo",
        "prompt.raw as the messages, of which vars with the name of a context are the context, response.output as the "
        "response",
        _fits_promptfoo,
        of_fields(_promptfoo),
    ),
    DataFormat(
        "deepeval",
        "input as the query, retrieval_context and the outputs of tools_called as the context, actual_output as the "
        "response",
        _fits_deepeval,
        of_fields(_deepeval),
    ),
)
