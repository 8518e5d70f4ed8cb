"""People found in text: structured data, relatives, universities. All of them are invented."""

from __future__ import annotations

import functools
import itertools
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from faker import Faker

from leakmeter.data.documents import MOST_CHARACTERS, clean, parts
from leakmeter.data.records import load_names
from leakmeter.errors import DataError, UsageError
from leakmeter.instruments.pii.extraction import (
    Find,
    Relationships,
    Structured,
    Universities,
    apart_from,
    nearest,
    one_line,
    widest,
)
from leakmeter.instruments.pii.subject import RelatedPerson, Subject
from leakmeter.text.entities import address, email, phone
from leakmeter.text.entities.mention import Place
from leakmeter.text.entities.names import any_name, names_beside_emails, whole_name
from leakmeter.text.units import sentence_around

PHONES = functools.partial(phone.find, region="US")
ADDRESSES = functools.partial(address.find, region="US")
STRUCTURED = Structured(email.find, PHONES, ADDRESSES)


def finder(*values: str) -> Find:
    """Finds every place of some values."""

    def find(text: str) -> Iterator[Place]:
        for value in values:
            for match in re.finditer(re.escape(value), text):
                yield Place(match.start(), match.end())

    return find


def told(text: str, extractor: Structured = STRUCTURED) -> list[Subject]:
    return list(extractor(text))


BLOCK = "Ada Vale <ada.vale@corp.example>\nTel. (415) 555-0134\n12 Oak Street\nSpringfield, IL 62704\n"


def test_a_document_with_all_four_gives_its_person() -> None:
    (found,) = told(f"Hello,\n\nthis is of no interest.\n\n{BLOCK}\nBye")
    address = "12 Oak Street, Springfield, IL 62704"
    assert found == Subject("", "Ada Vale", phone="(415) 555-0134", email="ada.vale@corp.example", address=address)
    for missing in ("Ada Vale ", "ada.vale@corp.example", "(415) 555-0134", "Street\nSpringfield, IL 62704"):
        assert told(BLOCK.replace(missing, "")) == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        *(("Contact: Ada Vale <a@x.example>", ["Ada Vale"]), ("Will Vale <a@x.example>", ["Will Vale"])),
        ('"Ada Vale" <a@x.example>, Bo Quill (b@x.example)', ["Ada Vale", "Bo Quill"]),
        ("Please write to Zoë O’Brien-Ek [mailto:z@x.example]", ["Zoë O’Brien-Ek"]),
        ("Name: José Luis de la Cruz\nAge: 7", ["José Luis de la Cruz"]),
        *(("Then Dr. Ada J. Vale <a@x.example>", ["Ada J. Vale"]), ("王小明 <w@x.example>", ["王小明"])),
        *(("姓名 name：Анна Иванова", ["Анна Иванова"]), ("Reply To <a@x.example>", [""])),
        *((text, []) for text in ("Ada Vale went home. a@x.example", "username: Ada Vale")),
    ],
)
def test_names_that_need_no_recogniser(text: str, names: list[str]) -> None:
    assert [text[one.start : one.end] for one in names_beside_emails(text)] == names


def test_what_is_a_whole_name() -> None:
    assert (whole_name(" Ada\n Vale, "), whole_name("王小明")) == ("Ada Vale", "王小明")
    no_names = ("Ada", "Ada 7", "a@x b", "Ada\0 Vale", "{0} <|endoftext|> Vale", "A" * 60 + " " + "B" * 60, "…")
    assert {whole_name(text) for text in no_names} == {None}
    assert [whole_name(f"Ada {'x' * n}") is None for n in (96, 97)] == [False, True]
    # A given name is a name too.
    assert (any_name("Bo"), any_name("小明")) == ("Bo", "小明")
    assert any_name("The") is any_name("the old baker") is None


def test_the_sentence_around_a_place() -> None:
    text = "One. Dr. Smith met\nJ. Q. Ek’s father, Jöhn. Then he left.\n\nNew."
    start = text.index("’s")
    low, high = sentence_around(text, start, start + 2)
    assert text[low:high] == "Dr. Smith met\nJ. Q. Ek’s father, Jöhn."


