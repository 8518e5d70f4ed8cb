"""Fields of JSON, Python literals, CSV and Markdown tables: paths, keys, values, characters, and units."""

from __future__ import annotations

from typing import Any

import pytest

from helpers.examples import few
from helpers.operations import n_operations
from leakmeter.backends.toy import ByteTokenizer
from leakmeter.core.case import Case, Document
from leakmeter.core.item import ContextItem
from leakmeter.text import structured
from leakmeter.text.build import PromptSettings, prepare
from leakmeter.text.layout import Layout
from leakmeter.text.spans import of_units
from leakmeter.text.structured import Field, fields_of, stretches
from leakmeter.text.units import Unit

RECORD = '{"name": "Anna Ek", "patient": {"diagnosis": "diabetes"}, "credit_score": 612, "insured": false}'


def told(text: str) -> list[tuple[str, str, str, str]]:
    return [(field.path, field.key, field.text, field.kind) for field in fields_of(text)]


def written(text: str, field: Field) -> tuple[str, str]:
    return text[slice(*field.value)], text[slice(*field.pair)]


@pytest.mark.parametrize("before", ["", "Be kind.\n\nUSER DATA [1]:\n"])
@pytest.mark.parametrize("behind", ["", "\nSay {name}, not [secret]."])
def test_a_record_within_prose_has_its_fields(before: str, behind: str) -> None:
    text = before + RECORD + behind
    assert told(text) == [
        ("name", "name", "Anna Ek", "text"),
        ("patient.diagnosis", "diagnosis", "diabetes", "text"),
        ("credit_score", "credit_score", "612", "number"),
        ("insured", "insured", "false", "boolean"),
    ]
    (stretch,) = stretches(text)
    assert text[stretch.start : stretch.end] == RECORD
    assert [written(text, field) for field in stretch.fields] == [
        ("Anna Ek", '"name": "Anna Ek",'),
        ("diabetes", '"diagnosis": "diabetes"'),
        ("612", '"credit_score": 612,'),
        ("false", '"insured": false'),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"flights": [{"price": 99.5}, {"price": -7e3}]}', {"flights[0].price": "99.5", "flights[1].price": "-7e3"}),
        ("{'a': True, 1: (None, u'x'), 'd': date(2026, 5, 3)}",
         {"a": "True", "1[0]": "None", "1[1]": "x", "d": "date(2026, 5, 3)"}),
        ("[('Anna', 34), ('Bo', 41)]", {"[0][0]": "Anna", "[0][1]": "34", "[1][0]": "Bo", "[1][1]": "41"}),
        ('{"w": "[\'Daniel Ramirez\', \'John Osborne\']"}', {"w[0]": "Daniel Ramirez", "w[1]": "John Osborne"}),
        (r'{"json": "{\"a\": \"b\\u00e9\"}", "t": "x\ny \ud83d\ude42"}', {"json.a": "bé", "t": "x\ny 🙂"}),
        ('{"a": {}, "b": [], "c": "", "": 1}', {"a": "", "b": "", "c": "", '""': "1"}),
        ('{"a": 1}\n{"a": 2}', {"[0].a": "1", "[1].a": "2"}),
        ('name,score,city\nAnna,612,"Graz, A"\nBo,,Wien\n',
         {"[0].name": "Anna", "[0].score": "612", "[0].city": "Graz, A", "[1].name": "Bo", "[1].city": "Wien"}),
        ("Rows:\nname;score\r\nAnna;612\r\nBo;5\n\nEnd.",
         {"[0].name": "Anna", "[0].score": "612", "[1].name": "Bo", "[1].score": "5"}),
        ("See\n| name | score |\n|:--|--:|\n| Anna | 612 |\nEnd.", {"name": "Anna", "score": "612"}),
        ("a | b\n--|--\n1 | \n2 | 3", {"[0].a": "1", "[1].a": "2", "[1].b": "3"}),
        # What is cut off, or broken, is read as far as it goes.
        ('{"name": "Anna Ek", "ill": "diab', {"name": "Anna Ek", "ill": "diab"}),
        ('{"name": "Anna", "n": [1, 2', {"name": "Anna", "n[0]": "1", "n[1]": "2"}),
        ('{"a": 1, "b": oops, "c": 2} {"d": 3}', {"a": "1", "d": "3"}),
    ],
)  # fmt: skip
def test_what_is_a_field(text: str, expected: dict[str, str]) -> None:
    assert {field.path: field.text for field in fields_of(text)} == expected


def test_the_key_of_an_element_is_its_lists_and_duplicate_keys_are_two_fields() -> None:
    text = '{"tests": ["ferritin", {"kind": "iron"}], "a": 1, "a": 2}'
    assert [(field.path, field.key) for field in fields_of(text)] == [
        ("tests[0]", "tests"),
        ("tests[1].kind", "kind"),
        ("a", "a"),
        ("a", "a"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "", "Anna sang [1, 2] of {name} and [Insert Date]: {x: 1}.", "Dear Anna, hello.\nYours, Bo.\n",
        "Apples, pears, plums\nMilk, bread, eggs\nSalt, rice, tea", "def f(x): return {x: 'a'}[x]",
        "She said {it's \"so\"} | or not\nand | so", "a,b\nOne, two", "[3]: https://x.example/a[0]", '{"open', "{" * 9,
    ],
)  # fmt: skip
def test_prose_has_none(text: str) -> None:
    assert fields_of(f"{text} ") == []


