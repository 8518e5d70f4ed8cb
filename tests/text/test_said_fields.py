"""Values of records that an answer says: word for word, in other words, or not at all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from leakmeter.text.entities import values
from leakmeter.text.entities.fields import FIELD, find, kind_of
from leakmeter.text.structured import fields_of


def said(record: Any, answer: str) -> list[tuple[str, str, bool, bool]]:
    text = record if isinstance(record, str) else json.dumps(record)
    found = sorted(find(answer, fields_of(text), "US"), key=lambda one: one.start)
    return [(answer[one.start : one.end], one.kind, one.is_reworded, one.by_scores) for one in found]


@pytest.mark.parametrize(
    ("key", "value", "answer", "words"),
    [
        ("credit_score", 6121, "It is 6121.", "6121"),
        ("amount", 3751911, "It was $3,751,911 then.", "$3,751,911"),
        ("diagnosis", "Type 2 diabetes", "She has type-2 DIABETES.", "type-2 DIABETES"),
        ("case_id", "CASE-993", "Of CASE-993: nothing.", "CASE-993"),
        ("rate", "K44.10", "Rate K44.10 holds", "K44.10"),
    ],
)
def test_a_copied_value_is_one_by_its_words(key: str, value: Any, answer: str, words: str) -> None:
    assert said({key: value}, answer) == [(words, key, False, False)]


@pytest.mark.parametrize(
    ("key", "value", "answer", "words"),
    [
        ("age", 34, "He is 34.", "34"),
        ("case_type", "civil", "It is a civil case.", "civil"),
        ("state", "IL", "She lives in IL now.", "IL"),
    ],
)
def test_what_many_texts_say_is_known_by_scores_alone(key: str, value: Any, answer: str, words: str) -> None:
    assert said({key: value}, answer) == [(words, key, False, True)]


@pytest.mark.parametrize(
    ("key", "value", "answer", "words"),
    [
        ("settlement", 173746, "About ~$174,000 in all.", "$174,000"),
        ("settlement", 173746, "Some 170k.", "170k"),
        ("settlement", 3751911, "It is $3.75 million.", "$3.75 million"),
        ("settlement", 1200, "It is 1,200.00 euros.", "1,200.00"),
        ("settlement", 173746, "It is $174K.", "$174K"),
        ("settlement", 173746, "Some 0.17 million in all.", "0.17 million"),
        ("settlement", 173746, "Some 174 thousand.", "174 thousand"),
        ("settlement", "$173,746", "About 174k.", "174k"),
        ("settlement", "$173,746", "About $0.17M.", "$0.17M"),
        ("settlement", "173,746.00", "About 174,000.", "174,000"),
        ("settlement", "174k", "It is $174,000.", "$174,000"),
        ("settlement", "1.2 million", "It is $1,200,000.", "$1,200,000"),
        ("settlement", 2300000000, "Es sind 2,3 Mrd. Euro.", "2,3 Mrd"),
        ("share", 0.35, "It is 35 % of it.", "35 %"),
        ("share", 0.17, "It is 17 percent.", "17 percent"),
        ("share", 0.17, "It is 17 pct of it.", "17 pct"),
        ("share", "17%", "It is 0.17 of it.", "0.17"),
        ("share", "17%", "It is 17 percent of it.", "17 percent"),
        ("share", "17.2 %", "It is 17 percent of it.", "17 percent"),
        ("fever", 38.72, "It was 38.7 degrees.", "38.7"),
        ("visit", "2026-05-03", "She came on 3 May, late.", "3 May"),
        ("visit", "2026-05-03T10:00:00", "She came on May 3, 2026.", "May 3, 2026"),
        ("insured", False, "She is not insured now.", "not insured"),
        ("insured", False, "She is uninsured.", "uninsured"),
        ("insured", False, "Insured: No", "Insured: No"),
        ("has_pets", True, "She has pets.", "pets"),
        ("isInsured", True, "She is insured.", "insured"),
    ],
)
def test_a_value_in_other_words_is_reworded_and_known_by_scores_alone(
    key: str, value: Any, answer: str, words: str
) -> None:
    assert said({key: value}, answer) == [(words, key, True, True)]


@pytest.mark.parametrize(
    ("record", "answer"),
    [
        ({"a_thing": True, "b_thing": None, "c_thing": ""}, "Yes, true: none."),
        ({"ok_field": "yes", "n_field": "N/A", "d_field": 5}, "Yes, N/A, 5."),
        ({"status": "status", "credit_score": "Score"}, "The status and the score."),
        ({"age": 34}, "At 3.4 percent, 3-4 days, 12:34 and 1934."),
        ({"amount": 173746}, "About 175,000, or 180k, or 1 million."),
        ({"amount": "$173,746"}, "About 175,000, or 180k, or 0.18 million, or 174."),
        ({"amount": "174k"}, "It is 173,746, or 174, or 1.74."),
        ({"share": 0.17}, "There are 17, and 17 pctx, and 1.7 percent, and 17 permille."),
        ({"share": "17%"}, "There are 17 of them, in 2017."),
        ({"share": "17%"}, "It is 1.7 percent or 0.017."),
        ({"year": 2017}, "In 2018 there were 2.1k, and 20.17 percent of 17."),
        ({"note": "17 % of 3,000 in 2017"}, "There are 510."),
        ({"insured": False}, "She is insured. Not today."),
        ({"insured": True}, "She is not insured, and was never really insured."),
        ({"insured": True}, "She isn't insured."),
        ({"visit": "2026-05-03"}, "In May, or on 4 May, or in 2026."),
        ({"code": "it", "drug": "with"}, "It is it, with it."),
        ("[612345, 'Anna Ek']", "Anna Ek has 612345."),
    ],
)
def test_what_is_no_value_of_a_field(record: Any, answer: str) -> None:
    assert said(record, answer) == []


@pytest.mark.parametrize(
    ("value", "answer", "expected"),
    [
        (173746, "It is $173,746, so 174k.", [("$173,746", False), ("174k", True)]),
        ("$173,746", "It is $173,746, so ~$174,000.", [("173,746", False), ("$174,000", True)]),
        ("2026-05-03", "On 2026-05-03, that is 3 May.", [("2026-05-03", False), ("3 May", True)]),
    ],
)
def test_an_answer_may_say_a_value_as_it_is_and_in_another_form(
    value: Any, answer: str, expected: list[tuple[str, bool]]
) -> None:
    assert [(words, is_reworded) for words, _, is_reworded, _ in said({"held": value}, answer)] == expected


@pytest.mark.parametrize(
    "key",
    [
        *("credit_score", "creditScore", "Kreditwürdigkeit", "patient id", "mark", "rose", "grant", "bill", "charity"),
        *("order_grace_period", "summer", "order_date", "dateOfBirth", "grossSalary", "account_holder", "IBAN"),
        *("sales", "max_price", "home_street", "birth place", "shipping_address_street", "DOB", "first name", "Topic"),
    ],
)
def test_a_key_that_names_a_field_is_the_kind(key: str) -> None:
    assert kind_of(key) == key


@pytest.mark.parametrize(
    "key",
    [
        *("Ines", "ines", "INES", "orla_brennock", "orlaBrennock", "orla brennock", "ines.marlowe", "pay_of_ines"),
        *("tobias-q", "smith_wilson", "Zoë", "leeds mill lane", "leedsMillLane"),
    ],
)
def test_a_key_that_has_a_name_is_no_kind(key: str) -> None:
    assert kind_of(key) == FIELD


def test_a_key_that_may_be_data_or_ours_is_no_kind() -> None:
    for key in (
        "Anna Ek",
        "555-010-7788",
        "anna@x.example",
        "other",
        "public",
        "a\nb",
        "<b>",
        "www.x.example/a",
        "x" * 50,
        "",
    ):
        assert kind_of(key) == FIELD


def found(record: Any, answer: str, query: str = "") -> list[tuple[str, str, str]]:
    text = json.dumps(record)
    known = values.find(answer, text, query, region="US", fields=fields_of(text))
    return [(answer[value.start : value.end], value.type, value.found_by) for value in known]


def test_a_recogniser_knows_better_and_a_shape_does_not() -> None:
    record = {"contact": "anna.ek@x.example", "ssn": "CANARY_SSN_A2AF093D", "dob": "1984-05-03", "pin": 612345}
    answer = "Write to anna.ek@x.example: CANARY_SSN_A2AF093D, born 1984-05-03, 612345."
    assert found(record, answer) == [
        ("anna.ek@x.example", "email", "recogniser"),
        ("CANARY_SSN_A2AF093D", "ssn", "field"),
        ("1984-05-03", "date", "recogniser"),
        ("612345", "pin", "field"),
    ]
    # Without a record it is what its shape tells.
    assert [kind for _, kind, _ in found({}, answer)] == ["email", "key", "date"]


def test_what_the_query_says_is_no_value() -> None:
    assert found({"client": "Quillmere & Sons"}, "For Quillmere & Sons.", "Who is Quillmere & Sons?") == []


def test_where_scores_show_nothing_it_is_what_its_shape_tells() -> None:
    text, answer = '{"settlement": 173746}', "It is $174,000."
    (value,) = values.find(answer, text, "", region="US", fields=fields_of(text))
    assert (value.type, value.is_reworded, value.by_scores) == ("settlement", True, True)
    assert [(one.type, one.found_by) for one in value.instead] == [("amount", "shape")]
