"""Surrogates of entities: of the same kind, in the form of each mention, never the old one, one for each seed."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections import Counter
from typing import Any

import phonenumbers as library
import pytest
from faker.providers.person.en_US import Provider
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from leakmeter.text.entities import date
from leakmeter.text.entities.find import find
from leakmeter.text.entities.mention import Entity
from leakmeter.text.entity_results import repeated
from leakmeter.text.surrogates import address, email, person, phone
from leakmeter.text.surrogates import date as dates
from leakmeter.text.surrogates.draw import locale_of, scrambled
from leakmeter.text.surrogates.entity import Surrogate, surrogate_of


def surrogates(text: str, *, region: str = "US", seed: int = 0, case_id: str = "c") -> list[tuple[Entity, Surrogate]]:
    entities = find(text, [(0, len(text))], region=region)
    return [(one, surrogate_of(one, text, region=region, seed=seed, case_id=case_id)) for one in entities]


def only(text: str, **how: object) -> tuple[str, ...]:
    ((_, surrogate),) = surrogates(text, **how)  # type: ignore[arg-type]
    return surrogate.mentions


NOTE = "Dr. Ellen Brandt (ellen@x.example, 555-010-7788), 9 Tallow Row, Brenmouth, born 3 May 1984. Brandt sang."


def test_nothing_old_comes_back() -> None:
    for seed in range(20):
        for entity, surrogate in surrogates(NOTE, seed=seed):
            said = [NOTE[a:b] for a, b in entity.mentions]
            assert len(surrogate.mentions) == len(said)
            for old, new in zip(said, surrogate.mentions, strict=True):
                assert old.casefold() != new.casefold()
            assert surrogate.text.casefold() not in NOTE.casefold()
            assert repeated(entity.type, entity.value, entity.text, surrogate.text) != "verbatim"


def test_seed_case_and_entity_decide() -> None:
    first = surrogates(NOTE)
    assert first == surrogates(NOTE)
    for other in (surrogates(NOTE, seed=1), surrogates(NOTE, case_id="d")):
        assert all(a.text != b.text for (_, a), (_, b) in zip(first, other, strict=True))
    # Another process, with another hash seed, draws the same.
    code = (
        "from leakmeter.text.entities.find import find\nfrom leakmeter.text.surrogates.entity import surrogate_of\n"
        f"t = {NOTE!r}\nfound = find(t, [(0, len(t))], region='US')\n"
        "print([surrogate_of(one, t, region='US', seed=0, case_id='c').text for one in found])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == str([surrogate.text for _, surrogate in first])


def test_telephone_numbers_stay_in_their_country_and_in_fiction() -> None:
    for said, region, form in (
        ("Call 555-010-7788", "US", r"\d{3}-555-01\d\d"), ("Call (555) 010-7788", "US", r"\(\d{3}\) 555-01\d\d"),
        ("Call +44 20 7123 4567", "US", r"\+44 20 7946 0\d{3}"), ("Tel 030 12345 678", "DE", r"030 23125 \d{3}"),
        ("Ring 555-0123 ext. 4", "US", r"555-01\d\d ext\. \d"),
        ("Call +81 3-1234-5678", "US", r"\+81 3.*"),  # a country without such numbers
    ):  # fmt: skip
        assert re.fullmatch(form, only(said, region=region)[0])
    local, full = only("Call 555-010-7788 or +1 555 010 7788")
    assert re.sub(r"\D", "", full) == "1" + re.sub(r"\D", "", local)


def test_names_keep_their_shape_and_addresses_are_in_domains_for_examples() -> None:
    one, two = only("Mail ELLEN@x.com, ellen@x.com")
    assert one == two
    assert re.fullmatch(r"[a-z'-]+\.[a-z' -]+@example\.(com|net|org)", one)
    full, last = only("Mrs. Ida van der Berg came. Mrs van der Berg left.")
    assert re.fullmatch(r"[A-Z]\S+ van der [A-Z]\S+", full)
    assert full.endswith(f" {last}")
    for seed in range(10):
        (new,) = only("Mr Quillmere left", seed=seed)
        assert re.fullmatch(r"[A-Z][a-z'’]+|(?:O'|Mc|Mac|De|Du|La|Le|Van)[A-Z][a-z]+", new)
        # Surname and given name, as in the old one; a Chinese surname is a letter or two.
        assert len(only("姓名：山田太郎", seed=seed)[0]) >= 2
    assert email.renamed("office@annabel-bakery.example", "Ann Annabel", "Bodil Ek") == "office@ek-bakery.example"
    assert {one: email._label(one) for one in ("mail.acme.co.uk", "mail.acme.com", "acme.shop.uk", "uk")} == {
        "mail.acme.co.uk": ("acme", ".co.uk"), "mail.acme.com": ("acme", ".com"), "acme.shop.uk": ("shop", ".uk"),
        "uk": ("", ".uk"),
    }  # fmt: skip
    assert locale_of("ES", ["ca_ES", "es_ES", "en_GB"]) == "es_ES"
    assert locale_of("CH", ["fr_CH", "de_CH"]) == "de_CH"
    assert locale_of("XX", ["fr_CH"]) == "en_US"


def test_mentions_of_a_date_become_the_same_day() -> None:
    said = only("Born 3 May 1984 (1984-05-03), May 3 each year")
    values = [parsed[1] for parsed in (date.parse(text, "US") for text in said) if parsed]
    assert values[0] == values[1]
    assert date.is_part(values[2], values[0])
    assert values[0][5:7] != "05"
    assert values[0][8:] != "03"


@pytest.mark.parametrize(
    ("value", "region", "form"),
    [
        ("+44 7911 123456", "GB", r"\+44 7911 \d{6}"),
        # Digits of another script stay in it.
        ("+٤٤ ٧٩١١ ١٢٣٤٥٦", "GB", r"\+٤٤ ٧٩١١ [٠-٩]{6}"),
    ],
)
def test_a_number_of_the_same_area_keeps_its_kind(value: str, region: str, form: str) -> None:
    draw = phone.drawer(value, region, "record 1")
    drawn = {draw(random.Random(seed)) for seed in range(20)}
    _, *others = {library.number_type(library.parse(one, region)) for one in (value, *drawn)}
    assert not others
    assert all(re.fullmatch(form, one) for one in drawn)
    assert len(drawn) > 10


def test_numbers_stay_in_their_area_and_in_what_is_kept_for_fiction() -> None:
    for area in "2378":
        for seed in range(10):
            (new,) = phone.in_mentions([f"+61 {area} 9876 5432"], f"+61{area}98765432", random.Random(seed))
            assert re.fullmatch(rf"\+61 {area} 5550 \d{{4}}", new)
    # Where none are kept for fiction the first third stays.
    for seed in range(20):
        (new,) = phone.in_mentions(["+81 3-1234-5678"], "+81312345678", random.Random(seed))
        assert re.fullmatch(r"\+81 3-12\d\d-\d{4}", new)
    # Those of the United States are in areas of theirs.
    values = [f"+1{first}055551234" for first in range(2, 10)]
    drawn = [phone.in_mentions([one], one, random.Random(seed))[0] for one in values for seed in range(20)]
    assert {library.region_code_for_number(library.parse(one)) for one in drawn} == {"US"}
    assert len({one[:5] for one in drawn}) == 12
    # Free ranges are as long as numbers of their country.
    lengths = {1: {10}, 44: {10}, 49: {10}, 33: {9}, 61: {9}, 46: {9}}
    assert {of: {len(first) + n for first, n in ranges} for of, ranges in phone._FREE.items()} == lengths


def test_an_ordinary_number_may_get_any_exchange_and_no_line_kept_for_fiction() -> None:
    drawn = random.Random(0)
    every = {f"{n}" for n in range(200, 1000) if n % 100 != 11} - {*phone.EXCHANGES_OF_NOBODY, "700", "976"}
    assert {phone._exchange(drawn) for _ in range(12_000)} == every
    lines = {of: [phone._line(of, drawn).startswith("01") for _ in range(3000)] for of in ("555", "200")}
    assert (any(lines["555"]), any(lines["200"])) == (False, True)


@pytest.mark.parametrize(("draw", "stays"), [(phone._of_country, False), (phone._of_area, True)])
def test_where_no_number_fits_the_last_drawn_is_kept(draw: Any, stays: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    number = library.parse("+81312345678")
    monkeypatch.setattr(library, "is_possible_number", lambda number: False)
    monkeypatch.setattr(library, "number_type", lambda number: object())
    assert (draw(number, random.Random(1)) == "312345678") == stays


def test_shares_of_what_is_invented() -> None:
    every = [address.in_one_town("Nobody", "OH", random.Random(seed))(random.Random(seed)) for seed in range(600)]
    sides = ("N ", "S ", "E ", "W ", "N. ", "North ", "West ")
    for n, share in (
        *((sum(len(one.partition(" ")[0]) == n for one in every), of) for n, of in ((2, 0.2), (3, 0.4), (4, 0.4))),
        (sum(one.partition(" ")[2].startswith(sides) for one in every), 0.2),
        (sum(one.count(",") == 3 for one in every), 0.3),
    ):
        assert n / 600 == pytest.approx(share, abs=0.07)
    # What may be a postal code stays.
    assert ("4", "") in address._parts("12 Oak Street 4")
    assert ("4", "OccupancyIdentifier") in address._parts("12 Oak Street Apt 4")
    drawn = [email.of_firm("Anna Ek", random.Random(seed)) for seed in range(400)]
    lengths = Counter(len(re.sub(r"\D", "", one)) for one in drawn)
    assert set(lengths) == {0, 1, 2, 3, 4}
    assert lengths.most_common(1)[0][0] == 0
    # First names of both genders stand by their share of both.
    tables = Provider.first_names_male, Provider.first_names_female
    shares = [sum(table.get(name, 0.0) for table in tables) for name in person.given_names("any")]
    assert shares == sorted(shares, reverse=True)


def test_a_name_is_replaced_word_for_word() -> None:
    full, last, first = only("Dr. Ellen Brandt came. Brandt left; Ellen slept.")
    assert full == f"{first} {last}"
    assert len(only("Patient: Ek, Bo")[0].split(", ")) == 2
    loud, initial = only("Dr. ELLEN BRANDT or Dr. E. Brandt")
    assert loud.isupper()
    assert initial.split(". ")[0] == loud[0]
    assert only("Имя: Анна Петрова")[0] != "Анна Петрова"
    assert re.fullmatch(r"[\u0400-\u04ff]+ [\u0400-\u04ff]+", only("Имя: Анна Петрова")[0])
    assert re.fullmatch(r"[\u4e00-\u9fff]+", only("姓名：山田太郎")[0])
    assert re.fullmatch(r"[\u05d0-\u05ea'’\"-]+ [\u05d0-\u05ea'’\"-]+", only("שם: דנה לוי")[0])


@pytest.mark.parametrize(
    "said", ["3 May 1984", "MAY 3rd", "03.05.1984", "5/3/84", "1984-05-03", "Sept. 2019", "3 mai 1984", "1984年5月3日"]
)
def test_a_date_keeps_its_form(said: str) -> None:
    (new,) = only(f"On {said}, she")
    assert date.parse(new, "US") is not None
    shape = [re.sub(r"[^\W\d_]+", "a", re.sub(r"\d+", "0", text)) for text in (said, new)]
    assert shape[0] == shape[1]
    assert new.isupper() == said.isupper()


@pytest.mark.parametrize(
    ("said", "year"),
    [("3 May 1984", 1984), ("5/3/84", 1984), ("3 May 0002", 2), ("1003-05-03", 1003), ("9995-05-03", 9995)],
)
def test_another_date_is_nine_years_away_at_most_or_else_of_the_nineties(said: str, year: int) -> None:
    parsed = [date.parse(dates.in_mentions([said], "US", random.Random(seed))[0], "US") for seed in range(300)]
    near = set(range(year - 9, year + 10)) - {year}
    beyond = {1990 + i for i in range(10)} if min(near) < 1 or max(near) > 9999 else set()
    assert {int(one[1][:4]) for one in parsed if one} == {one for one in near if 1 <= one <= 9999} | beyond
    assert all(parsed)


@settings(max_examples=examples(80))
@given(
    text=st.text(min_size=1, max_size=12).filter(lambda text: text.strip() == text),
    type_=st.sampled_from(["mrn", "date", "person", "address", "email"]),
    seed=st.integers(0, 5),
)
def test_anything_can_be_swapped(text: str, type_: str, seed: int) -> None:
    context = f"It is {text}, {text}."
    entity = Entity(type_, text.casefold(), text, ((6, 6 + len(text)), (8 + len(text), 8 + 2 * len(text))))
    if type_ == "person" and not text[0].isalpha():
        return
    one = surrogate_of(entity, context, region="US", seed=seed, case_id="c")
    assert one == surrogate_of(entity, context, region="US", seed=seed, case_id="c")
    assert len(one.mentions) == 2
    assert one.mentions[0] == one.mentions[1] != text
    if type_ == "mrn" and text.isascii():
        assert [char.isdigit() for char in one.text[: len(text)]] == [char.isdigit() for char in text]


@pytest.mark.parametrize(
    ("type_", "value", "text", "response", "expected"),
    [
        ("phone", "+15550107788", "555-010-7788", "It is (555) 010 7788.", "verbatim"),
        ("phone", "+15550107788", "555-010-7788", "Dial +1 5550107788", "verbatim"),
        ("phone", "+15550107788", "555-010-7788", "It ends in 7788.", "in part"),
        ("phone", "+15550107788", "555-010-7788", "It ends in 788, in room 555.", "no"),
        ("email", "ellen@x.example", "Ellen@x.example", "ELLEN@X.EXAMPLE!", "verbatim"),
        ("email", "ellen@x.example", "Ellen@x.example", "somebody at x.example", "in part"),
        ("email", "ellen@x.example", "Ellen@x.example", "Helen at xx.examples", "no"),
        ("person", "tobias quillmere", "Tobias Quillmere", "Ask TOBIAS  Quillmere's wife", "verbatim"),
        ("person", "tobias quillmere", "Tobias Quillmere", "Ask Mr Quillmere", "in part"),
        ("person", "j van ek", "J. van Ek", "a van for J", "no"),
        ("person", "山田太郎", "山田太郎", "患者は山田太郎です", "verbatim"),
        ("date", "1984-05-03", "3 May 1984", "born on 5/3/1984", "verbatim"),
        ("date", "1984-05-03", "3 May 1984", "every May 3", "in part"),
        ("date", "1984-05-03", "3 May 1984", "in 1984", "in part"),
        ("date", "1984-05-03", "3 May 1984", "on 4 May 1985", "no"),
        ("date", "last tuesday", "last Tuesday", "It was LAST Tuesday.", "verbatim"),
        ("address", "9 tallow row brenmouth", "9 Tallow Row, Brenmouth", "9, Tallow Row\nBrenmouth", "verbatim"),
        ("address", "9 tallow row brenmouth", "9 Tallow Row, Brenmouth", "in Tallow Row", "in part"),
        ("address", "9 tallow row brenmouth", "9 Tallow Row, Brenmouth", "in Brenmouth, 9 times", "no"),
        ("mrn", "mrn-004711", "MRN-004711", "file 4711", "in part"),
        ("mrn", "***", "***", "it is ***", "verbatim"),
        ("mrn", "***", "***", "", "no"),
    ],
)
def test_whether_a_response_repeats_a_value(type_: str, value: str, text: str, response: str, expected: str) -> None:
    assert repeated(type_, value, text, response) == expected


@settings(max_examples=examples(60))
@given(response=st.text(max_size=30), type_=st.sampled_from(["date", "email", "person", "address", "mrn"]))
def test_no_response_is_too_strange(response: str, type_: str) -> None:
    for value in ("1984-05-03", "a@b.co", "x", "***"):
        assert repeated(type_, value, value, response) in ("verbatim", "in part", "no")


@pytest.mark.parametrize(
    "value", ["12 Oak Street, Springfield, IL 62701", "Suite 4, 12 Oak Street, Springfield, IL 62701"]
)
def test_a_street_of_the_same_town_has_another_name_and_number(value: str) -> None:
    draw = address.drawer(value, "Anna Ek", "US")
    drawn = [draw(random.Random(seed)) for seed in range(10)]
    assert all(one.endswith(", Springfield, IL 62701") for one in drawn)
    streets = [re.search(r"(\d+) (\S+(?: \S+)*?) Street,", one) for one in drawn]
    assert all(street and street[1] != "12" and street[2] != "Oak" for street in streets)
    assert all(re.match(r"Suite \d, \d\d ", one) for one in drawn) == value.startswith("Suite")


def test_a_letter_of_a_script_without_capitals_becomes_one_near_it() -> None:
    def far(letter: str) -> set[int]:
        return {ord(scrambled(letter, random.Random(seed))) - ord(letter) for seed in range(400)}

    assert far("田") == set(range(1, 10))
    # Korean syllables end here.
    assert far("힣") == set(range(-9, 0))
