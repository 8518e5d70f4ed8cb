"""Names in the letters of another script are the names that they are."""

from __future__ import annotations

import time

import pytest

from leakmeter.text.entities import values
from leakmeter.text.entities.transliterated import places
from leakmeter.text.matching import Folded

NAMES = [
    ("Иван Петров", "Ivan Petrov"), ("Никита Хрущёв", "Nikita Khrushchev"), ("Юлия Тимошенко", "Yulia Tymoshenko"),
    ("Сергей Сорокин", "Sergey Sorokin"), ("Сергей Сорокин", "Sergej Sorokin"), ("Мария Чехова", "Mariya Chekhova"),
    ("Γιώργος Παπαδόπουλος", "Giorgos Papadopoulos"), ("محمد خالد", "Mohammed Khalid"),
    ("محمد خالد", "Muhammad Khaled"), ("عمر الرشيد", "Omar al-Rashid"), ("فاطمة حسن", "Fatimah Hassan"),
]  # fmt: skip


@pytest.mark.parametrize(("own", "latin"), NAMES)
def test_a_name_is_known_in_both_scripts(own: str, latin: str) -> None:
    for text, said, name in ((f"We met {latin} there.", latin, own), (f"({own}) 1984", own, latin)):
        assert [text[start:end] for start, end in places(text, name)] == [said]
        # So the document that says it is a source.
        place = Folded(text).where(name)
        assert place is not None
        assert text[slice(*place)] == said


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("We met Ivan Petrenko there.", "Иван Петров"), ("Petrov, and then Ivan", "Иван Петров"),
        ("We met Ivan Petrov there.", "Ivan Petrov"), ("The mad man came.", "محمد"), ("I van it", "Иван"),
        ("We met Ali there.", "علي"), ("", "Иван"), ("Иван", ""), ("Ivan", "Иван" * 50),
    ],
)  # fmt: skip
def test_other_names_and_short_ones_are_not(text: str, name: str) -> None:
    assert list(places(text, name)) == []


@pytest.mark.parametrize(
    ("document", "answer", "name"),
    [
        ("Пациент: Иван Петров, тел. 555.", "Call mr Ivan Petrov at once.", "Ivan Petrov"),
        ("Пациент: Иван Петров, тел. 555.", "It was Petrov who called.", "Petrov"),
        ("Patient: Ivan Petrov, phone 555.", "Звонил Иван Петров сегодня.", "Иван Петров"),
    ],
)
def test_a_person_of_the_documents_is_one_in_the_answer(document: str, answer: str, name: str) -> None:
    found = values.find(answer, document, "", region="US")
    assert [(value.type, answer[value.start : value.end]) for value in found] == [("person", name)]


def test_hostile_texts_take_linear_time() -> None:
    def seconds(n: int) -> float:
        began = time.process_time()
        list(places("an " * n, "ан ан ан ан ан"))
        list(places("ан " * n + "x", "an " * 30))
        list(places("a" * 3 * n, "Иван Петров"))
        return time.process_time() - began

    seconds(100)
    assert seconds(80_000) < 20 * max(seconds(10_000), 1e-3)
