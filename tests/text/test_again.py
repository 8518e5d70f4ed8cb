"""Values that a text says again, in whatever form."""

from __future__ import annotations

import pytest

from leakmeter.text.entities.again import KnownValue
from leakmeter.text.units import merged


def places(said: str, value: str, kind: str, text: str) -> set[str]:
    start = said.index(value)
    known = KnownValue.of(said, start, start + len(value), kind, "US")
    return {text[a:b] for a, b in merged(known.places(text, "US"))}


@pytest.mark.parametrize(
    ("said", "value", "kind", "text", "expected"),
    [
        ("Call 555-010-7788.", "555-010-7788", "phone", "tel:+15550107788", {"+15550107788"}),
        ("Call +15550107788.", "+15550107788", "phone", "Or 555-010-7788.", {"555-010-7788"}),
        # In base64 with its country or without.
        ("Call 555-010-7788.", "555-010-7788", "phone", "See KzE1NTUwMTA3Nzg4.", {"KzE1NTUwMTA3Nzg4"}),
        ("Call +15550107788.", "+15550107788", "phone", "See NTU1LTAxMC03Nzg4.", {"NTU1LTAxMC03Nzg4"}),
        ("Call 555-010-7788.", "555-010-7788", "phone", "Call 555-010-7789.", set()),
        ("Born 3 May 1981.", "3 May 1981", "date", "On 1981-05-03.", {"1981-05-03"}),
        ("Born 3 May 1981.", "3 May 1981", "date", "In May 1981, or on May 4, 1981.", set()),
        ("On 3 May.", "3 May", "visit", "On 2026-05-03.", {"2026-05-03"}),
        ("At 12 Elm Street, Leeds.", "12 Elm Street, Leeds", "address", "To 12 ELM STREET.", {"12 ELM STREET"}),
        ("Orla Brennock came.", "Orla Brennock", "person", "O. Brennock paid.", {"Brennock"}),
        ("Code 4120.", "4120", "code", "Code 4,120, not 4/1/2/0.", {"4,120"}),
        # What many texts say is no evidence.
        ("He is 34.", "34", "age", "34 of them came.", set()),
        ("It is a civil case.", "civil", "case_type", "Be civil.", set()),
    ],
)
def test_a_value_is_known_in_every_form(said: str, value: str, kind: str, text: str, expected: set[str]) -> None:
    assert places(said, value, kind, text) == expected


@pytest.mark.parametrize(
    ("text", "number"),
    [("(202-555-0143)", "202-555-0143"), ("(+12025550143)", "+12025550143"), ("(202) 555-0143", "(202) 555-0143")],
)
def test_a_bracket_around_a_number_is_no_part_of_it(text: str, number: str) -> None:
    assert number in places("Call 202-555-0143.", "202-555-0143", "phone", f"Call {text}.")
    assert f"({number}" not in places("Call 202-555-0143.", "202-555-0143", "phone", f"Call {text}.")
