"""Presets: records as other tools write them to the fields of a case, by name or found out by their fields.

A preset says which records are its own and makes the fields of `cases.cases_of_fields` of each. What it cannot express
it refuses: a prompt that is not the one that was sent would give numbers that mean nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from leakmeter.core.case import SYSTEM_ROLES
from leakmeter.core.record import JsonObject
from leakmeter.data.chat import ChatCases, answer_text
from leakmeter.data.conversation import is_part_of_conversation
from leakmeter.data.foreign import answer_of, described, parts_of, request_of, turn_of
from leakmeter.data.mapping import Fields, is_name, nearest, parsed_cell, parsed_list
from leakmeter.data.rows import DataRow
from leakmeter.errors import DataError

_NAMES = ("title", "id", "id_", "doc_id", "document_id", "file_name")
_METADATA_NAMES = ("source", "title", "file_name", "file_path", "name", "id", "doc_id")


@dataclass(frozen=True, slots=True)
class DataFormat:
    name: str
    about: str
    """Which of its fields become which, as shown when the format was found out."""
    fits: Callable[[Fields], bool]
    read: Callable[[Iterable[tuple[DataRow, Fields]]], Iterator[tuple[DataRow, Fields | ChatCases | DataError]]]
    """Rows with their fields to cases, or their fields; a row may hold several cases, and a case may be of two rows."""


def document_of(value: object, number: int, where: str) -> dict[str, object]:
    """A document of a context as {'name', 'text'}, from a text or from any library's document (see `foreign`). It is
    called by its name, its metadata's source, title or id, or its own title or id; `number` is from 1."""
    if not isinstance(value, Mapping):
        return {"name": f"d{number}", "text": value}
    document = described(value)
    if document.text is None:
        keys = ", ".join(f"'{key}'" for key in value if is_name(str(key)))
        has = f"; it has {keys}: name its text in --map, as in context=FIELD[].NAME" if keys else ""
        raise DataError(
            f"{where}: document {number} is an object without 'text', 'page_content', 'content' or 'body'{has}"
        )
    if (name := document.get("name")) is not None:
        return {"name": name, "text": document.text}
    named = [*map(document.described, _METADATA_NAMES), *map(document.get, _NAMES)]
    names = (str(name) for name in named if isinstance(name, str | int) and not isinstance(name, bool))
    return {"name": next((name for name in names if name.strip()), f"d{number}"), "text": document.text}


def documents_by_name(value: object) -> list[JsonObject] | None:
    """Documents of an object that has them by name, each a text or a record; None of any other value, such as a single
    document."""
    if not isinstance(value, Mapping) or not value or described(value).text is not None:
        return None
    if all(isinstance(text, str) for text in value.values()):
        return [{"name": str(name), "text": text} for name, text in value.items()]
    if all(isinstance(record, Mapping) for record in value.values()):
        return [{"name": str(name), **record} for name, record in value.items()]
    return None


def _openai(rows: Iterable[tuple[DataRow, Fields]]) -> Iterator[tuple[DataRow, Fields | DataError]]:
    """Requests and answers of chat completions, in one record, or in two of a batch with one `custom_id`."""
    exchanges: dict[object, tuple[DataRow, JsonObject]] = {}
    for row, fields in rows:
        key = fields.get("custom_id")
        # What is not part of a batch stands alone.
        id_ = key if isinstance(key, str) else (row.source, row.number)
        earlier = exchanges.get(id_)
        parts = _exchange(fields)
        if earlier is None:
            exchanges[id_] = row, parts
        elif any(parts[name] is not None and earlier[1][name] is not None for name in ("messages", "choices")):
            exchanges[row.source, row.number] = row, parts
        else:
            both = {name: earlier[1][name] if earlier[1][name] is not None else parts[name] for name in parts}
            # A case stands where its request does.
            exchanges[id_] = (row if parts["messages"] is not None else earlier[0]), both
    for row, parts in exchanges.values():
        yield from _completions(row, parts)


def _exchange(fields: Fields) -> JsonObject:
    answer, choices = answer_of(fields), fields.get("choices")
    request = request_of(fields)
    messages = parsed_cell(request.get("messages", fields.get("messages")))
    system = request.get("system")
    if system and isinstance(messages, list) and not any(turn_of(turn).role in SYSTEM_ROLES for turn in messages):
        # Anthropic's requests have it beside the messages.
        messages = [{"role": "system", "content": system}, *messages]
    if choices is None and isinstance(answer, Mapping):
        choices = answer.get("choices", [{"message": answer}] if "content" in answer else None)
    choices = parsed_cell(choices)
    if choices is None and isinstance(answer, str):
        choices = [{"message": {"content": answer}}]
    error = fields.get("error")
    return {
        "id": fields.get("custom_id", fields.get("id")),
        "messages": messages,
        "choices": choices,
        "reference": fields.get("reference"),
        "error": error or None,
    }


