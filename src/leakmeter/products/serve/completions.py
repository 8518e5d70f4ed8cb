"""Chat completions in OpenAI's shape: what a request may say, and how its answer is written.

A field that is not known, or that would void the guarantee, is refused by its name. Whatever an answer holds is public:
a number that would tell of the documents, such as the tokens that they take, is not in it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError, model_validator
from starlette.responses import JSONResponse, Response

from leakmeter.core.case import Case, Document, Message
from leakmeter.core.limits import MOST_NEW_TOKENS
from leakmeter.core.plain import visible
from leakmeter.core.record import JsonObject
from leakmeter.errors import DataError, UsageError
from leakmeter.products.serve.bodies import error_of, parsed_object
from leakmeter.stats.logspace import COLDEST

MOST_CHOICES: Final = 16
MOST_STOPS: Final = 4
MOST_DOCUMENTS: Final = 1_000
MOST_MESSAGES: Final = 500
MOST_TEMPERATURE: Final = 2.0
_SHOWN: Final = 60
# Which of two forms an error is about; no part of its path.
_AS_TEXT: Final = "as text"
_AS_PARTS: Final = "as parts"
_EXPECTED: Final[Mapping[str, str]] = {
    "model": "has to name a model of this server",
    "messages": "has to be a list with at least one message",
    "documents": "has to be a list of private texts; the other fields of a request are public",
    "n": f"has to be a whole number from 1 to {MOST_CHOICES:,}",
    **dict.fromkeys(("max_tokens", "max_completion_tokens"), f"has to be a whole number from 1 to {MOST_NEW_TOKENS:,}"),
    "temperature": (
        f"has to be above 0 ({COLDEST:g} or more), and {MOST_TEMPERATURE:g} at most: tokens are drawn, since no bound "
        "holds for choosing the likeliest token"
    ),
    "stop": f"has to be a text, or a list of {MOST_STOPS} at most, none of them empty",
    "stream": "has to be true or false",
    "stream_options": "may have include_usage, together with stream",
}
_WRONG: Final[Mapping[str, str]] = {
    "missing": "has to be given",
    "string_type": "has to be a text",
    "string_unicode": "is no valid Unicode",
    "string_pattern_mismatch": "is empty; leave the document out",
    "list_type": "has to be a text, or a list of texts",
    "model_type": "has to be an object",
    "literal_error": "has a value that is not known here",
}
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
        "seed is refused: anyone who knows a seed can repeat the draws with guessed documents, which voids the "
        "guarantee; draws come from the operating system"
    ),
    "logprobs": "logprobs is refused: probabilities of the tokens depend on the documents",
    "top_logprobs": "top_logprobs is refused: probabilities of the tokens depend on the documents",
    "top_p": "top_p is refused: tokens are drawn from the whole distribution, without which no loss is bounded",
}


class RequestFieldError(UsageError):
    """A field of a request that is refused, by its path; `code` is as OpenAI's errors have it."""

    def __init__(self, param: str | None, why: str, code: str | None = None, status: int = 400) -> None:
        super().__init__(why)
        self.param, self.code, self.status = param, code, status


@dataclass(frozen=True, slots=True)
class CompletionRequest:
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
        texts = [Document(f"document {number}", document.text) for number, document in enumerate(self.documents, 1)]
        if not before:
            return Case("request", tuple(texts), query)
        # Parts of a turn are written one behind the other, so that what is between them goes with the documents.
        documents = tuple(Document(document.name, f"{document.text}\n\n") for document in texts)
        asking = Message(
            "user", "query", (*documents, Document("query", query)), tuple(range(len(documents))), fixed=True
        )
        turns = (
            Message(role, f"{role} {number}", (Document(f"{role} {number}", text),), fixed=True)
            for number, (role, text) in enumerate(before, 1)
        )
        return Case("request", messages=(*turns, asking))


def _kind(value: Any) -> str:
    return _AS_TEXT if isinstance(value, str) else _AS_PARTS


