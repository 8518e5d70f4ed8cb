"""Runs that a library reports, gathered by trace: when a trace has ended, its answers are appended to a log.

A run is a call of a model, of a retriever or of a tool, or what lies around these. A trace is a run without a parent,
with all below it, or everything within `answering`. What counts as the answer of a trace is said in `Trace.answers`,
and which calls told a tool or the user something in between in `Trace.told`.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import wraps
from itertools import count
from typing import Any, Final, TypeVar, cast

from leakmeter.data.conversation import says_something
from leakmeter.data.foreign import LoggedFields, documents_of, name_of, strings
from leakmeter.data.traces.span import SpanKind
from leakmeter.errors import UsageError
from leakmeter.products.integrations.log import AnswerLog, opened

_HIDING: Final = ("tool", "retriever", "reranker")
"""Runs within which nothing is told to the recipient."""
MOST_OPEN: Final = 4096
"""Traces that are kept at a time; the oldest is ended when there are more."""


@dataclass(slots=True, eq=False)
class CallbackRun:
    id: str
    trace: Trace
    parent: CallbackRun | None
    began: int
    kind: SpanKind = "other"
    sent: LoggedFields = field(default_factory=dict)
    """What a model was sent: fields of a line."""
    choices: list[LoggedFields] = field(default_factory=list)
    """What a model answered (see `data.foreign.choice_of`); of a call that failed, what had been streamed."""
    ended: int | None = None
    time: datetime | None = None
    has_failed: bool = False
    is_cut: bool = False
    documents: tuple[LoggedFields, ...] = ()
    """Of a retriever or a reranker."""
    replaced: tuple[LoggedFields, ...] = ()
    """Of a reranker: what it was given, in place of which its own stand."""
    used: tuple[LoggedFields, ...] = ()
    """Documents that the model calls below it were given, where the library says so."""
    streamed: Any = None
    """Of a model's answer, what has come so far."""

    def above(self) -> Iterator[CallbackRun]:
        run = self.parent
        while run is not None:
            yield run
            run = run.parent

    def is_whole(self) -> bool:
        return not (self.has_failed or any(run.has_failed for run in self.above() if run.parent is None))


