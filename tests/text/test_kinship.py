"""Whose a case is, and what two cases share."""

from __future__ import annotations

import numpy as np
import pytest

from leakmeter.core.case import Case, Document, Emission, Recipient
from leakmeter.text.kinship import Belonging, Groups, Kinship


def belonging(*documents: Document, tenant: str | None = None, conversation: str | None = None) -> Belonging:
    emission = None if conversation is None else Emission(conversation, 1)
    case = Case("1", documents, recipient=Recipient("ann", tenant=tenant), emission=emission)
    return Belonging.of_case(case, case.context_documents)


ACME = Document("a", "Anna sang.", tenant="acme", owner="ana")


@pytest.mark.parametrize(
    ("one", "other", "kinship"),
    [
        (belonging(ACME), belonging(Document("a", "Anna sang.")), Kinship.NOTHING),
        (belonging(Document("a", "x")), belonging(Document("b", "y")), Kinship.NOTHING),
        (belonging(ACME), belonging(Document("b", "y", tenant="beta", owner="bo")), Kinship.NOTHING),
        (belonging(ACME), belonging(Document("b", "y", tenant="acme", owner="bo")), Kinship.TENANT),
        # A recipient of the tenant whose documents the other case has.
        (belonging(ACME), belonging(tenant="acme"), Kinship.TENANT),
        (belonging(tenant="acme"), belonging(tenant="acme"), Kinship.TENANT),
        (belonging(ACME), belonging(Document("b", "y", tenant="beta", owner="ana")), Kinship.OWNER),
        (belonging(ACME, conversation="k"), belonging(ACME, conversation="l"), Kinship.OWNER),
        (belonging(conversation="k"), belonging(conversation="k"), Kinship.CONVERSATION),
        # What the log leaves empty is said of nobody.
        (belonging(Document("a", "x", tenant="", owner="")), belonging(Document("b", "y", tenant="")), Kinship.NOTHING),
    ],
)
def test_the_closest_thing_counts(one: Belonging, other: Belonging, kinship: Kinship) -> None:
    assert one.kinship(other) == other.kinship(one) == kinship


def test_of_rare_groups_some_are_added() -> None:
    tenants = ["acme"] * 90 + [f"t{i}" for i in range(10)]
    log = [belonging(Document("a", "x", tenant=tenant)) for tenant in tenants]
    # Nobody says of owners or conversations: there is one group of each.
    (groups,) = Groups.of_log(log)
    order = np.arange(100)[::-1]
    assert groups.added([0, 1, 2], order, 4) == [99, 98, 97]
    assert groups.added([0, 1, 99], order, 4) == [98, 97]
    assert groups.added([0, 97, 98, 99], order, 4) == []
    assert len(groups.added([0], order, 50)) == 10
