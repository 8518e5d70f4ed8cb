"""A step of a trace in one form, whatever it was logged as: a call of a model, a retrieval, a reranking, a tool."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

from leakmeter.core.record import JsonObject
from leakmeter.data.foreign import document_of, parsed
from leakmeter.data.traces.answer import LoggedMessage, Unusable
from leakmeter.data.traces.plainly import answers_of, messages_of, named
from leakmeter.errors import StoreError

SpanKind = Literal["llm", "retriever", "reranker", "tool", "other"]


@dataclass(slots=True)
class TraceSpan:
    """A step of a trace. All its values are plain, so that it can be kept on disk until the trace is complete."""

    trace_id: str
    span_id: str
    where: str
    kind: SpanKind = "other"
    parent_id: str | None = None
    start: float | None = None
    """Seconds since 1970."""
    end: float | None = None
    user: str | None = None
    session: str | None = None
    messages: list[list[str]] = field(default_factory=list)
    """Of a call: role and content of each."""
    answers: list[list[str | None]] = field(default_factory=list)
    """Of a call: text of each choice, and why it ended."""
    problem: str | None = None
    """The reason why the call cannot be measured."""
    failed: bool = False
    model: str | None = None
    parameters: JsonObject = field(default_factory=dict)
    n_tools: int = 0
    response_id: str | None = None
    documents: list[list[str | None]] = field(default_factory=list)
    """Of a retrieval: id and text of each; of a call those that its record has beside it."""
    n_hidden: int = 0
    """Of a call: others that its record counts."""
    is_interrupted: bool = False
    is_rebuilt: bool = False

    def read_call(self, prompt: object, reply: object) -> None:
        """Take the messages and the answers of a call from what was logged, or the problem there is with them."""
        try:
            self.messages = [[message.role, message.content] for message in messages_of(prompt)]
            self.answers = [[text, why] for text, why in answers_of(reply)]
        except Unusable as error:
            self.problem = error.reason.value

    def prompt(self) -> list[LoggedMessage]:
        return [LoggedMessage(role, content) for role, content in self.messages]

    @property
    def texts(self) -> tuple[list[list[str]], list[list[str | None]]]:
        return self.messages, self.answers

    def packed(self) -> bytes:
        # Half a surrogate pair in a text stays one: it is for whoever tokenises the text to refuse it.
        return json.dumps([getattr(self, name) for name in _FIELDS]).encode()

    @classmethod
    def unpacked(cls, packed: bytes) -> TraceSpan:
        return cls(*json.loads(packed))


_FIELDS: Final = tuple(item.name for item in fields(TraceSpan))


def documents_of(value: object, text: Callable[[Any], tuple[Any, Any]] = document_of) -> list[list[str | None]]:
    """Documents of a list in a log: what the function says are id and text, as texts; None where they are none."""
    held = parsed(value)
    documents: Iterable[Any] = held if isinstance(held, Sequence) and not isinstance(held, str) else ()
    out: list[list[str | None]] = []
    for document in documents:
        id_, content = text(parsed(document))
        out.append([named(id_), content if isinstance(content, str) else None])
    return out


MOST_SPANS: Final = 10_000
"""Of a trace that is read."""
MOST_BYTES: Final = 2**26
"""Of the spans of a trace that is read."""
_CACHE_KB = 2**16
_TABLES = """
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    CREATE TABLE traces (number INTEGER PRIMARY KEY, id BLOB UNIQUE, n_spans INTEGER, n_bytes INTEGER);
    CREATE TABLE spans (trace INTEGER, packed BLOB);
"""

_COUNTED = """
    UPDATE traces SET n_spans = n_spans + 1, n_bytes = n_bytes + ? WHERE number = ? RETURNING n_spans, n_bytes
"""


class Spool:
    """Spans by their traces: those of one trace may stand anywhere in a log of any size.

    They are in a temporary database of SQLite without a name: a few megabytes are in memory, the rest in a file that is
    unlinked as soon as it is opened, readable by nobody else, and gone when the program ends, however it ends.
    """

    def __init__(self) -> None:
        self._held: sqlite3.Connection | None = None
        self._recent: dict[str, int] = {}

    @property
    def is_empty(self) -> bool:
        return self._held is None

    def add(self, span: TraceSpan) -> None:
        packed = span.packed()
        try:
            number = self._number(span.trace_id)
            ((n_spans, n_bytes),) = self._database.execute(_COUNTED, (len(packed), number))
            # Of what is too large, nothing more is needed.
            if n_spans <= MOST_SPANS and n_bytes <= MOST_BYTES:
                self._database.execute("INSERT INTO spans VALUES (?, ?)", (number, packed))
            elif n_spans == 1:
                # Where it stands, without what it says.
                head = TraceSpan(span.trace_id, span.span_id, span.where, span.kind).packed()
                self._database.execute("INSERT INTO spans VALUES (?, ?)", (number, head))
        except sqlite3.Error as error:
            raise _full(error) from None

    def traces(self) -> Iterator[tuple[list[TraceSpan], bool]]:
        """Spans of each trace, in the order of first spans; and whether all of them were kept."""
        if self._held is None:
            return
        try:
            self._database.execute("CREATE INDEX by_trace ON spans (trace)")
            rows = self._database.execute("SELECT number, n_spans, n_bytes FROM traces ORDER BY number")
            for number, n_spans, n_bytes in rows:
                packed_rows = self._database.execute(
                    "SELECT packed FROM spans WHERE trace = ? ORDER BY rowid", (number,)
                )
                is_whole = n_spans <= MOST_SPANS and n_bytes <= MOST_BYTES
                yield (
                    [
                        TraceSpan.unpacked(packed)
                        for (packed,) in (packed_rows if is_whole else packed_rows.fetchmany(1))
                    ],
                    is_whole,
                )
        except sqlite3.Error as error:
            raise _full(error) from None

    def close(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None

    @property
    def _database(self) -> sqlite3.Connection:
        if self._held is None:
            self._held = sqlite3.connect("", check_same_thread=False, isolation_level=None)
            self._held.executescript(f"PRAGMA cache_size = -{_CACHE_KB}; {_TABLES} BEGIN;")
        return self._held

    def _number(self, trace_id: str) -> int:
        if (recent := self._recent.get(trace_id)) is not None:
            return recent
        # Half a surrogate pair is no text for the database.
        id_ = trace_id.encode(errors="surrogatepass")
        row = self._database.execute("SELECT number FROM traces WHERE id = ?", (id_,)).fetchone()
        if row is None:
            inserted = self._database.execute("INSERT INTO traces (id, n_spans, n_bytes) VALUES (?, 0, 0)", (id_,))
            number = int(inserted.lastrowid or 0)
        else:
            number = int(row[0])
        if len(self._recent) >= 4096:
            self._recent.clear()
        self._recent[trace_id] = number
        return number


def _full(error: sqlite3.Error) -> StoreError:
    return StoreError(
        f"spans could not be kept on disk: {error}; is the disk for temporary files full? TMPDIR names it"
    )