@dataclass(slots=True, eq=False)
class Trace:
    id: str
    recipient: str | None = None
    documents: tuple[LoggedFields, ...] = ()
    runs: list[CallbackRun] = field(default_factory=list)
    n_open: int = 0
    is_spoiled: bool = False
    returned: Counter[str] = field(default_factory=Counter)
    """Texts that runs without parent returned, and how often."""

    def calls(self) -> list[CallbackRun]:
        """Calls of models that have ended, without those around another call."""
        around = {above for run in self.runs if run.choices for above in run.above()}
        calls = [run for run in self.runs if run.kind == "llm" and run.ended and run not in around]
        return sorted(calls, key=lambda run: run.ended or 0)

    def answers(self, calls: Sequence[CallbackRun]) -> list[tuple[CallbackRun, int]]:
        """Which choices of which calls were the answers. A call that calls tools is none, nor one around another call.
        Of the rest: those whose text the trace returned (the last ones, if more calls had it), or else the last. What a
        run returned that then failed was not told, but what had been streamed before a call broke off may have been."""
        left, whole = self.returned.copy(), [run for run in calls if run.is_whole()]
        out: list[tuple[CallbackRun, int]] = []
        for run, number in reversed(_texts(whole)):
            text = run.choices[number]["answer"].strip()
            if left[text]:
                left[text] -= 1
                out.insert(0, (run, number))
        broken = [run for run in calls if run.has_failed and _texts([run])]
        return out or _texts([*broken, *whole][-1:])

    def told(self, calls: Iterable[CallbackRun]) -> list[tuple[CallbackRun, int]]:
        """Which choices of which calls call a tool and tell it something, or say something beside, whatever became of
        the run around them: the tool may have run. What a model calls within a tool or a retrieval is hidden, and a
        call that broke off told no tool."""
        return [
            (run, number)
            for run in calls
            if run.sent and not run.has_failed and not any(above.kind in _HIDING for above in run.above())
            for number, choice in enumerate(run.choices)
            if choice["tool_calls"] and _says_something(choice)
        ]

    def documents_for(self, call: CallbackRun) -> list[LoggedFields]:
        """What had been retrieved when a call began, or what the library says that it was given."""
        held = list(self.documents)
        if used := next((run.used for run in call.above() if run.used), None):
            return [*held, *used]
        for run in sorted(self.runs, key=lambda run: run.ended or 0):
            # Of retrievers around retrievers, the outermost says what came of it.
            is_inner = any(above.kind in ("retriever", "reranker") for above in run.above())
            if run.ended is not None and run.ended < call.began and not is_inner:
                held = [*(document for document in held if document not in run.replaced), *run.documents]
        return held

    def lines(self) -> Iterator[LoggedFields]:
        """The answers, and the calls of tools, as fields of `log_answer`."""
        calls = self.calls()
        turns = {run: turn for turn, run in enumerate(calls, 1)}
        answers, told = self.answers(calls), self.told(calls)
        shown, logged = {run for run, _ in answers}, {run for run, _ in (*answers, *told)}
        silent = {run for run in calls if not any(map(_says_something, run.choices))}
        for run, number in sorted({*answers, *told}, key=lambda each: (turns[each[0]], each[1])):
            # An answer of this trace that had ended may have been an input of this one.
            others = [other for other in calls if other.choices and other is not run]
            hidden = [
                other for other in others if (run in shown and other not in shown) or (other.ended or 0) < run.began
            ]
            n_tools = sum(other.kind == "tool" and other.began < run.began for other in self.runs)
            n_thoughts = run.choices[number]["hidden_calls"]
            yield {
                **run.choices[number],
                **{name: value for name, value in run.sent.items() if value is not None},
                "trace_id": self.id,
                "span_id": run.id if number == 0 else f"{run.id}.{number + 1}",
                "time": run.time,
                "recipient": self.recipient,
                "turn": turns[run],
                "documents": self.documents_for(run),
                "hidden_calls": len(hidden) + n_tools + n_thoughts,
                "unmeasured_calls": sum(other not in logged | silent for other in hidden) + n_thoughts,
                "interrupted": run.has_failed,
                "incomplete": any(other.is_cut for other in self.runs),
            }
        if not logged and any(run.is_whole() for run in calls):
            raise UsageError("an answer that says nothing, or is logged without its prompt, cannot be measured")


def _says_something(choice: LoggedFields) -> bool:
    """Whether an answer has a text, or calls a tool with an argument."""
    return bool(choice["answer"]) or any(says_something(call["arguments"]) for call in choice["tool_calls"])


def _texts(calls: Iterable[CallbackRun]) -> list[tuple[CallbackRun, int]]:
    """Calls and the numbers of their choices that are text alone, of a prompt that is known."""
    return [
        (run, number)
        for run in calls
        if run.sent
        for number, choice in enumerate(run.choices)
        if choice["answer"] and not choice["tool_calls"]
    ]


# What `answering` says of the runs within it, and the traces that each recorder has made of it.
_BLOCK: Final[ContextVar[tuple[Trace, dict[Recorder, Trace]] | None]] = ContextVar("leakmeter_answering", default=None)


def is_answering() -> bool:
    return _BLOCK.get() is not None


@contextmanager
def answering(recipient: object = None, *, documents: Any = (), trace_id: object = None) -> Iterator[str]:
    """Say to whom the answer within is given, and take all that runs within as one trace, whose id is yielded.

    A retriever that runs before the chain, a chain of several calls without one run around them, and a stream that is
    read when its run has ended, belong together within this block. The answer is logged when all of it has ended.

    Args:
        recipient: who is told the answer.
        documents: retrieved by what is not traced: as of `log_answer`.
        trace_id: of the log; by default random.

    Raises:
        UsageError: `documents` are no documents.
    """
    traces: dict[Recorder, Trace] = {}
    # The block is one more that its traces wait for.
    whole = Trace(name_of(trace_id) or secrets.token_hex(16), name_of(recipient), documents_of(documents), n_open=1)
    token = _BLOCK.set((whole, traces))
    try:
        yield whole.id
    finally:
        # A block around a yield may end in another context than it began in.
        with suppress(ValueError):
            _BLOCK.reset(token)
        for recorder, trace in list(traces.items()):
            recorder.part_ended(trace)


