"""The spans of one trace to its answers: which calls answered, what was read for them, and what was hidden.

A call answered the recipient if retrieved texts or results of tools stand in its prompt, or if it is the last of its
trace. Its text is one answer, and the arguments of each call of a tool another, which the tool received. What it
thought before is one too, which nobody received, where that is asked for. Every other call is hidden (it rewrites a
query, or grades documents), and is counted.

- Of an agent, calls before which nothing was read are counted apart: there is nothing to measure.
- What an agent emitted is measured at its own call, and not where a later prompt repeats it.
- A call that wraps another is the same call; the inner one has what was sent.
- A call within a retrieval, a reranking or a tool is hidden.
- Spans that are each other's parents, in a ring, have no parents.
- Of two calls with one id the last is read; the other is refused where it says something else.
- Documents are expected in a prompt if they were retrieved after the answer before it, no reranker could have dropped
  them, and no tool found them, whose result has them. Others become documents of the answer where they stand in its
  prompt, as do those whose search began later by the clock of another machine.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from leakmeter.core.case import Document, Message, Recipient
from leakmeter.data.context_marker import ContextMarker, SlowPatternError
from leakmeter.data.conversation import ConversationEntry, Emitted, emissions_of, says_something
from leakmeter.data.mapping import unused
from leakmeter.data.recipients import recipient_of
from leakmeter.data.traces.answer import LoggedAnswer, LoggedMessage, ReadText, Reason, Refused, Unusable, Whose
from leakmeter.data.traces.messages import LoggedReply, checked
from leakmeter.data.traces.places import FoundDocuments, Retrieved, WorkBudget, find, normalised
from leakmeter.data.traces.plainly import moment, sampling_of
from leakmeter.data.traces.span import TraceSpan
from leakmeter.errors import DataError

_SEARCHING: Final = ("retriever", "reranker")
_HIDING: Final = (*_SEARCHING, "tool")
_OF_MESSAGE: Final = 16
"""Steps that a message takes to be read again, and times that its characters are passed over."""
# Of these a call may have had no answer because nothing was meant for the recipient.
_OF_NO_ANSWER = (Reason.NO_DOCUMENTS, Reason.DOCUMENT_NOT_FOUND, Reason.NO_ANSWER, Reason.FAILED)


@dataclass(slots=True)
class Outcome:
    results: list[LoggedAnswer | Refused] = field(default_factory=list)
    n_hidden: int = 0
    """Calls that answered nobody."""
    n_before_reading: int = 0
    """What agents emitted before anything was read."""


def outcome_of(
    spans: Sequence[TraceSpan],
    format: str,
    *,
    leave_out: bool = False,
    has_reasoning: bool = False,
    marker: ContextMarker | None = None,
) -> Outcome:
    """Answers and refusals of a trace, of all its spans in any order; see `places.find` for `leave_out`. With
    `has_reasoning` what models thought is among them. What `marker` finds in a prompt is context too, beside what was
    retrieved."""
    tree = _Tree(spans)
    out = Outcome(n_hidden=tree.n_within)
    out.results += [_refused(Reason.SAME_ID, call) for call in tree.of_one_id]
    work = WorkBudget()
    answered: TraceSpan | None = None
    for number, call in enumerate(tree.calls, 1):
        is_last = number == len(tree.calls)
        try:
            emitted = _of_call(call, number, tree, answered, work, format, leave_out=leave_out, marker=marker)
        except Unusable as error:
            is_of_agent = error.reason is Reason.NO_DOCUMENTS and _is_of_agent(call)
            tree.hide(call, is_measured=is_of_agent)
            if is_of_agent:
                out.n_before_reading += sum(map(_n_emitted, call.replies()))
            elif not is_last and error.reason in _OF_NO_ANSWER and not _is_lost(error.reason, call):
                out.n_hidden += 1
            else:
                out.results.append(_refused(error.reason, call))
                answered = call
            continue
        out.results += (
            each
            for each in emitted.results
            if has_reasoning or isinstance(each, Refused) or each.channel != "reasoning"
        )
        out.n_before_reading += emitted.n_before_reading
        answered = call
        if any(reply.calls for reply in call.replies()):
            # The recipient of its text did not see what tools were told.
            tree.hide(call, is_measured=True)
    return out


def _refused(reason: Reason, call: TraceSpan) -> Refused:
    return Refused(reason, call.where, call.trace_id, call.span_id)


def _is_lost(reason: Reason, call: TraceSpan) -> bool:
    """Whether something is left out that the call emitted after it had read results of tools."""
    return reason is Reason.DOCUMENT_NOT_FOUND and any(message.read for message in call.prompt())


def _is_of_agent(call: TraceSpan) -> bool:
    """Whether the model could call tools: that it read nothing is usual then, before it has called one."""
    has_called = any(message.calls for message in call.prompt()) or any(reply.calls for reply in call.replies())
    return call.n_tools > 0 or has_called


def _of_call(
    call: TraceSpan,
    number: int,
    tree: _Tree,
    before: TraceSpan | None,
    work: WorkBudget,
    format: str,
    *,
    leave_out: bool,
    marker: ContextMarker | None,
) -> Outcome:
    """What one call emitted; `Unusable` where it cannot be measured."""
    if call.failed:
        raise Unusable(Reason.FAILED)
    if call.problem is not None:
        raise Unusable(Reason(call.problem))
    retrieved = tree.retrieved_for(call, before, work)
    if marker is not None:
        # Where the log has no text of a document, the user has said where it stands.
        retrieved = [replace(document, text=document.text or "") for document in retrieved]
    prompt: list[LoggedMessage] = []
    messages: Sequence[LoggedMessage] = ()
    found: FoundDocuments | None = None
    replies: list[tuple[LoggedReply, Sequence[LoggedMessage], FoundDocuments]] = []
    for reply in call.replies():
        # Calls of one turn have those before them in theirs, and what its server's tools returned is read again.
        work.add(len(reply.calls) ** 2)
        if reply.continues:
            work.add(_OF_MESSAGE * len(prompt), _OF_MESSAGE * sum(len(message.content) for message in prompt))
        read = [*(prompt if reply.continues else call.prompt()), *reply.before]
        if found is None or read != prompt:
            prompt, messages = read, checked(labelled(read, tree.tools))
            if marker is not None:
                messages = _with_context(messages, marker, call.where)
            found = find(retrieved, messages, leave_out=leave_out, work=work)
        replies.append((reply, messages, found))
    if not any(found.documents for _, _, found in replies):
        raise Unusable(
            Reason.DOCUMENT_NOT_FOUND if any(found.absent for _, _, found in replies) else Reason.NO_DOCUMENTS
        )
    # What its prompt has as an earlier turn was told to the recipient.
    turns = {normalised(message.content) for message in call.prompt() if message.role == "assistant"}
    n_hidden, n_unmeasured = (hidden.count(_start(call, math.inf), turns) for hidden in (tree.hidden, tree.unmeasured))
    out = Outcome()
    for n, (reply, messages, found) in enumerate(replies, 1):
        behind = "" if n == 1 else f".{n}"
        if not found.documents:
            out.n_before_reading += _n_emitted(reply)
            continue
        if not (reply.text.strip() or reply.calls):
            out.results.append(Refused(Reason.NO_ANSWER, call.where, call.trace_id, f"{call.span_id}{behind}"))
        emissions = _emissions(reply)
        n_received = sum(each.channel != "reasoning" for each in emissions)
        n_reasoned = len(emissions) - n_received
        names: set[str] = set()
        for each in emissions:
            is_answer = each.channel == "answer"
            if each.channel == "reasoning":
                name = f"{behind} reasoning"
            else:
                name = behind if is_answer or n_received == 1 else unused(f"{behind} {each.recipient}", names)
            names.add(name)
            out.results.append(
                LoggedAnswer(
                    trace_id=call.trace_id,
                    span_id=f"{call.span_id}{name}",
                    response_id=None if call.response_id is None else f"{call.response_id}{name}",
                    time=moment(call.end if call.end is not None else call.start),
                    recipient=tree.recipient(call) if is_answer else f"{each.channel}:{each.recipient}",
                    known=tree.known(call),
                    model=call.model,
                    sampling=sampling_of(call.parameters),
                    messages=tuple(messages),
                    answer=each.response,
                    documents=found.documents,
                    absent=found.absent,
                    n_hidden_calls=n_hidden + call.n_hidden,
                    n_unmeasured_calls=n_unmeasured + max(call.n_hidden - call.n_measured, n_reasoned),
                    n_reasoned=n_reasoned,
                    n_tools=call.n_tools,
                    n_empty_documents=found.n_empty,
                    finish_reason=reply.ended,
                    is_interrupted=call.is_interrupted,
                    is_rebuilt=call.is_rebuilt,
                    format=format,
                    where=call.where,
                    channel=each.channel,
                    begun=each.begun and replace(each.begun, name=f"assistant {len(messages) + 1}"),
                    conversation=tree.conversation(call),
                    turn=call.turn or number,
                )
            )
    return out


def _emissions(reply: LoggedReply) -> list[Emitted]:
    """What was thought before a reply, its text, and the arguments of each call in it that has some."""
    thought = [ConversationEntry("reasoning", reply.reasoning)] if reply.reasoning else []
    said = [ConversationEntry("answer", reply.text)] if reply.text else []
    return emissions_of(
        [*thought, *said, *(ConversationEntry("call", call.arguments, call.name) for call in reply.calls)]
    )


def _n_emitted(reply: LoggedReply) -> int:
    return bool(reply.text.strip()) + sum(says_something(call.arguments) for call in reply.calls)


def labelled(messages: Iterable[LoggedMessage], tools: Mapping[str, str]) -> list[LoggedMessage]:
    """Messages in which all that was read has a name: results those of their tools, which the run of a tool may say
    where the prompt does not."""
    counts: Counter[str] = Counter()
    out: list[LoggedMessage] = []
    for number, message in enumerate(messages, 1):
        if message.read:
            is_result = message.role == "tool"
            tool = message.tool or tools.get(message.call_id or "", "") if is_result else ""
            counts[tool if is_result else "document "] += 1
            label = f"tool {number}" if is_result else f"document {counts['document ']}"
            label = f"{tool}#{counts[tool]}" if tool else label
            read = tuple(part if part.name else replace(part, name=label) for part in message.read)
            message = replace(message, read=read, tool=tool)
        out.append(message)
    return out


def _with_context(messages: Sequence[LoggedMessage], marker: ContextMarker, where: str) -> Sequence[LoggedMessage]:
    """Messages in which what the user says is context was read too; as they are where nothing is."""
    names = [f"{message.role} {number}" for number, message in enumerate(messages, 1)]
    texts = (Document(name, message.content) for name, message in zip(names, messages, strict=True))
    chat = (Message(each.role, text.name, (text,)) for each, text in zip(messages, texts, strict=True))
    try:
        found = marker.places(tuple(chat), where)
    except SlowPatternError:
        raise
    except DataError:
        return messages
    out: list[LoggedMessage] = []
    for message, places in zip(messages, found, strict=True):
        more = (ReadText(name, start, end) for start, end, name in places)
        apart = [
            each for each in more if all(each.end <= part.start or part.end <= each.start for part in message.read)
        ]
        read = sorted((*message.read, *apart), key=lambda part: part.start)
        out.append(replace(message, read=tuple(read)))
    return out


class _Tree:
    """Spans of a trace by their parents and in their order. Whoever sends spans decides how many, and what is above
    what: no step takes the square of their number."""

    def __init__(self, spans: Iterable[TraceSpan]) -> None:
        by_id: dict[str, TraceSpan] = {}
        self.of_one_id: list[TraceSpan] = []
        """Calls that are not read, since a later one has the same id and says something else."""
        for span in _with_contents(spans):
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
        self._searches = [span for span in searches if span.documents or span.problem]
        self._rerankers = sorted(_start(span, math.inf) for span in searches if span.kind == "reranker")
        """When they began; those of which it is not known are taken to follow whatever there is."""
        self.hidden = _Hidden(span for span in self._spans if span.kind == "tool" or span.span_id in within)
        self.unmeasured = _Hidden(span for span in inner if span.span_id in within)
        """Calls of models among these of which nothing is measured or counted otherwise."""
        self.tools = {id_: tool for span in self._spans for id_, tool in span.tools}
        """By the ids of calls."""

    def hide(self, call: TraceSpan, *, is_measured: bool) -> None:
        self.hidden.add(call)
        if not is_measured:
            self.unmeasured.add(call)

    def recipient(self, call: TraceSpan) -> str | None:
        """Who was answered: the user, else the session; see `user`."""
        user = self.user(call)
        places = (call, self._above[call], self._above.anywhere)
        return user if user is not None else next((str(at.session) for at in places if at.session is not None), None)

    def user(self, call: TraceSpan) -> str | None:
        """The user as the call says, else what is above it, else any other span."""
        places = (call, self._above[call], self._above.anywhere)
        return next((str(at.user) for at in places if at.user is not None), None)

    def known(self, call: TraceSpan) -> Recipient | None:
        """What is known of the user; None where nothing is."""
        told = {"id": self.user(call), **call.told}
        return recipient_of({name: value for name, value in told.items() if value is not None}, call.where)

    def conversation(self, call: TraceSpan) -> str:
        for place in (call, self._above[call], self._above.anywhere):
            if (conversation := place.conversation or place.session) is not None:
                return conversation
        return call.trace_id

    def retrieved_for(self, call: TraceSpan, before: TraceSpan | None, work: WorkBudget) -> list[Retrieved]:
        """Documents that a call may have read, `before` being the last call that answered; `Unusable` where it is too
        much."""
        work.add(len(self._searches))
        until = _start(call, math.inf)
        n_before = bisect_right(self._rerankers, until)
        n_undated = len(self._rerankers) - bisect_left(self._rerankers, math.inf) if until < math.inf else 0
        own = [_retrieved(*document) for document in call.documents]
        out: list[Retrieved] = []
        for span in self._searches:
            start = _start(span, -math.inf)
            is_later = start > until
            # What a tool finds is in its result, where that is in the prompt.
            is_inner = not self._above[span].kinds.isdisjoint(_HIDING)
            # Of the rerankers that did not begin before it, it may be one itself.
            n_behind = n_before - bisect_left(self._rerankers, start) + n_undated
            is_reranked = n_behind > (span.kind == "reranker")
            # One of which it is not known when it began is taken to be old.
            is_old = before is not None and start <= _start(before, math.inf)
            is_expected = not (is_inner or is_reranked or is_old or is_later or span.failed)
            if is_expected and span.problem is not None:
                raise Unusable(Reason(span.problem))
            out += (_retrieved(*each, is_expected=is_expected, is_later=is_later) for each in span.documents)
        return own + out


def _retrieved(
    id_: str | None,
    text: str | None,
    name: str | None = None,
    owner: str | None = None,
    tenant: str | None = None,
    readers: Sequence[str] = (),
    *,
    is_expected: bool = True,
    is_later: bool = False,
) -> Retrieved:
    return Retrieved(id_, text, is_expected, is_later, name, Whose(owner, tenant, tuple(readers)))


def _with_contents(spans: Iterable[TraceSpan]) -> list[TraceSpan]:
    """Spans with what events beside them say of their calls: where a span says it too, the span is read."""
    out: list[TraceSpan] = []
    contents: defaultdict[str, list[TraceSpan]] = defaultdict(list)
    for span in spans:
        if span.kind == "content":
            contents[span.span_id].append(span)
        else:
            out.append(span)
    for span in out:
        if span.span_id in contents:
            span.read_contents(_in_order(contents.pop(span.span_id)))
    for events in map(_in_order, contents.values()):
        # The log has the events alone.
        first = events[0]
        out.append(TraceSpan(first.trace_id, first.span_id, first.where, "llm", start=first.start, end=first.end))
        out[-1].read_contents(events)
    return out


def _in_order(events: list[TraceSpan]) -> list[TraceSpan]:
    """By their times; one that was exported twice is one."""
    distinct = {repr((event.start, event.given)): event for event in events}
    return sorted(distinct.values(), key=_order)


@dataclass(slots=True)
class _Inherited:
    """What the spans above a span say."""

    kinds: frozenset[str] = frozenset()
    user: str | None = None
    session: str | None = None
    conversation: str | None = None


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
            conversation=next((span.conversation for span in spans if span.conversation is not None), None),
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
                parent.conversation if parent.conversation is not None else above.conversation,
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
        # The text beside a call of a tool was told to the recipient, and its arguments were not.
        is_call = any(reply.calls for reply in span.replies())
        answers = {normalised(reply.text) for reply in span.replies()} if not is_call else set()
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
