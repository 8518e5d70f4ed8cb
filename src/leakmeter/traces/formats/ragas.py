"""Samples of ragas: a question, what was retrieved, and the response; but not the prompt.

Where a record has the messages too, they are the prompt. Otherwise one is made of the texts and the question, and the
answer says so: its numbers are about that prompt.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from leakmeter.data.foreign import first, parsed
from leakmeter.text.templates import SEPARATOR
from leakmeter.traces.formats.base import Format, Found, Record
from leakmeter.traces.formats.openai import recipient_of
from leakmeter.traces.plainly import at_path, event_of, has_reasoned, named, seconds
from leakmeter.traces.span import Span, documents_of


def _fits(given: Record) -> bool:
    return "user_input" in given or "retrieved_contexts" in given or ("question" in given and "contexts" in given)


def read(given: Record, where: str, documents: str | None) -> Iterator[Found]:
    """The call that a sample tells of."""
    span = Span(
        named(first(given, "trace_id", "id")) or event_of(given), named(given.get("span_id")) or "1", where, "llm"
    )
    held = first(given, "retrieved_contexts", "contexts") if documents is None else at_path(given, documents)
    span.documents = documents_of(held)
    ids = parsed(given.get("retrieved_context_ids"))
    if isinstance(ids, list) and len(ids) == len(span.documents):
        span.documents = [[named(id_) or old, text] for id_, (old, text) in zip(ids, span.documents, strict=True)]
    user_input, answer = parsed(first(given, "user_input", "question")), first(given, "response", "answer")
    prompt: Any = first(given, "messages", "prompt")
    if prompt is None and isinstance(user_input, list):
        prompt = user_input
        if answer is None and len(user_input) > 1:
            prompt, answer = user_input[:-1], [user_input[-1]]
    if prompt is None:
        # Texts that are equal are written once, as they are read.
        texts = dict.fromkeys(text for _, text in span.documents if text and text.strip())
        user_input = first(given, "user_input", "question")
        prompt = [
            {"role": "user", "content": SEPARATOR.join([*texts, user_input if isinstance(user_input, str) else ""])}
        ]
        span.is_rebuilt = True
    span.read_call(prompt, answer)
    span.n_hidden = int(has_reasoned(answer))
    span.end = seconds(first(given, "time", "timestamp", "created_at"))
    span.user, span.session = recipient_of(given, {})
    span.model = named(given.get("model"))
    span.parameters = dict(given)
    yield span, given


FORMAT = Format("ragas", "samples of ragas: user_input, retrieved_contexts, response", _fits, read, lambda given: True)
