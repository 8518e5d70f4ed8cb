"""Guard: whether a drawn answer stays within what is left of a budget, with a ledger as its memory.

It is a monitor, not a bound: a refusal itself informs whoever asked, and so does what is drawn instead. A mechanism
with a bound is `leakmeter decode`.
"""

from __future__ import annotations

import math
import secrets
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, SupportsFloat, cast

from leakmeter.commands.call import CallOptions
from leakmeter.commands.call import measured as run_measure
from leakmeter.core.case import Channel, Message, ToolCall
from leakmeter.core.loaded import LoadedCases, Plan
from leakmeter.data.channels import channel_of
from leakmeter.data.foreign import fields_of, name_of
from leakmeter.data.mapping import kind_of
from leakmeter.data.recipients import recipient_of
from leakmeter.data.traces import LoggedAnswer, LoggedMessage, Sampling, as_case
from leakmeter.data.traces.answer import Unusable, Whose
from leakmeter.data.traces.messages import messages_of
from leakmeter.data.traces.places import Retrieved
from leakmeter.data.traces.places import find as find_documents
from leakmeter.data.traces.span import document_of
from leakmeter.data.traces.trace import labelled
from leakmeter.errors import UsageError
from leakmeter.instruments.redaction.measure import Redaction
from leakmeter.products.ledger.budgets import Budget
from leakmeter.products.ledger.flags import scored_at
from leakmeter.products.ledger.keys import shown
from leakmeter.products.ledger.measuring import ENTITY, MeasuredAnswers, Measuring, measured
from leakmeter.products.ledger.parts import LedgerPartReader
from leakmeter.products.ledger.store import Ledger, LedgerState
from leakmeter.products.ledger.tables import LISTED
from leakmeter.products.ledger.totals import DOCUMENT, Book, LedgerDisclosure, LedgerEvent, LedgerItem, Look, total_of
from leakmeter.products.ledger.turns import Turns
from leakmeter.text import matching, permissions
from leakmeter.text.build import PromptSettings
from leakmeter.text.entities import person
from leakmeter.text.entities.again import KnownValue
from leakmeter.text.entities.mention import PERSON

if TYPE_CHECKING:
    from leakmeter.engine.loading import KeptModel
    from leakmeter.engine.ready import ReadyPlan
    from leakmeter.results.result import PartContent

_ANSWER: Final = "the answer"
NOTE: Final = "A monitor, not a bound: a refusal, and the answer given instead, also reveal something."


class HasModel(Protocol):
    """A `Meter`, or what has its model."""

    @property
    def kept_model(self) -> KeptModel:
        """The model."""


@dataclass(frozen=True, slots=True)
class Use:
    """What an answer uses of one budget; nats."""

    kind: str
    """'document' or 'subject'."""
    id: str
    """The document's id, or the subject's pseudonym."""
    signed_nats: float
    """What the answer tells: log p(answer) − log p(answer without it)."""
    before_nats: float
    """Largest |sum| before this answer."""
    after_nats: float
    """Largest |sum| with it."""
    room_nats: float
    """What this answer may use at most, with either sign: the budget less the size of the present sum; 0 where more
    than the budget was told already."""
    noise_nats: float
    placebo_nats: float | None
    """What an irrelevant piece does to the answer; None where none fitted."""
    within: bool


@dataclass(frozen=True, slots=True)
class UsedPiece:
    """A piece of a document, and what the answer tells of it; nats."""

    text: str = field(repr=False)
    """Its pseudonym where the same answer was measured before."""
    kind: str
    """'person', 'phone' … of personal data."""
    signed_nats: float | None
    """None where a search did not score it exactly."""
    noise_nats: float


@dataclass(frozen=True, slots=True)
class HeldSpan:
    """A span of an answer to hold back: something personal or secret that came from the documents."""

    start: int
    """First character in the answer."""
    end: int
    kind: str
    """'phone', 'person', 'code' …, or a type of the user's."""
    documents: tuple[str, ...]
    """Ids of those that it came from."""
    nats: float
    """log p(span) − log p(span without the documents); where the answer says the same again, of the disclosure."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What to take out of a document so that its answer is within the budget."""

    document: str
    pieces: tuple[str, ...] = field(repr=False)
    """Texts to take out."""
    text: str = field(repr=False)
    """What is left of the document."""
    left_nats: float
    """Influence on this answer of what is left, without signs: at least what it would use."""
    reached: bool
    """Whether that is within what is left of the budget; else the whole document has to go."""


