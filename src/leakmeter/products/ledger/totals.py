"""What a ledger says: totals of documents and subjects, for each recipient and over all, from its rows."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np

from leakmeter.core.plain import counted, distinct
from leakmeter.core.record import JsonObject
from leakmeter.instruments.influence.disclosures import OTHER
from leakmeter.products.ledger.accounting import Total, total
from leakmeter.products.ledger.flags import HIDDEN_CALLS, OTHER_PROMPT
from leakmeter.products.ledger.store import Ledger, LedgerState
from leakmeter.products.ledger.subjects import Name, read_edits, resolve
from leakmeter.products.ledger.tables import AllRows, DisclosureRow, EventRow, LookRow, PermissionRow, ScoreRow
from leakmeter.stats.stats import Posterior
from leakmeter.text.permissions import MayKnow

DOCUMENT, SUBJECT = "document", "subject"


class LedgerItem(NamedTuple):
    """What is told of: a document in one version, or a subject."""

    kind: str
    id: str
    """The document's own id, or the subject's pseudonym."""
    content: str = ""
    """Of a document, the keyed hash of its text."""


class LedgerEvent(EventRow):
    """An answer that was shown, with its place in the ledger; its draw is by the answer too (see `draws_of`)."""

    order: int


@dataclass(frozen=True, slots=True)
class Look:
    """One answer whose prompt had a thing; nats."""

    event: LedgerEvent
    item: LedgerItem
    signed_nats: float | None
    """None where a search did not score the thing exactly; NaN where it is not defined."""
    size_nats: float | None
    noise_nats: float
    placebo_nats: float | None
    n_pieces: int = 1
    """Of a subject, values that were scored one by one."""
    entities: tuple[str, ...] = ()
    """Of a subject, their pseudonyms."""

    @property
    def told_nats(self) -> float:
        """Size of the number; infinite where it is not defined, 0 where there is none."""
        size = abs(self.signed_nats or 0.0)
        return math.inf if math.isnan(size) else size

    @property
    def is_known(self) -> bool:
        """Whether the number is of the whole thing. Of several values, each scored with the others left in, the sum is
        no bound: two that say the same may both read near 0."""
        return self.signed_nats is not None and self.n_pieces == 1


@dataclass(frozen=True, slots=True)
class Pair:
    """What was told of one thing, to one recipient or to all of them together."""

    item: LedgerItem
    recipient: str | None
    """None where it was not logged, and over all recipients."""
    total: Total
    looks: tuple[Look, ...] = field(repr=False)
    """In the order of time."""
    recipients: tuple[str | None, ...]
    flags: Mapping[str, int]
    """Why there is no posterior, and how many answers that is true of."""
    n_unscored: int
    """Answers in which a search left it without a number: they are not in the total."""
    n_separate: int
    """Answers with several values of the subject, scored one by one: their sum is not that of all together."""

    @property
    def is_known(self) -> bool:
        """Whether the total has every answer with the whole thing; else nobody knows whether it is within a budget."""
        return all(look.is_known for look in self.looks)

    @property
    def is_exact(self) -> bool:
        """Whether every condition holds under which the total is an observer's log-odds."""
        return not self.flags and self.is_known and len(self.recipients) == 1

    @property
    def posterior(self) -> Posterior:
        return self.total.posterior(is_exact=self.is_exact)


class LedgerDisclosure(NamedTuple):
    """A span of one answer, and a document that it came from."""

    event: LedgerEvent
    document: str
    row: DisclosureRow
    allowed: MayKnow | None = None
    """Whether its recipient may know it of that document; None where the answer was added without a policy."""

    @property
    def kind(self) -> str:
        return self.row["kind"]

    @property
    def nats(self) -> float:
        return self.row["nats"]

    @property
    def is_sensitive(self) -> bool:
        return self.kind != OTHER

    @property
    def is_told(self) -> bool:
        """Whether it is personal or secret, and nobody says that the recipient may know it."""
        return self.is_sensitive and self.allowed != "yes"


