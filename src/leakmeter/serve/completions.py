"""Chat completions in OpenAI's shape: what a request may say, and how its answer is written.

A field that is not known, or that would void the guarantee, is refused by its name. Whatever an answer holds is public:
a number that would tell of the documents, such as the tokens that they take, is not in it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.responses import JSONResponse, Response

from leakmeter.core.case import Case, Document, Message
from leakmeter.core.limits import MOST_NEW_TOKENS
from leakmeter.core.plain import visible
from leakmeter.data.text import half_pair
from leakmeter.errors import UsageError
from leakmeter.stats.logspace import COLDEST

MOST_CHOICES: Final = 16
"""Of `n`."""
MOST_STOPS: Final = 4
MOST_DOCUMENTS: Final = 1_000
MOST_MESSAGES: Final = 500
MOST_TEMPERATURE: Final = 2.0
_SHOWN: Final = 60
_ROLES: Final = ("system", "developer", "user", "assistant")
_KNOWN: Final = (
    *("model", "messages", "documents", "n", "stop", "max_tokens", "max_completion_tokens", "temperature"),
    *("stream", "stream_options"),
)
_WITHOUT_EFFECT: Final[Mapping[str, tuple[Any, ...]]] = {
    "top_p": (1,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logprobs": (False,),
    "store": (False,),
    "logit_bias": ({},),
    "response_format": ({"type": "text"},),
}
"""Fields that many programs send, and the values at which they ask for nothing."""
_WHY: Final = {
    "seed": (
        "seed is refused: whoever knows a seed can repeat the draws with guessed documents, which voids the guarantee; "
        "draws come from the operating system"
    ),
    "logprobs": "logprobs is refused: probabilities of the tokens are functions of the documents",
    "top_logprobs": "top_logprobs is refused: probabilities of the tokens are functions of the documents",
    "top_p": "top_p is refused: tokens are drawn from the whole distribution, without which no loss is bounded",
}


class FieldError(UsageError):
    """A field of a request that is refused.

    Args:
        param: the field, as its path.
        why: one line.
        code: as OpenAI's errors have it.
        status: of HTTP.
    """

    def __init__(self, param: str | None, why: str, code: str | None = None, status: int = 400) -> None:
        super().__init__(why)
        self.param, self.code, self.status = param, code, status


@dataclass(frozen=True, slots=True)
class GivenDocument:
    """A private text, and the name under which its ε is charged too, if it has one."""

    text: str = field(repr=False)
    id: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """What was asked for, as it will be answered."""

    model: str
    messages: tuple[tuple[str, str], ...] = field(repr=False)
    """Role and text; public. The last is the user's."""
    documents: tuple[GivenDocument, ...] = field(repr=False)
    n: int
    max_tokens: int
    temperature: float
    stop: tuple[str, ...]
    is_streamed: bool
    wants_usage: bool

    @property
    def case(self) -> Case:
        """Documents as context; every message stays without it."""
        *before, (_, query) = self.messages
        texts = [Document(f"document {number}", one.text) for number, one in enumerate(self.documents, 1)]
        if not before:
            return Case("request", tuple(texts), query)
        # Parts of a turn are written one behind the other, so that what is between them goes with the documents.
        given = tuple(Document(one.name, f"{one.text}\n\n") for one in texts)
        asking = Message("user", "query", (*given, Document("query", query)), tuple(range(len(given))), fixed=True)
        turns = (
            Message(role, f"{role} {number}", (Document(f"{role} {number}", text),), fixed=True)
            for number, (role, text) in enumerate(before, 1)
        )
        return Case("request", messages=(*turns, asking))