class Recorder:
    """Base of what a library calls: a log, and the runs of the library that have begun. Safe in several threads."""

    _SOURCE: str

    def __init__(self, log: AnswerLog | str | os.PathLike[str], *, recipient: object = None) -> None:
        """One that appends to a log.

        Args:
            log: the log, or the path of its file.
            recipient: of answers for which the library says none: a text, or a function that returns one.
        """
        self.log = opened(log)
        self._recipient = recipient
        self._traces: OrderedDict[int, Trace] = OrderedDict()
        self._of: dict[str, CallbackRun] = {}
        self._numbers = count(1)
        self._lock = threading.RLock()

    def close(self) -> None:
        """Log the answers of traces that have not ended; for the end of a program."""
        for trace in list(self._traces.values()):
            self._finish(trace)

    def part_ended(self, trace: Trace) -> None:
        """One of what a trace waits for has ended."""
        with self._lock:
            trace.n_open -= 1
        if trace.n_open == 0:
            self._finish(trace)

    def _run(self, id_: object) -> CallbackRun | None:
        return self._of.get(str(id_))

    def _start(self, id_: object, parent: object = None, kind: SpanKind = "other", **fields: Any) -> None:
        """A run begins; `fields` may have `sent`, as of `CallbackRun`, and `recipient` and `trace_id` of its trace."""
        name, oldest = str(id_), None
        with self._lock:
            if name in self._of:
                return
            above = self._run(parent)
            trace = self._new_trace(fields.get("trace_id") or name) if above is None else above.trace
            self._of[name] = CallbackRun(name, trace, above, next(self._numbers), kind, fields.get("sent") or {})
            trace.runs.append(self._of[name])
            trace.n_open += 1
            trace.recipient = trace.recipient or name_of(fields.get("recipient"))
            if len(self._traces) > MOST_OPEN:
                oldest = next(iter(self._traces.values()))
        if oldest is not None:
            self._finish(oldest)

    def _end(self, id_: object, *, returned: Any = None, recipient: object = None, **known: Any) -> None:
        """A run has ended; `known` are fields of `CallbackRun`. One that has not begun or has ended is passed over."""
        with self._lock:
            run = self._run(id_)
            if run is None or run.ended is not None:
                return
            run.ended, run.time = next(self._numbers), datetime.now(UTC)
            for name, value in known.items():
                setattr(run, name, value)
            run.trace.recipient = run.trace.recipient or name_of(recipient)
            if run.parent is None:
                run.trace.returned += strings(returned)
        self.part_ended(run.trace)

    def _drop(self, id_: object, parent: object = None) -> None:
        """Something of a run could not be read: nothing of its trace is logged."""
        if (run := self._run(id_) or self._run(parent)) is not None:
            run.trace.is_spoiled = True
        self._end(id_, has_failed=True)

    def _new_trace(self, id_: str) -> Trace:
        if (block := _BLOCK.get()) is None:
            trace = Trace(id_)
        else:
            whole, traces = block
            trace = traces.setdefault(self, replace(whole, runs=[], returned=Counter()))
        self._traces[id(trace)] = trace
        return trace

    def _finish(self, trace: Trace) -> None:
        with self._lock:
            if self._traces.pop(id(trace), None) is None:
                return
            for run in trace.runs:
                self._of.pop(run.id, None)
        with self.log.guarding("the end of a trace"):
            if trace.recipient is None:
                trace.recipient = name_of(self._recipient() if callable(self._recipient) else self._recipient)
            for line in () if trace.is_spoiled else trace.lines():
                self.log.append(line, self._SOURCE)

    def _spoil(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError


_Method = TypeVar("_Method", bound=Callable[..., None])


def guarded(method: _Method) -> _Method:
    """A method that a library calls: whatever it meets, the program that uses the library goes on."""

    @wraps(method)
    def called(self: Recorder, *args: Any, **kwargs: Any) -> None:
        with self.log.guarding(type(self).__name__):
            try:
                method(self, *args, **kwargs)
            except Exception:
                self._spoil(*args, **kwargs)
                raise

    return cast(_Method, called)