def asking(asked: list[tuple[str, str]], answer: str = "", confidence: float = 0.0) -> Callable[..., Any]:
    """A model that answers always the same, and notes what it was asked."""

    def ask(question: str, context: str) -> tuple[str, float]:
        asked.append((question, context))
        return answer, confidence

    return ask


def test_relatives_by_the_form_of_a_sentence() -> None:
    for text, name, kind, other in (
        ("Ada Vale's father, Tobias Vale, was a baker.", "Ada Vale", "father", "Tobias Vale"),
        ("When Ada J. Vale’s mother was named Ines she left.", "Ada J. Vale", "mother", "Ines"),
        ("In 1990 Zoë O'Brien's grandmother is María de la Cruz.", "Zoë O'Brien", "grandmother", "María de la Cruz"),
        ("Tobias Vale is Ada Vale's uncle.", "Ada Vale", "uncle", "Tobias Vale"),
        ("He knew Dr. Ada Vale's\nwife Bo.", "Ada Vale", "wife", "Bo"),
    ):
        found = list(Relationships()(f"Nothing here. {text} Nothing there."))
        assert found == [Subject("", name, relationships=(RelatedPerson(kind, other),))]
    # What says nothing of a person's relative.
    for text in (
        *("Ada's father, Tobias Vale, left.", "Today's mother, Ines Vale, works."),
        *("Ada Vale's mother-in-law, Ines Ek, left.", "Ada Vale's fathers, Tobias and Bo, left."),
        *("the band's father, Tobias Vale, left.", "Ada Vale's father, Tobias Ek's friend, left."),
        "Ada Vale's father left.",
    ):
        assert list(Relationships()(text)) == []
    # A sentence without the relative's name is one to ask a model about.
    asked: list[tuple[str, str]] = []
    assert list(Relationships(asking(asked))(text)) == []
    assert asked == [("Who is the father of Ada Vale?", text)]


LEFT = "Ada Vale's father, Tobias Vale, left."


@pytest.mark.parametrize(
    ("text", "answer", "confidence", "other"),
    [
        *((LEFT, "Tobias", 0.95, "Tobias Vale"), (LEFT, "Tobias", float("nan"), None)),
        *((LEFT, answer, sure, None) for answer, sure in (("Tobias Vale", 0.9), ("Bo Ek", 0.99), ("", 0.99))),
        ("Ada Vale's father left. Bo Ek stayed.", "Bo Ek.", 0.95, "Bo Ek"),
        *(("Ada Vale's father left.", answer, 0.95, None) for answer in ("left", "Ada Vale")),
        ("Ada Vale's father was the old baker.", "the old baker", 0.95, None),
    ],
)
def test_a_model_has_to_confirm_the_relative(text: str, answer: str, confidence: float, other: str | None) -> None:
    asked: list[tuple[str, str]] = []
    ask = asking(asked, answer, confidence)
    found = [relation.name for one in Relationships(ask)(text) for relation in one.relationships]
    assert found == ([] if other is None else [other])
    ((question, context),) = asked
    assert question == "Who is the father of Ada Vale?"
    assert context in text
    # Names in questions are data.
    asked.clear()
    list(Relationships(ask, finder("{relationship} {x} %s"))("{relationship} {x} %s's father left."))
    assert asked[0][0] == "Who is the father of {relationship} {x} %s?"


def test_each_name_is_given_what_stands_behind_it() -> None:
    people = [
        ("Ada Vale", "a@x.example", "(415) 555-0134", "12 Oak Street, Springfield, IL 62704"),
        ("Bo Quill", "b@x.example", "(415) 555-0177", "7 Elm Road, Reno, NV 89501"),
    ]
    text = "\n\n".join(f"{name}\n{number}\n{mail}\n{place}" for name, mail, number, place in people)
    structured = Structured(email.find, PHONES, ADDRESSES, finder("Ada Vale", "Bo Quill"))
    # Ada's address stands nearer to Bo's name than his own, and before it.
    (one,) = told(text, structured)
    assert (one.name, one.email, one.phone, one.address) == people[0]


