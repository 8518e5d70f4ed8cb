"""Runs that a library reports, gathered by trace: when a trace has ended, its answers are appended to a log.

A run is a call of a model, of a retriever or of a tool, or what lies around these. A trace is a run without a parent,
with all below it, or everything within `answering`. What counts as the answer of a trace is said in `_Trace.answers`.
"""

from __future__ import annotations

import secrets
import threading
import weakref
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import wraps
from typing import Any, Final, Literal, TypeVar, cast

from leakmeter.errors import UsageError
from leakmeter.integrations.log import Answer, AnswerLog
from leakmeter.integrations.values import Fields, documents_of, name_of, strings

Kind = Literal["model", "retriever", "reranker", "tool", "other"]
MOST_OPEN: Final = 4096
"""Traces that are kept at a time; the oldest is ended when there are more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What a model was sent."""

    messages: tuple[Fields, ...] | None = None
    text: str | None = None
    model: str | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)
    n_tools: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of the answers of a model's call."""

    text: str
    calls_tools: bool = False
    has_reasoned: bool = False
    finish_reason: str | None = None
    response_id: str | None = None
    model: str | None = None


@dataclass(slots=True, eq=False)
class _Run:
    id: str
    parent: _Run | None
    began: int
    kind: Kind = "other"
    prompt: Prompt | None = None
    choices: tuple[Choice, ...] = ()
    ended: int | None = None
    time: datetime | None = None
    has_failed: bool = False
    documents: tuple[Fields, ...] = ()
    replaced: tuple[Fields, ...] = ()
    """Documents that a reranker was given, in place of which its own stand."""
    used: tuple[Fields, ...] = ()
    """Documents that the model calls below it were given, where the library says so."""

    def above(self) -> Iterator[_Run]:
        run = self.parent
        while run is not None:
            yield run
            run = run.parent

    def top(self) -> _Run:
        return next(reversed([self, *self.above()]))


@dataclass(slots=True, eq=False)
class _Trace:
    id: str
    recipient: str | None = None
    documents: tuple[Fields, ...] = ()
    """Given by the caller."""
    runs: dict[str, _Run] = field(default_factory=dict)
    n_open: int = 0
    is_held: bool = False
    """Whether a caller says when it ends, rather than its first run."""
    is_incomplete: bool = False
    is_spoiled: bool = False
    """Whether something of it could not be read, so that its answer might be taken for another's."""
    returned: Counter[str] = field(default_factory=Counter)
    """Texts that runs without parent returned, and how often."""

    def answers(self) -> list[tuple[_Run, int]]:
        """Which choices of which calls were the answers.

        A call that calls tools is none, nor one around another call. Of the rest: those whose text the trace returned
        (the last ones, if more calls had it), or else the last. What a run returned that then failed was not told, but
        what had been streamed before a call broke off may have been.
        """
        calls = [run for run in self.runs.values() if run.kind == "model" and run.ended and run not in self._around()]
        whole = [run for run in calls if not run.has_failed and not run.top().has_failed]
        left = self.returned.copy()
        found: list[tuple[_Run, int]] = []
        for run, number in sorted(_texts(whole), key=lambda one: one[0].ended or 0, reverse=True):
            text = run.choices[number].text.strip()
            if left[text]:
                left[text] -= 1
                found.insert(0, (run, number))
        if found:
            return found
        kept = [run for run in whole if not any(above.has_failed for above in run.above())]
        broken = [run for run, _ in _texts(calls) if run.has_failed]
        last = max(kept or whole or broken, key=lambda run: run.ended or 0, default=None)
        return [] if last is None else _texts([last])

    def is_without_text(self) -> bool:
        """Whether something was answered that is no text, or whose prompt is not known."""
        return not self.answers() and any(
            run.kind == "model" and run.ended and not run.has_failed and not run.top().has_failed
            for run in self.runs.values()
        )

    def _around(self) -> set[_Run]:
        return {above for run in self.runs.values() if run.choices for above in run.above()}

    def documents_for(self, call: _Run) -> tuple[Fields, ...]:
        """What had been retrieved when a call began, or what the library says that it was given."""
        used = next((run.used for run in call.above() if run.used), None)
        if used is not None:
            return documents_of([*self.documents, *used])
        held = list(self.documents)
        for run in sorted(self.runs.values(), key=lambda run: run.ended or 0):
            # Of retrievers around retrievers, the outermost says what came of it.
            inner = any(above.kind in ("retriever", "reranker") for above in run.above())
            if run.ended is not None and run.ended < call.began and not inner:
                held = [one for one in held if one not in run.replaced]
                held += run.documents
        return documents_of(held)

    def lines(self, source: str) -> Iterator[Answer]:
        """The answers, as they are logged."""
        answers = self.answers()
        told = {run for run, _ in answers}
        calls = {run for run in self.runs.values() if run.choices} - self._around()
        tools = sum(run.kind == "tool" for run in self.runs.values())
        for run, number in answers:
            choice, prompt = run.choices[number], run.prompt
            assert prompt is not None
            # An answer of this trace that had ended may have been an input of this one.
            hidden = sum(one not in told or (one.ended or 0) < run.began for one in calls - {run})
            yield Answer(
                trace_id=self.id,
                span_id=run.id if number == 0 else f"{run.id}.{number + 1}",
                answer=choice.text,
                messages=prompt.messages,
                prompt=prompt.text if prompt.messages is None else None,
                time=run.time or datetime.now(UTC),
                recipient=self.recipient,
                model=prompt.model or choice.model,
                sampling=prompt.sampling,
                documents=self.documents_for(run),
                hidden_calls=hidden + tools + choice.has_reasoned,
                source=source,
                response_id=choice.response_id,
                finish_reason=choice.finish_reason,
                n_tools=prompt.n_tools,
                is_interrupted=run.has_failed,
                is_incomplete=self.is_incomplete,
            )


