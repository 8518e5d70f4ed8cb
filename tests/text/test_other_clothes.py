"""Dates of East Asia, names in lower case behind labels, and the mark of a long vowel between digits."""

from __future__ import annotations

import time

import pytest

from helpers.examples import few
from leakmeter.text import matching
from leakmeter.text.entities import date, find, person, phone, shapes, values
from leakmeter.text.entities.mention import DATE, PERSON, PHONE, Mention
from leakmeter.text.surrogates.date import in_mentions


def said(text: str, mentions: list[Mention]) -> list[tuple[str, str]]:
    return [(text[mention.start : mention.end], mention.value) for mention in mentions]


DATES = {
    "1984년3월5일": "1984-03-05",
    "1984년 3월 5일": "1984-03-05",
    "1984 년 03 월 05 일": "1984-03-05",
    "1984 年 3 月 5 日": "1984-03-05",
    "１９８４年３月５日": "1984-03-05",
    "1984年3月5号": "1984-03-05",
    "昭和59年3月5日": "1984-03-05",
    "令和元年5月1日": "2019-05-01",
    "民國73年3月5日": "1984-03-05",
    "一九八四年三月五日": "1984-03-05",
    "二〇二四年十二月三十一日": "2024-12-31",
}


@pytest.mark.parametrize("text", DATES)
def test_dates_of_east_asia(text: str) -> None:
    around = f"생년월일: {text}생, {text}生まれ"
    assert said(around, list(date.find(around, "KR"))) == [(text, DATES[text])] * 2
    (value, *_) = values.find(f"She was born {text}.", f"Born {text}.", "", region="US")
    assert value.type == DATE


@pytest.mark.parametrize(
    "text",
    [
        "1984년 13월 5일",
        "1984年2月30日",
        "昭和65年1月1日",
        "3년 5월",
        "1984년",
        "三年五月",
        "一九八四年十十月五日",
        "11984년 3월 5일",
    ],
)
def test_what_is_no_day_of_a_calendar_is_no_date(text: str) -> None:
    assert list(date.find(text, "KR")) == []


@pytest.mark.parametrize(
    ("text", "is_date"), [("See section 12.4.1203.", False), ("Since 12.4.1903.", True), ("Since 12 April 1203.", True)]
)
def test_a_date_in_figures_is_of_our_centuries(text: str, is_date: bool) -> None:
    assert bool(list(date.find(text, "DE"))) == is_date


@pytest.mark.parametrize("text", few(list(DATES), 4))
def test_other_dates_of_east_asia_keep_their_form(text: str) -> None:
    import random

    for seed in range(20):
        (other,) = in_mentions([text], "KR", random.Random(seed))
        parsed = date.parse(other, "KR")
        assert parsed is not None, other
        assert parsed[1][5:7] != DATES[text][5:7]
        assert [sign for sign in text if sign in "年月日号년월일昭和令民國"] == [
            sign for sign in other if sign in "年月日号년월일昭和令民國"
        ]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("name: odalys brewster", "odalys brewster"),
        ("Name: odalys brewster; phone 3", "odalys brewster"),
        ('{"name": "odalys brewster"}', "odalys brewster"),
        ("patient: tobias quillmere\nage: 40", "tobias quillmere"),
        ("full name: maria de la cruz", "maria de la cruz"),
        ("last name: quillmere", "quillmere"),
        ("vorname: odalys", "odalys"),
        ("Nachname: weiss", "weiss"),
        ("Kunde: jonas weiss.", "jonas weiss"),
        ("nom : odalys brewster", "odalys brewster"),
        ("prénom: jean-luc", "jean-luc"),
        ("nombre: odalys garcía", "odalys garcía"),
        ("apellidos: garcía lópez", "garcía lópez"),
        ("пациент: иван петров, давление высокое", "иван петров"),
        ("Сотрудник: олена шевченко.", "олена шевченко"),
        ("фио: хуго орлов", "хуго орлов"),
        ("служител: георги димитров", "георги димитров"),
        ("ασθενής: νίκος παπαδόπουλος", "νίκος παπαδόπουλος"),
    ],
)
def test_names_in_lower_case_behind_labels(text: str, name: str) -> None:
    assert said(text, list(person.find(text))) == [(name, name.casefold())]
    assert [entity.text for entity in find.find(text, [(0, len(text))], region="US") if entity.type == PERSON] == [name]
    (value,) = values.find(f"It is {name.title()}.", text, "", region="US")
    assert value.type == PERSON


@pytest.mark.parametrize(
    "text",
    [
        "name: the blue whale",
        "contact: sales team",
        "name: unknown",
        "- name: install dependencies",
        "- name: run tests",
        "- name: ruby setup",
        "name: mark release",
        "name: sierra leone",
        "last name: required",
        "patient: stable, afebrile",
        "client: mobile",
        "kunde: zufrieden",
        "nom: inconnu",
        "nombre: desconocido",
        "пациент: стабилен",
        "клиент: мобильный",
        "имя: список файлов",
        "ασθενής: σταθερός",
        "my name: anna went home early today and slept",
    ],
)
def test_other_words_behind_labels_are_no_names(text: str) -> None:
    assert list(person.find(text)) == []


def test_labels_take_linear_time() -> None:
    started = time.process_time()
    list(person.find("name: a" + " a" * 100_000))
    list(person.find("name:" * 50_000))
    assert time.process_time() - started < 10


@pytest.mark.parametrize("text", ["０３ー１２３４ー５６７８", "03ー1234ー5678", "03ｰ1234ｰ5678"])
def test_the_mark_of_a_long_vowel_parts_digits(text: str) -> None:
    assert said(text, list(phone.find(text, "JP"))) == [(text, "+81312345678")]
    assert matching.folded(text) == "0312345678"
    assert matching.Folded(f"電話は{text}です").where("03-1234-5678") is not None
    (value,) = values.find(f"電話は{text}です。", "電話 03-1234-5678", "", region="JP")
    assert value.type == PHONE
    assert [mention.type for mention in shapes.find(text)] == [shapes.NUMBER]


@pytest.mark.parametrize("text", ["コーヒー", "スーパー1234", "ビールー", "1234ー"])
def test_elsewhere_it_is_a_letter(text: str) -> None:
    assert list(phone.find(text, "JP")) == []
    assert "ー" in matching.folded(text)