def nearest_by_trying(names: list[Place], others: list[list[Place]]) -> tuple[Place, tuple[Place, ...]]:
    """The rule of the module, said for all combinations: fewest before the name, then nearest, then first."""

    def cost(name: Place, chosen: tuple[Place, ...]) -> tuple[int, int]:
        n_before = sum(one.start < name.end for one in chosen)
        gaps = [one.start - name.end if one.start >= name.end else name.start - one.end for one in chosen]
        return n_before, sum(max(0, gap) for gap in gaps)

    tried = [(name, chosen) for name in names for chosen in itertools.product(*others)]
    return min(tried, key=lambda pair: cost(*pair))


def test_the_nearest_are_those_of_every_combination_tried() -> None:
    rng = random.Random(3)
    for _ in range(300):
        # Places that do not overlap, in four kinds.
        cuts = sorted(rng.sample(range(200), 2 * rng.randint(4, 9)))
        places = [Place(a, b) for a, b in zip(cuts[::2], cuts[1::2], strict=True)]
        kinds: list[list[Place]] = [[], [], [], []]
        for number, place in enumerate(rng.sample(places, len(places))):
            kinds[number if number < 4 else rng.randrange(4)].append(place)
        names, *others = (sorted(kind, key=lambda one: one.start) for kind in kinds)
        name, chosen = nearest(names, others)
        assert (name, tuple(chosen)) == nearest_by_trying(names, others)


def test_places_in_longer_ones_and_overlapping_others_are_left_out() -> None:
    found = [Place(0, 5), Place(2, 5), Place(0, 9), Place(9, 12), Place(11, 99), Place(-1, 3)]
    assert widest(found, 20) == [Place(0, 9), Place(9, 12)]
    rng = random.Random(1)
    for _ in range(100):
        some, others = ([Place(a, a + rng.randint(1, 6)) for a in rng.sample(range(60), 6)] for _ in range(2))
        expected = [a for a in some if not any(set(range(a.start, a.end)) & set(range(b.start, b.end)) for b in others)]
        assert apart_from(some, others) == expected
    assert one_line("12 Oak Street,\n  Reno\r\n\nNV") == "12 Oak Street, Reno, NV"


def test_long_texts_are_read_in_parts_that_tile_them() -> None:
    rng = random.Random(2)
    for _ in range(50):
        text = "".join(rng.choice(["word ", "word\n", "\n\n", "long" * 9]) for _ in range(rng.randint(0, 300)))
        given = list(parts(text, 100))
        assert "".join(part for _, part in given) == text
        assert [text[start : start + len(part)] for start, part in given] == [part for _, part in given]
        assert all(len(part) <= 100 for _, part in given)
    assert [len(part) for _, part in parts("x" * (2 * MOST_CHARACTERS + 1))] == [MOST_CHARACTERS, MOST_CHARACTERS, 1]
    assert clean("a\ud800b") == "a\ufffdb"


def test_a_recogniser_says_whose_relative_it_is() -> None:
    text = "The Ministry's Head's wife met Ada Vale's father, Bo."
    (one,) = Relationships(names=finder("Ada Vale's"))(text)
    assert (one.name, one.relationships) == ("Ada Vale", (RelatedPerson("father", "Bo"),))
    assert list(Relationships(names=finder("Head"))(text)) == []


LISTED = ("Vale State University", "Vale State", "University of Ek", "Ek", "Ek Institute of Arts", "42 US")


def test_universities_beside_names() -> None:
    text = (
        "Ada Vale studied at Vale State University. Bo Quill met Ines Roe at the University of\nEk. "
        "He likes Vale State. Ada Vale left Vale State University."
    )
    names = finder("Ada Vale", "Bo Quill", "Ines Roe")
    beside = ["Ada Vale, Vale State University", "Ines Roe, University of Ek"]
    for universities, expected in (
        (Universities(LISTED, names), beside),
        (Universities(LISTED, names, "document"), [*beside, "Ada Vale, Vale State"]),
    ):
        assert [f"{one.name}, {one.university}" for one in universities(text)] == expected
    # A university is no person.
    universities = Universities(("Ada Vale University",), finder("Ada Vale"))
    assert list(universities("Ada Vale University is old.")) == []
    assert [one.name for one in universities("Ada Vale founded Ada Vale University.")] == ["Ada Vale"]