@dataclass(frozen=True, slots=True)
class GuardVerdict:
    """What a guard says of one answer."""

    within: bool
    """Whether the answer stays within what is left of each budget that it uses."""
    uses: tuple[Use, ...]
    """What used most first."""
    pieces: tuple[UsedPiece, ...]
    """Personal data in the prompt, what used most first."""
    cuts: tuple[Cut, ...]
    """Where it is not within: what redaction would bring it under."""
    held_spans: tuple[HeldSpan, ...]
    """What of the answer to hold back, whether it is within or not, in the order of the answer; none overlap. With a
    policy what the recipient is not known to be allowed, and nothing else."""
    recorded: bool
    """Whether the ledger counts the answer as told."""
    flags: tuple[str, ...]
    """Why the sums are no observer's log-odds; see `docs/ledger.md`."""
    note: str = NOTE
    _rows: MeasuredAnswers = field(repr=False, compare=False, kw_only=True)
    _answer: str = field(repr=False, compare=False, kw_only=True)
    _state: LedgerState = field(repr=False, compare=False, kw_only=True)
    """The ledger's, of which it was said."""

    @property
    def withheld_answer(self) -> str:
        """The answer with a mark in the place of each held span, as in 'Call [withheld: phone].'"""
        parts, place = list[str](), 0
        for span in self.held_spans:
            parts += [self._answer[place : span.start], f"[withheld: {span.kind}]"]
            place = span.end
        return "".join((*parts, self._answer[place:]))


