"""Samples of ragas: a question, what was retrieved, and the response; but not the prompt. So are records of a query,
what was retrieved for it and a response, in the shapes that `data` reads.

Where a record has the messages too, they are the prompt. Otherwise one is made of the texts and the question, and the
answer says so: its numbers are about that prompt.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from leakmeter.data import formats as data_formats
from leakmeter.data.chat import ChatCases
from leakmeter.data.foreign import first, has_reasoned, parsed
from leakmeter.data.rows import DataRow
from leakmeter.data.traces.answer import Reason, Unusable
from leakmeter.data.traces.formats.base import FoundSpan, LogRecord, TraceFormat
from leakmeter.data.traces.formats.openai import recipient_of
from leakmeter.data.traces.plainly import at_path, event_of, named, seconds
from leakmeter.data.traces.span import TraceSpan, documents_of
from leakmeter.errors import DataError
from leakmeter.text.turns import SEPARATOR


def _fits(logged: LogRecord) -> bool:
    return "user_input" in logged or "retrieved_contexts" in logged or ("question" in logged and "contexts" in logged)


def _sample(logged: LogRecord, where: str, documents: str | None) -> Iterator[FoundSpan]:
    span = TraceSpan(
        named(first(logged, "trace_id", "id")) or event_of(logged), named(logged.get("span_id")) or "1", where, "llm"
    )
    try:
        names = ("retrieved_contexts", "contexts", *data_formats.CONTEXTS)
        held = data_formats.only_context(logged, where, *names) if documents is None else at_path(logged, documents)
    except DataError:
        raise Unusable(Reason.NOT_OF_FORMAT) from None
    span.documents = documents_of(held)
    ids = parsed(logged.get("retrieved_context_ids"))
    if isinstance(ids, list) and len(ids) == len(span.documents):
        span.documents = [
            [named(id_) or old, text, named(id_) or name, *whose]
            for id_, (old, text, name, *whose) in zip(ids, span.documents, strict=True)
        ]
    user_input, answer = parsed(first(logged, "user_input", "question")), first(logged, "response", "answer")
    prompt: Any = first(logged, "messages", "prompt")
    if prompt is None and isinstance(user_input, list):
        prompt = user_input
        if answer is None and len(user_input) > 1:
            prompt, answer = user_input[:-1], [user_input[-1]]
    if prompt is None:
        # Texts that are equal are written once, as they are read.
        texts = dict.fromkeys(text for _, text, *_ in span.documents if text and text.strip())
        user_input = first(logged, "user_input", "question")
        prompt = [
            {"role": "user", "content": SEPARATOR.join([*texts, user_input if isinstance(user_input, str) else ""])}
        ]
        span.is_rebuilt = True
    span.read_call(prompt, answer)
    span.check_only(logged.get(name) for name in data_formats.ANSWERS)
    span.n_hidden = int(has_reasoned(answer))
    span.end = seconds(first(logged, "time", "timestamp", "created_at"))
    span.user, span.session = recipient_of(logged, {})
    span.read_recipient(logged)
    span.model = named(logged.get("model"))
    span.parameters = dict(logged)
    yield span, logged


def _format(preset: data_formats.DataFormat) -> TraceFormat:
    """Records in a shape that `data` reads as samples of ragas."""

    def read(logged: LogRecord, where: str, documents: str | None) -> Iterator[FoundSpan]:
        for _, fields in preset.read([(DataRow(1, "", where), logged)]):
            if isinstance(fields, DataError | ChatCases) or "messages" in fields:
                raise Unusable(Reason.NOT_OF_FORMAT)
            context = fields.get("context")
            sample = {"id": fields.get("id"), "user_input": fields.get("query"), "response": fields.get("response")}
            sample["retrieved_contexts"] = [context] if isinstance(context, str) else context
            yield from _sample({**logged, **sample}, where, documents)

    return TraceFormat(preset.name, preset.about, preset.fits, read, lambda logged: True)


FORMAT = TraceFormat(
    "ragas", "samples of ragas: user_input, retrieved_contexts, response", _fits, _sample, lambda logged: True
)
RETRIEVED: Final = tuple(
    _format(data_formats.FORMATS[name]) for name in ("bedrock", "llamaindex", "squad", "haystack", "langchain", "rag")
)
