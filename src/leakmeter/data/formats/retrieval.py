"""Presets: records of one question, what was retrieved for it, and an answer, as libraries of retrieval write them.

A preset says which records are its own and makes the fields of `cases.cases_of_fields` of each. What it cannot express
it refuses: a prompt that is not the one that was sent would give numbers that mean nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, Final

from leakmeter.core.record import JsonObject
from leakmeter.data.chat import answer_text
from leakmeter.data.conversation import is_part_of_conversation
from leakmeter.data.foreign import described, parts_of, text_of, turn_of
from leakmeter.data.formats.base import (
    ANSWERS,
    CONTEXTS,
    DataFormat,
    differing,
    first,
    has,
    listed_cell,
    of_fields,
    only,
    only_context,
    with_tools,
)
from leakmeter.data.mapping import Fields, is_name, parsed_cell, parsed_list
from leakmeter.errors import DataError


def _ragas(fields: Fields, where: str) -> Iterable[Fields]:
    question = parsed_cell(first(fields, "user_input", "question"))
    references = parsed_list(first(fields, "reference", "ground_truth", "ground_truths"))
    reference = references[0] if isinstance(references, list) and references else references
    rest = {"id": fields.get("id"), "reference": reference or None}
    answer = only(fields, where, "response", *ANSWERS)
    context = only_context(fields, where, "retrieved_contexts", "contexts", *CONTEXTS)
    if isinstance(question, list):
        yield {**rest, "messages": question, "response": answer, "marked": context or None}
        return
    if context is None:
        raise DataError(f"{where}: there is no 'retrieved_contexts', so there is nothing to measure")
    yield {**rest, "query": question, "context": context, "response": answer}


def _retrieved(fields: Fields, where: str) -> Iterable[Fields]:
    if parsed_list(first(fields, "chat_history")) not in (None, [], ""):
        raise DataError(f"{where}: 'chat_history' was part of the prompt; give the whole chat as 'messages'")
    answer = only(fields, where, *ANSWERS)
    yield {
        "id": fields.get("id"),
        "query": first(fields, "query", "question", "input"),
        "context": only_context(fields, where, *CONTEXTS),
        "response": _said(answer, where),
        "reference": fields.get("reference"),
    }


def _haystack(fields: Fields, where: str) -> Iterable[Fields]:
    """An answer that was built, or what a pipeline returned."""
    answers = [_answer_built(answer) for held in _components(fields) for answer in listed_cell(held.get("answers"))]
    if not answers:
        answers = [_answer_built(fields)]
    if all("documents" not in answer for answer in answers):
        yield from _pipeline(fields, where)
        return
    for number, answer in enumerate(answers, 1):
        yield {
            "id": fields.get("id"),
            "query": answer.get("query"),
            "context": parsed_list(answer.get("documents")),
            "response": _said(answer.get("data"), where),
            "place": f", answer {number}" if len(answers) > 1 else "",
        }


def _answer_built(value: object) -> Fields:
    answer: Any = value.get("init_parameters", value) if isinstance(value, Mapping) else {}
    return answer if isinstance(answer, Mapping) and {"data", "query", "documents"} <= answer.keys() else {}


def _components(fields: Fields) -> list[Fields]:
    """What the components of a pipeline returned, in their order, by names that its author gave them."""
    held = map(parsed_cell, fields.values())
    return [value for value in held if isinstance(value, Mapping)]


def _pipeline(fields: Fields, where: str) -> Iterable[Fields]:
    components = _components(fields)
    replies = _only_replies(fields, where)
    prompt: Any = next((told for part in components if (told := parsed_cell(part.get("prompt")))), None)
    places: tuple[Fields, ...] = (fields, *components)
    query = next((asked for part in places if (asked := first(part, "query", "question"))), None)
    found, read_before = _found(components)
    documents = [*found, *read_before]
    texts = [{**document, "text": described(document).text} for document in documents if isinstance(document, Mapping)]
    chat: Any = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    sent = "" if prompt is None else "\n".join(map(_text_of_message, listed_cell(chat)))
    is_sent = bool(texts) and any(isinstance(each["text"], str) and each["text"] in sent for each in texts)
    if query is None and not is_sent:
        raise DataError(
            f"{where}: the pipeline's result has no 'query', and no prompt with the documents; add the query, as in "
            "{'query': …, **result}, or have the prompt builder's output included"
        )
    read = {"messages": chat, "marked": texts} if is_sent else {"query": query, "context": found}
    for number, reply in enumerate(replies or [None], 1):
        is_several = len(replies) > 1
        yield {
            **read,
            "id": fields.get("id"),
            "response": _said(reply, where),
            "place": f", reply {number}" if is_several else "",
        }


def _only_replies(fields: Fields, where: str) -> list[Any]:
    """What the generator of a pipeline said; of several it is not known whose reply was the answer."""
    components = {name: part for name, held in fields.items() if isinstance(part := parsed_cell(held), Mapping)}
    replies = {name: held for name, part in components.items() if (held := listed_cell(part.get("replies")))}
    for one, other in pairwise(replies):
        if [_said(each, where) for each in replies[one]] != [_said(each, where) for each in replies[other]]:
            raise differing(where, f"{other}.replies[0]", f"{one}.replies[0]", "query=…,context=…,")
    return next(reversed(replies.values()), [])


def _found(components: Iterable[Fields]) -> tuple[list[Any], list[Any]]:
    """What the retrievers of a pipeline found: all of it, but for what a later component has chosen from among it; and
    what that has left out."""
    found: list[Any] = []
    left_out: list[Any] = []
    for part in components:
        held = listed_cell(part.get("documents"))
        known, own = ({described(document).text for document in documents} for documents in (found, held))
        if held and own <= known:
            left_out += (document for document in found if described(document).text not in own)
            found = held
        else:
            found = [*found, *(document for document in held if described(document).text not in known)]
    return found, left_out


def _text_of_message(message: Any) -> str:
    held = message.get("content", message.get("_content")) if isinstance(message, Mapping) else message
    return "\n".join(part.text for part in parts_of(held) if part.text is not None)


def _said(value: Any, where: str) -> Any:
    """An answer that may be a whole message, of which the reasoning is left out; refused where it calls a tool, since
    what the tool was told would not be measured."""
    if not isinstance(value, Mapping):
        return value
    turn = turn_of(value)
    held = next((held for held in (turn.content, *map(turn.get, ("_content", "blocks"))) if held is not None), None)
    parts = parts_of(held) if isinstance(held, list) else []
    if turn.calls or any(map(is_part_of_conversation, parts)):
        raise DataError(
            f"{where}: the answer calls a tool, which is not measured here; give the whole chat as 'messages'"
        )
    return answer_text(held, f"{where}: the answer") if parts else held


def _fits_haystack(fields: Fields) -> bool:
    if _answer_built(fields):
        return True
    components = _components(fields)
    return any(any(map(_answer_built, listed_cell(held.get("answers")))) for held in components) or (
        any(listed_cell(held.get("replies")) for held in components)
        and any(listed_cell(held.get("documents")) for held in components)
    )


def _llamaindex(fields: Fields, where: str) -> Iterable[Fields]:
    """A response of a query engine or of an agent, or a store of chats."""
    store = fields.get("store")
    if isinstance(store, Mapping):
        for key, messages in store.items():
            yield {"id": str(key), "messages": messages, "place": f", chat '{key}'" if is_name(str(key)) else ""}
        return
    answer = fields.get("response")
    nodes, sources = fields.get("source_nodes"), fields.get("sources")
    if isinstance(answer, Mapping):
        nodes, sources = nodes or answer.get("source_nodes"), sources or answer.get("sources")
        answer = answer.get("response")
    query = first(fields, "query", "query_str", "question")
    query = query.get("query_str") if isinstance(query, Mapping) else query
    if query is None:
        raise DataError(
            f"{where}: there is no 'query'; LlamaIndex does not keep it with its response, so give both, as in "
            "{'query': …, 'response': …}"
        )
    answer = only({**fields, "response": answer}, where, "response", *ANSWERS)
    rest = {"id": fields.get("id"), "response": answer, "reference": fields.get("reference")}
    called = [source for source in listed_cell(sources) if isinstance(source, Mapping) and "tool_name" in source]
    if called:
        yield {**rest, "messages": with_tools(query, map(_of_output, called))}
    else:
        yield {**rest, "query": query, "context": parsed_list(nodes)}


def _of_output(output: Fields) -> tuple[Any, Any, Any]:
    asked = output.get("raw_input")
    asked = asked.get("kwargs", asked) if isinstance(asked, Mapping) else asked
    return output.get("tool_name"), asked, first(output, "content", "blocks", "raw_output")


def _bedrock(fields: Fields, where: str) -> Iterable[Fields]:
    """An answer of RetrieveAndGenerate: it has of what was retrieved what was cited."""
    request, answer = _inner(fields, "request"), _inner(fields, "response")
    asked, said = request.get("input"), answer.get("output")
    query = asked.get("text") if isinstance(asked, Mapping) else first(fields, "query", "question") or asked
    if query is None:
        raise DataError(f"{where}: there is no question; the response has none, so give its request too")
    found: dict[str, JsonObject] = {}
    for citation in listed_cell(answer.get("citations")):
        for reference in listed_cell(citation.get("retrievedReferences")) if isinstance(citation, Mapping) else ():
            text = text_of(reference.get("content")) if isinstance(reference, Mapping) else None
            if text is not None:
                found.setdefault(text, {"name": _place_of(reference) or f"d{len(found) + 1}", "text": text})
    yield {
        "id": fields.get("id"),
        "query": query,
        "context": list(found.values()),
        "response": said.get("text") if isinstance(said, Mapping) else said,
    }


def _inner(fields: Fields, name: str) -> Fields:
    """What a record holds under a name, or itself."""
    held = fields.get(name)
    return held if isinstance(held, Mapping) else fields


def _place_of(reference: Fields) -> str | None:
    """The file or the address that a reference came from."""
    metadata, location = reference.get("metadata"), reference.get("location")
    names = [metadata.get("x-amz-bedrock-kb-source-uri")] if isinstance(metadata, Mapping) else []
    inner = location.values() if isinstance(location, Mapping) else ()
    names += (place.get(name) for place in inner if isinstance(place, Mapping) for name in ("uri", "url", "id"))
    uri = next((name for name in names if isinstance(name, str) and name.strip()), None)
    return None if uri is None else uri.rstrip("/").rpartition("/")[2] or uri


def _fits_bedrock(fields: Fields) -> bool:
    citations = listed_cell(_inner(fields, "response").get("citations"))
    return bool(citations) and all(isinstance(held, Mapping) and "retrievedReferences" in held for held in citations)


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
            answer = texts[0] if isinstance(texts, list) and texts else None
            text = paragraph.get("context")
            yield {
                "id": question.get("id"),
                "query": question.get("question"),
                "context": [{"name": title, "text": text}] if isinstance(title, str) and is_name(title) else text,
                "reference": answer.get("text") if isinstance(answer, Mapping) else answer,
                "place": f", paragraph {i}, question {j}" if "paragraphs" in fields else "",
            }


def _fits_langchain(fields: Fields) -> bool:
    if not has(("query", "question", "input"), ("source_documents", "context", "documents"))(fields):
        return False
    held = parsed_list(first(fields, "source_documents", "context", "documents"))
    if not held:
        return False
    document = held[0] if isinstance(held, list) else None
    inner = document.get("kwargs", document) if isinstance(document, Mapping) else {}
    return has(("input", "source_documents", "result"))(fields) or (
        isinstance(inner, Mapping) and "page_content" in inner
    )


FORMATS: Final = (
    DataFormat(
        "bedrock",
        "input.text as the query, citations[].retrievedReferences[] as the context, output.text as the response",
        _fits_bedrock,
        of_fields(_bedrock),
    ),
    DataFormat(
        "llamaindex",
        "query, source_nodes as the context, response",
        lambda fields: (
            "source_nodes" in fields
            or (isinstance(answer := fields.get("response"), Mapping) and "source_nodes" in answer)
            or fields.get("class_name") == "SimpleChatStore"
        ),
        of_fields(_llamaindex),
    ),
    DataFormat(
        "squad",
        "question as the query, context, the first of answers as the reference",
        lambda fields: "paragraphs" in fields or has(("question",), ("context",), ("answers",))(fields),
        of_fields(_squad),
    ),
    DataFormat(
        "ragas",
        "user_input as the query, retrieved_contexts as the context, response, reference (or question, contexts, "
        "answer, ground_truth)",
        lambda fields: (
            "user_input" in fields or ("question" in fields and "contexts" in fields and "context" not in fields)
        ),
        of_fields(_ragas),
    ),
    DataFormat(
        "haystack",
        "an answer's query, documents as the context, data as the response; of a pipeline query, documents, replies",
        _fits_haystack,
        of_fields(_haystack),
    ),
    DataFormat(
        "langchain",
        "input, question or query as the query, context or source_documents as the context, answer, result or output "
        "as the response",
        _fits_langchain,
        of_fields(_retrieved),
    ),
    DataFormat(
        "rag",
        "query or question as the query, documents or context as the context, response, answer or output as the "
        "response",
        # One that is not a case's own name, lest a misspelled name be passed over.
        has(("query", "question"), ("context", "documents"), ("question", "documents", "answer", "output")),
        of_fields(_retrieved),
    ),
)