class Guard:
    """Says of drawn answers whether they stay within a budget of nats, before they are shown.

    It is a monitor, not a bound: a refusal itself informs, and so does what is answered instead.

    Args:
        meter: a `Meter`, whose model drew the answers.
        budget: most nats that the sum of a document's, or a person's, log-likelihood ratios may ever have in size.
        ledger: directory of the ledger that counts what was told; it is made when it is first written.
        per: 'document,recipient', 'document', 'subject,recipient' or 'subject': what has a budget of its own.
        allowed: file of who may know what: budgets then count, and verdicts hold back, only what the recipient is not
            known to be allowed. Without it, readers and tenants of documents decide, where they are given.
        how: options of the measurement; by default nothing is searched, and no text is kept.

    Raises:
        UsageError: the budget is no amount.
        StoreError: the ledger cannot be read.

    Examples:
        >>> import leakmeter
        >>> guard = leakmeter.Guard(leakmeter.Meter("toy"), budget=5.0)
        >>> guard.budget.nats
        5.0
    """

    def __init__(
        self,
        meter: HasModel,
        *,
        budget: float,
        ledger: str | Path = "ledger",
        per: str = "document,recipient",
        allowed: str | Path | None = None,
        how: Measuring | None = None,
    ) -> None:
        self.budget = Budget(_number(budget, "budget", "a number of nats above 0"), _text(per, "per"))
        if not isinstance(ledger, str | PathLike):
            raise UsageError(f"ledger is {kind_of(ledger)}; it has to be a directory")
        self.ledger = Ledger.of_user(Path(ledger))
        self._parts = LedgerPartReader(self.ledger, self.budget)
        self._model = meter.kept_model
        self._how = how or Measuring()
        if allowed is not None:
            self._how = replace(self._how, allowed=str(allowed))
        if self._how.allowed is not None:
            # Read once: a policy that changes while answers are checked needs another guard.
            self._how = replace(self._how, allowed=permissions.read(self._how.allowed).text)

    def check(
        self,
        documents: str | Mapping[str, Any] | Sequence[Any],
        query: str,
        answer: str,
        recipient: str | Mapping[str, Any],
        *,
        messages: Sequence[Mapping[str, Any]] = (),
        tool: str | None = None,
        temperature: float = 1.0,
        record: bool = True,
        redact: bool = True,
        trace_id: str | None = None,
    ) -> GuardVerdict:
        """Say whether an answer stays within what is left of the budget.

        Args:
            documents: what was retrieved, one text, or several by id or in order: texts, or documents of any library,
                such as mappings with 'text', and 'owner', 'tenant' and 'readers' where these are known. None are needed
                where the messages have results of tools.
            query: what was asked.
            answer: what was drawn, and not shown yet; or the arguments of a call that was not made yet.
            recipient: who asks: an id, or a mapping with 'id', 'role', 'tenant' and 'subject'.
            messages: the prompt as it was sent, 'role' and 'content' of each, with calls of tools and their results,
                and the documents in it verbatim; by default one user message, the documents and then the query, with
                blank lines between them.
            tool: what is called with the answer as its arguments. Its recipient is the tool, 'tool:NAME' in the
                ledger, or an agent or a memory; see `docs/conversations.md`.
            temperature: at which the answer was drawn.
            record: count the answer as told in the ledger where it is within the budget.
            redact: look for what to take out where it is not.
            trace_id: of the application's; one is drawn by default.

        Raises:
            UsageError: a document is not in the messages, or the answer cannot be measured.
            StoreError: the ledger cannot be read or written, or is of another model.
        """
        for name, value in (("query", query), ("answer", answer), ("tool", tool), ("trace_id", trace_id)):
            if value is not None or name in ("query", "answer"):
                _text(value, name)
        if temperature is not None:
            temperature = _number(temperature, "temperature", "a number, 0 where the likeliest tokens were taken")
        logged = self._logged(documents, query, answer, recipient, messages, tool, temperature, trace_id)
        turns = Turns(self.ledger.keys)
        turns.take_up(self.ledger, [logged])
        logged = turns.whole(logged)
        texts: dict[str, str] = {}
        with self._model.lock, self._model.without_cache() as backend:
            while True:
                rows = measured(self.ledger, [logged], backend, self._how, partial(self._scored, texts))
                if rows.problems:
                    raise UsageError(f"the answer cannot be measured: {rows.problems[0].removeprefix(f'{_ANSWER}: ')}")
                # Otherwise what was known of it was forgotten since.
                if self._has_known(rows):
                    break
            verdict = self._verdict(rows, texts, answer)
            if record and verdict.within:
                verdict = self._recorded(verdict)
            if redact and not verdict.within and self.budget.kind == DOCUMENT:
                verdict = replace(verdict, cuts=tuple(self._cuts(logged, verdict)))
        return self._named(verdict, logged)

    def record(self, verdict: GuardVerdict) -> GuardVerdict:
        """Count an answer as told that is not counted yet, such as one that was shown though it is over the budget.

        Args:
            verdict: what `check` said of it.

        Raises:
            StoreError: the ledger cannot be written.
        """
        if verdict.recorded:
            return verdict
        self.ledger.commit(verdict._rows.rows, model=verdict._rows.model)
        return replace(verdict, recorded=True)

    def _named(self, verdict: GuardVerdict, logged: LoggedAnswer) -> GuardVerdict:
        """The verdict with the names of what tools returned in the place of the ledger's ids."""
        names = {
            self.ledger.keys.document(document.id): document.name
            for document in logged.documents
            if document.name and document.id.startswith("sha256:")
        }
        return replace(
            verdict,
            uses=tuple(replace(use, id=names.get(use.id, use.id)) for use in verdict.uses),
            held_spans=tuple(
                replace(span, documents=tuple(sorted(names.get(name, name) for name in span.documents)))
                for span in verdict.held_spans
            ),
        )

    def _recorded(self, verdict: GuardVerdict) -> GuardVerdict:
        """The answer counted as told, unless another process has told so much since that it is not within any more."""
        latest = verdict

        def is_within() -> bool:
            nonlocal latest
            if self.ledger.state() != verdict._state:
                latest = self._verdict(verdict._rows, {}, verdict._answer)
            return latest.within

        recorded = self.ledger.commit(verdict._rows.rows, model=verdict._rows.model, provided=is_within)
        return replace(latest, pieces=verdict.pieces, recorded=recorded)

    def _has_known(self, measured: MeasuredAnswers) -> bool:
        """Add the ledger's rows of an answer, which may be forgotten before it is counted. Returns whether no number is
        missing."""
        (event,) = measured.rows["events"]
        names = {event["by_document"], event["by_entity"]}
        contents = {row["content"] for row in measured.rows["looks"]}
        with self.ledger.reading() as view:
            known = view.rows("measured", f"score IN {LISTED}", names)
            measured.rows["measured"] += [{**row, "kept": False} for row in known]
            for table in ("scores", "disclosures"):
                measured.rows[table] += view.rows(table, f"score IN {LISTED}", names)
            measured.rows["mentions"] += view.rows("mentions", f"content IN {LISTED}", contents)
        return names <= {row["score"] for row in measured.rows["measured"]}

    def _scored(self, texts: dict[str, str], ready: ReadyPlan) -> Iterator[PartContent]:
        for part in ready.measure():
            entities = (span["entity"] for span in part[0]["spans"] if span["entity"] is not None)
            texts |= {self.ledger.keys.entity(entity["type"], entity["value"]): entity["text"] for entity in entities}
            yield part

    def _logged(
        self,
        documents: str | Mapping[str, Any] | Sequence[Any],
        query: str,
        answer: str,
        recipient: str | Mapping[str, Any],
        messages: Sequence[Mapping[str, Any]],
        tool: str | None,
        temperature: float,
        trace_id: str | None,
    ) -> LoggedAnswer:
        named = _retrieved(documents)
        try:
            turns = labelled(messages_of(_elements(messages, "messages")), {}) if messages else []
        except Unusable as error:
            raise UsageError(f"the messages cannot be read: {error.reason.sentence}") from None
        if not named and not any(turn.read for turn in turns):
            raise UsageError("no document is given, and no message is the result of a tool; give at least one")
        turns = turns or [LoggedMessage("user", "\n\n".join([*(document.text or "" for document in named), query]))]
        known = recipient_of(recipient, _ANSWER)
        if not isinstance(recipient, str):
            if known is None or known.id is None:
                raise UsageError("the recipient has no 'id', by which the ledger knows them; give one")
            recipient = known.id
        channel: Channel = "answer"
        begun: Message | None = None
        if tool is not None:
            channel, name = channel_of(tool, answer)
            recipient = f"{channel}:{name}"
            begun = Message("assistant", f"assistant {len(turns) + 1}", (), calls=(ToolCall(tool, ""),))
        try:
            matched = find_documents(named, turns)
        except Unusable as error:
            raise UsageError(f"the messages do not contain the documents as given: {error.reason.sentence}") from None
        return LoggedAnswer(
            trace_id=trace_id or secrets.token_hex(16),
            # A trace may have several answers, and each counts.
            span_id=f"guard-{secrets.token_hex(16)}",
            response_id=None,
            time=datetime.now(UTC),
            recipient=recipient,
            model=self._model.backend.name,
            sampling=Sampling(temperature=temperature),
            messages=tuple(turns),
            answer=answer,
            documents=matched.documents,
            channel=channel,
            begun=begun,
            known=known,
            where=_ANSWER,
        )

    def _verdict(self, rows: MeasuredAnswers, texts: Mapping[str, str], answer: str) -> GuardVerdict:
        (row,) = rows.rows["events"]
        part = self._parts.beside(rows.rows)
        book = Book(self.ledger, part)
        event = cast(LedgerEvent, {**row, "order": len(book.events)})
        looks = [look for look in book.looks_of(event, self.budget.kind) if not book.is_allowed(look)]
        earlier: dict[LedgerItem, list[Look]] = {look.item: [] for look in looks}
        for look in book.looks(self.budget.kind):
            is_theirs = not self.budget.by_recipient or look.event["recipient"] == event["recipient"]
            is_earlier = look.event["event"] != event["event"] and not book.is_allowed(look)
            if look.item in earlier and is_theirs and is_earlier:
                earlier[look.item].append(look)
        uses = sorted((self._use(look, earlier[look.item]) for look in looks), key=lambda use: -abs(use.signed_nats))
        scores = {row["target"]: row for row in rows.rows["scores"] if row["unit"] == ENTITY}
        kinds = {row["entity"]: row["kind"] for row in book.mentions}
        pieces = [
            UsedPiece(texts.get(name, shown(name)), kinds.get(name, ""), row["signed_nats"], row["noise_nats"])
            for name, row in scores.items()
        ]
        return GuardVerdict(
            within=all(use.within for use in uses),
            uses=tuple(uses),
            pieces=tuple(sorted(pieces, key=lambda piece: -abs(piece.signed_nats or 0.0))),
            cuts=(),
            held_spans=tuple(_held_spans(book.disclosed([event]), answer, self._how.region)),
            recorded=False,
            flags=tuple(event["flags"]),
            _rows=rows,
            _answer=answer,
            _state=part.state,
        )

    def _use(self, look: Look, before: Sequence[Look]) -> Use:
        # What has no number as a whole may have told anything.
        *earlier, latest = [
            each_look if each_look.is_known else replace(each_look, signed_nats=math.inf)
            for each_look in (*before, look)
        ]
        so_far, with_it = total_of(earlier), total_of([*earlier, latest])
        signed = latest.signed_nats
        is_used_up = so_far.largest_running_nats > self.budget.nats or so_far.signed_nats is None
        return Use(
            kind=look.item.kind,
            id=look.item.id,
            signed_nats=math.inf if signed is None or math.isnan(signed) else signed,
            before_nats=so_far.largest_running_nats,
            after_nats=with_it.largest_running_nats,
            room_nats=0.0 if is_used_up else self.budget.nats - abs(so_far.signed_nats or 0.0),
            noise_nats=look.noise_nats,
            placebo_nats=look.placebo_nats,
            within=with_it.largest_running_nats <= self.budget.nats,
        )

    def _cuts(self, logged: LoggedAnswer, verdict: GuardVerdict) -> Iterator[Cut]:
        over = {use.id: use for use in verdict.uses if not use.within}
        for document in logged.documents:
            use = over.get(self.ledger.keys.document(document.id))
            if use is None:
                continue
            # |sum + l| is within the budget where |l| is at most this, and |l| is at most what redaction leaves.
            if use.room_nats <= 0:
                yield Cut(document.id, (document.text,), "", 0.0, reached=False)
                continue
            case = as_case(replace(logged, documents=(document,)))
            measure = Redaction(max_loss=use.room_nats, temperature=scored_at(logged), max_new_tokens=1)
            plan = Plan("redact", measure, PromptSettings(unit="sentence"), LoadedCases((case,)))
            (result,) = run_measure(self._model, plan, CallOptions())
            yield Cut(
                document.id,
                tuple(piece.text for piece in result.redacted),
                result.redacted_documents[0].text,
                result.left_nats,
                reached=result.reached,
            )