def _completions(row: DataRow, parts: JsonObject) -> Iterator[tuple[DataRow, Fields | DataError]]:
    messages, choices = parts["messages"], parts["choices"]

    def bad(problem: str) -> tuple[DataRow, DataError]:
        return row, DataError(f"{row.where}: {problem}")

    if messages is None:
        if parts["error"] is not None:
            yield bad("the request failed, and there is no answer")
        else:
            yield bad(
                "an answer of a batch without its request; give the lines of both files, as in: "
                "cat requests.jsonl answers.jsonl | leakmeter influence --data -"
            )
        return
    fields: JsonObject = {"messages": messages}
    fields |= {name: parts[name] for name in ("id", "reference") if parts[name] is not None}
    if choices is None:
        yield row, fields
        return
    if not isinstance(choices, list) or not choices:
        yield bad("'choices' has to be a list of one answer or more")
        return
    for number, choice in enumerate(choices, 1):
        message = choice.get("message") if isinstance(choice, Mapping) else None
        id_ = {} if number == 1 else {"id": f"{fields.get('id', row.number)} (choice {number})"}
        turn = turn_of(message)
        if turn.calls or any(is_part_of_conversation(part) for part in parts_of(turn.content)):
            if not isinstance(messages, list):
                yield bad("'messages' has to be a list")
                continue
            held = dict(message) if isinstance(message, Mapping) else {}
            yield row, fields | {"messages": [*messages, {**held, "role": "assistant"}]} | id_
            continue
        try:
            text = answer_text(turn.content, f"choice {number}")
        except DataError as error:
            yield bad(str(error))
            continue
        yield row, fields | {"response": text} | id_


def _fits_openai(fields: Fields) -> bool:
    body = fields.get("body", fields.get("request"))
    if isinstance(body, Mapping) and ("messages" in body or "body" in body):
        return True
    answer = fields.get("response")
    if isinstance(answer, Mapping) and ("choices" in answer or isinstance(answer.get("body"), Mapping)):
        return True
    if "custom_id" in fields:
        return True
    # Logs have fields of all kinds; one that is nearly called 'response' is no reason to draw another.
    misspelled = any(nearest(name, ("response",), at_least=90) for name in fields if name != "response")
    return "messages" in fields and not {"context", "query"} & set(fields) and not misspelled


def _renamed(
    make: Callable[[Fields, str], Iterable[Fields]],
) -> Callable[[Iterable[tuple[DataRow, Fields]]], Iterator[tuple[DataRow, Fields | DataError]]]:

    def read(rows: Iterable[tuple[DataRow, Fields]]) -> Iterator[tuple[DataRow, Fields | DataError]]:
        for row, fields in rows:
            try:
                for case in make(fields, row.where):
                    place = case.get("place")
                    at = replace(row, place=f"{row.place}{place}") if place else row
                    yield at, {name: value for name, value in case.items() if name != "place" and value is not None}
            except DataError as error:
                yield row, error

    return read


def _first(fields: Fields, *names: str) -> Any:
    """The first of these fields that says something; an empty text, which a case refuses, where none does."""
    values = [fields[name] for name in names if fields.get(name) is not None]
    return next((value for value in values if value != ""), values[0] if values else None)


def _ragas(fields: Fields, where: str) -> Iterable[Fields]:
    question = parsed_cell(_first(fields, "user_input", "question"))
    references = parsed_list(_first(fields, "reference", "ground_truth", "ground_truths"))
    reference = references[0] if isinstance(references, list) and references else references
    rest = {"id": fields.get("id"), "reference": reference or None}
    if isinstance(question, list):
        yield {**rest, "messages": question}
        return
    context = parsed_list(_first(fields, "retrieved_contexts", "contexts"))
    if context is None:
        raise DataError(f"{where}: there is no 'retrieved_contexts', so there is nothing to measure")
    yield {**rest, "query": question, "context": context, "response": _first(fields, "response", "answer")}


def _retrieved(fields: Fields, where: str) -> Iterable[Fields]:
    if parsed_list(_first(fields, "chat_history")) not in (None, [], ""):
        raise DataError(f"{where}: 'chat_history' was part of the prompt; give the whole chat as 'messages'")
    answer = _first(fields, "result", "answer", "output", "response")
    yield {
        "id": fields.get("id"),
        "query": _first(fields, "query", "question", "input"),
        "context": parsed_list(_first(fields, "source_documents", "context", "documents")),
        "response": answer.get("content") if isinstance(answer, Mapping) else answer,
        "reference": fields.get("reference"),
    }


