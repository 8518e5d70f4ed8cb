"""Which names are one person, on hashes of words; against the rule on the words themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakmeter.errors import UsageError
from leakmeter.products.ledger.keys import Keys
from leakmeter.products.ledger.store import SUBJECTS, Ledger
from leakmeter.products.ledger.subjects import Edits, Name, is_part, read_edits, resolve
from leakmeter.text.entities import person

KEYS = Keys(b"k" * 32)


def name(value: str, kind: str = "person") -> Name:
    return Name(KEYS.entity(kind, value), kind, tuple(KEYS.words(value)), tuple(KEYS.initials(value)))


@given(*(st.lists(st.sampled_from(["ana", "a", "ek", "e", "alvi", "de"]), min_size=1, max_size=4) for _ in range(2)))
def test_the_rule_is_that_of_names_in_clear(some: list[str], more: list[str]) -> None:
    assert is_part(name(" ".join(some)), name(" ".join(more))) == person.is_part(" ".join(some), " ".join(more))


def test_a_part_of_one_name_is_that_person_and_of_two_is_nobody() -> None:
    ana, short, initial = name("ana alvi"), name("alvi"), name("a alvi")
    assert resolve([short, ana, initial]) == dict.fromkeys((ana.entity, short.entity, initial.entity), ana.entity)
    found = resolve([short, ana, name("bo alvi"), initial])
    assert (found[short.entity], found[initial.entity]) == (short.entity, ana.entity)
    # The order of names does not matter.
    names = [name(value) for value in ("ana alvi", "alvi", "bo ek", "b ek", "ek", "ana maria alvi")]
    assert resolve(names) == resolve(names[::-1])


def test_the_user_joins_and_parts() -> None:
    ana, short, phone = name("ana alvi"), name("alvi"), name("+12025550143", "phone")
    joined = resolve([ana, short, phone], Edits(same=((phone.entity[:12], short.entity),)))
    assert set(joined.values()) == {ana.entity}
    parted = resolve([ana, short], Edits(apart=(short.entity[:8],)))
    assert parted[short.entity] == short.entity
    # What was forgotten may still stand in the file.
    assert resolve([ana], Edits(same=((ana.entity, "0" * 32),)))[ana.entity] == ana.entity


def test_the_file_of_corrections(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, KEYS)
    assert read_edits(ledger) == Edits()
    good = '[[same]]\nsubjects = ["0011223344", "aabbccddee"]\n[[apart]]\nsubjects = ["99887766"]\n'
    (tmp_path / SUBJECTS).write_text(good)
    assert read_edits(ledger) == Edits((("0011223344", "aabbccddee"),), ("99887766",))
    for bad in ("same = [", "[[other]]\n", '[[same]]\nsubjects = ["Ana"]', "[[same]]\nsubjects = 1"):
        (tmp_path / SUBJECTS).write_text(bad)
        with pytest.raises(UsageError) as caught:
            read_edits(ledger)
        assert "Ana" not in str(caught.value)
        assert "\n" not in str(caught.value)