def parsed(body: bytes, models: Sequence[str], max_tokens: int) -> CompletionRequest:
    """A request's body, checked.

    Args:
        body: JSON.
        models: names of those that are served.
        max_tokens: of an answer, where the request does not say.

    Raises:
        FieldError: names the field that is refused, and why.
    """
    given = _object(body)
    for name, value in given.items():
        if name in _KNOWN or value is None:
            continue
        if not any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in _neutral(name)):
            shown = visible(name[:_SHOWN])
            why = _WHY.get(name, f"{shown} is not supported here; leave it out")
            raise FieldError(shown, why, "unsupported_parameter" if name in _WHY else "unknown_parameter")
    has = {name: value for name, value in given.items() if value is not None}
    model = has.get("model")
    if not isinstance(model, str):
        raise FieldError("model", "model has to name a model of this server", "missing_required_parameter")
    if model not in models:
        raise FieldError(
            "model", "this server has no such model; GET /v1/models lists those it has", "model_not_found", 404
        )
    if "max_tokens" in has and "max_completion_tokens" in has:
        raise FieldError("max_tokens", "give either max_tokens or max_completion_tokens")
    limit = "max_completion_tokens" if "max_completion_tokens" in has else "max_tokens"
    is_streamed = _flag(has, "stream", "stream")
    options = has.get("stream_options", {})
    if not isinstance(options, dict) or set(options) - {"include_usage"} or (options and not is_streamed):
        raise FieldError("stream_options", "stream_options may have include_usage, together with stream")
    return CompletionRequest(
        model=model,
        messages=_messages(has.get("messages")),
        documents=_documents(has.get("documents")),
        n=_whole(has, "n", 1, MOST_CHOICES),
        max_tokens=_whole(has, limit, max_tokens, MOST_NEW_TOKENS),
        temperature=_temperature(has.get("temperature", 1.0)),
        stop=_stops(has.get("stop", [])),
        is_streamed=is_streamed,
        wants_usage=_flag(options, "include_usage", "stream_options.include_usage"),
    )


def _neutral(name: str) -> tuple[Any, ...]:
    return _WITHOUT_EFFECT.get(name, ())


def _object(body: bytes) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            raise FieldError(None, "the body gives a field twice")
        return made

    def constant(name: str) -> Any:
        raise FieldError(None, f"the body has {name}, which is no JSON")

    try:
        given = json.loads(body, object_pairs_hook=unique, parse_constant=constant)
    except (ValueError, RecursionError):
        raise FieldError(None, "the body is no JSON") from None
    if not isinstance(given, dict):
        raise FieldError(None, "the body has to be a JSON object")
    return given


def _text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise FieldError(path, f"{path} has to be a text")
    if half_pair(value) is not None:
        raise FieldError(path, f"{path} is no valid Unicode")
    return value


def _only(value: Any, path: str, names: Sequence[str]) -> dict[str, Any]:
    """An object that has no other fields; those that are null are left out."""
    if not isinstance(value, dict):
        raise FieldError(path, f"{path} has to be an object")
    has = {name: one for name, one in value.items() if one is not None}
    for name in has:
        if name not in names:
            shown = f"{path}.{visible(name[:_SHOWN])}"
            raise FieldError(shown, f"{shown} is not supported here; leave it out", "unknown_parameter")
    return has


def _messages(value: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, list) or not value:
        raise FieldError("messages", "messages has to be a list with at least one message")
    if len(value) > MOST_MESSAGES:
        raise FieldError("messages", f"messages has {len(value):,} messages; {MOST_MESSAGES:,} are taken at most")
    messages = tuple(_message(one, f"messages[{number}]") for number, one in enumerate(value))
    role, text = messages[-1]
    if role != "user" or not text.strip():
        raise FieldError("messages", "the last message has to be the user's, with a text")
    return messages


def _message(value: Any, path: str) -> tuple[str, str]:
    has = _only(value, path, ("role", "content"))
    if has.get("role") not in _ROLES:
        raise FieldError(f"{path}.role", f"{path}.role has to be one of {', '.join(_ROLES)}")
    content = has.get("content")
    if not isinstance(content, list):
        return has["role"], _text(content, f"{path}.content")
    texts = []
    for number, part in enumerate(content):
        where = f"{path}.content[{number}]"
        fields = _only(part, where, ("type", "text"))
        if fields.get("type") != "text":
            raise FieldError(f"{where}.type", f"{where}.type has to be text")
        texts.append(_text(fields.get("text"), f"{where}.text"))
    return has["role"], "\n".join(texts)


