"""What two cases of one log have to do with each other, as far as the log says: a tenant, a person whom documents are
about, or a conversation.

What a context of the same customer, person or conversation says may be what an answer gives away, in other words: it is
no measure of style."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from leakmeter.core.case import Case, Document, conversation_of


class Kinship(IntEnum):
    """The closest thing that two cases share, from nothing on."""

    NOTHING = 0
    TENANT = 1
    OWNER = 2
    CONVERSATION = 3


@dataclass(frozen=True, slots=True)
class Kin:
    """Whose a case is; nothing is shared where the log says nothing."""

    tenants: frozenset[str]
    """Of its documents and of its recipient."""
    owners: frozenset[str]
    """Whom its documents belong to, or are about."""
    conversation: str | None

    @classmethod
    def of_case(cls, case: Case, documents: Sequence[Document]) -> Kin:
        """Of a case with some of its documents."""
        tenants = {document.tenant for document in documents}
        if case.recipient is not None:
            tenants.add(case.recipient.tenant)
        owners = {document.owner for document in documents}
        return cls(frozenset(filter(None, tenants)), frozenset(filter(None, owners)), conversation_of(case))

    def kinship(self, other: Kin) -> Kinship:
        if self.conversation is not None and self.conversation == other.conversation:
            return Kinship.CONVERSATION
        if not self.owners.isdisjoint(other.owners):
            return Kinship.OWNER
        return Kinship.NOTHING if self.tenants.isdisjoint(other.tenants) else Kinship.TENANT


@dataclass(frozen=True, slots=True)
class Groups:
    """Cases of one log by one thing that they may share."""

    numbers: npt.NDArray[np.int64]
    """Of each case the number of its group, (case,)."""
    n: int

    @classmethod
    def of_log(cls, kin: Sequence[Kin]) -> list[Groups]:
        """By tenants, by owners and by conversation; without those of which the log has one group."""
        parts: tuple[list[Hashable], ...] = (
            [one.tenants for one in kin],
            [one.owners for one in kin],
            [one.conversation for one in kin],
        )
        return [groups for part in parts if (groups := cls._of(part)).n > 1]

    @classmethod
    def _of(cls, labels: Sequence[Hashable]) -> Groups:
        number_of: dict[Hashable, int] = {}
        numbers = [number_of.setdefault(label, len(number_of)) for label in labels]
        return cls(np.asarray(numbers, dtype=np.int64), len(number_of))

    def added(self, drawn: Sequence[int], order: npt.NDArray[np.int64], fewest: int) -> list[int]:
        """Where cases that were drawn are of fewer groups than the log has, and than so many: the first, in an order of
        all cases, of some of the other groups."""
        is_there = np.zeros(self.n, dtype=np.bool_)
        is_there[self.numbers[np.asarray(drawn, dtype=np.int64)]] = True
        n_missing = min(fewest, self.n) - int(is_there.sum())
        if n_missing <= 0:
            return []
        others = order[~is_there[self.numbers[order]]]
        _, first = np.unique(self.numbers[others], return_index=True)
        added: list[int] = others[np.sort(first)[:n_missing]].tolist()
        return added
