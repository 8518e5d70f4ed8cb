"""Where names are from, and the names that stand in their place."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

import pytest
from faker import Faker

from leakmeter.text.folding import unaccented
from leakmeter.text.surrogates import person
from leakmeter.text.surrogates.origins import LOCALES, names_of, near, origin_of


@pytest.mark.parametrize(
    ("name", "relative", "locale"),
    [
        *(("Rohan Deshmukh", "Sunita Deshmukh", "en_IN"), ("Chiara Bianchi", "Rocco Bianchi", "it_IT")),
        *(("Lucía Herrero", "Ignacio Herrero", "es_ES"), ("Zeynep Yılmaz", "Mehmet Yilmaz", "tr_TR")),
        *(("Anna Kowalska", "Jan Kowalski", "pl_PL"), ("Ngozi Okafor", "Chinedu Okafor", "ig_NG")),
        *(
            ("Анна Иванова", "Пётр Иванов", "ru_RU"),
            ("김민수", "김철수", "ko_KR"),
            ("Lars Hansen", "Ole Hansen", "da_DK"),
        ),
        # Of a name that both have, the other person's decides; of another's name, that name.
        *(("Ishani Deshmukh", "Ethan Deshmukh", "en_IN"), ("John Smith", "Priya Sharma", "en_IN")),
        ("Brittany Mendoza", "James Mendoza", "en_US"),
    ],
)
def test_names_are_from_where_their_words_are(name: str, relative: str, locale: str) -> None:
    own = name.split()
    assert origin_of([word for word in relative.split() if word not in own] or [relative], own, "US") in near(locale)


def test_the_region_decides_between_places_that_have_the_same_names() -> None:
    for region, locale in (("US", "en_US"), ("GB", "en_GB"), ("DE", "de_DE")):
        assert origin_of(["Thomas"], ["Anna", "Becker"] if region == "DE" else ["Emma", "Cox"], region) == locale
    # A name in no table is from where such letters are.
    assert origin_of(["Brzeszczyński"], [], "US") == "pl_PL"
    assert origin_of(["Giacomantonelli"], [], "US") == "it_IT"
    assert origin_of([], [], "US") == "en_US"


@pytest.mark.parametrize("locale", ["en_US", "en_IN", "it_IT", "es_ES", "de_DE", "fr_FR", "pl_PL", "tr_TR", "ru_RU"])
def test_most_names_that_are_drawn_in_a_place_are_known_to_be_of_it(locale: str) -> None:
    fake = Faker(locale)
    fake.seed_instance(5)
    found = [origin_of([fake.first_name_male()], [fake.first_name_female(), fake.last_name()], "US") for _ in range(60)]
    assert sum(one in near(locale) for one in found) >= 55  # worst measured: 57


def test_tables_have_names_of_one_word_and_no_placeholders() -> None:
    assert len(set(LOCALES)) == len(LOCALES) > 50
    for locale in LOCALES:
        names = names_of(locale)
        assert "Doe" not in names.surnames
        assert len(names.any) >= 30
        assert not any(" " in name for name in (*names.any, *names.surnames))
        assert names.given("male")
        assert names.given("female")
    assert [names_of(locale).is_ranked for locale in ("en_US", "de_DE", "sv_SE")] == [True, False, True]
    assert unaccented("IŞIL") == unaccented("ışıl") == "isil"


@pytest.mark.parametrize(
    ("name", "relative", "locale"),
    [
        *(("Weiting Hsu", "Jianhua Hsu", "zh_Latn_CN"), ("Haruka Tanabe", "Kenji Tanabe", "ja_Latn_JP")),
        *(("Jiwoo Bae", "Sangho Bae", "ko_Latn_KR"), ("Anna Belyakova", "Dmitry Belyakov", "ru_Latn_RU")),
        *(("Omar Al-Rashid", "Khalid Al-Rashid", "ar_Latn_AE"), ("Eleni Pappas", "Stavros Pappas", "el_Latn_GR")),
        *(("Reza Hosseini", "Kourosh Hosseini", "fa_Latn_IR"), ("Shira Peled", "Avraham Peled", "he_Latn_IL")),
        # The given name says more than the surname does: these are usual in the United States.
        *(("Sarah Kim", "David Kim", "en_US"), ("Emily Chang", "Brian Chang", "en_US")),
    ],
)
def test_names_in_latin_letters_are_from_where_their_words_are(name: str, relative: str, locale: str) -> None:
    own = name.split()
    assert origin_of([word for word in relative.split() if word not in own], own, "US") == locale
    assert person.has_known_origin(relative, name, "US")


@pytest.mark.parametrize(
    ("relative", "name", "is_known"),
    [
        *(("Jianguo Zhang", "Weiming Zhang", True), ("Zqorvim Zhang", "Weiming Zhang", False)),
        # No place has both words; none has a word of the other person's; a name in two parts has other forms.
        *(("Jianguo Smith", "Anna Cox", False), ("John Wruxpo", "Zqelda Wruxpo", False)),
        *(
            ("Min-ho Kim", "Jiwoo Kim", False),
            ("Ji-Woo Kim", "Minho Kim", False),
            ("Jean-Pierre Petit", "Léa Roy", True),
        ),
        # What both have, titles, initials and particles stay as they are.
        *(("John Wruxpo", "Anna Wruxpo", True), ("Dr. John Q. Wruxpo", "Anna Wruxpo", True)),
        *(("Khalid Al-Rashid", "Omar Haddad", True), ("王小明", "王伟", True), ("Пётр Иванов", "Анна Иванова", True)),
        *(("Петя Зквормский", "Анна Иванова", False), ("John Smith", "", True), ("Zqelda Wruxpo", "", False)),
    ],
)
def test_an_origin_is_known_where_tables_have_the_words(relative: str, name: str, *, is_known: bool) -> None:
    assert person.has_known_origin(relative, name, "US") == is_known


def test_surnames_in_latin_letters_are_spelled_by_schemes() -> None:
    russian, greek = (set(names_of(locale).surnames) for locale in ("ru_Latn_RU", "el_Latn_GR"))
    assert {"Zhukov", "Shcherbakov", "Belyakova", "Khokhlov", "Solovev", "Tsvetkov", "Tretyakov"} <= russian
    assert {"Angelakos", "Papadopoulos", "Balaskas", "Avgoustis", "Oikonomou"} <= greek
    assert all(name.isascii() for name in russian | greek)


def test_a_surname_of_a_gender_has_others_of_it() -> None:
    for value, name, end in (("Irina Belova", "Oleg Petrov", "a"), ("Stavros Galanis", "Eleni Pappa", "s")):
        for some in drawn(value, name, "friend"):
            assert all(decoy.endswith(end) for decoy in some)
            assert len({decoy.split()[1] for decoy in some}) > 10


def drawn(value: str, name: str, kind: str, region: str = "US", n: int = 60) -> Sequence[set[str]]:
    return [{draw(random.Random(i)) for i in range(n)} for draw in person.drawers(value, name, kind, region)]


def test_relatives_decoys_are_from_where_the_person_is() -> None:
    first, *_ = drawn("Virgilio Guarana", "Laura Guarana", "father")
    given = {decoy.split()[0] for decoy in first}
    assert given <= set(names_of("it_IT").male)
    assert all(decoy.endswith(" Guarana") for decoy in first)
    # Where a place has few names, others of its language follow.
    *_, last = drawn("Anselmo Ortiz", "Lucía Ortiz", "brother")
    spanish = {name for locale in near("es_ES") for name in names_of(locale).male}
    assert {decoy.split()[0] for decoy in last} <= spanish
    # A second surname is one.
    for decoy in drawn("Ignacio Herrero Gallego", "Lucía Ortiz", "friend")[0]:
        _, *surnames = decoy.split()
        assert set(surnames) <= set(names_of("es_ES").surnames)


@pytest.mark.parametrize("locale", LOCALES)
def test_a_name_in_no_table_has_decoys_in_every_place(locale: str) -> None:
    names = names_of(locale)
    unknown, surname = (names.any[-1] * 2).capitalize(), names.surnames[-1]
    for kind in ("father", "mother", "friend"):
        for some in drawn(f"{unknown} {surname}", f"{names.any[0]} {surname}", kind, locale.rpartition("_")[2], 20):
            assert len(some) > 5


def test_a_surname_in_another_form_stays_as_it_is() -> None:
    for value, name, kind in (
        *(("Jan Kowalski", "Anna Kowalska", "father"), ("Пётр Иванов", "Анна Иванова", "father")),
        *(("Mehmet Yilmaz", "Zeynep Yılmaz", "father"), ("Jose Nunez", "María Núñez", "brother")),
    ):
        for some in drawn(value, name, kind):
            assert all(decoy.split()[1] == value.split()[1] for decoy in some)
            assert len(some) > 10
    # One that is another's only in how it begins does not.
    assert len({decoy.split()[1] for decoy in drawn("Anna Martinelli", "Lara Martini", "aunt")[0]}) > 10


def test_names_written_as_one_run_keep_the_surname_that_both_have() -> None:
    (both,) = drawn("王小明", "王伟", "father")
    assert all(re.fullmatch(r"王\w{1,2}", decoy) for decoy in both)
    assert len(both) > 10
    (other,) = drawn("李小明", "王伟", "friend")
    assert len({decoy[0] for decoy in other}) > 10
    (korean,) = drawn("김철수", "김민수", "father")
    assert all(decoy.startswith("김") for decoy in korean)