def test_ranges_are_characters_of_the_text_also_of_records_in_texts() -> None:
    text = r'Got: {"r": "{\"a\": \"b\\u00e9\", \"n\": 3}"}'
    a, n = fields_of(text)
    assert written(text, a) == (r"b\\u00e9", r"\"a\": \"b\\u00e9\",")
    assert written(text, n) == ("3", r"\"n\": 3")
    context = f"Hello.\n\n{text}"
    assert [f.value for f in fields_of(context, [(0, 6), (8, len(context))])] == [f.value for f in fields_of(context)]


HOSTILE = {
    "deep": '[{"a":', "lists": "[", "quotes": '{"', "both": "{\"'", "escapes": '{"a\\"', "numbers": "[1,", "bars": "|",
    "rules": "|a|b|\n|-|-|\n", "headers": "a,b,c\nx\n", "objects": '{"k":1}', "same": '{"a":1,"a":2},',
    "tabs": "a\tb\n",
    "keys": '{"' + "k" * 50 + '":', "texts": '{"a":"[\'x\',', "blanks": "a,b\n1,2\n\n\n",
}  # fmt: skip


@pytest.mark.parametrize("part", few(HOSTILE.values(), 15))
def test_twice_the_text_is_twice_the_work(part: str) -> None:
    def reading(n: int) -> int:
        structured.stretches.cache_clear()
        return n_operations(lambda: stretches(part * n))

    reading(2)
    assert reading(400) < 2.2 * reading(200) + 2000


def test_paths_of_deep_records_stay_short() -> None:
    deep = '{"' + "k" * 5000 + '":'
    fields = fields_of(deep * 60 + "1" + "}" * 60)
    assert [len(field.path) <= 160 and field.text == "1" for field in fields] == [True]
    # What is deeper than 64 levels is read as if it began there.
    assert [field.path for field in fields_of('{"a":' * 70 + "1" + "}" * 70)] == ["a.a.a.a.a.a"]


# ---- units ----------------------------------------------------------------------------------------------------------
TEXT = f"You help. Be kind.\n\nDATA:\n{RECORD}"
TABLE = "name,score,city\nAnna,612,Graz\nBo,5,Wien"


def item_of(*texts: str, **settings: Any) -> ContextItem:
    documents = tuple(Document(f"d{number}", text) for number, text in enumerate(texts, 1))
    case = Case("case", documents, "Who?", "Anna.")
    return prepare(
        case, ByteTokenizer(), PromptSettings(template="{context}?{query}", **settings), window=None, n_reserved=0
    ).item


def text_of(item: ContextItem, name: str) -> str:
    return ByteTokenizer().decode(item.cuts[name].ids).removesuffix("?Who?")


@pytest.mark.parametrize("unit", ["sentence", "auto"])
def test_pieces_are_values_by_their_paths_and_sentences_of_the_prose(unit: str) -> None:
    item = item_of(TEXT, unit=unit)
    assert [(span.name, span.field) for span in item.spans] == [
        ("s1", None),
        ("s2", None),
        ("s3", None),
        *((path, path) for path in ("name", "patient.diagnosis", "credit_score", "insured")),
    ]
    said = [TEXT[start:end] for span in item.spans for start, end in span.ranges]
    assert said[2:5] == ["DATA:", '"name": "Anna Ek",', '"diagnosis": "diabetes"']


@pytest.mark.parametrize("removal", ["drop", "mask", "retokenize"])
def test_removal_takes_key_and_value_and_leaves_the_structure(removal: str) -> None:
    item = item_of(TEXT, TABLE, unit="sentence", removal=removal)
    without = {span.name: text_of(item, span.name) for span in item.spans}
    assert '"patient": {}, "credit_score"' in without["patient.diagnosis"]
    assert '"diabetes"}, "insured": false}' in without["credit_score"]
    assert '{"patient": {"diagnosis": "diabetes"}, ' in without["name"].replace("{ ", "{")
    assert "Anna,,Graz" in without["[0].score"]
    assert "Bo,5," in without["[1].city"]
    assert "Wien" not in without["[1].city"]
    if removal == "mask":
        assert {cut.next_position for cut in item.cuts.values()} == {item.prompt.next_position}


def test_names_are_told_apart_by_document_then_by_number() -> None:
    item = item_of('{"a": 1, "a": 2, "s1": 3}', 'Hi. {"a": 4}', unit="sentence")
    assert [span.name for span in item.spans] == ["d1 → a", "d1 → a (2)", "s1", "s1 (2)", "d2 → a"]


def test_a_value_of_several_sentences_is_cut_by_them() -> None:
    value = "The patient came in on Monday. " * 5
    item = item_of(f'{{"id": 7, "note": "{value}", "z": 1}}', unit="sentence")
    assert [span.name for span in item.spans] == ["id", "note", *(f"note ({n})" for n in range(2, 6)), "z"]
    assert {span.field for span in item.spans} == {"id", "note", "z"}


@pytest.mark.parametrize("kind", ["sentence", "word", "line", "paragraph"])
def test_a_text_without_records_is_cut_as_before(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from leakmeter.text.templates import FilledTemplate

    text = "Anna [1, 2] sang. She said {so}: a, b\nand c, d. Then | she left."
    layout = Layout(FilledTemplate("own", "{context}?{query}", [Document("d", text)], "Who?"), ByteTokenizer())
    covers = of_units(layout, Unit(kind))
    monkeypatch.setattr(structured, "stretches", lambda text: ())
    assert of_units(layout, Unit(kind)) == covers
    assert all(cover.field is None for cover in covers)
