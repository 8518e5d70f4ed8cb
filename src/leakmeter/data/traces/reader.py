"""Reads logged traffic: files of any size and format to answers that can be measured, and to reasons for the others.

Formats of traces are presets of `data` too, so that what measures cases reads the logs that the ledger reads. As a case
a logged answer has its documents as the whole context, and all else stays. A call that is refused is a bad row, calls
that answered nobody are none, and what was emitted before anything was read is counted.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Final, Literal, get_args

from leakmeter.core.case import Case, Document, Emission, Message
from leakmeter.data import formats as data_formats
from leakmeter.data.chat import ChatCase, ChatCases
from leakmeter.data.context_marker import ContextMarker
from leakmeter.data.mapping import Fields
from leakmeter.data.opened import STDIN, named
from leakmeter.data.rows import DataRow
from leakmeter.data.streamed import MOST_LINE, records_of
from leakmeter.data.traces.answer import LoggedAnswer, Reason, Refused, Unusable, Whose
from leakmeter.data.traces.formats import FORMATS, CaseFormat, LogFormat, LogRecord, TraceFormat, found_in, openai
from leakmeter.data.traces.of_cases import CaseAnswers
from leakmeter.data.traces.plainly import is_record
from leakmeter.data.traces.span import MOST_SPANS, Spool, TraceSpan
from leakmeter.data.traces.trace import outcome_of
from leakmeter.data.unfolded import objects_of
from leakmeter.errors import DataError, UnknownNameError

Absent = Literal["refuse", "leave-out"]
_LOOKED_AT: Final = 100
_HOLDERS = (
    *("data", "spans", "traces", "runs", "observations", "rows", "records", "items", "results"),
    *("samples", "testCases", "test_cases", "examples", "cases"),
)

_OR_CONTEXT_FROM: Final = (
    " If it stands in the system prompt or in the user's message, give --context-from system, or a pattern."
)


class TraceReader:
    """Answers of logs, one after another, and the calls and records that are refused.

    Iterate over it once. A trace whose spans are in several records is complete at the end of the last file; until
    then its spans are on disk (see `spool`). No more than a record, or the spans of one trace, is in memory.

    Args:
        source: a path, '-' for standard input, or several of them, which are one log.
        format: a name in `FORMATS`; by default that of the first records.
        recipient: path of the field that says who was answered; by default the user, else the session.
        documents: path of the field with what was retrieved, in formats where a record is a call.
        absent_documents: 'refuse' a call if a retrieved text is not in its prompt, or 'leave-out' the document if no
            eight words in a row of it are.
        start: for each file, where to begin, as `offsets` said; only of whole records.
        seen: says of trace and span whether it was read before; such calls are left out.
        on_bytes: told how many bytes of how many were read.
        reasoning: give what models thought too, as answers on the channel 'reasoning', which nobody received.
        marker: says what else of a prompt is context, beside what was retrieved; see `data.context_marker`.

    Raises:
        UnknownNameError: there is no such format.

    >>> import json, pathlib, tempfile
    >>> line = {"messages": [{"role": "user", "content": "Anna sang.\\n\\nWho?"}], "documents": ["Anna sang."],
    ...         "choices": [{"message": {"content": "Anna."}}]}
    >>> path = pathlib.Path(tempfile.mkdtemp(), "log.jsonl")
    >>> _ = path.write_text(json.dumps(line))
    >>> [found] = TraceReader(path)
    >>> found.answer, found.documents[0].places
    ('Anna.', (Place(message=0, start=0, end=10),))
    """

    def __init__(
        self,
        source: str | Path | Sequence[str | Path],
        *,
        format: str | None = None,
        recipient: str | None = None,
        documents: str | None = None,
        absent_documents: Absent = "refuse",
        start: Mapping[str, int] | None = None,
        seen: Callable[[str, str], bool] | None = None,
        on_bytes: Callable[[int, int], None] | None = None,
        reasoning: bool = False,
        marker: ContextMarker | None = None,
    ) -> None:
        if format is not None and format not in FORMATS:
            raise UnknownNameError("format of logs", format, FORMATS)
        if absent_documents not in get_args(Absent):
            raise UnknownNameError("treatment of absent documents", absent_documents, get_args(Absent))
        self._sources = [source] if isinstance(source, str | Path) else list(source)
        self._name = format
        self._format: LogFormat | None = None
        self._paths = recipient, documents
        self._leave_out = absent_documents == "leave-out"
        self._seen = seen
        self._on_bytes = on_bytes
        self._has_reasoning = reasoning
        self._marker = marker
        self._cases = CaseAnswers(recipient, has_reasoning=reasoning)
        self._start = dict(start or {})
        self.offsets: dict[str, int] = {str(path): (start or {}).get(str(path), 0) for path in self._sources}
        """For each file, how far everything was read and given out: bytes, unpacked, or rows of Parquet."""
        self.size: int | None = None
        """Bytes of all files; None where standard input is one of them."""
        self.n_bytes = 0
        """Of these, as many as were read."""
        self.n_records = 0
        self.n_answers = 0
        self.n_hidden_calls = 0
        """Calls that answered nobody: they rewrite queries, or grade documents."""
        self.n_before_reading = 0
        """What agents emitted before anything was read, so that there is nothing to measure."""
        self.n_seen = 0
        """Calls that had been read before."""
        self.refused: Counter[Reason] = Counter()
        """How many records and calls were refused for each reason."""

    @property
    def format(self) -> str | None:
        """Name of the format; None before the first record was read."""
        return self._name if self._format is None else self._format.name

    def __iter__(self) -> Iterator[LoggedAnswer | Refused]:
        """Answers and refusals; of traces in several records, in the order of their first spans."""
        self.size = self._sizes()
        yield from self.answers_of(self._records())

    @property
    def is_repeatable(self) -> bool:
        """Whether the logs can be read again: standard input and pipes cannot."""
        return all(str(source) != STDIN and Path(source).is_file() for source in self._sources)

    def anew(self) -> TraceReader:
        """A reader of the same logs, as this one was before it read them."""
        recipient, documents = self._paths
        return TraceReader(
            self._sources,
            format=self._name,
            recipient=recipient,
            documents=documents,
            absent_documents="leave-out" if self._leave_out else "refuse",
            start=self._start,
            seen=self._seen,
            reasoning=self._has_reasoning,
            marker=self._marker,
        )

    def answers_of(self, records: Iterator[tuple[str, DataRow]]) -> Iterator[LoggedAnswer | Refused]:
        """The same of records that were read elsewhere, each with the name of what holds it."""
        ends = dict(self.offsets)
        recognised = self._recognised(records)
        begun = list(islice(recognised, 1))
        if isinstance(self._format, CaseFormat):
            yield from self._counted(self._of_cases(self._format, chain(begun, recognised), ends))
            self.offsets.update(ends)
            return
        with closing(Spool()) as spool:
            for name, logged in chain(begun, recognised):
                self.n_records += 1
                yield from self._counted(self._of_record(_with_objects(logged), spool))
                ends[name] = max(logged.end, ends.get(name, 0))
                if spool.is_empty:
                    self.offsets[name] = ends[name]
            for spans, is_whole in spool.traces():
                yield from self._counted(self._of_trace(spans) if is_whole else [_too_many(spans[0])])
        self.offsets.update(ends)

    def _sizes(self) -> int | None:
        sizes = 0
        for source in self._sources:
            if str(source) == STDIN:
                return None
            try:
                sizes += Path(source).stat().st_size
            except OSError as error:
                raise DataError(f"{named(source, 'log')} cannot be read: {error.strerror or error}") from None
        return sizes

    def _records(self) -> Iterator[tuple[str, DataRow]]:
        before = 0
        for source in self._sources:

            def count(n_bytes: int, before: int = before) -> None:
                self.n_bytes = before + n_bytes
                if self._on_bytes is not None:
                    self._on_bytes(self.n_bytes, self.size or self.n_bytes)

            for logged in records_of(source, self.offsets[str(source)], count):
                yield str(source), logged
            before += 0 if str(source) == STDIN else Path(source).stat().st_size

    def _recognised(self, records: Iterator[tuple[str, DataRow]]) -> Iterator[tuple[str, DataRow]]:
        looked_at: list[tuple[str, DataRow]] = []
        n_bytes = before = 0
        while self._format is None and len(looked_at) < _LOOKED_AT and n_bytes <= MOST_LINE:
            entry = next(records, None)
            if entry is None:
                break
            looked_at.append(entry)
            n_bytes, before = n_bytes + max(entry[1].end - before, 0), entry[1].end
            held = unwrapped(_with_objects(entry[1]).content)
            self._format = found_in(held, self._name) if entry[1].problem is None else None
        if self._format is None and self._name is not None:
            self._format = FORMATS[self._name]
        if self._format is None and any(logged.problem is None for _, logged in looked_at):
            logs = " and ".join(named(source, "log") for source in self._sources[:3])
            raise DataError(
                f"{logs}: the first records are of no known format; give --format, one of {', '.join(FORMATS)}"
            )
        yield from chain(looked_at, records)

    def _of_cases(
        self, format: CaseFormat, records: Iterable[tuple[str, DataRow]], ends: dict[str, int]
    ) -> Iterator[LoggedAnswer | Refused]:
        """Answers of records that are no traces; how far they were read is kept in `ends`."""

        def rows() -> Iterator[DataRow]:
            for name, logged in records:
                self.n_records += 1
                ends[name] = max(logged.end, ends.get(name, 0))
                held = list(unwrapped(logged.content)) if is_record(logged.content) else []
                # Some formats have lines that are not of them between others.
                if not any(map(format.fits, held)) or format.fits(logged.content):
                    yield logged
                    continue
                for number, entry in enumerate(held, 1):
                    place = f"{logged.place}, entry {number}".removeprefix(", ")
                    yield replace(logged, content=entry, number=number, place=place)

        return self._new_of(format.preset, rows())

    def _new_of(self, preset: data_formats.DataFormat, rows: Iterable[DataRow]) -> Iterator[LoggedAnswer | Refused]:
        for found in self._cases.of_rows(preset, rows):
            if isinstance(found, int):
                self.n_before_reading += found
            elif isinstance(found, LoggedAnswer) and self._seen and self._seen(found.trace_id, found.span_id):
                self.n_seen += 1
            else:
                yield found

    def _of_record(self, logged: DataRow, spool: Spool) -> Iterable[LoggedAnswer | Refused]:
        if logged.problem is not None or not isinstance(self._format, TraceFormat):
            wrong = Reason.TOO_LONG if logged.is_too_long else Reason.MALFORMED
            return [Refused(Reason.NOT_OF_FORMAT if logged.problem is None else wrong, logged.where)]
        is_one = self._format.fits(logged.content)
        held = [logged.content] if is_one else list(unwrapped(logged.content))
        out: list[LoggedAnswer | Refused] = []
        for number, entry in enumerate(held, 1):
            where = logged.where if len(held) == 1 else f"{logged.where}, entry {number}"
            try:
                if not is_one and not self._format.fits(entry):
                    raise Unusable(Reason.NOT_OF_FORMAT)
                if self._format is openai.FORMAT and openai.is_conversation(entry, self._paths[1]):
                    row = replace(logged, content=entry) if len(held) == 1 else DataRow(number, "", where, entry)
                    out += self._new_of(data_formats.FORMATS[self._format.name], [row])
                    continue
                spans = list(self._format.spans(entry, where, *self._paths))
            except (Unusable, RecursionError) as error:
                reason = error.reason if isinstance(error, Unusable) else Reason.MALFORMED
                out.append(Refused(reason, where))
                continue
            if self._format.is_whole(entry):
                for _, group in groupby(spans, key=lambda span: span.trace_id):
                    same = list(group)
                    out += self._of_trace(same) if len(same) <= MOST_SPANS else [_too_many(same[0])]
            else:
                for span in spans:
                    spool.add(span)
        return out

    def _of_trace(self, spans: list[TraceSpan]) -> Iterable[LoggedAnswer | Refused]:
        calls = [span for span in spans if span.kind == "llm"]
        if self._seen is not None and calls and all(self._seen(span.trace_id, span.span_id) for span in calls):
            self.n_seen += len(calls)
            return []
        if self.format == openai.FORMAT.name:
            spans = openai.joined(spans)
        outcome = outcome_of(
            spans,
            self.format or "",
            leave_out=self._leave_out,
            has_reasoning=self._has_reasoning,
            marker=self._marker,
        )
        self.n_hidden_calls += outcome.n_hidden
        self.n_before_reading += outcome.n_before_reading
        if self._seen is None:
            return outcome.results
        new = [
            result
            for result in outcome.results
            if result.trace_id is None or result.span_id is None or not self._seen(result.trace_id, result.span_id)
        ]
        self.n_seen += len(outcome.results) - len(new)
        return new

    def _counted(self, results: Iterable[LoggedAnswer | Refused]) -> Iterator[LoggedAnswer | Refused]:
        for result in results:
            if isinstance(result, Refused):
                self.refused[result.reason] += 1
            else:
                self.n_answers += 1
            yield result


def _too_many(span: TraceSpan) -> Refused:
    return Refused(Reason.TOO_MANY_SPANS, span.where, span.trace_id)


def unwrapped(logged: LogRecord) -> Iterator[LogRecord]:
    """A record, and those of the list that it holds, as APIs answer."""
    if found_in([logged]) is not None:
        yield logged
        return
    for name in _HOLDERS:
        if isinstance(held := logged.get(name), list) and held and all(map(is_record, held)):
            yield from held
            return
    yield logged


def as_case(answer: LoggedAnswer, *, by_id: bool = False) -> Case:
    """The case in which a document's influence is measured against the same prompt without it: a chat whose `id` is
    trace and span with a slash between them. Documents are named d1, d2, … in the order of `answer.documents`, or by
    their names, numbered where two have the same; a document that stands in several places is one, under the unit
    `document`. Every message is fixed: nothing but documents is left out."""
    names = [f"d{n}" for n in range(1, len(answer.documents) + 1)]
    if by_id:
        places_of_all = (place for document in answer.documents for place in document.places)
        whole = {at.message for at in places_of_all if at.end - at.start == len(answer.messages[at.message].content)}
        of_messages = (
            f"{message.role} {number}" for number, message in enumerate(answer.messages, 1) if number - 1 not in whole
        )
        names = list(_distinct((document.name or document.id for document in answer.documents), of_messages))
    places: defaultdict[int, list[tuple[int, int, str]]] = defaultdict(list)
    whose = {name: next(iter(document.whose), Whose()) for name, document in zip(names, answer.documents, strict=True)}
    for name, retrieved_text in zip(names, answer.documents, strict=True):
        for place in retrieved_text.places:
            places[place.message].append((place.start, place.end, name))
    messages: list[Message] = []
    for number, message in enumerate(answer.messages):
        name = f"{message.role} {number + 1}"
        parts: list[Document] = []
        retrieved: list[int] = []
        cursor = 0
        for start, end, document in sorted(places[number]):
            if start > cursor:
                parts.append(Document(name, message.content[cursor:start]))
            retrieved.append(len(parts))
            facts = whose[document]
            parts.append(
                Document(document, message.content[start:end], facts.owner, facts.tenant, readers=facts.readers)
            )
            cursor = end
        if cursor < len(message.content) or not parts:
            parts.append(Document(name, message.content[cursor:]))
        messages.append(Message(message.role, name, tuple(parts), tuple(retrieved), fixed=True, calls=message.calls))
    return Case(
        id=f"{answer.trace_id}/{answer.span_id}",
        response=answer.answer,
        messages=tuple(messages),
        decoding=answer.sampling.decoding,
        emission=_emission(answer),
        # A ledger has recipients by pseudonyms alone, and calls documents by numbers.
        recipient=answer.known if by_id else None,
        begun=answer.begun,
    )


def _emission(answer: LoggedAnswer) -> Emission:
    # A recipient who is no person is called by its channel too, as in tool:calendar.create.
    recipient = "user" if answer.channel == "answer" else (answer.recipient or "").partition(":")[2]
    return Emission(answer.conversation or answer.trace_id, answer.turn, answer.channel, recipient)


def _distinct(names: Iterable[str], taken: Iterable[str]) -> Iterator[str]:
    """Names, numbered where there are several of one, or it is taken."""
    counts = dict.fromkeys(taken, 1)
    for name in names:
        given = name
        while given in counts:
            counts[name] += 1
            given = f"{name} ({counts[name]})"
        counts[given] = 1
        yield given


def _read(
    name: str, marker: ContextMarker | None, rows: Iterable[tuple[DataRow, Fields]]
) -> Iterator[tuple[DataRow, ChatCases | DataError]]:
    reader = TraceReader((), format=name, reasoning=True, marker=marker)
    # A session may have traces at several places of a log, the newest first: turns are counted when all are read.
    read: list[tuple[DataRow, LoggedAnswer | DataError]] = []
    records = (DataRow(0, "", row.where, fields, is_table=row.is_table) for row, fields in rows)
    for outcome in reader.answers_of(("", record) for record in records):
        if isinstance(outcome, Refused):
            nothing = " And --context-from finds nothing." if marker else _OR_CONTEXT_FROM
            is_missing = outcome.reason in (Reason.NO_DOCUMENTS, Reason.DOCUMENT_WITHOUT_TEXT)
            hint = nothing if is_missing else ""
            error = DataError(f"{outcome.where}: {outcome.reason.sentence}{hint}")
            read.append((DataRow(0, "", outcome.where), error))
        else:
            counts = {"n_hidden": outcome.n_unmeasured_calls, "n_reasoned": outcome.n_reasoned}
            read.append((DataRow(0, "", outcome.where, counts), outcome))
    turns = _turns([answer for _, answer in read if isinstance(answer, LoggedAnswer)])
    for row, answer in read:
        if isinstance(answer, DataError):
            yield row, answer
        else:
            case = as_case(replace(answer, turn=turns[answer.trace_id] + answer.turn), by_id=True)
            yield row, ChatCases([ChatCase(case, is_own=True)])
    if reader.n_before_reading:
        yield DataRow(0, "", ""), ChatCases([], reader.n_before_reading)


def _turns(answers: Iterable[LoggedAnswer]) -> dict[str, int]:
    """By trace, the turns of its conversation before it, in the order of time."""
    began: dict[str, float] = {}
    lasted: dict[str, int] = {}
    conversations: dict[str, str] = {}
    for answer in answers:
        trace, time = answer.trace_id, math.inf if answer.time is None else answer.time.timestamp()
        began[trace] = min(began.get(trace, math.inf), time)
        lasted[trace] = max(lasted.get(trace, 0), answer.turn)
        conversations.setdefault(trace, answer.conversation)
    counts: Counter[str] = Counter()
    out: dict[str, int] = {}
    for trace in sorted(began, key=lambda trace: began[trace]):
        out[trace] = counts[conversations[trace]]
        counts[conversations[trace]] += lasted[trace]
    return out


def _fits(format_: LogFormat, fields: Fields) -> bool:
    return any(map(format_.fits, unwrapped(fields))) or format_.fits(objects_of(fields))


def _with_objects(row: DataRow) -> DataRow:
    """A row of a table, with what its cells hold."""
    return replace(row, content=objects_of(row.content)) if row.is_table and is_record(row.content) else row


def presets(marker: ContextMarker | None = None) -> Iterator[data_formats.DataFormat]:
    """Formats that `data` does not have of its own, in the order in which they are tried. `marker` as of
    `TraceReader`."""
    for name, format_ in FORMATS.items():
        if name not in data_formats.FORMATS:
            about = f"{format_.about}, as `leakmeter ledger` reads them"
            yield data_formats.DataFormat(name, about, partial(_fits, format_), partial(_read, name, marker))