def places_by_trying(text: str, listed: tuple[str, ...]) -> list[str]:
    """The longest name at the first place that has one, then what comes behind it."""
    out, at = [], 0
    while at < len(text):
        fits = [
            name
            for name in listed
            if text.startswith(name, at)
            and not re.match(r"\w", text[at + len(name) :])
            and not (at and re.match(r"\w", text[at - 1]))
        ]
        if fits:
            out.append(max(fits, key=len))
            at += len(out[-1])
        else:
            at += 1
    return out


def test_universities_are_those_of_every_place_tried() -> None:
    rng = random.Random(4)
    words = [*LISTED, "Vale", "State", "University", "of", "Eks", "42", "USA", "Institute", "x", "Ek_"]
    universities = Universities(LISTED, finder())
    for _ in range(300):
        text = rng.choice(["", "-"]).join(
            word + rng.choice([" ", ", ", "\n"]) for word in (rng.choice(words) for _ in range(rng.randint(0, 12)))
        )
        found = [text[one.start : one.end].replace("\n", " ") for one in universities.places(text)]
        assert found == places_by_trying(text.replace("\n", " "), LISTED)


def test_lists_of_names(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("﻿Vale  State\n\nEk\nEk\n", encoding="utf-8")
    assert load_names(tmp_path / "names.txt") == ("Vale State", "Ek")
    (tmp_path / "names.csv").write_text('name,domain\n"Ek, Institute of",ek.example\n', encoding="utf-8")
    assert load_names(tmp_path / "names.csv") == ("Ek, Institute of",)
    (tmp_path / "names.csv").write_text("title,domain\nEk,ek.example\n", encoding="utf-8")
    with pytest.raises(DataError, match="no column 'name'; it has 'title', 'domain'"):
        load_names(tmp_path / "names.csv")
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(DataError, match="holds no name"):
        load_names(tmp_path / "empty.txt")
    with pytest.raises(UsageError, match="no names of universities"):
        Universities(["", "…"], finder())
    with pytest.raises(UsageError, match="scope is 'page'"):
        Universities(LISTED, finder(), "page")  # type: ignore[arg-type]


def test_a_finder_is_asked_where_those_before_it_have_found_something() -> None:
    asked: list[str] = []

    def spy(name: str, find: Find) -> Find:
        def find_and_tell(text: str) -> Iterator[Place]:
            asked.append(name)
            yield from find(text)

        return find_and_tell

    finders = {"email": email.find, "phone": PHONES, "address": ADDRESSES, "name": names_beside_emails}
    structured = Structured(*(spy(*one) for one in finders.items()))
    for text, n in (
        *(("nothing at all, 415 555 0134", 0), ("mail a@b.example, no digits 1 2 3", 0), (BLOCK, 4)),
        *(("mail a@b.example on 2024-11-03, 17:05", 2), ("mail a@b.example, tel. (415) 555-0134", 3)),
    ):
        asked.clear()
        told(text, structured)
        assert asked == [*finders][:n]


def test_faker_people_are_found_again() -> None:
    fake = Faker("en_US")
    fake.seed_instance(7)
    n_found = 0
    for _ in range(40):
        name = f"{fake.first_name()} {fake.last_name()}"
        mail, number = fake.email(), fake.numerify("(415) 555-01##")
        place = f"{fake.building_number()} {fake.street_name()}\n{fake.city()}, {fake.state_abbr(False)} 62704"
        text = f"{fake.paragraph()}\n\n{name} <{mail}>\n{number}\n{place}\n\n{fake.paragraph()}"
        for one in told(text):
            assert (one.name, one.email, one.phone) == (name, mail, number)
            assert one.address == place.replace("\n", ", ")
            n_found += 1
    assert n_found >= 36
