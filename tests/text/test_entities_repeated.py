"""All mentions of one value or one person are one entity, and two people of one name are not."""

from __future__ import annotations

import pytest

from leakmeter.text.entities import pattern
from leakmeter.text.entities.find import find


def grouped(text: str, type_: str, *, region: str = "US", **how: object) -> list[list[str]]:
    entities = find(text, [(0, len(text))], region=region, **how)  # type: ignore[arg-type]
    return [[text[a:b] for a, b in entity.mentions] for entity in entities if entity.type == type_]


@pytest.mark.parametrize(
    ("type_", "text", "expected"),
    [
        ("phone", "Call 555-010-7788 or +1 (555) 010.7788; not 555-010-7789",
         [["555-010-7788", "+1 (555) 010.7788"], ["555-010-7789"]]),
        ("email", "ELLEN@x.example, ellen@X.example, e@x.example",
         [["ELLEN@x.example", "ellen@X.example"], ["e@x.example"]]),
        ("date", "Born 3 May 1984 (1984-05-03), May 3 each year", [["3 May 1984", "1984-05-03", "May 3"]]),
        ("date", "3 May 1984, 3 May 1985, May 3", [["3 May 1984"], ["3 May 1985"], ["May 3"]]),
        ("address", "9 Tallow Row, Brenmouth. At 9 Tallow Row.", [["9 Tallow Row, Brenmouth", "9 Tallow Row"]]),
        ("person", "Dr. Ellen Brandt came. Brandt left; Ellen slept.", [["Ellen Brandt", "Brandt", "Ellen"]]),
        ("person", "Dr. Ellen Brandt, Dr E. Brandt and Dr Brandt’s car", [["Ellen Brandt", "E. Brandt", "Brandt"]]),
        ("person", "Patient: Ek, Bo\nMr Bo Ek slept.", [["Ek, Bo", "Bo Ek"]]),
        ("person", "姓名：山田太郎。山田太郎は帰った", [["山田太郎", "山田太郎"]]),
        # Two of a surname: the surname alone is nobody's.
        ("person", "Mr Bo Ek and Mrs Ada Ek. Ek slept. Bo too.", [["Bo Ek", "Bo"], ["Ada Ek"], ["Ek"]]),
        ("person", "Mr Ek met Mrs Ek.", [["Ek"], ["Ek"]]),
        ("person", "Mrs Ada Ek came. Mr Ek left.", [["Ada Ek"], ["Ek"]]),
        # A word that is no name elsewhere is none here.
        ("person", "Mr Will Brook said he will go. Will he? Brook knows.", [["Will Brook", "Brook"]]),
        ("person", "Dr. Ellen Brandt, ellen@x.example. Ellen.", [["Ellen Brandt", "Ellen"]]),
    ],
)  # fmt: skip
def test_mentions_are_put_together(type_: str, text: str, expected: list[list[str]]) -> None:
    assert grouped(text, type_) == expected


def test_mentions_in_several_documents_are_one_entity() -> None:
    text = "Dr. Ellen Brandt.\n\nBrandt again."
    (entity,) = find(text, [(0, 17), (19, len(text))], region="US")
    assert entity.mentions == ((4, 16), (19, 25))
    assert (entity.type, entity.value, entity.text) == ("person", "ellen brandt", "Ellen Brandt")


def test_what_a_recogniser_sees_is_joined_with_what_titles_tell() -> None:
    text = "Tobias Quillmere rowed. Mr Quillmere sang. Quillmere!"
    found = grouped(text, "person", recognise=lambda _: [(0, 16, "PER")])
    assert found == [["Tobias Quillmere", "Quillmere", "Quillmere"]]


def test_the_users_patterns_come_first() -> None:
    text = "Key 555-010-7788 and KEY 555-010-7788"
    how = {"patterns": pattern.parse("code = (?i)key (?P<value>[0-9-]+)")}
    assert grouped(text, "code", **how) == [["555-010-7788", "555-010-7788"]]
    assert grouped(text, "phone", **how) == []
