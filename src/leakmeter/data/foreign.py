"""Messages, documents and settings of other libraries as the plain values of a log, by what they have.

No library is imported. What is no text is named by its kind and left out, so that a reader sees that the prompt had it.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from enum import Enum
from typing import Any, Final

from leakmeter.core.case import DECODINGS
from leakmeter.errors import UsageError

Fields = dict[str, Any]

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
    "max_tokens": ("max_tokens", "max_completion_tokens", "max_new_tokens", "max_output_tokens", "num_predict"),
    "do_sample": ("do_sample",),
    "num_beams": ("num_beams", "best_of"),
    "decoding": ("decoding",),
}
"""Settings that say how an answer was drawn, and what libraries call them."""
_BIASED: Final = ("logit_bias", "bad_words", "bad_words_ids", "allowed_token_ids")
_CONSTRAINED: Final = (
    "constrained",
    "response_format",
    "response_schema",
    "response_json_schema",
    "structured_outputs",
    "json_schema",
    "grammar",
    "format",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
)
_NESTED: Final = (
    "model_kwargs",
    "options",
    "extra_body",
    "generation_config",
    "additional_kwargs",
    "pipeline_kwargs",
    "generate_kwargs",
)
_MODEL: Final = ("model", "model_name", "model_id", "deployment_name", "azure_deployment")
ROLES: Final = {"human": "user", "ai": "assistant", "chatbot": "assistant", "model": "assistant"}
REASONING: Final = ("reasoning", "thinking", "redacted_thinking", "reasoning_content")
_IDS: Final = ("id", "id_", "node_id", "doc_id", "document_id")
_METADATA_IDS: Final = ("id", "doc_id", "document_id", "chunk_id", "source", "file_path")


def name_of(value: object) -> str | None:
    """An id, a model or a recipient as text: a number, a UUID and the like are written as they print."""
    if value is None or isinstance(value, str):
        return value or None
    return str(value)


def listed(value: Any) -> Any:
    """What a text of JSON says, where it is one: spans hold lists as texts."""
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def strings(value: Any, *, most: int = 10_000) -> Counter[str]:
    """The texts within what a program returned, without white space around them, and how often each stands there.

    Args:
        value: anything: of mappings, lists, messages and responses the texts are found.
        most: values that are looked at.
    """
    found: Counter[str] = Counter()
    todo = [value]
    while todo and most:
        most -= 1
        one = todo.pop()
        if isinstance(one, str):
            found[one.strip()] += 1
        elif isinstance(one, Mapping):
            todo += one.values()
        elif isinstance(one, list | tuple):
            todo += one
        elif one is not None:
            # A message's text stands in it several times.
            todo.append(next((held for name in _SAID if (held := getattr(one, name, None)) is not None), None))
    del found[""]
    return found


_SAID: Final = ("content", "text", "response", "message", "messages", "update")


# --- messages ---------------------------------------------------------------------------------------------------------


def messages_of(messages: Any) -> tuple[Fields, ...]:
    """A chat as it was sent: of OpenAI, LangChain, LlamaIndex, OpenTelemetry, or of leakmeter.

    Raises:
        UsageError: no chat; names the message.
    """
    if isinstance(messages, str | Mapping) or not isinstance(messages, Iterable):
        raise UsageError("'messages' is no list of messages; give a completion's text as 'prompt'")
    return tuple(_message(message, number) for number, message in enumerate(messages, 1))


def _message(message: Any, number: int) -> Fields:
    if isinstance(message, tuple) and len(message) == 2:
        message = {"role": message[0], "content": message[1]}
    get = getter(message)
    role = _plain(get("role")) or _plain(get("type"))
    if not isinstance(role, str):
        raise UsageError(f"message {number} has no role")
    role = role.removesuffix("MessageChunk").lower()
    parts = next((found for name in ("content", "parts", "blocks") if (found := get(name)) is not None), "")
    # Of LlamaIndex, `content` is the text alone, and leaves other parts out.
    blocks = get("blocks")
    content, calls = content_of(blocks if isinstance(blocks, list) and blocks else parts)
    made: Fields = {"role": ROLES.get(role, role), "content": content}
    for name in ("name", "tool_call_id"):
        if isinstance(held := get(name), str) and held:
            made[name] = held
    extra = get("additional_kwargs")
    held = get("tool_calls") or (extra.get("tool_calls") if isinstance(extra, Mapping) else None)
    calls += [_tool_call(call) for call in held or () if not isinstance(held, str)]
    if calls:
        made["tool_calls"] = calls
    return made


def getter(value: Any) -> Callable[[str], Any]:
    """Looks a name up, as a key or an attribute; None where there is none."""
    if isinstance(value, Mapping):
        return value.get
    return lambda name: getattr(value, name, None)


def content_of(content: Any) -> tuple[str | list[Fields], list[Fields]]:
    """What a message says, and the calls of tools among its parts.

    Returns:
        Text; or, where there are several parts or some that are no text, a list of `{"type": "text", "text"}` and of
        `{"type"}` of other kinds. The calls as `{"name", "arguments"}`.
    """
    if content is None or isinstance(content, str):
        return content or "", []
    parts: list[Fields] = []
    calls: list[Fields] = []
    for part in content if isinstance(content, Iterable) and not isinstance(content, Mapping) else [content]:
        get = getter(part)
        # A shell of OpenInference's attributes.
        get = get if isinstance(part, str) or (inner := get("message_content")) is None else getter(inner)
        kind = "text" if isinstance(part, str) else _plain(get("type") or get("block_type")) or "text"
        text = part if isinstance(part, str) else next(filter(_is_text, map(get, ("text", "content"))), None)
        if kind in ("tool_call_response", "tool_result"):
            kind, text = "text", text or as_text(next(filter(None, map(get, ("response", "result", "content"))), ""))
        if kind in ("text", "output_text", "input_text") and text is not None:
            parts.append({"type": "text", "text": text})
        elif kind in ("tool_call", "tool_use", "function_call"):
            calls.append(_tool_call(part))
        else:
            parts.append({"type": "unknown" if kind == "text" else str(kind)})
    if len(parts) <= 1 and all(part["type"] == "text" for part in parts):
        return (parts[0]["text"] if parts else ""), calls
    return parts, calls


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _tool_call(call: Any) -> Fields:
    get = getter(call)
    for shell in ("tool_call", "function"):
        get = get if (inner := get(shell)) is None else getter(inner)
    arguments = next((found for name in _ARGUMENTS if (found := get(name)) is not None), "")
    return {"name": name_of(get("name") or get("tool_name")) or "", "arguments": as_text(arguments)}


_ARGUMENTS: Final = ("arguments", "args", "tool_kwargs", "input")


def as_text(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def choice_of(content: Any, *, calls: object = None, has_reasoned: object = False, **fields: Any) -> Fields:
    """One answer of a model's call.

    Args:
        content: text, or a list of parts.
        calls: of tools, where they stand beside the content.
        has_reasoned: whether it reasoned out of sight, where another field says so.
        **fields: that are taken as they are.

    Returns:
        `answer`, which is empty where tools are called; `hidden_calls`, 1 where it reasoned; and the fields.
    """
    said, called = content_of(content)
    kinds = set() if isinstance(said, str) else {part["type"] for part in said}
    text = said if isinstance(said, str) else "".join(part["text"] for part in said if part["type"] == "text")
    has_reasoned = bool(has_reasoned) or not kinds.isdisjoint(REASONING)
    return {"answer": "" if calls or called else text, "hidden_calls": int(has_reasoned), **fields}


# --- documents --------------------------------------------------------------------------------------------------------


def documents_of(documents: Any) -> tuple[Fields, ...]:
    """Documents as `{"id", "text"}`, each once; an id or a text that is not known is None.

    Args:
        documents: texts by id, or texts, mappings, or documents of LangChain, LlamaIndex, OpenInference or leakmeter.

    Raises:
        UsageError: none of these.
    """
    if isinstance(documents, str) or not isinstance(documents, Iterable):
        raise UsageError("'documents' is no list of documents, nor texts by id")
    pairs = documents.items() if isinstance(documents, Mapping) else (_document(one) for one in documents)
    made: dict[tuple[str | None, str | None], None] = {}
    for id_, text in pairs:
        if not isinstance(text, str | None):
            raise UsageError("'documents' holds something that is no text")
        made[name_of(id_), text] = None
    return tuple({"id": id_, "text": text} for id_, text in made)


def _document(value: Any) -> tuple[Any, Any]:
    if isinstance(value, str):
        return None, value
    get = getter(value)
    for shell in ("node", "document", "kwargs"):
        if (inner := get(shell)) is not None and not isinstance(inner, str):
            get = getter(inner)
    text = next((found for name in ("page_content", "text", "content") if isinstance(found := get(name), str)), None)
    metadata = listed(get("metadata"))
    places = [(get, _IDS), (getter(metadata) if isinstance(metadata, Mapping) else get, _METADATA_IDS)]
    ids = (found for look, names in places for name in names if (found := look(name)) not in (None, ""))
    id_ = next((one for one in ids if not callable(one)), None)
    # A document of leakmeter is called by its name.
    return (get("name") if id_ is None else id_), text


# --- settings ---------------------------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _flat(settings: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    for one in settings:
        if isinstance(one, Mapping):
            for name in _NESTED:
                yield from _flat([one.get(name)])
            yield from ((str(name), _plain(value)) for name, value in one.items() if value is not None)


def sampling_of(*settings: Any) -> Fields:
    """What is known of how an answer was drawn, under the names in `SAMPLING`.

    Args:
        *settings: mappings, as a library calls its model with; the last one counts. Anything else is passed over.

    Returns:
        Numbers; `logit_bias` and `constrained` where tokens were favoured, or held to a form.
    """
    given = dict(_flat(settings))
    made: Fields = {}
    for name, aliases in SAMPLING.items():
        for alias in aliases:
            value = given.get(alias)
            if (isinstance(value, bool | int | float) and math.isfinite(value)) or (
                name == "decoding" and value in DECODINGS
            ):
                made[name] = value
    if any(given.get(name) for name in _BIASED):
        made["logit_bias"] = True
    if any(given.get(name) and not _is_free(given[name]) for name in _CONSTRAINED):
        made["constrained"] = True
    return made


def _is_free(form: Any) -> bool:
    return form == "text" or (isinstance(form, Mapping) and form.get("type") == "text")


def settings_of(model: Any) -> Fields:
    """What the attributes of a model say of how it answers."""
    names = {*_MODEL, *_NESTED, *(alias for aliases in SAMPLING.values() for alias in aliases)}
    return {name: held for name in names if (held := getattr(model, name, None)) is not None}


def model_of(*settings: Any) -> str | None:
    """The model's name among settings; the last one counts."""
    given = dict(_flat(settings))
    return next((name for key in _MODEL if isinstance(name := given.get(key), str) and name), None)


def tools_of(*settings: Any) -> int:
    """How many tools were described to a model beside its messages."""
    given = dict(_flat(settings))
    held = [listed(given[name]) for name in ("tools", "functions", "llm.tools") if given.get(name)]
    return max((len(one) for one in held if isinstance(one, list | tuple)), default=0)
