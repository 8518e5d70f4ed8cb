"""Budgets: the most that may be told of a document, or of a person, held against the largest |running sum| so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from leakmeter.core.measure import NATS
from leakmeter.core.plain import counted
from leakmeter.core.quantity import Check, Counterexample, Number
from leakmeter.errors import UsageError
from leakmeter.products.ledger.keys import shown
from leakmeter.products.ledger.totals import DOCUMENT, SUBJECT, Book, Pair
from leakmeter.report.scale import at_most_text, nats_text

RECIPIENT: Final = "recipient"
PER: Final = (DOCUMENT, f"{DOCUMENT},{RECIPIENT}", SUBJECT, f"{SUBJECT},{RECIPIENT}")
"""What a budget may be for; nats of different documents, or people, do not add up, so each has its own."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Maximum number of nats that may be disclosed."""

    nats: float
    per: str
    """One of `PER`, its words in any order."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.nats) and self.nats > 0):
            raise UsageError(f"budget is {self.nats}; it has to be a number of nats above 0")
        if self._words not in [sorted(grouping.split(",")) for grouping in PER]:
            raise UsageError(
                f"budgets per '{self.per}' are impossible, since nats of different documents do not add up; give one "
                f"of {', '.join(PER)}"
            )

    @property
    def _words(self) -> list[str]:
        return sorted(word.strip() for word in self.per.split(","))

    @property
    def kind(self) -> str:
        return DOCUMENT if DOCUMENT in self._words else SUBJECT

    @property
    def by_recipient(self) -> bool:
        """Whether each recipient has one; otherwise all share one, as if they compared what they were told."""
        return RECIPIENT in self._words


def check(book: Book, budget: Budget) -> tuple[list[Pair], list[Pair], Check]:
    """What exceeds a budget; what has no number for the whole of it; and both as one claim. Its groups are numbered in
    the order of `Book.pairs`."""
    groups = book.pairs(budget.kind, by_recipient=budget.by_recipient, only_withheld=True)
    every = book.pairs(budget.kind, by_recipient=budget.by_recipient)
    if not every:
        raise UsageError(
            f"the ledger has no {budget.kind} in any prompt, so there is nothing to check against a budget"
        )
    over = [group for group in groups if group.total.largest_running_nats > budget.nats]
    value = groups[0].total.largest_running_nats if groups else 0.0
    scope = " to one recipient" if budget.by_recipient else " to all recipients together"
    exceed = "exceeds" if len(over) == 1 else "exceed"
    sentence = (
        f"Answers reveal at most {at_most_text(value)} nats of one {budget.kind}{scope}; the budget is "
        f"{nats_text(budget.nats)}{f': {len(over)} of {len(groups)} {exceed} it' if over else ''}."
    )
    n_allowed = sum(len(group.looks) for group in every) - sum(len(group.looks) for group in groups)
    if n_allowed:
        sentence += f" Not counted, as its recipient may know it: a {budget.kind} in an answer, {n_allowed:,} times."
    # Of what was not scored as a whole nobody knows whether it is within.
    unknown = [group for group in groups if not group.is_known]
    n_unknown = len(unknown)
    if unknown:
        sentence += f" Whether {n_unknown} of {len(groups)} are within it is not known: {_why(groups)}."
    # A repository's own pages show JUnit XML to others: there are numbers of rows here, and no ids.
    worst = tuple(Counterexample(number, group.total.largest_running_nats) for number, group in enumerate(over[:5], 1))
    number = Number(value, groups[0].total.interval_nats if groups else None, NATS, len(groups))
    about = (
        f"Largest magnitude so far of the summed signed log-likelihood ratios of a {budget.kind}'s presence over "
        f"answers{scope}. It is a log-odds only under the conditions in the documentation of ledgers."
    )
    quantity = f"ledger.{budget.kind}{'.recipient' if budget.by_recipient else ''}"
    claim = f"{quantity} <= {budget.nats:.12g}"
    holds = not over and not unknown
    return over, unknown, Check(claim, 1, quantity, about, holds, number, n_unknown, sentence, worst)


def _why(groups: Sequence[Pair]) -> str:
    n_unscored, n_separate = sum(group.n_unscored for group in groups), sum(group.n_separate for group in groups)
    why = [f"a search did not score some answers ({n_unscored})"] if n_unscored else []
    if n_separate:
        why.append(
            f"answers have several values of one subject ({n_separate}), each scored with the others left in, so "
            "their sum is not a bound"
        )
    return " and ".join(why)


def lines(over: Sequence[Pair], book: Book) -> list[str]:
    return [
        f"        {nats_text(group.total.largest_running_nats)} nats: {group.item.kind} "
        f"{book.called(group.item.id) if group.item.kind == DOCUMENT else shown(group.item.id)}"
        f"{'' if group.recipient is None else f', recipient {shown(group.recipient)}'}"
        f", {counted(group.total.n_answers, 'answer')}{'' if group.is_known else f'; not known: {_why([group])}'}"
        for group in over
    ]