class LedgerPart(NamedTuple):
    """What is asked about of a ledger, with rows that are not committed."""

    state: LedgerState
    rows: dict[str, list[JsonObject]]
    """Of all tables."""
    subject_of: dict[str, str]
    """By value, its subject."""


class Book:
    """All of a ledger, read once, or a part that was read. `UsageError` where the file of subjects is not what it
    should be."""

    def __init__(self, ledger: Ledger, part: LedgerPart | None = None) -> None:
        self.ledger = ledger
        self.state, of_tables = ledger.read() if part is None else (part.state, part.rows)
        self._part = part
        rows = cast(AllRows, of_tables)
        draws, self.n_shared_draws = draws_of(rows["events"])
        prompts: dict[str, set[str]] = defaultdict(set)
        for draw, row in zip(draws, rows["events"], strict=True):
            prompts[draw].add(row["by_document"])
        events: list[LedgerEvent] = [
            {
                **row,
                "order": number,
                "draw": draw,
                "flags": [*row["flags"], *([OTHER_PROMPT] if len(prompts[draw]) > 1 else [])],
            }
            for number, (draw, row) in enumerate(zip(draws, rows["events"], strict=True))
        ]
        self.events = sorted(
            events,
            key=lambda event: (math.inf if event["time"] is None else event["time"].timestamp(), event["order"]),
        )
        """By time, those of one time as they were added; those without one come last."""
        self.mentions = rows["mentions"]
        self.names: dict[str, str] = {row["pseudonym"]: row["name"] for row in rows["names"] if row["kind"] != DOCUMENT}
        """By pseudonym, names of people in clear; none unless they are kept."""
        self.document_names: dict[str, str] = {}
        """By id, names of documents whose ids say nothing to a reader."""
        for named in rows["names"]:
            if named["kind"] == DOCUMENT:
                self.document_names.setdefault(named["pseudonym"], named["name"])
        self._n_named = Counter(self.document_names.values())
        self.retrievals = rows["looks"]
        self.kept = {row["score"] for row in rows["measured"] if row["kept"]}
        """Scores whose texts are kept."""
        # What was forgotten in part and then came back was scored again, with the same numbers.
        scores = {(scored["score"], scored["target"]): scored for scored in rows["scores"]}
        self._scores: dict[str, list[ScoreRow]] = defaultdict(list)
        for scored in scores.values():
            self._scores[scored["score"]].append(scored)
        self._disclosures: dict[str, list[DisclosureRow]] = defaultdict(list)
        spans = {
            (span["score"], span["content"], span["first_character"], span["last_character"], span["kind"]): span
            for span in rows["disclosures"]
        }
        for span in spans.values():
            self._disclosures[span["score"]].append(span)
        self.looks_by_event: dict[str, list[LookRow]] = defaultdict(list)
        for look in rows["looks"]:
            self.looks_by_event[look["event"]].append(look)
        self.permissions = {(row["event"], row["document"], row["content"]): row for row in rows["permissions"]}
        """Of answers that were added with a policy, by event, document and its content."""
        self._pairs_of: dict[tuple[str, bool, bool], list[Pair]] = {}
        self._hidden = Counter(row["recipient"] for row in events if HIDDEN_CALLS in row["flags"])

    @cached_property
    def subject_of(self) -> dict[str, str]:
        if self._part is not None:
            return self._part.subject_of
        names = {
            row["entity"]: Name(row["entity"], row["kind"], tuple(row["words"]), tuple(row["initials"]))
            for row in self.mentions
        }
        return resolve(names.values(), read_edits(self.ledger))

    @cached_property
    def kinds(self) -> dict[str, str]:
        """What each subject is: 'person', 'phone' …; 'person' where one is among its values."""
        by_subject: dict[str, set[str]] = defaultdict(set)
        for row in self.mentions:
            by_subject[self.subject_of[row["entity"]]].add(row["kind"])
        return {name: "person" if "person" in kinds else min(kinds) for name, kinds in by_subject.items()}

    @property
    def documents(self) -> list[tuple[str, str]]:
        """Id and content of each, in the order of first sight."""
        looks = (row for event in self.events for row in self.looks_by_event[event["event"]])
        return list(dict.fromkeys((row["document"], row["content"]) for row in looks))

    def called(self, document: str) -> str:
        """What a document is called: its id, or its name, with the id's beginning where several have it."""
        name = self.document_names.get(document)
        if name is None:
            return document
        return name if self._n_named[name] == 1 else f"{name} ({document.removeprefix('text-')[:8]})"

    @cached_property
    def _short(self) -> dict[str, str]:
        return {
            **distinct(event["trace"] for event in self.events),
            **distinct(self.called(document) for document, _ in self.documents),
        }

    def shortly(self, name: str) -> str:
        """What an answer or a document is called, without the end of a hash."""
        return self._short.get(name, name)

    @property
    def recipients(self) -> list[str | None]:
        return list(dict.fromkeys(event["recipient"] for event in self.events))

    def scores_of(self, event: LedgerEvent) -> list[ScoreRow]:
        return [row for score in (event["by_document"], event["by_entity"]) for row in self._scores[score]]

    def disclosed(self, events: Iterable[LedgerEvent]) -> Iterator[LedgerDisclosure]:
        """What answers gave away of the documents in their prompts; what came from several documents once for each."""
        for event in events:
            for row in self._disclosures[event["by_document"]]:
                for look in self.looks_by_event[event["event"]]:
                    if look["present"] and look["content"] == row["content"]:
                        permission = self.permissions.get((event["event"], look["document"], look["content"]))
                        yield LedgerDisclosure(event, look["document"], row, _allowed(permission, row["kind"]))

    def looks(self, kind: str) -> Iterator[Look]:
        for event in self.events:
            yield from self.looks_of(event, kind)

    def looks_of(self, event: LedgerEvent, kind: str) -> Iterator[Look]:
        if kind == SUBJECT:
            yield from self._looks_of_subjects(event)
            return
        scores = {row["target"]: row for row in self._scores[event["by_document"]]}
        for look in self.looks_by_event[event["event"]]:
            # Without its text in the prompt a document adds 0.
            if look["present"] and (row := scores.get(look["content"])) is not None:
                yield _look(event, LedgerItem(DOCUMENT, look["document"], look["content"]), [row])

    def _looks_of_subjects(self, event: LedgerEvent) -> Iterator[Look]:
        by_subject: dict[str, list[ScoreRow]] = defaultdict(list)
        for row in self._scores[event["by_entity"]]:
            # What was forgotten has no mentions any more.
            if (subject := self.subject_of.get(row["target"])) is not None:
                by_subject[subject].append(row)
        for subject, rows in by_subject.items():
            yield _look(event, LedgerItem(SUBJECT, subject), rows)

    def is_allowed(self, look: Look) -> bool:
        """Whether the recipient of an answer may know what a look is of, so that no budget counts it: all of a
        document; of a subject each value, from a document that says it."""
        event = look.event["event"]
        if look.item.kind == DOCUMENT:
            permission = self.permissions.get((event, look.item.id, look.item.content))
            return permission is not None and permission["allowed"] == "yes"
        return bool(look.entities) and all(
            any(
                _allowed(self.permissions.get((event, held["document"], held["content"])), kind) == "yes"
                for content, kind in self._said_by.get(entity, ())
                for held in self.looks_by_event[event]
                if held["present"] and held["content"] == content
            )
            for entity in look.entities
        )

    @cached_property
    def _said_by(self) -> dict[str, list[tuple[str, str]]]:
        """By value, contents of the documents that say it, and its kind."""
        said: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for row in self.mentions:
            said[row["entity"]].append((row["content"], row["kind"]))
        return said

    def pairs(self, kind: str, *, by_recipient: bool, only_withheld: bool = False) -> list[Pair]:
        """Totals of each thing ('document' or 'subject'), largest first: for each recipient, or over all, as if they
        compared what they were told. `only_withheld` leaves out what recipients may know."""
        key = kind, by_recipient, only_withheld
        if key not in self._pairs_of:
            looks = (look for look in self.looks(kind) if not (only_withheld and self.is_allowed(look)))
            self._pairs_of[key] = self.totals(looks, by_recipient=by_recipient)
        return list(self._pairs_of[key])

    def totals(self, looks: Iterable[Look], *, by_recipient: bool) -> list[Pair]:
        """Totals of some answers, which are in the order of time; see `pairs`."""
        groups: dict[tuple[LedgerItem, str | None], list[Look]] = defaultdict(list)
        for look in looks:
            groups[look.item, look.event["recipient"] if by_recipient else None].append(look)
        results = [self._pair(item, recipient, looks) for (item, recipient), looks in groups.items()]
        return sorted(
            results, key=lambda result: (-result.total.largest_running_nats, result.item, result.recipient or "")
        )

    def _pair(self, item: LedgerItem, recipient: str | None, looks: Sequence[Look]) -> Pair:
        flags: Counter[str] = Counter(flag for look in looks for flag in look.event["flags"])
        recipients = tuple(dict.fromkeys(look.event["recipient"] for look in looks))
        # A hidden call may have shaped any later query, with the thing in its prompt or not.
        if hidden := sum(self._hidden[recipient] for recipient in recipients):
            flags[HIDDEN_CALLS] = hidden
        scored = [look for look in looks if look.signed_nats is not None]
        return Pair(
            item,
            recipient,
            total_of(scored),
            tuple(looks),
            recipients,
            dict(flags),
            n_unscored=len(looks) - len(scored),
            n_separate=sum(look.n_pieces > 1 for look in looks),
        )


