"""Whose a case is, and what two cases share."""

from __future__ import annotations

import numpy as np
import pytest

from leakmeter.core.case import Case, Document, Emission, Recipient
from leakmeter.text.kinship import Groups, Kin, Kinship


def kin_of(*documents: Document, tenant: str | None = None, conversation: str | None = None) -> Kin:
    emission = None if conversation is None else Emission(conversation, 1)
    case = Case("1", documents, recipient=Recipient("ann", tenant=tenant), emission=emission)
    return Kin.of_case(case, case.context_documents)


ACME = Document("a", "Anna sang.", tenant="acme", owner="ana")


@pytest.mark.parametrize(
    ("one", "other", "kinship"),
    [
        (kin_of(ACME), kin_of(Document("a", "Anna sang.")), Kinship.NOTHING),
        (kin_of(Document("a", "x")), kin_of(Document("b", "y")), Kinship.NOTHING),
        (kin_of(ACME), kin_of(Document("b", "y", tenant="beta", owner="bo")), Kinship.NOTHING),
        (kin_of(ACME), kin_of(Document("b", "y", tenant="acme", owner="bo")), Kinship.TENANT),
        # A recipient of the tenant whose documents the other case has.
        (kin_of(ACME), kin_of(tenant="acme"), Kinship.TENANT),
        (kin_of(tenant="acme"), kin_of(tenant="acme"), Kinship.TENANT),
        (kin_of(ACME), kin_of(Document("b", "y", tenant="beta", owner="ana")), Kinship.OWNER),
        (kin_of(ACME, conversation="k"), kin_of(ACME, conversation="l"), Kinship.OWNER),
        (kin_of(conversation="k"), kin_of(conversation="k"), Kinship.CONVERSATION),
        # What the log leaves empty is said of nobody.
        (kin_of(Document("a", "x", tenant="", owner="")), kin_of(Document("b", "y", tenant="")), Kinship.NOTHING),
    ],
)
def test_the_closest_thing_counts(one: Kin, other: Kin, kinship: Kinship) -> None:
    assert one.kinship(other) == other.kinship(one) == kinship


def test_of_rare_groups_some_are_added() -> None:
    tenants = ["acme"] * 90 + [f"t{i}" for i in range(10)]
    log = [kin_of(Document("a", "x", tenant=tenant)) for tenant in tenants]
    # Nobody says of owners or conversations: there is one group of each.
    (groups,) = Groups.of_log(log)
    order = np.arange(100)[::-1]
    assert groups.added([0, 1, 2], order, 4) == [99, 98, 97]
    assert groups.added([0, 1, 99], order, 4) == [98, 97]
    assert groups.added([0, 97, 98, 99], order, 4) == []
    assert len(groups.added([0], order, 50)) == 10
