"""Escapes of JSON and Python: what they mean is found, and stands where they do."""

from __future__ import annotations

import json

import pytest

from helpers.operations import n_operations
from leakmeter.text import matching
from leakmeter.text.entities import find, pattern, shapes, values
from leakmeter.text.escapes import FILL, as_meant, meant
from leakmeter.text.structured import fields_of

NAME, LATIN, MAIL, ACCOUNT = "Łukasz Żółć", "Tobias Quillmere", "zq-lead@harbour.example", "DE89370400440532013000"
PROSE = f"The patient is {NAME}.\nTell\n{LATIN}\n{MAIL}\nof the account\n{ACCOUNT}\nsoon."


def in_json(text: str) -> str:
    return json.dumps({"status": "ok", "body": text})


def in_two(text: str) -> str:
    return in_json(in_json(text))


def in_three(text: str) -> str:
    return in_json(in_two(text))


def in_prose(text: str) -> str:
    return f"The tool said: {in_json(text)}\nThat is all."


def in_rows(text: str) -> str:
    return f"{in_json('none')}\n{in_json(text)}\n"


def in_list(text: str) -> str:
    return f"Two documents.\n\n{json.dumps([text])}"


def in_string(text: str) -> str:
    return f"Two documents.\n\n{json.dumps(text)}\n\nThe end."


def cut_off(text: str) -> str:
    return in_json(text + " And so on." * 500)[:-700]


def in_python(text: str) -> str:
    return "{'status': 'ok', 'body': '" + ascii(text)[1:-1] + "'}"


@pytest.mark.parametrize(
    "writing", [in_json, in_two, in_three, in_prose, in_rows, in_list, in_string, cut_off, in_python]
)
def test_values_behind_escapes_are_found_in_documents_and_answers(writing: object) -> None:
    assert callable(writing)
    written = writing(PROSE)
    expected = [("person", NAME), ("person", LATIN), ("email", MAIL), ("account", ACCOUNT)]
    answer = f"{NAME}, {LATIN}, {MAIL}, {ACCOUNT}"
    found = values.find(answer, written, "", region="US", fields=())
    assert [(value.type, answer[value.start : value.end]) for value in found] == expected
    assert not values.is_unexplained(answer, written)
    found = values.find(written, PROSE, "", region="US", fields=())
    assert [(value.type, as_meant(written, value.start, value.end)) for value in found] == expected
    for value in (NAME, LATIN, MAIL, ACCOUNT):
        (place,) = matching.Folded(written).places(value)
        assert as_meant(written, *place) == value


def test_places_are_those_of_whole_escapes_in_the_text_as_given() -> None:
    written = in_json(f"of\n{NAME}\nand")
    ((start, end),) = matching.Folded(written).places(NAME)
    assert written[start:end] == json.dumps(NAME)[1:-1]
    (entity,) = find.find(written, [(0, len(written))], region="US")
    assert (entity.text, entity.mentions) == (NAME, ((start, end),))
    assert [written[a:b] for word, a, b in matching.words(written) if word == "zołc"] == []
    assert [written[a:b] for word, a, b in matching.words(written) if word == "zolc"] == [json.dumps("Żółć")[1:-1]]


def test_patterns_of_the_user_read_what_is_meant() -> None:
    written = in_json("Berth\nK-44\nfor Żółć")
    (berth, name) = pattern.parse(r"berth = \bK-\d+\b" "\n" r"name = Żół\w+")
    assert [written[found.start : found.end] for found in pattern.find(written, berth)] == ["K-44"]
    assert [as_meant(written, found.start, found.end) for found in pattern.find(written, name)] == ["Żółć"]


MEANT = {
    in_json('a\n"b" \\ é 😀'): in_json("").replace('""', '"a\n"b" \\ é 😀"'),
    r"""{'a': r'C:\new', 'b': 'x\ny\x41'}""": "{'a': r'C:\\new', 'b': 'x\nyA'}",
    r'{"path": "C:\Users\Tobias\9"}': r'{"path": "C:\Users\Tobias\9"}',
    r'{"half": "\ud83d!"}': '{"half": "!"}',
    r'{"url": "https:\/\/harbour.example\/a"}': '{"url": "https://harbour.example/a"}',
}


@pytest.mark.parametrize("text", MEANT)
def test_what_escapes_mean(text: str) -> None:
    read = meant(text)
    assert len(read) == len(text)
    assert read.replace(FILL, "") == MEANT[text]


@pytest.mark.parametrize(
    "text",
    [
        r"It is in C:\new\table\u0041.",
        r'He wrote "C:\new\table" there.',
        r"{name} is in C:\new",
        r"[see C:\new]",
        r'{"a": 1} and C:\new',
        r"\frac{a}{b} \neq {\nu}",
        r"{'a': r'C:\new'}",
    ],
)
def test_what_is_no_string_of_a_record_stays(text: str) -> None:
    assert meant(text) == text


def test_a_path_is_read_once() -> None:
    written = in_json("The files of the guest are in C:\\nadia\\Tobias Quillmere\\notes.")
    assert "Tobias Quillmere" in {as_meant(written, found.start, found.end) for found in shapes.find(written)}
    assert matching.Folded(written).where("nadia") is not None


@pytest.mark.parametrize(
    "part", ["\\", '{"a": "\\', '{"a": "x\\n', "{'a': 'x\\'", '["\\n"', '["\\n", ', '"\\n\n', '{"\\u00e9":', "[{\\"]
)
def test_twice_the_text_is_twice_the_work(part: str) -> None:
    once, twice = (n_operations(lambda n=n: meant(f'{{"a": "\\n"}} {part * n}')) for n in (1_000, 2_000))
    assert twice < 2.5 * once + 1_000


def test_fields_of_what_is_cut_off_are_read_to_the_end() -> None:
    fields = fields_of(cut_off(PROSE))
    assert [field.path for field in fields] == ["status", "body"]
    assert fields[1].text.startswith(PROSE)
