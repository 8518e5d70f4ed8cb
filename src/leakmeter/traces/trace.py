"""The spans of one trace to its answers: which calls answered, what was retrieved for them, and what was hidden.

A call answered the recipient if retrieved texts stand in its prompt, or if it is the last of its trace. Every other
call is hidden (it rewrites a query, grades documents, chooses a tool), and is counted.

- A call that wraps another is the same call; the inner one has what was sent.
- A call within a retrieval, a reranking or a tool is hidden.
- Documents are expected in a prompt if they were retrieved after the answer before it, and no reranker could have
  dropped them. Others become documents of the answer where they stand in its prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from leakmeter.traces.answer import LoggedAnswer
from leakmeter.traces.chats import checked
from leakmeter.traces.places import Found, Retrieved, find, normalised
from leakmeter.traces.plainly import moment, sampling_of
from leakmeter.traces.refused import Reason, Refused, Unusable
from leakmeter.traces.span import Span

_HIDING = ("retriever", "reranker", "tool")
# Of these a call may have had no answer because nothing was meant for the recipient.
_OF_NO_ANSWER = (Reason.NO_DOCUMENTS, Reason.DOCUMENT_NOT_FOUND, Reason.TOOL_CALL, Reason.NO_ANSWER, Reason.FAILED)


@dataclass(slots=True)
class Outcome:
    """What a trace came to."""

    found: list[LoggedAnswer | Refused] = field(default_factory=list)
    n_hidden: int = 0
    """Calls that answered nobody."""


def outcome_of(spans: Sequence[Span], format: str, *, leave_out: bool = False) -> Outcome:
    """Answers and refusals of a trace.

    Args:
        spans: all of the trace, in any order.
        format: that they were logged in.
        leave_out: see `places.find`.
    """
    tree = _Tree(spans)
    out = Outcome(n_hidden=tree.n_within)
    calls = tree.calls()
    answered: list[Span] = []
    seen: list[Span] = []
    for number, call in enumerate(calls):
        is_last = number == len(calls) - 1
        try:
            retrieved = tree.retrieved_for(call, answered[-1] if answered else None)
            found = _found(call, retrieved, leave_out)
        except Unusable as error:
            seen.append(call)
            if not is_last and error.reason in _OF_NO_ANSWER:
                out.n_hidden += 1
            else:
                out.found.append(Refused(error.reason, call.where, call.trace_id, call.span_id))
                answered.append(call)
            continue
        n_hidden = tree.n_hidden_before(call, seen) + call.n_hidden
        out.found += _answers(call, found, tree, n_hidden, format)
        answered.append(call)
    return out


def _found(call: Span, retrieved: Sequence[Retrieved], leave_out: bool) -> Found:
    if call.failed:
        raise Unusable(Reason.FAILED)
    if call.problem is not None:
        raise Unusable(Reason(call.problem))
    if not retrieved:
        raise Unusable(Reason.NO_DOCUMENTS)
    found = find(retrieved, checked(call.prompt()), leave_out=leave_out)
    if not found.documents:
        raise Unusable(Reason.DOCUMENT_NOT_FOUND if found.absent else Reason.NO_DOCUMENTS)
    return found


def _answers(call: Span, found: Found, tree: _Tree, n_hidden: int, format: str) -> Iterator[LoggedAnswer | Refused]:
    recipient = tree.recipient(call)
    for number, (text, ended) in enumerate(call.answers, 1):
        span_id = call.span_id if number == 1 else f"{call.span_id}.{number}"
        if not text or not text.strip():
            yield Refused(Reason.NO_ANSWER, call.where, call.trace_id, span_id)
            continue
        yield LoggedAnswer(
            trace_id=call.trace_id,
            span_id=span_id,
            response_id=call.response_id if number == 1 or call.response_id is None else f"{call.response_id}.{number}",
            time=moment(call.end if call.end is not None else call.start),
            recipient=recipient,
            model=call.model,
            sampling=sampling_of(call.parameters),
            messages=tuple(call.prompt()),
            answer=text,
            documents=found.documents,
            absent=found.absent,
            n_hidden_calls=n_hidden,
            n_tools=call.n_tools,
            n_empty_documents=found.n_empty,
            finish_reason=ended,
            is_interrupted=call.is_interrupted,
            is_rebuilt=call.is_rebuilt,
            format=format,
            where=call.where,
        )


class _Tree:
    """Spans of a trace by their parents and in their order."""

    def __init__(self, spans: Iterable[Span]) -> None:
        # A span that was exported twice is one.
        self._spans = list({span.span_id: span for span in spans}.values())
        self._by_id: Mapping[str, Span] = {span.span_id: span for span in self._spans}
        self._above = {span.span_id: self._ancestors(span) for span in self._spans}
        wrappers = {one.span_id for span in self._spans if span.kind == "llm" for one in self._above[span.span_id]}
        inner = [span for span in self._spans if span.kind == "llm" and span.span_id not in wrappers]
        within = {span.span_id for span in inner if any(one.kind in _HIDING for one in self._above[span.span_id])}
        self.n_within = len(within)
        """Calls within retrievals and tools."""
        # What is not known of an order is left as it was logged.
        self._calls = sorted((span for span in inner if span.span_id not in within), key=_order)
        self._hidden = [span for span in inner if span.span_id in within]
        self._hidden += [span for span in self._spans if span.kind == "tool"]

    def _ancestors(self, span: Span) -> list[Span]:
        out: list[Span] = []
        seen = {span.span_id}
        above = self._by_id.get(span.parent_id or "")
        while above is not None and above.span_id not in seen:
            seen.add(above.span_id)
            out.append(above)
            above = self._by_id.get(above.parent_id or "")
        return out

    def calls(self) -> list[Span]:
        """Calls that may have answered, in order."""
        return self._calls

    def recipient(self, call: Span) -> str | None:
        """Who was answered: as the call says, else what is above it, else any other span."""
        order = [call, *self._above[call.span_id], *self._spans]
        for name in ("user", "session"):
            for span in order:
                if (found := getattr(span, name)) is not None:
                    return str(found)
        return None

    def retrieved_for(self, call: Span, before: Span | None) -> list[Retrieved]:
        """Documents that a call may have read.

        Args:
            call: that read them.
            before: the last call that answered.
        """
        own = [Retrieved(id_, text) for id_, text in call.documents]
        searches = [span for span in self._spans if span.kind in ("retriever", "reranker") and _precedes(span, call)]
        rerankers = [span for span in searches if span.kind == "reranker"]
        out: list[Retrieved] = []
        for span in sorted(searches, key=_order):
            is_inner = any(one.kind in ("retriever", "reranker") for one in self._above[span.span_id])
            is_reranked = any(other is not span and _precedes(span, other) for other in rerankers)
            is_old = before is not None and _precedes(span, before)
            out += [Retrieved(id_, text, not (is_inner or is_reranked or is_old)) for id_, text in span.documents]
        return own + out

    def n_hidden_before(self, call: Span, calls: Iterable[Span]) -> int:
        """Calls of models and tools before a call of which its prompt does not have the answer as an earlier turn.

        Args:
            call: that answered.
            calls: others that answered nobody.
        """
        told = {normalised(content) for role, content in call.messages if role == "assistant"}
        above = {one.span_id for one in self._above[call.span_id]}
        others = (span for span in (*calls, *self._hidden) if span.span_id not in above and not span.failed)
        hidden = [span for span in others if _precedes(span, call)]
        return sum(not any(normalised(text or "") in told for text, _ in span.answers) for span in hidden)


def _order(span: Span) -> float:
    return span.start if span.start is not None else span.end if span.end is not None else float("inf")


def _precedes(span: Span, other: Span) -> bool:
    """Whether a span began before another; where that is not known, it did."""
    return span.start is None or other.start is None or span.start <= other.start
