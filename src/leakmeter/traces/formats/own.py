"""The log that `leakmeter.integrations` writes: an answer a line."""

from __future__ import annotations

from collections.abc import Iterator

from leakmeter.data.foreign import record
from leakmeter.traces.answer import Reason, Unusable
from leakmeter.traces.formats.base import Format, Found, Record, span_of
from leakmeter.traces.plainly import named, seconds
from leakmeter.traces.span import documents_of

_SCHEMA = "leakmeter-answer/1"


def _fits(given: Record) -> bool:
    return str(given.get("schema")).startswith(_SCHEMA.partition("/")[0] + "/")


def _read(given: Record, where: str, documents: str | None) -> Iterator[Found]:
    if given["schema"] != _SCHEMA:
        raise Unusable(Reason.OTHER_VERSION)
    span = span_of(given.get("trace_id"), given.get("span_id"), where, "llm")
    span.read_call(given.get("messages", given.get("prompt")), [{"role": "assistant", "content": given.get("answer")}])
    span.answers = [[text, named(given.get("finish_reason"))] for text, _ in span.answers]
    if given.get("incomplete"):
        span.problem = Reason.INCOMPLETE.value
    span.end = seconds(given.get("time"))
    span.user = named(given.get("recipient"))
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
    yield span, given


FORMAT = Format("leakmeter", "the log of leakmeter.integrations", _fits, _read, lambda given: True)
