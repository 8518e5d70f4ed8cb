"""A step of a trace in one form, whatever it was logged as: a call of a model, a retrieval, a reranking, a tool."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

from leakmeter.core.case import ToolCall
from leakmeter.core.record import JsonObject
from leakmeter.data.foreign import FOUND, TEXTS, described, parsed, record, whose_said
from leakmeter.data.recipients import recipient_said
from leakmeter.data.traces.answer import LoggedMessage, ReadText, Reason, Unusable
from leakmeter.data.traces.messages import LoggedReply, messages_of, replies_of
from leakmeter.data.traces.plainly import named
from leakmeter.errors import StoreError

SpanKind = Literal["llm", "retriever", "reranker", "tool", "content", "other"]
"""Content is what an event says of a call: a part of a span of the same id."""


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
    conversation: str | None = None
    """By default the session."""
    messages: list[list[Any]] = field(default_factory=list)
    """Of a call: role and content of each; then, where it has any, calls, what was read, and the tool and call of a
    result."""
    answers: list[list[Any]] = field(default_factory=list)
    """Of a call: text of each reply, and why it ended; then, where it has any, calls, messages before it, whether these
    follow the reply before, and what the model thought."""
    tools: list[list[str]] = field(default_factory=list)
    """Ids of calls, and of each the tool: of those that a call of a model made, or of the one that a tool's run is."""
    given: list[list[Any]] = field(default_factory=list)
    """Of content: messages of a prompt, and replies, as they were logged."""
    problem: str | None = None
    """The reason why the call cannot be measured."""
    failed: bool = False
    model: str | None = None
    parameters: JsonObject = field(default_factory=dict)
    n_tools: int = 0
    response_id: str | None = None
    documents: list[list[Any]] = field(default_factory=list)
    """Of a retrieval: id, text, and name of each, and owner, tenant and readers where one has any of these; of a call
    those that its record has beside it."""
    told: JsonObject = field(default_factory=dict)
    """Of a call: role, tenant, subject … of who was answered."""
    n_hidden: int = 0
    """Of a call: others that its record counts."""
    n_measured: int = 0
    """How many of them are runs of tools, or have records of their own."""
    turn: int = 0
    """Of a call: its number in its trace, where its record says it."""
    is_interrupted: bool = False
    is_rebuilt: bool = False

    def read_call(self, prompt: object, reply: object) -> None:
        """Take the messages and the answers of a call from what was logged, or the problem there is with them."""
        try:
            self.messages = list(map(_row, messages_of(prompt)))
            replies, tools = replies_of(reply)
            self.answers = list(map(_reply_row, replies))
            self.tools = [[id_, tool] for id_, tool in tools.items()]
        except Unusable as error:
            self.problem = error.reason.value

    def check_only(self, others: Iterable[object]) -> None:
        """Take it as a problem where one of these, other fields of the record, says another answer: only one was
        sent."""
        said = {own.text.strip() for own in self.replies()}
        for other in others if self.problem is None else ():
            with suppress(Unusable):
                replies, _ = replies_of(other)
                if not said.issuperset(reply.text.strip() for reply in replies):
                    self.problem = Reason.SEVERAL_ANSWERS.value

    def read_recipient(self, logged: Mapping[Any, Any]) -> None:
        """Take what a record's field `recipient` says of who was answered."""
        said = recipient_said(logged)
        if said is None:
            return
        self.user = named(said.id) or self.user
        given = {"role": list(said.roles), "tenant": said.tenant, "subject": list(said.subjects)}
        lists = {"may_know": said.may_know, "may_not_know": said.may_not_know}
        self.told = {name: value for name, value in given.items() if value}
        self.told |= {name: list(names) for name, names in lists.items() if names is not None}

    def read_tool(self, call_id: object, tool: object) -> None:
        """Take which tool ran, and for which call."""
        id_, name = named(call_id), named(tool)
        if id_ is not None and name is not None:
            self.tools = [[id_, name]]

    def read_documents(self, value: object, read: Callable[[Any], FoundDocument] | None = None) -> None:
        """Take what a retrieval returned; where nothing of it can be read, a document without a text."""
        held, logged = found_in(value), parsed(value)
        if held is None and isinstance(logged, str) and _BEGINS_LIST.match(logged.lstrip()):
            self.problem = Reason.INCOMPLETE.value
            return
        if held is None:
            # A search may return its texts as one.
            is_text = isinstance(logged, str) and logged != "null"
            texts = [logged] if is_text else list(_texts_in(logged))
            held = list(filter(str.strip, texts)) if texts else [None]
        self.documents = documents_of(held, read or document_of)

    def read_contents(self, events: Sequence[TraceSpan]) -> None:
        """Take what events say of this call; where the span says it too, that counts."""
        self.kind = "llm" if self.kind == "other" else self.kind
        for event in events:
            self.user = self.user or event.user
            self.told = self.told or event.told
            self.session = self.session or event.session
            self.conversation = self.conversation or event.conversation
            self.model = self.model or event.model
            self.parameters = self.parameters or event.parameters
            self.n_tools = self.n_tools or event.n_tools
            self.response_id = self.response_id or event.response_id
            self.n_hidden = self.n_hidden or event.n_hidden
        if not (self.messages or self.answers):
            cut = next((each.problem for each in (self, *events) if each.problem == Reason.INCOMPLETE), None)
            self.problem = None
            try:
                prompt, replies = contents_of([event.given for event in events])
                self.read_call(prompt, replies or None)
            except Unusable as error:
                self.problem = error.reason.value
            self.problem = cut or self.problem

    def prompt(self) -> list[LoggedMessage]:
        return [_message(*row) for row in self.messages]

    def replies(self) -> list[LoggedReply]:
        return [_reply(*row) for row in self.answers]

    @property
    def texts(self) -> tuple[list[list[Any]], list[list[Any]]]:
        return self.messages, self.answers

    def packed(self) -> bytes:
        # Half a surrogate pair in a text stays one: it is for whoever tokenises the text to refuse it.
        return json.dumps([getattr(self, name) for name in _FIELDS]).encode()

    @classmethod
    def unpacked(cls, packed: bytes) -> TraceSpan:
        return cls(*json.loads(packed))


