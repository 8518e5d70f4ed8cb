"""Messages, documents and settings of other libraries, and any object of theirs, as plain values, by what they have.

The names that libraries have for one thing stand here and nowhere else. No library is imported. What is no text is
named by its kind and left out, so that a reader sees that the prompt had it.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from uuid import UUID

from leakmeter.core.case import DECODINGS
from leakmeter.core.record import JsonObject
from leakmeter.errors import DataError, UsageError

LoggedFields = JsonObject

SAMPLING: Final = {
    "temperature": ("temperature",),
    "top_p": ("top_p", "topP"),
    "top_k": ("top_k", "topK"),
    "min_p": ("min_p",),
    "typical_p": ("typical_p",),
    "seed": ("seed", "random_seed"),
    "frequency_penalty": ("frequency_penalty",),
    "presence_penalty": ("presence_penalty",),
    "repetition_penalty": ("repetition_penalty", "repeat_penalty"),
    "max_tokens": (
        *("max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens", "maxOutputTokens"),
        "num_predict",
    ),
    "do_sample": ("do_sample",),
    "num_beams": ("num_beams", "n_beams", "beam_width"),
    "decoding": ("decoding",),
}
"""Settings that say how an answer was drawn, and what libraries call them; the first name that is there counts."""
_BIASED: Final = ("logit_bias", "bad_words", "bad_words_ids", "allowed_token_ids")
_CONSTRAINED: Final = (
    *("constrained", "response_format", "response_schema", "response_json_schema", "structured_outputs", "json_schema"),
    *("grammar", "format", "guided_json", "guided_regex", "guided_choice", "guided_grammar"),
)
_NESTED: Final = (
    *("model_kwargs", "options", "extra_body", "generation_config", "generationConfig", "additional_kwargs"),
    *("pipeline_kwargs", "generate_kwargs"),
)
_MODEL: Final = ("model", "model_name", "model_id", "deployment_name", "azure_deployment")
_OPENING: Final = ("[", "{", '"')
ROLES: Final = {
    **dict.fromkeys(("human", "HumanMessage", "HumanMessageChunk"), "user"),
    **dict.fromkeys(("ai", "chatbot", "model", "AIMessage", "AIMessageChunk"), "assistant"),
    **dict.fromkeys(("SystemMessage", "SystemMessageChunk"), "system"),
    **dict.fromkeys(("ToolMessage", "ToolMessageChunk"), "tool"),
    **dict.fromkeys(("FunctionMessage", "FunctionMessageChunk"), "function"),
}
"""What libraries call a role, where that is not its name."""
REASONING: Final = ("reasoning", "thinking", "redacted_thinking", "reasoning_content")
"""Parts of a message, and fields beside it, in which a model reasons out of sight."""
_REASONED_LISTS: Final = ("reasoning_details", "thinking_blocks")
REASONED: Final = (*REASONING, *_REASONED_LISTS, "reasoningContent")
"""Fields and parts of an assistant's message that its reader does not see."""
SAID_NOTHING: Final = (
    "step-start",
    "source",
    "source-url",
    "source-document",
    "mcp_list_tools",
    "mcp_approval_request",
)
"""Parts and items in which nobody says, calls or reads anything."""
_REASONED: Final = (*REASONED, "step-start")
_REASONED_ENDS: Final = ("reasoning", "reasoning_content", "tokens", "token_count")
TEXT_PARTS: Final = ("text", "input_text", "output_text")
CALL_PARTS: Final = (
    *("tool_call", "tool_use", "function_call", "toolUse", "server_tool_use", "mcp_tool_use", "server_tool_call"),
    *("custom_tool_call", "dynamic-tool", "tool-call", "tool-invocation", "functionCall"),
    *("executableCode", "executable_code"),
)
RESULT_PARTS: Final = (
    *("tool_call_response", "tool_result", "toolResult", "tool_call_result", "tool-result", "function_call_output"),
    *("custom_tool_call_output", "mcp_tool_result", "web_search_tool_result", "server_tool_call_response"),
    *("functionResponse", "function_response", "codeExecutionResult", "code_execution_result"),
)
DOCUMENT_PARTS: Final = ("document", "search_result", "resource", "web_search_result", "retrieved_document")
"""Parts that are documents beside a question, or among what a tool returned."""
_CALLED_OR_RETURNED: Final = frozenset((*CALL_PARTS, *RESULT_PARTS))
ITEMS: Final = (
    *(*CALL_PARTS, *RESULT_PARTS, *REASONED, "mcp_list_tools", "mcp_approval_request"),
    *(
        "file_search_call",
        "web_search_call",
        "mcp_call",
        "code_interpreter_call",
        "computer_call",
        "image_generation_call",
    ),
    *("local_shell_call", "shell_call", "computer_call_output", "local_shell_call_output", "shell_call_output"),
)
"""Types of items of a conversation that are no messages."""
LEFT_OUT: Final = {"file_search_call": "results", "web_search_call": "results", "code_interpreter_call": "outputs"}
"""Items of what a server did for a model, and where they have what came of it: a log may leave it out."""
CALLS: Final = ("toolInvocations", "tool_calls", "function_call", "tool_use")
_ARGUMENTS: Final = (
    *("arguments", "args", "tool_kwargs", "input", "inputParameters", "input_parameters", "parameters", "queries"),
    *("action", "code"),
)
CALL_IDS: Final = ("call_id", "tool_call_id", "tool_use_id", "toolUseId", "toolCallId", "id")
"""What the id of a call is called, in the call and in its result."""
CHOICES: Final = ("choices", "candidates", "generations")
"""What the list of a model's answers to one request is called."""
_ANSWERS: Final = ("response", "completion", "answer", "output")
RESULTS: Final = ("response", "result", "output", "content", "structuredContent", "text")
"""What the result of a call is called."""
RESULTS_OF_CALL: Final = ("output", "results", "result", "outputs", "errorText")
"""The same, beside the call."""
_UNDERSTOOD: Final = (
    *("role", "content", "name", "parts", "contents", "type", "tool_call_id", "function", "refusal", "end_turn"),
    # What a program keeps of a message, and no model reads.
    *("id", "model", "source", "metadata", "created_at", "createdAt", "timestamp", "finish_reason", "stop_reason"),
    *("annotations", "usage", "status", "meta", "end_turn", "is_error", "response_metadata", "usage_metadata"),
)
"""Fields of a message that hold what it says, or that are no part of what a model reads."""
_SHELLS: Final = ("node", "document", "kwargs")
TEXTS: Final = ("text", "page_content", "content", "body", "passage", "chunk", "chunk_text")
_IDS: Final = ("id", "id_", "doc_id", "document_id", "node_id", "chunk_id")
"""What a document is called by; in its metadata too."""
_BESIDE: Final = ("metadata", "body", "request", "extra")
"""Of a record of a completion, what may have that too."""
WHOSE: Final = ("owner", "tenant", "readers")
"""Of a document: whom it belongs to, or is about; the customer or team whose it is; and who may read it."""
RETRIEVED: Final = (
    *("documents", "retrieved_contexts", "retrieved_documents", "retrieved", "contexts", "context"),
    *("source_documents", "chunks", "docs", "passages"),
)
"""What a list of documents is called beside a prompt or an answer."""
FOUND: Final = (
    *(*RETRIEVED, "results", "nodes", "source_nodes", "output", "outputs", "matches", "hits", "points", "items"),
    *("data", "result", "value", "search_results", "retrieval_results", "retrievalResults"),
)
"""What it is called in what a search returned."""
_NOTHING: Final[Mapping[str, Any]] = {}


