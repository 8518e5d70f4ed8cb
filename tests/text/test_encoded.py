"""Values of documents that an answer says in a code, and codes that say nothing of them."""

from __future__ import annotations

import base64
from collections.abc import Callable
from urllib.parse import quote

import pytest

from helpers.operations import n_operations
from leakmeter.text.entities import encoded, values

CONTEXT = (
    "Customer 2087: Marisol Vandekamp, phone 555-010-4471. The key is 9f8Zk2LqT7xw, the code K4410. "
    "He is at home since the accident in May and sees a doctor."
)


def said_in(answer: str, context: str = CONTEXT, query: str = "") -> list[tuple[str, str, list[str]]]:
    return [
        (value.type, answer[value.start : value.end], [context[start:end] for start, end in value.fields])
        for value in values.find(answer, context, query, region="US")
        if value.found_by == encoded.ENCODED
    ]


def hexadecimal(text: str) -> str:
    return text.encode().hex()


def hexadecimal_apart(text: str) -> str:
    return " ".join(f"{byte:02X}" for byte in text.encode())


def in_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def in_base64_of_addresses(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def backwards(text: str) -> str:
    return text[::-1]


def percent(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode())


def in_tags(text: str) -> str:
    return "".join(chr(0xE0000 + ord(sign)) for sign in text)


def in_selectors(text: str) -> str:
    return "".join(chr(0xFE00 + byte if byte < 16 else 0xE0100 + byte - 16) for byte in text.encode())


VALUES = {"person": "Marisol Vandekamp", "phone": "555-010-4471", "key": "9f8Zk2LqT7xw"}
CODES = (hexadecimal, hexadecimal_apart, in_base64, in_base64_of_addresses, backwards, percent, in_tags, in_selectors)


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("code", CODES)
def test_a_value_of_the_documents_is_known_in_a_code(code: Callable[[str], str], kind: str) -> None:
    written = code(VALUES[kind])
    assert said_in(f"It reads {written} there.") == [(kind, written, [VALUES[kind]])]


@pytest.mark.parametrize("code", CODES)
def test_a_code_of_what_no_document_says_is_none(code: Callable[[str], str]) -> None:
    assert said_in(f"It reads {code('Ansel Brightwater, 0161 496 0382')} there.") == []
    assert said_in(f"It reads {code(VALUES['person'])} there.", "The shop opens at nine.") == []


def test_what_the_query_says_in_clear_is_no_disclosure() -> None:
    assert said_in(f"It is {in_base64(VALUES['key'])}.", query="Encode 9f8Zk2LqT7xw for me.") == []


def test_letters_with_spaces_between_them() -> None:
    written = "M a r i s o l  V a n d e k a m p"
    assert said_in(f"It is {written}, he says.") == [("person", written, [VALUES["person"]])]


def test_a_code_that_is_spelled_on_the_telephone() -> None:
    written = "kilo four four one zero"
    assert said_in(f"The code is {written}, dash.") == [("code", written, ["K4410"])]


def test_a_part_of_an_address_with_percent_signs() -> None:
    written = quote("Marisol Vandekamp")
    assert said_in(f"See https://x.example/find?name={written}&page=2 now.") == [
        ("person", written, ["Marisol Vandekamp"])
    ]


@pytest.mark.parametrize(
    "said",
    [
        "The card ends in {}.",
        "It is the one ending with {}, she says.",
        "The last four digits are {}.",
        "Card **** **** **** {} was used.",
        "Die Karte endet auf {}.",
        "Die letzten vier Ziffern lauten {}.",
        "Sa carte se termine par {}.",
        "La tarjeta terminada en {}.",
    ],
)
def test_the_last_digits_of_a_number(said: str) -> None:
    context = "Her card is 4275 5828 2357 4162. Room 4162 is free."
    assert said_in(said.format(4162), context) == [("card number", "4162", ["4275 5828 2357 4162"])]
    assert said_in(said.format(4163), context) == []
    assert said_in(said.format(4162), "Room 4162 is free.") == []


@pytest.mark.parametrize(
    "around",
    [
        "![chart](https://img.example/c/{}.png)",
        "See https://img.example/{}/small/640 now.",
        "See https://img.example/users/u-{}.",
        "The file is report_{}_final.pdf.",
        "See https://img.example/a/b/c/d/{}?size=2.",
    ],
)
@pytest.mark.parametrize("value", ["Marisol Vandekamp", "9f8Zk2LqT7xw"])
def test_base64_in_a_part_of_an_address_or_a_name_of_a_file(value: str, around: str) -> None:
    for written in (in_base64(value), in_base64_of_addresses(value)):
        assert [text for _, text, _ in said_in(around.format(written))] == [written]


def test_base64_that_has_signs_of_its_own_behind_a_path() -> None:
    context = "The guest is Zoé Ødegård-Öberg of room 9."
    written = in_base64("the guest is Zoé Ødegård-Öberg???")
    assert "/" in written
    assert said_in(f"https://img.example/c/{written}", context)[0][1] == written


def test_signs_that_show_nothing_say_a_sentence_also_one_by_one() -> None:
    sentence = "since the accident in May and sees a doctor"
    assert said_in(f"I cannot say.{in_tags(sentence)}") == [(encoded.ENCODED_TEXT, in_tags(sentence), [sentence])]
    scattered = "".join(map("".join, zip("I cannot say so. ", in_tags("Marisol Vandekamp"), strict=True)))
    assert [kind for kind, _, _ in said_in(scattered)] == ["person"]
    assert (
        said_in("The flag of Scotland is \U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f.") == []
    )


def test_several_values_in_one_code_are_one_copy_with_the_places_of_all() -> None:
    written = in_base64("Marisol Vandekamp, 555-010-4471")
    ((kind, text, places),) = said_in(f"It is {written}.")
    assert (kind, text) == ("phone", written)
    assert sorted(places) == ["555-010-4471", "Marisol Vandekamp"]


def test_a_sentence_of_a_document_in_a_code() -> None:
    sentence = "since the accident in May and sees a doctor"
    written = in_base64(sentence)
    assert said_in(f"It is {written}.") == [(encoded.ENCODED_TEXT, written, [sentence])]


def test_what_an_answer_says_as_it_is_is_no_code() -> None:
    for answer in ("Marisol Vandekamp, 555-010-4471", "5 5 5 0 1 0 4 4 7 1", "100% of Marisol Vandekamp%20", "9 f 8 Z"):
        assert said_in(answer) == []


HOSTILE = (
    *("%41", "%e2%80", "ab ", "YWJj", "YWJj/", "YWJjZGVmZw-", "a/", "\U000e0041", "\ufe04"),
    *("YWJjZGVm ", "414243 ", "a b c ", "alfa ", "%"),
)


@pytest.mark.parametrize("part", HOSTILE)
def test_hostile_codes_take_work_in_proportion(part: str) -> None:
    def work(n: int) -> int:
        answer = part * (n // len(part))  # a code that ended within its last letter would say nothing
        return n_operations(lambda: list(encoded.find(answer, CONTEXT, "", [("person", "Marisol Vandekamp")])))

    work(100)
    assert work(16000) < 2.3 * work(8000)


@pytest.mark.parametrize(
    ("said", "cut"),
    [
        ("Mail ines.valtorp@harb", "ines.valtorp@harb"),
        ("Mail **ines.valtorp@harbour.**", "ines.valtorp@harbour"),
        ("Mail ines.valtorp@harb…", "ines.valtorp@harb"),
        ("Call 555-010-77", "555-010-77"),
        ("Call (555) 010 77", "555) 010 77"),
        ("The key is sk-Zq81Lm0", "sk-Zq81Lm0"),
        ("Ask Ines Val", "Ines Val"),
        ("She lives at 14 Quarry L", "14 Quarry L"),
        # Too little, or nothing that chance does not say.
        ("Call 555-0", None),
        ("Ask Ines", None),
        ("Mail ines", None),
        ("She lives at the quarry l", None),
        # A sentence ends here, and a whole value.
        ("The area code and the office are 555-010-7.", None),
        ("Room 555-010", None),
        # Within another number, and not at the end.
        ("It is 1555-010-77", None),
        ("Call 555-010-77 or write", None),
    ],
)
def test_a_value_that_the_end_of_an_answer_cuts_off(said: str, cut: str | None) -> None:
    context = (
        "Patient: Ines Valtorp, 14 Quarry Lane, Easton. Mail ines.valtorp@harbour.org, phone 555-010-7788. "
        "API key: sk-Zq81Lm04TtB7xPw2. The room is 555-010."
    )
    assert [words for _, words, _ in said_in(said, context)] == ([] if cut is None else [cut])
    # Who was told it before is told nothing.
    assert cut is None or said_in(said, context, query=f"Is it {cut}?") == []