class _Form(BaseModel):
    """An object with these fields alone; those that are null are left out."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, body: Any) -> Any:
        return {name: value for name, value in body.items() if value is not None} if isinstance(body, dict) else body


class _ContentPart(_Form):
    type: Literal["text"]
    text: str


class _ChatTurn(_Form):
    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[
        Annotated[str, Tag(_AS_TEXT)] | Annotated[list[_ContentPart], Tag(_AS_PARTS)], Discriminator(_kind)
    ]

    def as_pair(self) -> tuple[str, str]:
        return self.role, self.content if isinstance(self.content, str) else "\n".join(
            part.text for part in self.content
        )


class GivenDocument(_Form):
    """A private text, and the name under which its ε is charged too, if it has one."""

    text: Annotated[str, Field(pattern=r"\S", repr=False)]
    id: Annotated[str | None, Field(repr=False)] = None


_Document = Annotated[
    Annotated[str, Field(pattern=r"\S"), Tag(_AS_TEXT)] | Annotated[GivenDocument, Tag(_AS_PARTS)], Discriminator(_kind)
]
_Stop = Annotated[str, Field(min_length=1)]
_Length = Annotated[int, Field(ge=1, le=MOST_NEW_TOKENS)]


class _Options(_Form):
    include_usage: bool = False


class _Body(_Form):
    model: str
    messages: Annotated[list[_ChatTurn], Field(min_length=1, max_length=MOST_MESSAGES)]
    documents: Annotated[list[_Document], Field(min_length=1, max_length=MOST_DOCUMENTS)]
    n: Annotated[int, Field(ge=1, le=MOST_CHOICES)] = 1
    max_tokens: _Length | None = None
    max_completion_tokens: _Length | None = None
    temperature: Annotated[float, Field(ge=COLDEST, le=MOST_TEMPERATURE)] = 1.0
    stop: Annotated[
        Annotated[_Stop, Tag(_AS_TEXT)] | Annotated[list[_Stop], Field(max_length=MOST_STOPS), Tag(_AS_PARTS)],
        Discriminator(_kind),
    ] = []
    stream: bool = False
    stream_options: _Options = _Options()


def parsed(body: bytes, models: Sequence[str], max_tokens: int) -> CompletionRequest:
    """A checked request; `RequestFieldError` names the field that is refused. `max_tokens` is the default."""
    try:
        sent = parsed_object(body)
    except DataError as error:
        raise RequestFieldError(None, str(error)) from None
    fields = {name: value for name, value in sent.items() if value is not None}
    for name, value in list(fields.items()):
        if name in _Body.model_fields:
            continue
        neutral = _WITHOUT_EFFECT.get(name, ())
        if not any(value == none and isinstance(value, bool) == isinstance(none, bool) for none in neutral):
            shown = visible(name[:_SHOWN])
            why = _WHY.get(name, f"{shown} is not supported here; leave it out")
            raise RequestFieldError(shown, why, "unsupported_parameter" if name in _WHY else "unknown_parameter")
        del fields[name]
    if "model" not in fields:
        raise RequestFieldError("model", "model has to name a model of this server", "missing_required_parameter")
    try:
        request = _Body.model_validate(fields)
    except ValidationError as error:
        raise _refusal(error) from None
    if request.model not in models:
        raise RequestFieldError(
            "model", "this server has no such model; GET /v1/models lists those it has", "model_not_found", 404
        )
    if request.max_tokens is not None and request.max_completion_tokens is not None:
        raise RequestFieldError("max_tokens", "give either max_tokens or max_completion_tokens")
    if fields.get("stream_options") and not request.stream:
        raise RequestFieldError("stream_options", f"stream_options {_EXPECTED['stream_options']}")
    messages = tuple(message.as_pair() for message in request.messages)
    role, text = messages[-1]
    if role != "user" or not text.strip():
        raise RequestFieldError("messages", "the last message has to be the user's, with a text")
    return CompletionRequest(
        model=request.model,
        messages=messages,
        documents=tuple(
            document if isinstance(document, GivenDocument) else GivenDocument(text=document)
            for document in request.documents
        ),
        n=request.n,
        max_tokens=request.max_tokens or request.max_completion_tokens or max_tokens,
        temperature=request.temperature,
        stop=(request.stop,) if isinstance(request.stop, str) else tuple(request.stop),
        is_streamed=request.stream,
        wants_usage=request.stream_options.include_usage,
    )


def _refusal(error: ValidationError) -> RequestFieldError:
    """What is wrong first, without what was sent."""
    first = error.errors(include_url=False, include_input=False)[0]
    field, *inner = [part for part in first["loc"] if part not in (_AS_TEXT, _AS_PARTS)]
    path = str(field)
    for part in inner:
        path += f"[{part}]" if isinstance(part, int) else f".{visible(part[:_SHOWN])}"
    kind, limit = first["type"], first.get("ctx", {}).get("max_length")
    if kind == "too_long" and field != "stop":
        noun = "messages" if field == "messages" else "texts"
        return RequestFieldError(
            path, f"{path} has {first['ctx']['actual_length']:,} {noun}; {limit:,} are taken at most"
        )
    if field in ("stop", "stream_options"):
        path, inner = str(field), []
    if kind == "extra_forbidden" and inner:
        return RequestFieldError(path, f"{path} is not supported here; leave it out", "unknown_parameter")
    why = _EXPECTED.get(str(field)) if not inner else None
    return RequestFieldError(path, f"{path} {why or _WRONG.get(kind, 'is not valid')}")


@dataclass(frozen=True, slots=True)
class Envelope:
    id: str
    model: str
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, choices: Sequence[JsonObject], usage: Mapping[str, int], receipt: Any) -> JsonObject:
        """A completion, of choices with `index`, `text` and `finish_reason`, and a public receipt."""
        records = [
            {
                "index": choice["index"],
                "message": {"role": "assistant", "content": choice["text"], "refusal": None},
                "logprobs": None,
                "finish_reason": choice["finish_reason"],
            }
            for choice in choices
        ]
        return {**self._head("chat.completion"), "choices": records, "usage": usage, "leakmeter": receipt}

    def chunk(
        self, index: int, text: str | None = None, reason: str | None = None, *, first: bool = False, **more: Any
    ) -> bytes:
        delta: JsonObject = {"role": "assistant", "content": ""} if first else {}
        if text is not None:
            delta["content"] = text
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}
        return data({**self._head("chat.completion.chunk"), "choices": [choice], **more})

    def usage_chunk(self, usage: Mapping[str, int]) -> bytes:
        return data({**self._head("chat.completion.chunk"), "choices": [], "usage": usage})

    def _head(self, kind: str) -> JsonObject:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


def data(value: JsonObject) -> bytes:
    return f"data: {json.dumps(value, allow_nan=False)}\n\n".encode()


END: Final = b"data: [DONE]\n\n"


def refused(
    status: int, why: str, param: str | None = None, code: str | None = None, *, retry: bool = False
) -> Response:
    """An error as the answer. A client that tries again unasked would be charged again."""
    headers = {} if retry else {"x-should-retry": "false"}
    return JSONResponse(error_of(status, why, param, code), status, headers)
