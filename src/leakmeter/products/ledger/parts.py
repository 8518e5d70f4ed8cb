"""What of a ledger counts beside one more answer, found without reading the rest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from leakmeter.core.record import JsonObject
from leakmeter.products.ledger.budgets import Budget
from leakmeter.products.ledger.measuring import ENTITY
from leakmeter.products.ledger.store import Ledger, LedgerState, View
from leakmeter.products.ledger.subjects import KnownNames, Name, read_edits
from leakmeter.products.ledger.tables import LISTED, TABLES, Rows
from leakmeter.products.ledger.totals import DOCUMENT, SUBJECT, LedgerPart

_TOLD_OF: Final = {
    DOCUMENT: ("looks", "event", "event", "content"),
    SUBJECT: ("scores", "score", "by_entity", "target"),
}
"""Of what a budget is for: a table, its column of answers, theirs, and its column of what they tell of."""
_FIRST_OF_EACH: Final = f"number IN (SELECT min(number) FROM mentions WHERE entity IN {LISTED} GROUP BY entity)"


class LedgerPartReader:
    """Reads parts of a ledger for answers that are checked against a budget, one at a time.

    Args:
        ledger: the ledger.
        budget: what decides which earlier answers count.
    """

    def __init__(self, ledger: Ledger, budget: Budget) -> None:
        self._ledger = ledger
        self._budget = budget
        self._names = KnownNames()
        self._n_names = 0
        """Number of the last mention whose name is known."""
        self._state = LedgerState()

    def beside(self, further: Rows) -> LedgerPart:
        """The earlier answers that count together with one that is not committed, and it.

        Args:
            further: rows of the answer.
        """
        (event,) = further["events"]
        scored = {row["target"] for row in further["scores"] if row["unit"] == ENTITY}
        with self._ledger.reading() as view:
            subject_of: dict[str, str] = {}
            wanted = {row["content"] for row in further["looks"]}
            if self._budget.kind == SUBJECT:
                subject_of = self._subjects(view, scored, further["mentions"])
                wanted = set(subject_of)
            events = self._events(view, event["recipient"], wanted)
            ids = {row["event"] for row in events}
            names = {row[unit] for row in events for unit in ("by_document", "by_entity")}
            looks = view.rows("looks", f"event IN {LISTED}", ids)
            mentions = view.rows("mentions", _FIRST_OF_EACH, scored)
            if self._budget.kind == SUBJECT:
                contents = {row["content"] for row in looks}
                mentions += view.rows("mentions", f"content IN {LISTED} AND entity IN {LISTED}", contents, wanted)
            rows = {
                "events": [*events, *self._of_same_draws(view, events)],
                "looks": looks,
                "permissions": view.rows("permissions", f"event IN {LISTED}", ids),
                "scores": view.rows("scores", f"score IN {LISTED} AND target IN {LISTED}", names, wanted),
                "mentions": mentions,
            }
            together = {table: [*rows.get(table, ()), *further.get(table, ())] for table in TABLES}
            return LedgerPart(view.state, together, subject_of)

    def _events(self, view: View, recipient: str | None, wanted: set[str]) -> list[JsonObject]:
        """Earlier answers that tell of what is wanted; of those to the recipient where each has a budget."""
        table, name, own, target = _TOLD_OF[self._budget.kind]
        if not self._budget.by_recipient:
            return view.rows("events", f"{own} IN (SELECT {name} FROM {table} WHERE {target} IN {LISTED})", wanted)
        told = f"EXISTS (SELECT 1 FROM {table} WHERE {table}.{name} = events.{own} AND {target} IN {LISTED})"
        return view.rows("events", f"recipient IS ? AND {told}", recipient, wanted)

    def _of_same_draws(self, view: View, events: Iterable[JsonObject]) -> list[JsonObject]:
        """Others that tell whether an id of a response stands for several answers."""
        ends = " UNION ALL ".join(
            "SELECT (SELECT other.number FROM events AS other WHERE other.draw = one.value "
            f"ORDER BY other.answer {way} LIMIT 1) FROM json_each(?) AS one"
            for way in ("ASC", "DESC")
        )
        draws = {row["draw"] for row in events}
        known = {row["event"] for row in events}
        return [row for row in view.rows("events", f"number IN ({ends})", draws, draws) if row["event"] not in known]

    def _subjects(self, view: View, scored: set[str], mentions: Iterable[JsonObject]) -> dict[str, str]:
        if view.state.mark != self._state.mark or view.state.n_commits < self._state.n_commits:
            # Something was forgotten, or the file is another one.
            self._names, self._n_names = KnownNames(), 0
        for row in view.rows("mentions", "number > ?", self._n_names):
            self._names.add(_name(row))
        self._n_names, self._state = view.last_number("mentions"), view.state
        return self._names.subjects_of(scored, map(_name, mentions), read_edits(self._ledger))


def _name(row: JsonObject) -> Name:
    return Name(row["entity"], row["kind"], tuple(row["words"]), tuple(row["initials"]))