def _retrieved(documents: str | Mapping[str, Any] | Sequence[Any]) -> list[Retrieved]:
    """Documents with what is said of whose they are."""
    given_ids = list(documents) if isinstance(documents, Mapping) else None
    is_one = isinstance(documents, str) or fields_of(documents) is not None
    if isinstance(documents, Mapping):
        texts = list(documents.values())
    else:
        texts = [documents] if is_one else _elements(documents, "documents")
    out: list[Retrieved] = []
    for number, given in enumerate(texts):
        id_ = None if given_ids is None else name_of(given_ids[number])
        if isinstance(given, str):
            out.append(Retrieved(id_, given))
            continue
        found_id, text, _, whose = document_of(given)
        if not isinstance(text, str):
            raise UsageError(f"document {number + 1} has no text; give a text, or a mapping with 'text'")
        out.append(Retrieved(id_ if given_ids is not None else name_of(found_id), text, whose=Whose(*whose)))
    return out


def _elements(value: object, name: str) -> list[Any]:
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
        raise UsageError(f"{name} has to be a list, and is {kind_of(value)}; give each as an element of it")
    return list(value)


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{name} is {kind_of(value)}; it has to be a text")
    return value


def _number(value: object, name: str, expected: str) -> float:
    if isinstance(value, bool) or not isinstance(value, SupportsFloat):
        raise UsageError(f"{name} is {kind_of(value)}; it has to be {expected}")
    return float(value)