def _haystack(fields: Fields, where: str) -> Iterable[Fields]:
    answer = fields.get("init_parameters", fields)
    held: Fields = answer if isinstance(answer, Mapping) else {}
    yield {
        "id": fields.get("id"),
        "query": held.get("query"),
        "context": parsed_list(held.get("documents")),
        "response": held.get("data"),
    }


def _fits_haystack(fields: Fields) -> bool:
    held = fields.get("init_parameters", fields)
    return isinstance(held, Mapping) and {"data", "query", "documents"} <= held.keys()


def _llamaindex(fields: Fields, where: str) -> Iterable[Fields]:
    answer = fields.get("response")
    nodes = fields.get("source_nodes")
    if isinstance(answer, Mapping):
        nodes, answer = nodes or answer.get("source_nodes"), answer.get("response")
    query = _first(fields, "query", "query_str", "question")
    if query is None:
        raise DataError(
            f"{where}: there is no 'query'; LlamaIndex does not keep it with its response, so give both, as in "
            "{'query': …, 'response': …}"
        )
    yield {
        "id": fields.get("id"),
        "query": query.get("query_str") if isinstance(query, Mapping) else query,
        "context": parsed_list(nodes),
        "response": answer,
        "reference": fields.get("reference"),
    }


def _squad(fields: Fields, where: str) -> Iterable[Fields]:
    paragraphs = fields.get("paragraphs", [{**fields, "qas": [fields]}])
    if not isinstance(paragraphs, list):
        raise DataError(f"{where}: 'paragraphs' has to be a list")
    title = fields.get("title")
    for i, paragraph in enumerate(paragraphs, 1):
        questions = paragraph.get("qas") if isinstance(paragraph, Mapping) else None
        if not isinstance(questions, list) or not all(isinstance(question, Mapping) for question in questions):
            raise DataError(f"{where}, paragraph {i}: expected 'context' and a list 'qas' of questions")
        for j, question in enumerate(questions, 1):
            answers = parsed_cell(question.get("answers"))
            texts: Any = answers.get("text") if isinstance(answers, Mapping) else answers
            first = texts[0] if isinstance(texts, list) and texts else None
            text = paragraph.get("context")
            yield {
                "id": question.get("id"),
                "query": question.get("question"),
                "context": [{"name": title, "text": text}] if isinstance(title, str) and is_name(title) else text,
                "reference": first.get("text") if isinstance(first, Mapping) else first,
                "place": f", paragraph {i}, question {j}" if "paragraphs" in fields else "",
            }


def _fits_langchain(fields: Fields) -> bool:
    if not _has(("query", "question", "input"), ("source_documents", "context", "documents"))(fields):
        return False
    held = parsed_list(_first(fields, "source_documents", "context", "documents"))
    if not held:
        return False
    first = held[0] if isinstance(held, list) else None
    inner = first.get("kwargs", first) if isinstance(first, Mapping) else {}
    return _has(("input", "source_documents", "result"))(fields) or (
        isinstance(inner, Mapping) and "page_content" in inner
    )


def _has(*groups: tuple[str, ...]) -> Callable[[Fields], bool]:
    return lambda fields: all(any(name in fields for name in group) for group in groups)


_ALL = (
    DataFormat("openai", "messages, with choices as the response", _fits_openai, _openai),
    DataFormat(
        "llamaindex",
        "query, source_nodes as the context, response",
        lambda fields: (
            "source_nodes" in fields
            or (isinstance(answer := fields.get("response"), Mapping) and "source_nodes" in answer)
        ),
        _renamed(_llamaindex),
    ),
    DataFormat(
        "squad",
        "question as the query, context, the first of answers as the reference",
        lambda fields: "paragraphs" in fields or _has(("question",), ("context",), ("answers",))(fields),
        _renamed(_squad),
    ),
    DataFormat(
        "ragas",
        "user_input as the query, retrieved_contexts as the context, response, reference (or question, contexts, "
        "answer, ground_truth)",
        lambda fields: (
            "user_input" in fields or ("question" in fields and "contexts" in fields and "context" not in fields)
        ),
        _renamed(_ragas),
    ),
    DataFormat(
        "haystack",
        "an answer's query, documents as the context, data as the response",
        _fits_haystack,
        _renamed(_haystack),
    ),
    DataFormat(
        "langchain",
        "input, question or query as the query, context or source_documents as the context, answer, result or output "
        "as the response",
        _fits_langchain,
        _renamed(_retrieved),
    ),
    DataFormat(
        "rag",
        "query or question as the query, documents or context as the context, response, answer or output as the "
        "response",
        # One that is not a case's own name, lest a misspelled name be passed over.
        _has(("query", "question"), ("context", "documents"), ("question", "documents", "answer", "output")),
        _renamed(_retrieved),
    ),
)
FORMATS: dict[str, DataFormat] = {format_.name: format_ for format_ in _ALL}