def contents_of(given: Iterable[Sequence[list[Any]]]) -> tuple[list[Any], list[Any]]:
    """The prompt and the replies that events of one call have, each a part of them. One that has both has all of the
    prompt; `Unusable` where another has a different one."""
    events = list(given)
    wholes = [event for event in events if all(event)]
    if any(event[0] != wholes[0][0] for event in wholes):
        raise Unusable(Reason.SAME_ID)
    prompt = [said for event in wholes[:1] or events for said in event[0]]
    return prompt, [said for event in wholes or events for said in event[1]]


_FIELDS: Final = tuple(item.name for item in fields(TraceSpan))


def _row(message: LoggedMessage) -> list[Any]:
    row: list[Any] = [message.role, message.content]
    if message.calls or message.read or message.tool or message.call_id:
        calls = [[call.name, call.arguments] for call in message.calls]
        row += [
            calls,
            [[part.name, part.start, part.end, part.is_around] for part in message.read],
            message.tool,
            message.call_id,
        ]
    return row


def _message(
    role: str,
    content: str,
    calls: Iterable[Sequence[Any]] = (),
    read: Iterable[Sequence[Any]] = (),
    tool: str = "",
    call_id: str | None = None,
) -> LoggedMessage:
    return LoggedMessage(
        role, content, tuple(ToolCall(*call) for call in calls), tuple(ReadText(*part) for part in read), tool, call_id
    )


def _reply_row(reply: LoggedReply) -> list[Any]:
    row: list[Any] = [reply.text, reply.ended]
    if reply.calls or reply.before or reply.reasoning:
        calls = [[call.name, call.arguments] for call in reply.calls]
        row += [calls, list(map(_row, reply.before)), reply.continues, reply.reasoning]
    return row


def _reply(
    text: str | None,
    ended: str | None,
    calls: Iterable[Sequence[Any]] = (),
    before: Iterable[Sequence[Any]] = (),
    continues: bool = False,
    reasoning: str = "",
) -> LoggedReply:
    messages = tuple(_message(*row) for row in before)
    return LoggedReply(text or "", ended, tuple(ToolCall(*call) for call in calls), messages, continues, reasoning)


_NAMES: Final = (
    *("source", "title", "file_name", "filename", "file_path", "doc_uri", "path", "name", "document_title", "url"),
)
"""What a document of a log may be called by, in its metadata or beside its text."""
_HOLDING: Final = ("content", "metadata", "meta", "payload", "_source")
"""Where a document has its text, if not in a field of its own."""
_MOST_NESTED: Final = 8
_BEGINS_LIST = re.compile(r'[\[{]\s*[{\["]')
"""How JSON begins; a text may begin with a bracket."""
_OPAQUE = re.compile(r"(?:sha256:)?[0-9a-fA-F][0-9a-fA-F-]{7,}|\d+")
"""Ids that say nothing to a reader."""


FoundDocument = tuple[Any, Any, Any, tuple[Any, ...]]
"""Id, text, name, and owner, tenant and readers where it has any of these."""


def document_of(value: Any) -> FoundDocument:
    """A document, as far as it has these."""
    document = described(value)
    places = (record(document.get(name)) for name in _HOLDING)
    text = next((held for place in places for name in TEXTS if isinstance(held := place.get(name), str)), None)
    named_by = (place(name) for place in (document.described, document.get) for name in _NAMES)
    name = next((name for name in named_by if isinstance(name, str) and name.strip()), None)
    return document.id, text if document.text is None else document.text, name, whose_said(document)


def found_in(value: object, depth: int = 0) -> list[Any] | None:
    """The documents in what a search returned, of all its lists; None where it has none."""
    held = parsed(value)
    if isinstance(held, list) and depth < _MOST_NESTED:
        out: list[Any] = []
        for entry in map(parsed, held):
            within = found_in(entry, depth + 1) if isinstance(entry, list) else [entry]
            # Beside a document in a list of its own stands its score.
            out += (each for each in within or () if depth == 0 or not isinstance(each, int | float))
        return out
    if not isinstance(held, Mapping) or depth >= _MOST_NESTED:
        return None
    lists = [within for name in FOUND if (within := found_in(held.get(name), depth + 1)) is not None]
    readable = [within for within in lists if any(document_of(each)[1] is not None for each in within)]
    if not readable and document_of(held)[1] is not None:
        return [held]
    return [each for within in readable or lists for each in within] if lists else None


def _texts_in(held: object) -> Iterator[str]:
    return (text for name in FOUND if isinstance(text := record(held).get(name), str))


def documents_of(value: object, read: Callable[[Any], FoundDocument] = document_of) -> list[list[Any]]:
    """Documents of a list in a log: what the function says are id, text and name, as texts, None where they are none;
    and whose each is, where the log says so. An id that a person can read is the name."""
    held = parsed(value)
    documents: Iterable[Any] = held if isinstance(held, Sequence) and not isinstance(held, str) else ()
    out: list[list[Any]] = []
    for document in documents:
        id_, content, name, whose = read(parsed(document))
        id_, name = named(id_), named(name)
        if id_ is not None and (name is None or not _OPAQUE.fullmatch(id_)):
            name = id_
        out.append([id_, content if isinstance(content, str) else None, name, *whose])
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
