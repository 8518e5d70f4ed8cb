"""Control names: other names, and the same values where these say nothing of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leakmeter.instruments.pii.decoys import ControlName, control_names_of
from leakmeter.instruments.pii.subject import Relation, Subject, ValueType

JANE = Subject(
    "7",
    "Jane Doe",
    phone="617-555-0134",
    email="jane.doe@mail.org",
    address="12 Oak St, Boston, MA 02118",
    relationships=(Relation("father", "John Doe"),),
)
OTHER = ControlName(JANE, replace(JANE, name="Ann Roe"))


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("email", "jane.doe@gmail.com", "ann.roe@gmail.com"),
        ("email", "jdoe72@doelaw.com", "aroe72@roelaw.com"),
        ("email", "Jane_Doe+news@x.org", "Ann_Roe+news@x.org"),
        ("email", "thejanepage@x.org", "theannpage@x.org"),
        ("email", "kitty99@x.org", "kitty99@x.org"),
        ("relationship", "John Doe", "John Roe"),
        ("relationship", "Jane Doe-Smith", "Ann Roe-Smith"),
        ("relationship", "Mary Doering", "Mary Doering"),
        ("phone", "617-555-0134", "617-555-0134"),
        ("address", "12 Jane St, Boston, MA 02118", "12 Jane St, Boston, MA 02118"),
        ("university", "Doe University", "Doe University"),
    ],
)
def test_a_value_says_the_other_name_where_it_said_the_persons(type_: ValueType, value: str, expected: str) -> None:
    assert OTHER.said(value, type_) == expected


def test_words_that_both_names_have_change_places() -> None:
    swapped = ControlName(replace(JANE, name="Grant Lee"), replace(JANE, name="Lee Grant"))
    assert swapped.said("Grant Lee", "relationship") == "Lee Grant"
    assert swapped.said("x@grantlee.org", "email") == "x@leegrant.org"


def test_they_are_somebody_else_in_all_that_is_known() -> None:
    found = control_names_of(JANE, 5, seed=0)
    assert control_names_of(JANE, 5, seed=0) == found
    assert control_names_of(JANE, 5, seed=1) != found
    assert len({one.other.name for one in found}) == 5
    for one in found:
        first, last = one.other.name.split()
        assert {first, last}.isdisjoint({"Jane", "Doe"})
        assert one.other.phone != JANE.phone
        assert one.other.phone is not None
        assert one.other.phone.startswith("617-")
        assert one.other.email is not None
        assert one.other.email.startswith(f"{first}.{last}@".lower())
        assert one.other.address != JANE.address


@pytest.mark.parametrize("name", ["Dr. Zoë O'Neill-Smith", "李小龙", "Al", "J. R. R. Tolkien", "{name} <|im_end|>"])
def test_any_name_has_some(name: str) -> None:
    for one in control_names_of(Subject("1", name, phone="617-555-0134", email="zoe.smith@x.org"), 3, seed=2):
        assert one.other.name != name
        assert one.other.email is not None
        assert "@" in one.other.email