def _documents(value: Any) -> tuple[GivenDocument, ...]:
    if not isinstance(value, list) or not value:
        raise FieldError(
            "documents", "documents has to be a list of private texts; the other fields of a request are public"
        )
    if len(value) > MOST_DOCUMENTS:
        raise FieldError("documents", f"documents has {len(value):,} texts; {MOST_DOCUMENTS:,} are taken at most")
    return tuple(_document(one, f"documents[{number}]") for number, one in enumerate(value))


def _document(value: Any, path: str) -> GivenDocument:
    if isinstance(value, str):
        has, where = {"text": value}, path
    else:
        has, where = _only(value, path, ("text", "id")), f"{path}.text"
    text = _text(has.get("text"), where)
    if not text.strip():
        raise FieldError(where, f"{where} is empty; leave the document out")
    return GivenDocument(text, _text(has["id"], f"{path}.id") if "id" in has else None)


def _whole(has: Mapping[str, Any], name: str, default: int, most: int) -> int:
    value = has.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise FieldError(name, f"{name} has to be a whole number from 1 to {most:,}")
    return value


def _flag(has: Mapping[str, Any], name: str, path: str) -> bool:
    value = has.get(name, False)
    if not isinstance(value, bool):
        raise FieldError(path, f"{path} has to be true or false")
    return value


def _temperature(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not COLDEST <= value <= MOST_TEMPERATURE:
        raise FieldError(
            "temperature",
            f"temperature has to be above 0 ({COLDEST:g} or more), and {MOST_TEMPERATURE:g} at most: tokens are drawn, "
            "since no bound holds for the likeliest token",
        )
    return float(value)


def _stops(value: Any) -> tuple[str, ...]:
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list) or len(given) > MOST_STOPS:
        raise FieldError("stop", f"stop has to be a text, or a list of {MOST_STOPS} at most")
    stops = tuple(_text(one, "stop") for one in given)
    if not all(stops):
        raise FieldError("stop", "stop has an empty text; leave it out")
    return stops


@dataclass(frozen=True, slots=True)
class Envelope:
    """What is the same in all that answers one request."""

    id: str
    model: str
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, choices: Sequence[Mapping[str, Any]], usage: Mapping[str, int], receipt: Any) -> dict[str, Any]:
        """A completion.

        Args:
            choices: each with `index`, `text` and `finish_reason`.
            usage: numbers of tokens.
            receipt: public.
        """
        told = [
            {
                "index": one["index"],
                "message": {"role": "assistant", "content": one["text"], "refusal": None},
                "logprobs": None,
                "finish_reason": one["finish_reason"],
            }
            for one in choices
        ]
        return {**self._head("chat.completion"), "choices": told, "usage": usage, "leakmeter": receipt}

    def chunk(
        self, index: int, text: str | None = None, reason: str | None = None, *, first: bool = False, **more: Any
    ) -> bytes:
        """A piece of a stream, of one choice."""
        delta: dict[str, Any] = {"role": "assistant", "content": ""} if first else {}
        if text is not None:
            delta["content"] = text
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}
        return data({**self._head("chat.completion.chunk"), "choices": [choice], **more})

    def usage_chunk(self, usage: Mapping[str, int]) -> bytes:
        """The last piece of a stream, where its usage is wanted."""
        return data({**self._head("chat.completion.chunk"), "choices": [], "usage": usage})

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


def data(value: Mapping[str, Any]) -> bytes:
    """One server-sent event."""
    return f"data: {json.dumps(value, allow_nan=False)}\n\n".encode()


END: Final = b"data: [DONE]\n\n"


def error_of(status: int, why: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """An error in OpenAI's shape."""
    kinds = {401: "invalid_request_error", 429: "insufficient_quota"}
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": why, "type": kind, "param": param, "code": code}}


def refused(
    status: int, why: str, param: str | None = None, code: str | None = None, *, retry: bool = False
) -> Response:
    """An error as the answer. A client that tries again unasked would be charged again."""
    headers = {} if retry else {"x-should-retry": "false"}
    return JSONResponse(error_of(status, why, param, code), status, headers)
