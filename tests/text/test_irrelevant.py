"""Irrelevant texts are in the language and the form of an answer."""

from __future__ import annotations

import json

import pytest

from leakmeter.text.irrelevant import LANGUAGES, form_of, irrelevant_text, language_of

ANSWERS = {
    "en": "The meeting is on Monday, and you are invited.",
    "de": "Der Termin ist am Montag, und du bist eingeladen.",
    "fr": "La réunion est lundi et vous êtes dans la liste.",
    "es": "La reunión es el lunes y usted está en la lista.",
    "it": "La riunione è lunedì e il suo nome non è nella lista.",
    "pt": "A reunião é na segunda-feira e o seu nome não está na lista.",
    "nl": "De vergadering is op maandag en je staat niet op de lijst.",
    "pl": "Spotkanie jest w poniedziałek i nie ma go na liście.",
    "tr": "Toplantı pazartesi günü ve bu liste için bir davet var.",
    "ru": "Встреча в понедельник, и вы в списке.",
    "zh": "会议在星期一举行，您在名单上。",
    "ja": "会議は月曜日に行われ、あなたは名簿にあります。",
}


def test_languages_are_told_apart() -> None:
    assert {language: language_of(text) for language, text in ANSWERS.items()} == {name: name for name in LANGUAGES}
    assert {name: language_of(irrelevant_text(name, "prose")) for name in LANGUAGES} == {n: n for n in LANGUAGES}
    assert [language_of(text) for text in ("", "12345", "Ωμέγα", "Anna Ek (東)")] == ["en"] * 4
    # Of a short answer what it was asked, and what it was written from, tell too; of a longer one they do not.
    assert [language_of("I do not know.", beside) for beside in ("", "Who was at the harbour?")] == ["pl", "en"]
    assert language_of("Nie.", "Czy to jest nasz dom?") == "pl"
    assert language_of(ANSWERS["de"], irrelevant_text("en", "prose")) == "de"


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_every_form(language: str) -> None:
    prose, listed, record = (irrelevant_text(language, form) for form in ("prose", "list", "json"))
    assert [form_of(text) for text in (prose, listed, record)] == ["prose", "list", "json"]
    assert len(json.loads(record)["items"]) == 5
    assert listed.count("\n") == 4


def test_forms_are_told_apart() -> None:
    assert form_of("1. One\n2. Two\n3. Three") == "list"
    assert form_of("Well:\n- one\n- two\nthat is all\nand more\nof it") == "prose"
    assert form_of('{"a": 1}') == "json"
    assert [form_of(text) for text in ("[see below]", "", "[" * 100_000 + "]")] == ["prose"] * 3