def _held_spans(disclosures: Iterable[LedgerDisclosure], answer: str, region: str) -> list[HeldSpan]:
    by_place: dict[tuple[int, int], list[LedgerDisclosure]] = defaultdict(list)
    for disclosed in disclosures:
        if disclosed.is_sensitive:
            by_place[disclosed.row["first_character"], disclosed.row["last_character"] + 1].append(disclosed)
    spans: list[HeldSpan] = []
    for (start, end), rows in by_place.items():
        # What is copied is theirs to know where they may know it from one document; of all else, from each.
        enough = any if rows[0].row["relation"] == "copied" else all
        if enough(disclosed.allowed == "yes" for disclosed in rows):
            continue
        documents = tuple(sorted({disclosed.document for disclosed in rows}))
        value = KnownValue.of(answer, start, end, rows[0].kind, region)
        said_at = {(start, end), *_said_again(answer, value.text, value.type), *value.places(answer, region)}
        spans += [HeldSpan(*place, rows[0].kind, documents, rows[0].nats) for place in said_at]
    apart: list[HeldSpan] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if apart and span.start < apart[-1].end:
            apart[-1] = replace(apart[-1], end=max(apart[-1].end, span.end))
        else:
            apart.append(span)
    return apart


def _said_again(answer: str, value: str, kind: str) -> Iterator[tuple[int, int]]:
    """Where an answer says a value once more: once it is said, it is likely there without the documents too."""
    yield from matching.Folded(answer).places(value)
    # Of a name a part gives it away too; of a list's value of several words it may be a name.
    if kind == PERSON or (len(value.split()) > 1 and not any(map(str.isdigit, value))):
        parts = {word for word, _, _ in matching.words(person.normal(value)) if person.is_telling(word)}
        for word, start, end in matching.words(answer):
            # A word in small letters is a name where the whole name is written so.
            if word in parts and (value.islower() or not answer[start:end].islower()):
                yield start, end