def name_of(value: object) -> str | None:
    """An id, a model or a recipient as text: a number, a UUID and the like are written as they print."""
    if value is None or isinstance(value, str):
        return value or None
    return str(value)


def parsed(value: Any) -> Any:
    """What a text says as JSON, if it looks like a list, a record or a text; else the value. Spans hold lists so. In
    the place of an object that has a name twice stands `Unread`."""
    if isinstance(value, str) and value.lstrip()[:1] in _OPENING:
        with suppress(ValueError, RecursionError):
            return json.loads(value, object_pairs_hook=object_of)
    return value


def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any] | Unread:
    """An object of names and values; of two values under one name, a reader would see only the last."""
    held = dict(pairs)
    if len(held) == len(pairs):
        return held
    ((name, _),) = Counter(name for name, _ in pairs).most_common(1)
    # A text may have slipped into the place of a name.
    shown = f"'{name}'" if name.isidentifier() and len(name) <= _LONGEST_NAME else "a name"
    return Unread(f"an object that has {shown} twice", "give each value a name of its own")


def first(held: Mapping[Any, Any], *names: str) -> Any:
    return next((value for name in names if (value := held.get(name)) not in (None, "", [], {})), None)


def record(value: object) -> Mapping[Any, Any]:
    """A record, maybe as JSON text; empty where it is none."""
    inner = parsed(value)
    return inner if isinstance(inner, Mapping) else {}


