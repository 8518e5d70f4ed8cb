"""The spans of one trace to its answers: which calls answered, what was retrieved for them, and what was hidden.

A call answered the recipient if retrieved texts stand in its prompt, or if it is the last of its trace. Every other
call is hidden (it rewrites a query, grades documents, chooses a tool), and is counted.

- A call that wraps another is the same call; the inner one has what was sent.
- A call within a retrieval, a reranking or a tool is hidden.
- Spans that are each other's parents, in a ring, have no parents.
- Of two calls with one id the last is read; the other is refused where it says something else.
- Documents are expected in a prompt if they were retrieved after the answer before it, and no reranker could have
  dropped them. Others become documents of the answer where they stand in its prompt.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from leakmeter.data.traces.answer import LoggedAnswer, Reason, Refused, Unusable
from leakmeter.data.traces.places import FoundDocuments, Retrieved, WorkBudget, find, normalised
from leakmeter.data.traces.plainly import checked, moment, sampling_of
from leakmeter.data.traces.span import TraceSpan

_SEARCHING: Final = ("retriever", "reranker")
_HIDING: Final = (*_SEARCHING, "tool")
# Of these a call may have had no answer because nothing was meant for the recipient.
_OF_NO_ANSWER = (Reason.NO_DOCUMENTS, Reason.DOCUMENT_NOT_FOUND, Reason.TOOL_CALL, Reason.NO_ANSWER, Reason.FAILED)


@dataclass(slots=True)
class Outcome:
    results: list[LoggedAnswer | Refused] = field(default_factory=list)
    n_hidden: int = 0
    """Calls that answered nobody."""


def outcome_of(spans: Sequence[TraceSpan], format: str, *, leave_out: bool = False) -> Outcome:
    """Answers and refusals of a trace, of all its spans in any order; see `places.find` for `leave_out`."""
    tree = _Tree(spans)
    out = Outcome(n_hidden=tree.n_within)
    out.results += [_refused(Reason.SAME_ID, call) for call in tree.of_one_id]
    calls = tree.calls
    work = WorkBudget()
    answered: TraceSpan | None = None
    for number, call in enumerate(calls):
        is_last = number == len(calls) - 1
        try:
            placed = _placed(call, tree, answered, work, leave_out=leave_out)
        except Unusable as error:
            tree.hidden.add(call)
            if not is_last and error.reason in _OF_NO_ANSWER:
                out.n_hidden += 1
            else:
                out.results.append(_refused(error.reason, call))
                answered = call
            continue
        # What its prompt has as an earlier turn was told to the recipient.
        turns = {normalised(content) for role, content in call.messages if role == "assistant"}
        n_hidden = tree.hidden.count(_start(call, math.inf), turns) + call.n_hidden
        out.results += _answers(call, placed, tree, n_hidden, format)
        answered = call
    return out


def _refused(reason: Reason, call: TraceSpan) -> Refused:
    return Refused(reason, call.where, call.trace_id, call.span_id)


def _placed(
    call: TraceSpan, tree: _Tree, before: TraceSpan | None, work: WorkBudget, *, leave_out: bool
) -> FoundDocuments:
    if call.failed:
        raise Unusable(Reason.FAILED)
    if call.problem is not None:
        raise Unusable(Reason(call.problem))
    retrieved = tree.retrieved_for(call, before, work)
    if not retrieved:
        raise Unusable(Reason.NO_DOCUMENTS)
    placed = find(retrieved, checked(call.prompt()), leave_out=leave_out, work=work)
    if not placed.documents:
        raise Unusable(Reason.DOCUMENT_NOT_FOUND if placed.absent else Reason.NO_DOCUMENTS)
    return placed


def _answers(
    call: TraceSpan, placed: FoundDocuments, tree: _Tree, n_hidden: int, format: str
) -> Iterator[LoggedAnswer | Refused]:
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
            documents=placed.documents,
            absent=placed.absent,
            n_hidden_calls=n_hidden,
            n_tools=call.n_tools,
            n_empty_documents=placed.n_empty,
            finish_reason=ended,
            is_interrupted=call.is_interrupted,
            is_rebuilt=call.is_rebuilt,
            format=format,
            where=call.where,
        )


class _Tree:
    """Spans of a trace by their parents and in their order. Whoever sends spans decides how many, and what is above
    what: no step takes the square of their number."""

    def __init__(self, spans: Iterable[TraceSpan]) -> None:
        by_id: dict[str, TraceSpan] = {}
        self.of_one_id: list[TraceSpan] = []
        """Calls that are not read, since a later one has the same id and says something else."""
        for span in spans:
            before = by_id.get(span.span_id)
            # A span that was exported twice is one.
            if before is not None and before.answers and before.texts != span.texts:
                self.of_one_id.append(before)
            by_id[span.span_id] = span
        self._spans = list(by_id.values())
        self._above = _Above(by_id)
        inner = [span for span in self._spans if span.kind == "llm" and span.span_id not in self._above.wrappers]
        within = {span.span_id for span in inner if not self._above[span].kinds.isdisjoint(_HIDING)}
        self.n_within = len(within)
        """Calls within retrievals and tools."""
        # What is not known of an order is left as it was logged.
        self.calls = sorted((span for span in inner if span.span_id not in within), key=_order)
        searches = sorted((span for span in self._spans if span.kind in _SEARCHING), key=_order)
        self._searches = [span for span in searches if span.documents]
        self._rerankers = sorted(_start(span, math.inf) for span in searches if span.kind == "reranker")
        """When they began; those of which it is not known are taken to follow whatever there is."""
        self.hidden = _Hidden(span for span in self._spans if span.kind == "tool" or span.span_id in within)

    def recipient(self, call: TraceSpan) -> str | None:
        """Who was answered: as the call says, else what is above it, else any other span."""
        for name in ("user", "session"):
            for place in (call, self._above[call], self._above.anywhere):
                if (recipient := getattr(place, name)) is not None:
                    return str(recipient)
        return None

    def retrieved_for(self, call: TraceSpan, before: TraceSpan | None, work: WorkBudget) -> list[Retrieved]:
        """Documents that a call may have read, `before` being the last call that answered; `Unusable` where it is too
        much."""
        work.add(len(self._searches))
        until = _start(call, math.inf)
        n_before = bisect_right(self._rerankers, until)
        n_undated = len(self._rerankers) - bisect_left(self._rerankers, math.inf) if until < math.inf else 0
        own = [Retrieved(id_, text) for id_, text in call.documents]
        out: list[Retrieved] = []
        for span in self._searches:
            start = _start(span, -math.inf)
            if start > until:
                continue
            is_inner = not self._above[span].kinds.isdisjoint(_SEARCHING)
            # Of the rerankers that did not begin before it, it may be one itself.
            n_behind = n_before - bisect_left(self._rerankers, start) + n_undated
            is_reranked = n_behind > (span.kind == "reranker")
            # One of which it is not known when it began is taken to be old.
            is_old = before is not None and start <= _start(before, math.inf)
            out += [Retrieved(id_, text, not (is_inner or is_reranked or is_old)) for id_, text in span.documents]
        return own + out


@dataclass(slots=True)
class _Inherited:
    """What the spans above a span say."""

    kinds: frozenset[str] = frozenset()
    user: str | None = None
    session: str | None = None


class _Above:
    def __init__(self, by_id: Mapping[str, TraceSpan]) -> None:
        self._parents = {id_: by_id.get(span.parent_id or "") for id_, span in by_id.items()}
        self._inherited: dict[str, _Inherited] = {}
        for span in by_id.values():
            self._inherit(span)
        self.wrappers: set[str] = set()
        """Spans below which there is a call."""
        for span in by_id.values():
            above = self._parents[span.span_id] if span.kind == "llm" else None
            while above is not None and above.span_id not in self.wrappers:
                self.wrappers.add(above.span_id)
                above = self._parents[above.span_id]
        spans = by_id.values()
        self.anywhere = _Inherited(
            user=next((span.user for span in spans if span.user is not None), None),
            session=next((span.session for span in spans if span.session is not None), None),
        )
        """What any span says."""

    def __getitem__(self, span: TraceSpan) -> _Inherited:
        return self._inherited[span.span_id]

    def _inherit(self, span: TraceSpan) -> None:
        """Take over what is above a span, and what is above that."""
        path: dict[str, TraceSpan] = {}
        at: TraceSpan | None = span
        while at is not None and at.span_id not in self._inherited and at.span_id not in path:
            path[at.span_id] = at
            at = self._parents[at.span_id]
        if at is not None and at.span_id in path:
            names = list(path)
            self._parents |= dict.fromkeys(names[names.index(at.span_id) :])
        for name in reversed(path):
            parent = self._parents[name]
            if parent is None:
                self._inherited[name] = _Inherited()
                continue
            above = self._inherited[parent.span_id]
            self._inherited[name] = _Inherited(
                above.kinds | {parent.kind},
                parent.user if parent.user is not None else above.user,
                parent.session if parent.session is not None else above.session,
            )


class _Hidden:
    """Calls of models and tools that answered nobody, by when they began and what they said."""

    def __init__(self, spans: Iterable[TraceSpan]) -> None:
        self._starts: list[float] = []
        self._by_answer: dict[str, list[float]] = defaultdict(list)
        self._several: list[tuple[float, set[str]]] = []
        """Of those that gave several answers."""
        for span in spans:
            self.add(span)

    def add(self, span: TraceSpan) -> None:
        if span.failed:
            return
        start = _start(span, -math.inf)
        insort(self._starts, start)
        answers = {normalised(text or "") for text, _ in span.answers}
        if len(answers) == 1:
            insort(self._by_answer[answers.pop()], start)
        elif answers:
            self._several.append((start, answers))

    def count(self, until: float, known_texts: Collection[str]) -> int:
        """How many began by then, in seconds since 1970, and said nothing that was told to the recipient in earlier
        turns."""
        n = bisect_right(self._starts, until)
        n -= sum(bisect_right(self._by_answer[text], until) for text in known_texts if text in self._by_answer)
        return n - sum(start <= until and not answers.isdisjoint(known_texts) for start, answers in self._several)


def _order(span: TraceSpan) -> float:
    return _start(span, span.end if span.end is not None else math.inf)


def _start(span: TraceSpan, missing: float) -> float:
    return missing if span.start is None else span.start
