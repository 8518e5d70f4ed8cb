"""Records of formats that are no traces, as logged answers: `--data` reads them too, by the same code, so that a ledger
has the same emissions with the same sources.

What a case has as its context are the documents of the answer. A chat of texts alone has none: what was said in it was
said to the one who is answered. A record without a prompt gets one, and the answer says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, get_args

from leakmeter.core.case import Case, Channel, Message, Recipient, record_of
from leakmeter.data.api_errors import is_api_error, is_event_stream
from leakmeter.data.cases import answers_to, cases_of_fields, said_by
from leakmeter.data.chat import ChatCase, ChatCases, id_of
from leakmeter.data.conversation import ALL_EMISSIONS, EmissionOptions
from leakmeter.data.foreign import first, has_reasoned
from leakmeter.data.formats import DataFormat
from leakmeter.data.mapping import Fields
from leakmeter.data.recipients import recipient_said
from leakmeter.data.rows import DataRow
from leakmeter.data.traces.answer import (
    DocumentPlace,
    LoggedAnswer,
    LoggedDocument,
    LoggedMessage,
    Reason,
    Refused,
    Whose,
    distinct_whose,
)
from leakmeter.data.traces.formats.openai import recipient_of
from leakmeter.data.traces.places import hash_of, normalised
from leakmeter.data.traces.plainly import at_path, event_of, is_record, moment, named, sampling_of, seconds
from leakmeter.errors import DataError
from leakmeter.text.turns import PART_SEPARATOR, SEPARATOR

_ALL: Final = EmissionOptions(channels=frozenset(get_args(Channel)))
_TIMES: Final = ("time", "timestamp", "created_at", "createdAt", "ts")
_OF_LINES: Final = ("claude-code", "transcript")
"""Formats of which a record is one message: its time is that of no other."""
Found = LoggedAnswer | Refused | int
"""An answer, why there is none, or how many emissions came before anything was read."""


class CaseAnswers:
    """The answers of rows that presets of `data` read. A turn that several rows repeat, as where each has the whole
    chat before it, is one."""

    def __init__(self, recipient: str | None, *, has_reasoning: bool) -> None:
        """`recipient` is the path of the field that says who was answered, by default the user, else the session."""
        self._recipient = recipient
        self._options = _ALL if has_reasoning else ALL_EMISSIONS
        self._repeatable: dict[int, bool] = {}
        """Of turns that were given out, by their hashes, whether another row may have them as its own."""

    def of_rows(self, preset: DataFormat, rows: Iterable[DataRow]) -> Iterator[Found]:
        bad: list[Refused] = []

        def good() -> Iterator[tuple[DataRow, Fields]]:
            follows_bad = False
            for row in rows:
                try:
                    yield replace(row, follows_bad=follows_bad), row.fields
                    follows_bad = False
                except DataError:
                    bad.append(Refused(Reason.TOO_LONG if row.is_too_long else Reason.MALFORMED, row.where))
                    follows_bad = True

        for row, content in preset.read(good()):
            yield from bad
            bad.clear()
            try:
                found = self._cases_of(content, row)
                if found.is_unanswered and answers_to(row):
                    raise DataError(f"{row.where}: the chat ends without an answer, which may stand beside it")
            except DataError:
                yield Refused(Reason.NO_CASE, row.where)
                continue
            if found.n_before_reading:
                yield found.n_before_reading
            elif not found.cases:
                yield Refused(Reason.NO_ANSWER, row.where)
            held = row.content if is_record(row.content) else {}
            about = _About.of(row, held, self._recipient, preset.name)
            for each in found.cases:
                if not self._is_repeated(each) and each.case.channel in self._options.channels:
                    yield about.answer(each.case)
        yield from bad

    def _cases_of(self, content: Fields | ChatCases | DataError, row: DataRow) -> ChatCases:
        if isinstance(content, DataError):
            raise content
        if isinstance(content, ChatCases):
            return content
        found, _ = cases_of_fields(content, row.number, row.where, emissions=self._options, needs_response=True)
        return found

    def _is_repeated(self, each: ChatCase) -> bool:
        if not each.after:
            return False
        # A question that two people asked is two answers, unless one of them is an earlier turn.
        said = hash(said_by(each))
        is_repeated = said in self._repeatable and (not each.is_own or self._repeatable[said])
        self._repeatable[said] = self._repeatable.get(said, True) and not each.is_own
        return is_repeated


@dataclass(frozen=True, slots=True)
class _About:
    """What a record says beside its cases."""

    row: DataRow
    format: str
    user: str | None
    """Who was answered, or else the session."""
    known: Recipient | None
    """What is known of who was answered; None where the record has only a session."""
    fields: Mapping[Any, Any]

    @classmethod
    def of(cls, row: DataRow, fields: Mapping[Any, Any], recipient: str | None, format: str) -> _About:
        user, session = recipient_of(fields, {})
        if recipient is not None:
            user, session = named(at_path(fields, recipient)), None
        told = recipient_said(fields) if recipient is None else None
        known = told or (None if user is None else Recipient(id=user))
        if known is not None and known.id is None:
            known = replace(known, id=user)
        return cls(row, format, user or session, known, fields)

    def answer(self, case: Case) -> LoggedAnswer | Refused:
        trace_id, span_id = self._ids(case)
        messages, documents = _prompt(case)
        why = _refused(case, documents)
        if why is not None:
            return Refused(why, self.row.where, trace_id, span_id)
        emission, channel = case.emission, case.channel
        n_called = sum(len(message.calls) for message in messages)
        n_reasoned = int(has_reasoned(self.fields))
        n_elsewhere = n if isinstance(n := self.fields.get("n_hidden"), int) else 0
        time = None if self.format in _OF_LINES else moment(seconds(first(self.fields, *_TIMES)))
        known = case.recipient or self.known
        told = self.user if known is None or known.id is None else known.id
        return LoggedAnswer(
            trace_id=trace_id,
            span_id=span_id,
            response_id=None,
            time=time,
            recipient=told if emission is None or channel == "answer" else f"{channel}:{emission.recipient}",
            known=known,
            model=named(self.fields.get("model")),
            sampling=sampling_of({"decoding": case.decoding, **self.fields}),
            messages=messages,
            answer=case.response or "",
            documents=documents,
            # Nobody but their tools saw what was called.
            n_hidden_calls=n_called + n_elsewhere + n_reasoned,
            n_unmeasured_calls=n_elsewhere + n_reasoned,
            is_rebuilt=not case.messages,
            format=self.format,
            where=self.row.where,
            channel=channel,
            begun=case.begun,
            conversation=trace_id,
            turn=1 if emission is None else emission.turn,
        )

    def _ids(self, case: Case) -> tuple[str, str]:
        """Trace and span: conversation and case, where the log names them. Otherwise their number in a file would be
        that of others in the next: what was said first, and all that was read and said, name them."""
        emission, number = case.emission, str(self.row.number)
        conversation = case.id if emission is None else emission.conversation
        if conversation != number and not conversation.startswith(f"{number}."):
            # A conversation that goes on has more emissions than one.
            own = case.id if emission is None or case.id != conversation else id_of(emission)
            return named(conversation) or "", named(own) or ""
        begins = case.messages[0].text if case.messages else case.query
        said = record_of(replace(case, id="", emission=None))
        return event_of({"user": self.user, "begins": begins}), event_of({"user": self.user, **said})


def _refused(case: Case, documents: tuple[LoggedDocument, ...]) -> Reason | None:
    if case.response is None or not case.response.strip():
        return Reason.NO_ANSWER
    if is_event_stream(case.response):
        return Reason.STREAM
    if is_api_error(case):
        return Reason.FAILED
    # What was said in a chat of texts alone was said to whom it answers.
    return None if documents and not case.has_unmarked_context else Reason.NO_DOCUMENTS


def _prompt(case: Case) -> tuple[tuple[LoggedMessage, ...], tuple[LoggedDocument, ...]]:
    """The messages, and where in them the documents stand; those of one text are one."""
    held = case.messages or (_rebuilt(case),)
    asking = Case("", messages=held).asking
    messages: list[LoggedMessage] = []
    found: dict[str, LoggedDocument] = {}
    whose: dict[str, list[Whose]] = {}
    for number, message in enumerate(held):
        stays = message.fixed or number == asking
        texts: list[str] = []
        at = 0
        for n, part in enumerate(message.parts):
            if texts and not stays:
                texts.append(PART_SEPARATOR)
                at += len(PART_SEPARATOR)
            if part.text.strip() and (not stays or n in message.retrieved):
                place = DocumentPlace(number, at, at + len(part.text))
                hashed = hash_of(normalised(part.text))
                new = LoggedDocument(f"sha256:{hashed[:32]}", hashed, part.text, (), name=part.name)
                document = found.get(hashed, new)
                whose.setdefault(hashed, []).append(Whose(part.owner, part.tenant, part.readers))
                found[hashed] = replace(document, places=(*document.places, place))
            texts.append(part.text)
            at += len(part.text)
        messages.append(LoggedMessage(message.role, "".join(texts), message.calls))
    documents = (replace(document, whose=distinct_whose(whose[hashed])) for hashed, document in found.items())
    return tuple(messages), tuple(documents)


def _rebuilt(case: Case) -> Message:
    """A prompt of the documents, those of one text once, and the question."""
    distinct = {document.text: document for document in case.documents if document.text.strip()}
    between = replace(case.documents[0], text=SEPARATOR) if case.documents else None
    parts = [part for document in distinct.values() for part in (document, between) if part is not None]
    retrieved = tuple(range(0, len(parts), 2))
    name = "user 1"
    parts += [replace(part, name=name, text=case.query) for part in case.documents[:1]]
    return Message("user", name, tuple(parts), retrieved, fixed=True)
