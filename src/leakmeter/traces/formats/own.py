"""The log that `leakmeter.integrations` writes: an answer a line."""

from __future__ import annotations

from collections.abc import Iterator

from leakmeter.traces.formats.base import Choices, Format, Record
from leakmeter.traces.plainly import at_path, named, record, seconds
from leakmeter.traces.refused import Reason, Unusable
from leakmeter.traces.span import Span, documents_of

_SCHEMA = "leakmeter-answer/1"


def _fits(given: Record) -> bool:
    return str(given.get("schema")).startswith(_SCHEMA.partition("/")[0] + "/")


def _read(given: Record, where: str, choices: Choices) -> Iterator[Span]:
    if given["schema"] != _SCHEMA:
        raise Unusable(Reason.OTHER_VERSION)
    trace_id, span_id = named(given.get("trace_id")), named(given.get("span_id"))
    if trace_id is None or span_id is None:
        raise Unusable(Reason.NOT_OF_FORMAT)
    span = Span(trace_id, span_id, where, "llm")
    span.read_call(given.get("messages", given.get("prompt")), [{"role": "assistant", "content": given.get("answer")}])
    span.answers = [[text, named(given.get("finish_reason"))] for text, _ in span.answers]
    if given.get("incomplete"):
        span.problem = Reason.INCOMPLETE.value
    span.end = seconds(given.get("time"))
    chosen = given.get("recipient") if choices.recipient is None else at_path(given, choices.recipient)
    span.user = named(chosen)
    span.model = named(given.get("model"))
    span.parameters = dict(record(given.get("sampling")))
    span.response_id = named(given.get("response_id"))
    span.is_interrupted = given.get("interrupted") is True
    for name, field in (("n_tools", "n_tools"), ("n_hidden", "hidden_calls")):
        if isinstance(count := given.get(field), int):
            setattr(span, name, max(int(count), 0))
    span.documents = documents_of(
        given.get("documents"), lambda document: (record(document).get("id"), record(document).get("text"))
    )
    yield span


FORMAT = Format("leakmeter", "the log of leakmeter.integrations", _fits, _read, lambda given: True)