def _allowed(permission: PermissionRow | None, kind: str) -> MayKnow | None:
    """Whether a recipient may know a value of a document; of one that is allowed as a whole every kind is."""
    if permission is None:
        return None
    if permission["allowed"] == "yes" or kind in permission["kinds"]:
        return "yes"
    return "no" if permission["allowed"] == "no" else "unknown"


def draws_of(events: Sequence[EventRow | JsonObject]) -> tuple[list[str], int]:
    """What tells the draws of answers apart, and how many ids of responses stand for several answers.

    Answers that differ are different draws, whatever their ids. An id that has such answers, as of a server that sends
    always the same one, shows a draw again only where answer and prompt are the same.
    """
    answers: dict[str, set[str]] = defaultdict(set)
    for row in events:
        answers[row["draw"]].add(row["answer"])
    shared = {draw for draw, texts in answers.items() if len(texts) > 1}
    draws = [
        " ".join((row["draw"], row["answer"], *([row["by_document"]] if row["draw"] in shared else [])))
        for row in events
    ]
    return draws, len(shared)


def shared_draws(n: int) -> str:
    """A sentence on so many ids of responses that stand for answers that differ."""
    return f"Different answers share a response id ({counted(n, 'id')}): each of them counts as a draw of its own."


def total_of(looks: Sequence[Look]) -> Total:
    """The total of answers to one recipient, in the order of time, each with a number of its own."""
    return total(
        np.array([look.signed_nats for look in looks], dtype=np.float64),
        np.array([look.noise_nats for look in looks], dtype=np.float64),
        np.array([np.nan if look.placebo_nats is None else look.placebo_nats for look in looks], dtype=np.float64),
        [look.event["draw"] for look in looks],
        [None if (time := look.event["time"]) is None else time.timestamp() for look in looks],
    )


def _look(event: LedgerEvent, item: LedgerItem, rows: Sequence[ScoreRow]) -> Look:
    """Sums over the values of a subject, which were scored one by one; of a document there is one."""
    return Look(
        event,
        item,
        _sum(row["signed_nats"] for row in rows),
        _sum(row["size_nats"] for row in rows),
        sum(row["noise_nats"] for row in rows),
        _sum(row["placebo_nats"] for row in rows),
        len(rows),
        tuple(row["target"] for row in rows) if item.kind == SUBJECT else (),
    )


def _sum(values: Iterable[float | None]) -> float | None:
    """The sum; None where one of them is not known, NaN where it is not defined."""
    listed = list(values)
    if any(value is None for value in listed):
        return None
    with np.errstate(invalid="ignore"):
        return float(np.sum([value for value in listed if value is not None]))