def _texts(calls: Iterable[_Run]) -> list[tuple[_Run, int]]:
    """Calls and the numbers of their choices that are text, of a prompt that is known."""
    return [
        (run, number)
        for run in calls
        for number, choice in enumerate(run.choices)
        if choice.text and not choice.calls_tools and run.prompt is not None
    ]


@dataclass(slots=True, eq=False)
class _Group:
    """What `answering` says of the runs within it."""

    trace_id: str
    recipient: str | None
    documents: tuple[Fields, ...] = ()
    traces: dict[Runs, _Trace] = field(default_factory=dict)
    above: _Run | None = None
    """The run whose stream goes on: what begins meanwhile is below it."""
    began: int = 0
    """When the stream went on."""


_GROUP: Final[ContextVar[_Group | None]] = ContextVar("leakmeter_answering", default=None)


@contextmanager
def answering(recipient: object = None, *, documents: Any = (), trace_id: object = None) -> Iterator[str]:
    """Say to whom the answer within is given, and take all that runs within as one trace.

    A retriever that runs before the chain, and a chain of several calls without one run around them, belong together
    within this block. The answer is logged when the block ends, or when the last stream within it has ended.

    Args:
        recipient: who is told the answer.
        documents: retrieved by what is not traced: as of `AnswerLog.record`.
        trace_id: of the log; by default random.

    Yields:
        The trace's id.

    Raises:
        UsageError: `documents` are no documents.

    Examples:
        >>> with answering("desk 4", documents={"call-1": "Anna Ek called at nine."}, trace_id="question-1") as trace:
        ...     print(trace)
        question-1
    """
    group = _Group(name_of(trace_id) or secrets.token_hex(16), name_of(recipient), documents_of(documents))
    token = _GROUP.set(group)
    try:
        yield group.trace_id
    finally:
        # A block around a yield may end in another context than it began in.
        with suppress(ValueError):
            _GROUP.reset(token)
        for runs, trace in list(group.traces.items()):
            runs.release(trace)


def _steps(stream: Generator[Any, Any, Any], group: _Group, end: Callable[[], None]) -> Iterator[Any]:
    try:
        while True:
            token = _GROUP.set(group)
            try:
                item = next(stream)
            except StopIteration:
                return
            finally:
                _GROUP.reset(token)
            yield item
    finally:
        stream.close()
        end()