def request_of(fields: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """What a record of a completion says of the request: itself, or what it holds as such, in a body or not."""
    return next((_body(held) for name in ("body", "request") if (held := record(fields.get(name)))), fields)


def answers_of(fields: Mapping[Any, Any]) -> JsonObject:
    """What a record of a completion has as its answer, by the names of its fields, choices of its own before others;
    empty ones where no other is."""
    held: JsonObject = {name: {name: fields[name]} for name in CHOICES if fields.get(name) is not None}
    if turn_of(message := record(fields.get("message"))).role == "assistant":
        held["message"] = {"message": message}
    said = {name: fields.get(name) for name in _ANSWERS}
    held |= {name: _opened(value) for name, value in said.items() if isinstance(value, str | Mapping | list)}
    return {name: value for name, value in held.items() if value not in ("", {}, [])} or held


def _opened(answer: Any) -> Any:
    held = parsed(answer)
    if not isinstance(held, Mapping):
        return answer
    # A model may write JSON: only what is a completion is taken for more than the text.
    is_completion = any(isinstance(held.get(name), list) for name in (*CHOICES, "output", "content"))
    is_completion |= any(record(held.get(name)) for name in ("body", "message", "output"))
    return answer if isinstance(answer, str) and not (is_completion or "role" in held or "lc" in held) else _body(held)


def retrieved_beside(fields: Mapping[Any, Any]) -> Any:
    """What a record of a completion has as retrieved beside its messages, as it stands there; None where it has
    nothing."""
    within = (*map(fields.get, _BESIDE), request_of(fields).get("metadata"))
    return next(
        (held for place in (fields, *map(record, within)) if (held := first(place, *RETRIEVED)) is not None), None
    )


def _body(value: object) -> Mapping[Any, Any]:
    held = record(value)
    return record(held.get("body")) or held


def strings(value: Any, *, most: int = 10_000) -> Counter[str]:
    """The texts within what a program returned, without white space around them, and how often each stands there;
    `most` values are looked at."""
    counts: Counter[str] = Counter()
    todo = [value]
    while todo and most:
        most -= 1
        part = todo.pop()
        if isinstance(part, str):
            counts[part.strip()] += 1
        elif isinstance(part, Mapping):
            todo += part.values()
        elif isinstance(part, list | tuple):
            todo += part
        elif part is not None:
            # A message's text stands in it several times.
            todo.append(next((held for name in _HOLDING_TEXT if (held := getattr(part, name, None)) is not None), None))
    del counts[""]
    return counts


_HOLDING_TEXT: Final = ("content", "text", "response", "message", "messages", "update")


# --- messages ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ContentPart:
    kind: str
    """'text', whatever its library calls that; or what else it is."""
    text: str | None
    logged: Any


@dataclass(frozen=True, slots=True)
class Turn:
    """A message of any library, as far as it is understood; who reads it says what is refused."""

    role: object
    """By its usual name, if it is a text."""
    content: Any
    """As it was given; None where there is none."""
    calls: Sequence[Any]
    get: Callable[[str], Any]
    """Looks up what else it has."""
    unknown: str | None
    """Of a record with a role, the first field that is filled and may change what the model read."""


def turn_of(message: Any) -> Turn:
    """A message of OpenAI, LangChain, LlamaIndex, OpenInference, OpenTelemetry or leakmeter, or a pair of role and
    content."""
    if isinstance(message, tuple | list) and len(message) == 2 and isinstance(message[0], str):
        message = {"role": message[0], "content": message[1]}
    get = outer = getter(message)
    fields, role = message, outer("role")
    for shell in ("message", "kwargs", "data"):
        if isinstance(inner := get(shell), Mapping):
            fields, get = inner, inner.get
            role = role or get("role")
    kind = _plain(get("type")) or _plain(outer("type"))
    if kind in (None, "constructor") and isinstance(path := outer("id"), list) and path:
        kind = path[-1]
    has_role, role = bool(role), _plain(role) or kind or role
    extra, blocks = get("additional_kwargs"), get("blocks")
    # Of LlamaIndex, `content` is the text alone, and leaves other parts out.
    held = (
        [blocks] if isinstance(blocks, list) and blocks else list(map(get, ("content", "parts", "contents", "blocks")))
    )
    filled = [value for value in held if value not in (None, "", [])]
    content = filled[0] if filled else get("content")
    # Some interfaces have the text of the parts beside them, too.
    says_other = False
    if isinstance(content, str) and len(filled) > 1 and isinstance(parts := filled[1], list):
        says_other = not _is_text_of(content, parts)
        content = content if says_other else parts
    if content is None and isinstance(refused := get("refusal"), str):
        content = refused
    looks = (get, extra.get) if isinstance(extra, Mapping) else (get,)
    calls = next((called for look in looks for name in CALLS if (called := look(name))), ())
    unknown = "tool_calls" if calls else None
    if has_role and isinstance(fields, Mapping) and not blocks:
        named = (name for name, value in fields.items() if value not in (None, [], {}, "", False))
        is_answer = isinstance(role, str) and ROLES.get(role, role) == "assistant"
        known = (*_UNDERSTOOD, *_REASONED) if is_answer else _UNDERSTOOD
        unknown = next((str(name) for name in named if name not in known), "parts" if says_other else None)
    return Turn(
        ROLES.get(role, role) if isinstance(role, str) else role,
        content,
        calls if isinstance(calls, list | tuple) else [calls],
        lambda name: next((held for look in looks if (held := look(name)) is not None), None),
        unknown,
    )


def _is_text_of(text: str, parts: list[Any]) -> bool:
    said = "".join(part.text or "" for part in parts_of(parts) if part.kind == "text")
    return "".join(text.split()) in "".join(said.split())


def parts_of(content: Any) -> list[ContentPart]:
    if content is None:
        return []
    is_list = isinstance(content, Iterable) and not isinstance(content, str | Mapping)
    return list(map(_part, content if is_list else [content]))


def _part(logged: Any) -> ContentPart:
    if isinstance(logged, str):
        return ContentPart("text", logged, logged)
    # A shell of OpenInference's attributes.
    get = getter(logged) if (inner := getter(logged)("message_content")) is None else getter(inner)
    if get("type") == "refusal" and isinstance(refused := get("refusal"), str):
        # What the user was told instead of an answer.
        return ContentPart("text", refused, logged)
    text = next((held for name in ("text", "content") if isinstance(held := get(name), str)), None)
    kind = _plain(get("type") or get("block_type"))
    if kind is None and get("thought") is True:
        kind = "reasoning"  # Google's mark of a text
    if kind is None and text is None and isinstance(logged, Mapping):
        # Bedrock's parts have their kind as the one name, Google's beside a signature.
        named = [name for name in logged if len(logged) == 1 or (name in _CALLED_OR_RETURNED and logged[name])]
        kind = named[0] if len(named) == 1 else None
    return ContentPart("text" if kind is None or kind in TEXT_PARTS else str(kind), text, logged)


def is_of_blocks(value: object) -> bool:
    """Whether a list is one text in blocks, each with its type or with nothing but its text; not one of documents."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(part, Mapping) and ("type" in part or set(part) == {"text"}) for part in value)
    )


def spoken(parts: Iterable[ContentPart]) -> list[ContentPart]:
    """Parts of an assistant's message without its reasoning."""
    return [part for part in parts if part.kind not in _REASONED]


def joined_answer(texts: Iterable[str]) -> str:
    """Blocks of one answer as a text. An answer with citations is cut anywhere, within a number too: only a block that
    ends a sentence, with no white space before the next, is followed by a line break.

    >>> joined_answer(["Anna Ek called at", " nine.", "Bo Lind did not."])
    'Anna Ek called at nine.\\nBo Lind did not.'
    """
    out = ""
    for text in texts:
        is_next = out.endswith((".", "!", "?", ":", ";")) and text[:1].isalpha()
        out += f"\n{text}" if is_next else text
    return out


def getter(value: Any) -> Callable[[str], Any]:
    if isinstance(value, Mapping):
        return value.get
    return lambda name: getattr(value, name, None)


def messages_of(messages: Any) -> tuple[LoggedFields, ...]:
    """A chat as it was sent, of any library (see `turn_of`), as messages with `role` and `content`."""
    if isinstance(messages, str | Mapping) or not isinstance(messages, Iterable):
        raise UsageError("'messages' is not a list of messages; give a completion's text as 'prompt'")
    return tuple(_message(turn_of(message), number) for number, message in enumerate(messages, 1))


def _message(turn: Turn, number: int) -> LoggedFields:
    if not isinstance(turn.role, str) or not turn.role:
        raise UsageError(f"message {number} has no role")
    content, calls = content_of(turn)
    fields: LoggedFields = {"role": turn.role.lower(), "content": content}
    for name in ("name", "tool_call_id"):
        if isinstance(held := turn.get(name), str) and held:
            fields[name] = held
    if calls:
        fields["tool_calls"] = calls
    return fields


def content_of(turn: Turn) -> tuple[str | list[LoggedFields], list[LoggedFields]]:
    """What a message says, and the calls of tools among its parts and beside them, as `{"name", "arguments"}`. It says
    a text; or, where there are several parts or some that are no text, a list of `{"type": "text", "text"}` and of
    `{"type"}` of other kinds."""
    parts: list[LoggedFields] = []
    calls: list[Any] = []
    for part in parts_of(turn.content):
        text = part.text
        if part.kind in RESULT_PARTS and not text:
            inner = getter(part.logged)(part.kind)
            look = getter(inner if isinstance(inner, Mapping) else part.logged)
            text = as_text(next(filter(None, map(look, ("response", "result", "output", "content"))), ""))
        if part.kind in CALL_PARTS:
            calls.append(part.logged)
        elif text is not None and part.kind in ("text", *RESULT_PARTS):
            parts.append({"type": "text", "text": text})
        else:
            parts.append({"type": "unknown" if part.kind == "text" else part.kind})
    if len(parts) <= 1 and all(part["type"] == "text" for part in parts):
        return (parts[0]["text"] if parts else ""), calls_of([*calls, *turn.calls])
    return parts, calls_of([*calls, *turn.calls])


def calls_of(calls: Any) -> list[LoggedFields]:
    """Calls of tools, of any library, as `{"name", "arguments"}`. Some libraries have a call both among the parts of a
    message and beside them: those of one id that say the same are one."""
    if isinstance(calls, str | Mapping) or not isinstance(calls, Iterable):
        raise UsageError("'tool_calls' is not a list of calls, each with a 'name' and 'arguments'")
    out: list[LoggedFields] = []
    known: set[tuple[str | None, str, str]] = set()
    for call in calls:
        if isinstance(call, str):
            continue
        name, arguments, id_ = called(call)
        said = id_, name, as_text(parsed(arguments))
        if id_ is None or said not in known:
            out.append({"name": name, "arguments": arguments})
        known.add(said)
    return out


def is_silent(kind: str) -> bool:
    """Whether nobody says, calls or reads anything in a part or an item of that type."""
    return kind in SAID_NOTHING or kind.startswith("data-")


def is_call(kind: str) -> bool:
    """Whether a part or an item of that type calls a tool, whose name may be in the type."""
    return kind.endswith("_call") or kind.startswith("tool-")


def called(call: Any, kind: str = "") -> tuple[str, str, str | None]:
    """Tool, arguments and id of a call of any library; `kind` is the type of the part or item that it is."""
    outer = getter(call)
    get = _within_shells(call)
    named: tuple[Any, ...] = (get("name"), get("tool_name"), get("toolName"), get("function"))
    name: str = next((name for name in named if isinstance(name, str) and name), "")
    if not name and is_call(kind):
        # Of items of a kind of their own, such as file_search_call, and of parts named tool-NAME.
        name = kind.removesuffix("_call").removeprefix("tool-")
    elif server := name_of(get("server_label") or get("server_name")):
        name = f"{server}.{name}"
    arguments = next((held for key in _ARGUMENTS if (held := get(key)) is not None), "")
    ids = (name_of(where(key)) for where in (get, outer) for key in CALL_IDS if not callable(where(key)))
    return name, as_text(arguments), next(filter(None, ids), None)


def _within_shells(call: Any) -> Callable[[str], Any]:
    get = getter(call)
    for shell in (
        *("tool_call", "function", "toolUse", "toolInvocation", "functionCall", "function_call"),
        *("executableCode", "executable_code"),
    ):
        inner = get(shell)
        get = getter(inner) if inner is not None and not isinstance(inner, str) else get
    return get


def result_of(call: Any) -> Any:
    """What came back, where that stands beside the call; None where nothing does."""
    looks = (getter(call), _within_shells(call))
    held = (get(name) for get in looks for name in RESULTS_OF_CALL)
    return next((result for result in held if result not in (None, "", [], {})), None)


_NO_TEXTS: Final = (
    *("image", "image_url", "input_image", "audio", "input_audio", "video", "media", "base64", "blob", "file"),
    "input_file",
)
"""Types of parts whose data are no text."""


_DESCRIBING: Final = frozenset(
    (
        *("type", "block_type", "id", "id_", "doc_id", "document_id", "node_id", "chunk_id", "file_id", "tool_call_id"),
        *("vector_store_id", "source", "file_name", "filename", "file_path", "filepath", "path", "uri", "url", "link"),
        *("score", "relevance_score", "rerank_score", "similarity", "distance", "rank", "index", "embedding"),
        *("sparse_embedding", "page", "page_number", "page_label", "page_age", "mimeType", "mime_type", "media_type"),
        *("annotations", "citations", "cache_control", "_meta", "encrypted_content", "logprobs", "providerOptions"),
        *("providerMetadata", "provider_options", "provider_metadata", "signature"),
    )
)
"""Fields beside a text that say where it stands, how it was found, or what an API does with it, and nothing else."""


def says_only(value: Any, said: str) -> bool:
    """Whether a record has nothing that a reader does not learn from what was said of it, but what describes it."""
    if isinstance(value, Mapping):
        # What a document came from may be its name, or hold its text.
        return all(
            says_only(held, said)
            for name, held in value.items()
            if name not in _DESCRIBING or (name == "source" and isinstance(held, Mapping))
        )
    if isinstance(value, list):
        return all(says_only(held, said) for held in value)
    return value is None or (isinstance(value, str) and value.strip() in said)


def text_of(value: Any, named: str = "") -> str | None:
    """What a result, a document's source or a list of blocks says as text; None where it is no text. A record that says
    more than its text and the name that it is known by is written whole."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        texts = [text_of(part) for part in value]
        return "\n".join(text for text in texts if text) if texts and None not in texts else None
    if not isinstance(value, Mapping):
        return None
    found = _text_within(value)
    if found is None:
        return None
    name, text = found
    rest = {other: held for other, held in value.items() if other != name}
    return text if says_only(rest, f"{named}\n{text}") else as_text(value)


def _text_within(value: Mapping[Any, Any]) -> tuple[str, str] | None:
    """Which field of a record has its text, and the text."""
    if isinstance(value.get("text"), str):
        return "text", str(value["text"])
    if "json" in value and len(value) == 1:
        return "json", as_text(value["json"])
    kind = value.get("type")
    if kind in _NO_TEXTS:
        return None
    if kind == "json" and "value" in value:
        return "value", as_text(value["value"])
    for name in ("content", "source", "value", "data", "logs"):
        if name in value and (kind is not None or name == "source") and (text := text_of(value[name])) is not None:
            return name, text
    return None


def reasoning_text(part: Any) -> str:
    """What a part of reasoning says; empty where it is sealed."""
    held = part
    for name in ("message_content", "reasoningContent", "reasoningText", "reasoning"):
        held = held[name] if isinstance(held, Mapping) and isinstance(held.get(name), Mapping) else held
    get = getter(held)
    for name in ("text", "thinking", "content", "reasoning", "summary", "reasoning_text"):
        if (text := text_of(get(name))) is not None:
            return text
    return ""


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def choice_of(message: Any, *, has_reasoned: object = False, **fields: Any) -> LoggedFields:
    """One answer of a model's call, a text or a message of any library: `answer`, a text; `tool_calls`, as in messages;
    `reasoning`, as far as it was not sealed; `hidden_calls`, 1 where it reasoned out of sight; and the fields."""
    turn = turn_of({"content": message} if isinstance(message, str) else message)
    answer, calls = content_of(turn)
    parts = [{"type": "text", "text": answer}] if isinstance(answer, str) else answer
    text = "".join(part["text"] for part in parts if part["type"] == "text")
    has_reasoned = bool(has_reasoned) or any(part["type"] in REASONING for part in parts)
    reasoning = reasoning_of(turn)
    n_hidden = int(has_reasoned or bool(reasoning))
    return {"answer": text, "tool_calls": calls, "reasoning": reasoning, "hidden_calls": n_hidden, **fields}


def reasoning_of(turn: Turn) -> str:
    """What a message of the model's says of its reasoning, among its parts or beside them; empty where nothing."""
    parts = [reasoning_text(part.logged) for part in parts_of(turn.content) if part.kind in REASONED]
    return joined_answer([*filter(str.strip, parts), *reasoning_beside(turn)])


def reasoning_beside(turn: Turn) -> list[str]:
    """What a message has as reasoning beside its parts; some servers have one thought under several names, or as a part
    too."""
    texts = (text for name in REASONING if isinstance(text := turn.get(name), str))
    thought = "".join(reasoning_text(part.logged) for part in parts_of(turn.content) if part.kind in REASONED)
    return [text for text in dict.fromkeys(filter(str.strip, texts)) if text not in thought]


def has_reasoned(held: Any, depth: int = 0) -> bool:
    """Whether what was logged of an answer says that the model reasoned out of sight: tokens of it are counted, or a
    text of it stands beside the answer.

    >>> has_reasoned({"usage": {"completion_tokens_details": {"reasoning_tokens": 12}}})
    True
    """
    if depth > 8:
        return False
    if isinstance(held, list):
        return any(has_reasoned(item, depth + 1) for item in held if isinstance(item, list | dict))
    if not isinstance(held, dict):
        return False
    if isinstance(kind := held.get("type"), str) and kind in REASONING:
        return True
    for name, value in held.items():
        if isinstance(value, dict | list):
            if value and (name in _REASONED_LISTS or has_reasoned(value, depth + 1)):
                return True
        elif value and isinstance(name, str) and "reasoning" in name and name.endswith(_REASONED_ENDS):
            return value not in ("0", "null")
        elif value and name in ("thinking", "thoughtsTokenCount", "thoughts_token_count"):
            return True
    return False


# --- documents --------------------------------------------------------------------------------------------------------


def documents_of(documents: Any) -> tuple[LoggedFields, ...]:
    """Documents as `{"id", "text"}`, each once, with owner, tenant and readers where they have these; an id or a text
    that is not known is None. Given are texts or mappings by id, or texts, mappings, or documents of LangChain,
    LlamaIndex, OpenInference or leakmeter."""
    if isinstance(documents, str) or not isinstance(documents, Iterable):
        raise UsageError("'documents' is neither a list of documents nor texts by id")
    found: Iterable[tuple[Any, Any, tuple[Any, ...]]] = map(_named_document, documents)
    if isinstance(documents, Mapping):
        found = (
            (id_, *(_named_document(held)[1:] if isinstance(held, Mapping) else (held, ())))
            for id_, held in documents.items()
        )
    distinct: dict[tuple[str | None, str | None, tuple[Any, ...]], None] = {}
    for id_, text, whose in found:
        if not isinstance(text, str | None):
            raise UsageError("'documents' holds something that is not text")
        distinct[name_of(id_), text, whose] = None
    return tuple(
        {"id": id_, "text": text, **{name: said for name, said in zip(WHOSE, whose, strict=False) if said}}
        for id_, text, whose in distinct
    )


@dataclass(frozen=True, slots=True)
class ForeignDocument:
    """A document of any library, as far as it is understood."""

    id: Any
    text: str | None
    get: Callable[[str], Any]
    """Looks up what else it has."""
    described: Callable[[str], Any]
    """Looks up what its metadata say."""


def described(value: Any) -> ForeignDocument:
    """A document of LangChain, LlamaIndex, OpenInference, leakmeter or a log; a text is one without an id."""
    if isinstance(value, str):
        return ForeignDocument(None, value, _NOTHING.get, _NOTHING.get)
    get = getter(value)
    for shell in _SHELLS:
        if (inner := get(shell)) is not None and not isinstance(inner, str):
            get = getter(inner)
    resource = getter(get("text_resource"))("text")
    texts = [held for held in (*map(get, TEXTS), resource) if isinstance(held, str)]
    text = next(filter(str.strip, texts), texts[0] if texts else None)
    look = record(get("metadata") or get("meta")).get
    ids = (held for where in (get, look) for name in _IDS if (held := where(name)) not in (None, "", [], {}))
    return ForeignDocument(next((candidate for candidate in ids if not callable(candidate)), None), text, get, look)


def document_of(value: Any) -> tuple[Any, Any]:
    """Id and text of a document, as far as it has them."""
    document = described(value)
    return document.id, document.text


def whose_said(document: ForeignDocument) -> tuple[Any, ...]:
    """Owner, tenant and readers of a document, as it or its metadata say them; nothing where they say none. In a log of
    another tool such a field may be something else: what is no text is not said."""
    said: dict[str, Any] = {}
    for name in WHOSE:
        for held in (document.get(name), document.described(name)):
            several = [_text_of(each) for each in (held if isinstance(held, list | tuple) else [held])]
            if name == "readers" and several and None not in several:
                said.setdefault(name, tuple(several))
            elif name != "readers" and len(several) == 1 and several[0] is not None:
                said.setdefault(name, several[0])
    return tuple(said.get(name, () if name == "readers" else None) for name in WHOSE) if said else ()


def _text_of(value: Any) -> str | None:
    """A text, or a whole number as one; None of anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value else None


def _named_document(value: Any) -> tuple[Any, Any, tuple[Any, ...]]:
    document = described(value)
    # By its file, where it has no id; a document of leakmeter is called by its name.
    names = () if document.id is not None else ("source", "file_path", "name")
    held = (document.described(name) or document.get(name) for name in names)
    name = next((name for name in held if isinstance(name, str) and name), document.id)
    return name, document.text, whose_said(document)


# --- settings ---------------------------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _flat(settings: Iterable[Any], depth: int = 0) -> Iterator[tuple[str, Any]]:
    for options in map(parsed, settings):
        if isinstance(options, Mapping):
            if depth < 2:
                yield from _flat(map(options.get, _NESTED), depth + 1)
            yield from ((str(name), _plain(value)) for name, value in options.items() if value is not None)


def sampling_of(*settings: Any) -> LoggedFields:
    """What is known of how an answer was drawn, under the names in `SAMPLING`: numbers; `logit_bias` and `constrained`
    where tokens were favoured, or held to a form, or the best of several draws was chosen. Settings are mappings, as a
    library calls its model with, or JSON of them; the last one counts, and anything else is passed over."""
    options = dict(_flat(settings))
    sampling: LoggedFields = {}
    for name, aliases in SAMPLING.items():
        values = (_setting(name, options.get(alias)) for alias in aliases)
        if (value := next((candidate for candidate in values if candidate is not None), None)) is not None:
            sampling[name] = value
    if any(parsed(options.get(name)) for name in _BIASED):
        sampling["logit_bias"] = True
    n_drawn, n_returned = _setting("best_of", options.get("best_of")), _setting("n", options.get("n"))
    if (n_drawn or 1) > (n_returned or 1) or any(
        options.get(name) and not _is_free(parsed(options[name])) for name in _CONSTRAINED
    ):
        sampling["constrained"] = True
    return sampling


def _setting(name: str, value: Any) -> Any:
    """A setting, which may be written as text; None of what is none."""
    if name == "decoding":
        return value if value in DECODINGS else None
    if name == "do_sample":
        value = {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else value
        return value if isinstance(value, bool) else None
    try:
        number = float(value) if isinstance(value, str) else value
        if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
            return None
    except (ValueError, OverflowError):
        return None
    if name in ("temperature", "top_p", "min_p", "typical_p") and number < 0:
        return None
    if name in ("top_k", "seed", "max_tokens", "num_beams"):
        return int(number) if number == int(number) else None
    return number


def _is_free(form: Any) -> bool:
    return form in ("text", "") or (isinstance(form, Mapping) and form.get("type") == "text")


def settings_of(model: Any) -> LoggedFields:
    names = {*_MODEL, *_NESTED, *(alias for aliases in SAMPLING.values() for alias in aliases)}
    return {name: held for name in names if (held := getattr(model, name, None)) is not None}


def model_of(*settings: Any) -> str | None:
    """The model's name among settings; the last one counts."""
    options = dict(_flat(settings))
    return next((name for key in _MODEL if isinstance(name := options.get(key), str) and name), None)


def asked_of(*settings: Any, **sent: Any) -> LoggedFields:
    """What a model was sent, and how it was to answer, as fields of a log."""
    options = dict(_flat(settings))
    n_tools = max(map(n_listed, map(options.get, ("tools", "functions", "llm.tools"))))
    return {**sent, "model": model_of(*settings), "sampling": sampling_of(*settings), "n_tools": n_tools}


def n_listed(value: Any) -> int:
    """How many a list has, maybe as JSON text; 0 where it is none."""
    held = parsed(value)
    return len(held) if isinstance(held, list | tuple) else 0


_MOST_NESTED: Final = 64
_LONGEST_NAME: Final = 40


@dataclass(frozen=True, slots=True)
class Unread:
    """In the place of a value that cannot be read: an error where it is used, and none where nothing reads it."""

    kind: str
    """What it is, with an article."""
    advice: str = ""
    """What to do."""


def plain(value: Any, where: str, *, depth: int = 0) -> Any:
    """Dicts with text as keys, lists, texts, numbers, truth values and None; a number or a time that is none becomes
    None, a member of an enumeration its value. Knows mappings, sequences, dataclasses, named tuples, pydantic models,
    NumPy arrays and scalars, documents of LangChain (`page_content`, `metadata`) and nodes of LlamaIndex (`text`,
    `metadata`; `node`, `score`). Times and dates become texts as in ISO 8601, decimals, durations, UUIDs and bytes of
    UTF-8 the texts that they are. Something else is `Unread`; what is too deep is refused, as is what holds itself."""
    if depth > _MOST_NESTED:
        raise DataError(f"{where} is nested more than {_MOST_NESTED} deep")
    if isinstance(value, float):
        return None if value != value else value
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, str | int | Unread):
        return value
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal | timedelta | UUID):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return Unread("bytes that are not UTF-8")
    if type(value).__name__ in ("datetime64", "timedelta64"):
        # As a number it would be one of an unknown unit.
        return None if str(value) == "NaT" else str(value)
    held = fields_of(value)
    if held is not None:
        return {str(key): plain(inner, where, depth=depth + 1) for key, inner in held.items()}
    if callable(tolist := getattr(value, "tolist", None)):
        return plain(tolist(), where, depth=depth + 1)
    if isinstance(value, Iterable):
        return [plain(inner, where, depth=depth + 1) for inner in value]
    return Unread(f"an object of type {type(value).__name__}")


def fields_of(value: Any) -> Mapping[Any, Any] | None:
    if isinstance(value, Mapping):
        return value
    if isinstance(value, type):
        return None
    for text in ("page_content", "text"):
        # Before the dataclass's or the model's own fields: a node keeps its text in another place in each version.
        if isinstance(getattr(value, text, None), str) and hasattr(value, "metadata"):
            beside = {name: getattr(value, name, None) for name in ("metadata", "id", "id_")}
            return {text: getattr(value, text)} | {name: held for name, held in beside.items() if held is not None}
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return dict(value._asdict())
    if callable(dump := getattr(value, "model_dump", None)):
        return dict(dump())
    if isinstance(getattr(value, "text", None), str):
        return {"text": value.text}
    return None
