"""Chat completions: request and answer in one record, or in two records of a batch that have one `custom_id`.

Neither has what was retrieved: it stands in a field beside them, in one of the usual names or the one that is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from leakmeter.data.foreign import TEXTS, answers_of, first, has_reasoned, parsed, record, request_of, retrieved_beside
from leakmeter.data.traces.answer import Reason
from leakmeter.data.traces.formats.base import FoundSpan, LogRecord, TraceFormat
from leakmeter.data.traces.plainly import at_path, event_of, is_record, named, seconds
from leakmeter.data.traces.span import TraceSpan, documents_of

_SESSIONS = ("session_id", "session", "thread_id", "conversation_id", "sessionId", "threadId", "conversationId")


def _fits(logged: LogRecord) -> bool:
    has_choices = "choices" in logged or "choices" in record(
        answers_of({"response": logged.get("response")}).get("response")
    )
    return "messages" in request_of(logged) or has_choices or "custom_id" in logged


def beside(logged: LogRecord, path: str | None) -> list[list[Any]]:
    held: Any = parsed(retrieved_beside(logged) if path is None else at_path(logged, path))
    if is_record(held) and not any(name in held for name in TEXTS):
        held = [{"id": id_, "text": text} for id_, text in held.items()]
    elif is_record(held) or isinstance(held, str):
        held = [held]
    return documents_of(held)


def is_conversation(logged: LogRecord, documents: str | None) -> bool:
    """Whether a record has all of a conversation that read something, and not one call: each turn has its answer among
    the messages, and no document stands beside them."""
    messages = parsed(request_of(logged).get("messages"))
    if not isinstance(messages, list) or "custom_id" in logged or answers_of(logged):
        return False
    is_answered = any(record(message).get("role") == "assistant" for message in messages)
    return is_answered and not beside(logged, documents)


def recipient_of(logged: LogRecord, request: LogRecord) -> tuple[str | None, str | None]:
    places = (logged, request, record(logged.get("metadata")), record(request.get("metadata")))
    user = next((u for held in places if (u := named(first(held, "user", "user_id", "safety_identifier")))), None)
    session = next((s for held in places if (s := named(first(held, *_SESSIONS)))), None)
    return user, session


def _read(logged: LogRecord, where: str, documents: str | None) -> Iterator[FoundSpan]:
    request, answers = request_of(logged), answers_of(logged)
    output = next(iter(answers.values()), None) or None
    completion = record(output)
    batch = named(logged.get("custom_id"))
    id_ = named(first(logged, "trace_id", "id")) or named(completion.get("id"))
    trace_id = batch or id_ or event_of(logged)
    span = TraceSpan(trace_id, named(logged.get("span_id")) or "1", where, "llm")
    if batch is not None and "messages" not in request:
        # The answer of a batch: another span, until its request is found.
        span.span_id, span.kind = "answer", "other"
        span.read_call([{"role": "user", "content": ""}], output)
        span.messages = []
    else:
        messages = parsed(request.get("messages"))
        if (
            output is None
            and isinstance(messages, list)
            and record(messages[-1:] and messages[-1]).get("role") == "assistant"
        ):
            messages, output = messages[:-1], messages[-1:]
        # Messages of Anthropic and Bedrock have the system prompt beside them.
        system = request.get("system")
        span.read_call({"messages": messages, "system": system} if messages and system else messages, output)
    span.check_only(answers.values())
    span.n_hidden = int(has_reasoned(completion or output))
    code = record(logged.get("response")).get("status_code")
    span.failed = bool(logged.get("error")) or (isinstance(code, int) and code >= 400)
    span.end = seconds(
        first(logged, "time", "timestamp", "created_at") or first(completion, "created") or logged.get("created")
    )
    span.user, span.session = recipient_of(logged, request)
    span.read_recipient(logged)
    span.model = named(completion.get("model")) or named(request.get("model")) or named(logged.get("model"))
    span.parameters = {name: value for name, value in request.items() if name != "messages"}
    span.n_tools = len(request["tools"]) if isinstance(request.get("tools"), list) else 0
    span.response_id = named(completion.get("id")) or (named(logged.get("id")) if "choices" in logged else None)
    span.documents = beside(logged, documents)
    yield span, logged


def joined(spans: list[TraceSpan]) -> list[TraceSpan]:
    """Requests and answers of a batch, of one `custom_id`, as one call."""
    halves = [span for span in spans if span.span_id == "answer"]
    # Of an answer that failed first and then came, the latter counts.
    answers = _different(span for span in halves if span.answers) or halves[:1]
    requests = _different(span for span in spans if span.kind == "llm")
    if not answers:
        return spans
    if len(answers) > 1 or len(requests) > 1:
        # Nobody can tell which answer is whose.
        for number, call in enumerate(calls := requests or answers, 1):
            call.span_id, call.kind, call.problem = str(number), "llm", Reason.SAME_ID.value
        return calls
    (answer,) = answers
    if not requests:
        answer.kind, answer.problem = "llm", Reason.NO_PROMPT.value
        return [answer]
    (request,) = requests
    # The request alone has no answer, which is no problem of the two together.
    if request.problem in (None, Reason.NO_ANSWER.value):
        request.problem = answer.problem
    request.answers, request.failed = answer.answers, answer.failed or request.failed
    request.end = request.end or answer.end
    request.model = answer.model or request.model
    request.response_id = answer.response_id
    request.n_hidden = max(request.n_hidden, answer.n_hidden)
    request.documents = request.documents or answer.documents
    request.user, request.session = request.user or answer.user, request.session or answer.session
    request.told = request.told or answer.told
    return [request]


def _different(spans: Iterable[TraceSpan]) -> list[TraceSpan]:
    """The first of all spans that say the same: one that was logged twice is one."""
    distinct: dict[str, TraceSpan] = {}
    for span in spans:
        distinct.setdefault(repr(span.texts), span)
    return list(distinct.values())


FORMAT = TraceFormat(
    "openai",
    "chat completions: messages, choices, and retrieved texts next to them",
    _fits,
    _read,
    lambda logged: "custom_id" not in logged,
)