async def _steps_async(stream: AsyncGenerator[Any, Any], group: _Group, end: Callable[[], None]) -> AsyncIterator[Any]:
    try:
        while True:
            token = _GROUP.set(group)
            try:
                item = await anext(stream)
            except StopAsyncIteration:
                return
            finally:
                _GROUP.reset(token)
            yield item
    finally:
        await stream.aclose()
        end()


class Runs:
    """Runs of one library that have begun, by id. Safe to call from several threads."""

    def __init__(self, log: AnswerLog, source: str, recipient: object = None) -> None:
        """No runs yet.

        Args:
            log: where answers are appended.
            source: the library's name.
            recipient: of answers for which nothing else says it; a text, or a function that returns one.
        """
        self.log: Final = log
        self._source: Final = source
        self._recipient: Final = recipient
        self._traces: Final[OrderedDict[int, _Trace]] = OrderedDict()
        self._of: Final[dict[str, _Trace]] = {}
        self._number = 0
        self._lock: Final = threading.RLock()

    def start(
        self,
        id_: object,
        parent: object = None,
        kind: Kind = "other",
        *,
        trace_id: str | None = None,
        recipient: object = None,
        prompt: Prompt | None = None,
    ) -> None:
        """A run begins.

        Args:
            id_: of the run; one that has begun already is passed over.
            parent: the run around it, if any.
            kind: of run, as far as it is known.
            trace_id: of a run without parent; by default its own id.
            recipient: who is told the answer, where the library says so.
            prompt: what a model is sent.
        """
        name = str(id_)
        with self._lock:
            if name in self._of:
                return
            trace = self._of.get(str(parent))
            above = trace.runs.get(str(parent)) if trace is not None else None
            group = _GROUP.get()
            if group is not None and group.above is not None and self._of.get(group.above.id) in group.traces.values():
                its = self._of[group.above.id]
                # What the stream began itself stays above what that begins.
                above = above if trace is its and above is not None and above.began > group.began else group.above
                trace = its
            if trace is None:
                trace = self._new_trace(trace_id or name)
            run = _Run(name, above, self._next(), kind, prompt)
            trace.runs[name] = run
            trace.n_open += 1
            if trace.recipient is None:
                trace.recipient = name_of(recipient)
            self._of[name] = trace
            oldest = next(iter(self._traces.values())) if len(self._traces) > MOST_OPEN else None
        if oldest is not None:
            self._finish(oldest)

    def end(
        self,
        id_: object,
        *,
        kind: Kind | None = None,
        prompt: Prompt | None = None,
        choices: Iterable[Choice] = (),
        documents: Iterable[Fields] = (),
        replaced: Iterable[Fields] = (),
        returned: Any = None,
        recipient: object = None,
        time: datetime | None = None,
        has_failed: bool = False,
        is_incomplete: bool = False,
    ) -> None:
        """A run has ended.

        Args:
            id_: of the run; one that is not known is passed over.
            kind: of run, where that was not known before.
            prompt: what a model was sent, where that was not known before.
            choices: what a model answered; of a call that failed, what had been streamed.
            documents: that a retriever found.
            replaced: documents that a reranker was given.
            returned: by a run without parent.
            recipient: who is told the answer, where the library says so.
            time: when it ended; by default now.
            has_failed: whether it raised.
            is_incomplete: whether what is said of it was cut before it came here.
        """
        with self._lock:
            trace = self._of.get(str(id_))
            run = trace.runs[str(id_)] if trace is not None else None
            if trace is None or run is None or run.ended is not None:
                return
            run.ended, run.time = self._next(), time or datetime.now(UTC)
            run.kind = kind or run.kind
            run.prompt = prompt or run.prompt
            run.choices, run.has_failed = tuple(choices), has_failed
            run.documents, run.replaced = tuple(documents), tuple(replaced)
            trace.is_incomplete |= is_incomplete
            if trace.recipient is None:
                trace.recipient = name_of(recipient)
            if run.parent is None:
                trace.returned += strings(returned)
            trace.n_open -= 1
            is_done = trace.n_open == 0 and not trace.is_held
        if is_done:
            self._finish(trace)

    def spoil(self, id_: object, parent: object = None) -> None:
        """Something of a run could not be read: nothing of its trace is logged."""
        with self._lock:
            trace = self._of.get(str(id_)) or self._of.get(str(parent))
            if trace is not None:
                trace.is_spoiled = True
        self.end(id_, has_failed=True)

    def use(self, id_: object, documents: Iterable[Fields]) -> None:
        """The library says which documents the model calls below a run are given."""
        with self._lock:
            trace = self._of.get(str(id_))
            if trace is not None:
                run = trace.runs[str(id_)]
                run.used = (*run.used, *documents)

    def parent_of(self, id_: object) -> str | None:
        """The run around a run that has begun."""
        with self._lock:
            trace = self._of.get(str(id_))
            above = trace.runs[str(id_)].parent if trace is not None else None
            return above.id if above is not None else None

    def knows(self, id_: object) -> bool:
        """Whether a run has begun, and its trace has not ended."""
        return str(id_) in self._of

    def release(self, trace: _Trace) -> None:
        """The caller's block has ended."""
        with self._lock:
            trace.is_held = False
            is_done = trace.n_open == 0
        if is_done:
            self._finish(trace)

    def streamed(self, id_: object, stream: Any) -> Any:
        """A generator in place of one that a run returned, so that the calls it makes belong to that run.

        Args:
            id_: of the run.
            stream: a generator or an asynchronous one.

        Returns:
            One that yields the same; the trace ends when it has ended, or is no longer referred to.
        """
        with self._lock:
            trace = self._of.get(str(id_))
            if trace is None:
                return stream
            group = _Group(trace.id, None, traces={self: trace}, above=trace.runs[str(id_)], began=self._next())
            trace.n_open += 1
        ended: list[bool] = []

        def end() -> None:
            with self._lock:
                if ended:
                    return
                ended.append(True)
                trace.n_open -= 1
                is_done = trace.n_open == 0 and not trace.is_held
            if is_done:
                self._finish(trace)

        made: Any = (_steps_async if isinstance(stream, AsyncGenerator) else _steps)(stream, group, end)
        weakref.finalize(made, end).atexit = False
        return made

    def close(self) -> None:
        """End every trace: what was answered in it is logged."""
        for trace in list(self._traces.values()):
            self._finish(trace)

    def _new_trace(self, id_: str) -> _Trace:
        group = _GROUP.get()
        if group is not None:
            if self not in group.traces:
                made = _Trace(group.trace_id, group.recipient, group.documents, is_held=True)
                group.traces[self] = self._traces[id(made)] = made
            return group.traces[self]
        trace = _Trace(id_)
        self._traces[id(trace)] = trace
        return trace

    def _finish(self, trace: _Trace) -> None:
        with self._lock:
            if self._traces.pop(id(trace), None) is None:
                return
            for name in trace.runs:
                self._of.pop(name, None)
        if trace.is_spoiled:
            return
        with self.log.guarding("the end of a trace"):
            if trace.recipient is None:
                trace.recipient = name_of(self._recipient() if callable(self._recipient) else self._recipient)
            for line in trace.lines(self._source):
                self.log.append(line)
            if trace.is_without_text():
                raise UsageError(
                    "an answer without text, such as a call of a tool, or without its prompt is not logged"
                )

    def _next(self) -> int:
        self._number += 1
        return self._number


class Recorder:
    """Base of what a library calls: a log, and the runs that the library reports."""

    _SOURCE: str

    def __init__(self, log: AnswerLog, recipient: object = None) -> None:
        self.log = log
        self._runs = Runs(log, self._SOURCE, recipient)

    def close(self) -> None:
        """Log the answers of traces that have not ended; for the end of a program."""
        self._runs.close()

    def _spoil(self, *args: Any, **kwargs: Any) -> None:
        """Say whose event could not be read."""
        raise NotImplementedError


_Method = TypeVar("_Method", bound=Callable[..., None])


def guarded(method: _Method) -> _Method:
    """A method that a library calls: whatever it meets, the program that uses the library goes on."""

    @wraps(method)
    def called(self: Recorder, *args: Any, **kwargs: Any) -> None:
        with self.log.guarding(method.__qualname__):
            try:
                method(self, *args, **kwargs)
            except Exception:
                self._spoil(*args, **kwargs)
                raise

    return cast(_Method, called)
