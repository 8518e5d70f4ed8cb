"""Packs of recognisers: each is tested by its own examples, a bad one is refused in one line, a search is linear."""

from __future__ import annotations

import json
from importlib import resources
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest

from helpers.operations import n_operations
from leakmeter.backends.toy import Toy
from leakmeter.core import registry
from leakmeter.core.case import Case, Document
from leakmeter.errors import UsageError
from leakmeter.instruments.influence.measure import Influence
from leakmeter.text.build import PromptSettings
from leakmeter.text.entities import packs, values
from leakmeter.text.entities.find import find as find_entities
from leakmeter.text.entities.packs import pack, search
from leakmeter.text.entities.packs.checksums import CHECKSUMS
from leakmeter.text.entities.packs.rule import PackRule
from leakmeter.text.entities.packs.size import size_of

RULES = [pytest.param(rule, id=f"{one.name}-{n}") for one in pack.own() for n, rule in enumerate(one.rules, 1)]
BERTH = """
about = "Berths."

[[recogniser]]
kind = "berth"
pattern = 'pier(?:-[a-z]{1,9}){1,3}'
examples = ["It lies at «pier-north-seven»."]
counter_examples = ["The pier is closed."]
"""


@pytest.mark.parametrize("rule", RULES)
def test_a_recogniser_holds_what_its_examples_say(rule: PackRule) -> None:
    assert pack.failure(rule) is None


@pytest.mark.parametrize("name", [one.name for one in pack.own() if not any(rule.is_meaning for rule in one.rules)])
def test_a_pack_of_ours_is_a_pack_that_a_user_may_give(name: str) -> None:
    # What is asked of patterns of users is not asked of ours at each start.
    text = (resources.files(packs) / name).read_text(encoding="utf-8")
    assert len(pack.rules_of([f"# {name!r}\n{text}"])) == text.count("\n[[recogniser]]")


def test_thirty_secrets_and_ten_identifiers_with_checksums_are_known_by_name() -> None:
    by_name = {one.name: one for one in pack.own()}
    assert len({rule.kind for rule in by_name["secrets.toml"].rules}) >= 30
    with_checksums = {rule.kind for rule in pack.recognisers() if rule.checksum is not None}
    assert with_checksums >= {
        *("account", "card number", "SSN", "national insurance number", "Steuer-ID", "NIR", "DNI", "NIE"),
        *("codice fiscale", "BSN", "PESEL", "passport (machine-readable)"),
    }
    assert all(one.about for one in pack.own())


@pytest.mark.parametrize(
    ("checksum", "value"),
    [
        # Published by those who give such numbers out, or that stand in their norms.
        ("luhn", "4111111111111111"),
        ("iban", "GB82WEST12345698765432"),
        ("steuer_id", "86095742719"),
        ("nir", "255081416802538"),
        ("dni", "12345678Z"),
        ("dni", "X1234567L"),
        ("codice_fiscale", "RSSMRA85T10A562S"),
        ("bsn", "111222333"),
        ("pesel", "44051401359"),
        ("mrz", "L898902C36UTO7408122F1204159ZE184226B<<<<<10"),
        ("uk_nhs", "9434765919"),
        ("belgian_number", "85073003328"),
        ("swiss_ahv", "7569217076985"),
        ("cpf", "52998224725"),
        ("portuguese_nif", "501964843"),
        ("hetu", "131052308T"),
        ("swedish_number", "8112289874"),
        ("norwegian_number", "01010750160"),
        ("turkish_number", "10000000146"),
        ("aadhaar", "234123412346"),
        ("chinese_id", "11010219840406970X"),
        ("vin", "1HGCM82633A004352"),
    ],
)
def test_a_checksum_holds_of_published_numbers_and_of_no_neighbour(checksum: str, value: str) -> None:
    check = CHECKSUMS[checksum]
    assert check(value)
    last = value.rstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ<")[-1]
    at = 2 if checksum == "mrz" else 8 if checksum == "vin" else value.rindex(last)
    others = [value[:at] + digit + value[at + 1 :] for digit in "0123456789" if digit != value[at]]
    assert not any(map(check, others))


def test_words_do_not_count_in_phrases_that_are_not_meant() -> None:
    (rule,) = pack.rules_of(
        [recogniser(pattern=None, words=["aids", "a pier's"], not_in=["hearing aids"], examples=["«Aids», «a pier’s»"])]
    )
    text = "Aids, hearing aids, a hearing aids' maker, hearing aidsx, seaids, no aids."
    assert [mention.start for mention in search.find(text, [rule])] == [0, text.index("no aids") + 3]


def kinds_in(answer: str, context: str = "") -> list[tuple[str, str, str]]:
    found = values.find(answer, context, "", region="US")
    return [(value.type, answer[value.start : value.end], value.found_by) for value in found]


def test_a_secret_is_called_by_its_name() -> None:
    key = "AKIAQ2W3E4R5T6Y7ZAPS"
    assert kinds_in(f"The key is {key}.") == [("AWS access key", key, "recogniser")]
    assert kinds_in(f"See https://x.example/a?k={key}&b=2.") == [("AWS access key", key, "recogniser")]
    assert kinds_in(f"The key is {key[:-1]}.") == [("key", key[:-1], "shape")]


def test_a_number_with_a_wrong_check_digit_is_a_number() -> None:
    assert kinds_in("Her card is 4275 5828 2357 4162.") == [("card number", "4275 5828 2357 4162", "recogniser")]
    assert kinds_in("Her card is 4275 5828 2357 4163.") == [("number", "4275 5828 2357 4163", "shape")]


def test_words_tell_in_documents_what_an_answer_says_without_them() -> None:
    context = "Jej PESEL to 84050376652, a telefon podano wcześniej."
    assert kinds_in("Numer: 84050376652.", context) == [("PESEL", "84050376652", "recogniser")]
    assert kinds_in("Numer: 84050376652.") == [("number", "84050376652", "shape")]


def test_identifiers_are_units_of_a_context() -> None:
    text = "Pay into DE44 5001 0517 5407 3249 31. The key is AKIAQ2W3E4R5T6Y7ZAPS."
    assert [(entity.type, entity.value) for entity in find_entities(text, [(0, len(text))], region="US")] == [
        ("account", "DE44500105175407324931"),
        ("AWS access key", "AKIAQ2W3E4R5T6Y7ZAPS"),
    ]


# ------------------------------------------------------------------------------------------------------ packs of users


@pytest.fixture
def berths(tmp_path: Path) -> str:
    path = tmp_path / "berths.toml"
    path.write_text(BERTH, encoding="utf-8")
    return str(path)


CASE = Case("one", (Document("log", "The ferry lies at pier-north-seven."),), "Where?", "At pier-north-seven.")


def test_a_pack_of_a_user_is_kept_with_the_run(berths: str) -> None:
    settings = PromptSettings(pack=(berths,)).resolved()
    assert settings.pack is not None
    (text,) = settings.pack
    assert text.startswith("# 'berths.toml'\n")
    assert settings.resolved() == settings
    for given in (settings, PromptSettings(pack=(berths,))):
        prepared = given.prepare(CASE, Toy(), Influence())
        assert prepared.texts()["recognised"] == [[18, 34, "berth"]]
    found = values.find("At pier-north-seven.", CASE.documents[0].text, "", region="US", recognised=[(18, 34, "berth")])
    assert [(value.type, value.found_by) for value in found] == [("berth", "recogniser")]


def test_a_pack_of_a_user_finds_units(berths: str) -> None:
    prepared = PromptSettings(unit="entity", pack=(berths,)).prepare(CASE, Toy(), Influence())
    assert [span.name for span in prepared.item.spans] == ["berth1"]


def test_a_run_without_packs_says_nothing_of_them() -> None:
    settings = PromptSettings().resolved()
    assert settings.pack is None
    assert "recognised" not in settings.prepare(CASE, Toy(), Influence()).texts()


def test_one_file_in_the_place_of_a_list_is_refused(berths: str) -> None:
    with pytest.raises(UsageError, match="pack is a text; it has to be a list of files"):
        PromptSettings(pack=berths)  # type: ignore[arg-type]


def test_other_contexts_that_say_a_value_of_a_pack_are_left_out(berths: str) -> None:
    said, other = "The ferry lies at pier-north-seven.", "The barge was at pier-north-seven before, and then it rained."
    cases = [
        Case(name, (Document("log", text),), "Where?", "At pier-north-seven.")
        for name, text in (("a", said), ("b", other))
    ]
    settings = PromptSettings(pack=(berths,)).resolved()
    assert [case.control_contexts for case in settings.with_controls(cases, Influence())] == [(), ()]


def test_a_package_brings_packs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "berths.toml").write_text(BERTH, encoding="utf-8")
    module = ModuleType("harbour")
    module.__path__ = [str(tmp_path)]
    point = EntryPoint("harbour", "harbour", "leakmeter.packs")
    monkeypatch.setattr(EntryPoint, "load", lambda self: tmp_path)
    monkeypatch.setattr(registry, "_others", lambda group: (point,) if group == "leakmeter.packs" else ())
    monkeypatch.setattr(registry.resources, "files", lambda package: package)
    settings = PromptSettings().resolved()
    assert settings.pack is not None
    assert settings.pack[0].startswith("# 'harbour/berths.toml'\n")
    # A run that has its text does not get it twice.
    assert settings.resolved() == settings


def recogniser(**fields: object) -> str:
    entry = {"kind": "berth", "pattern": "pier-[a-z]{1,9}", "examples": ["«pier-a»"], "counter_examples": ["pier"]}
    lines = [f"{name} = {json.dumps(value)}" for name, value in {**entry, **fields}.items() if value is not None]
    return "\n".join(["# 'berths.toml'", "[[recogniser]]", *lines])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# 'berths.toml'\nx =", "pack 'berths.toml' is not TOML"),
        ("# 'berths.toml'\nx = 1", "pack 'berths.toml': 'x' is not known"),
        ("# 'berths.toml'\nabout = 'none'", "pack 'berths.toml' needs [[recogniser]]"),
        ("# 'berths.toml'\nrecogniser = ['a']", "pack 'berths.toml', recogniser 1 has to be a table"),
        ("# 'berths.toml'\nabout = 1\n[[recogniser]]", "pack 'berths.toml': 'about' has to be a text"),
        (recogniser(kind="<b>"), "recogniser 1: 'kind' has to be a name"),
        (recogniser(kind="phone"), "recogniser 1 (kind 'phone'): give another kind; telephone numbers"),
        (recogniser(size=3), "recogniser 1 (kind 'berth'): 'size' is not known"),
        (recogniser(not_in=["pier-b"]), "recogniser 1 (kind 'berth'): 'not_in' is for 'words' without 'before'"),
        (recogniser(pattern=None, words=["pier"], before=["at"], not_in=["pier-b"]), "'not_in' is for 'words' without"),
        (recogniser(examples=None), "recogniser 1 (kind 'berth'): 'examples' are missing"),
        (recogniser(counter_examples=[]), "recogniser 1 (kind 'berth'): 'counter_examples' are missing"),
        (recogniser(before="pier"), "'before' has to be a list of texts"),
        (recogniser(checksum="mod7"), "checksum 'mod7' is none of aadhaar,"),
        (recogniser(shape="yes"), "'shape' has to be true or false"),
        (recogniser(near=500), "'near' has to be a number from 0 to 80"),
        (recogniser(pattern=""), "'pattern' has to be a text"),
        (recogniser(pattern="pier.*"), "the pattern has '*' at character 6"),
        (recogniser(pattern="pier[a-z]+"), "the pattern has '+' at character 10"),
        (recogniser(pattern="pier[a-z]{2,}"), "the pattern has '{' at character 10"),
        (recogniser(pattern="(pier){e<=2}"), "the pattern has '{' at character 7"),
        (recogniser(pattern="(?:[a-z]{0,99}){0,99}x"), "the pattern matches 9,801 characters or more; 8,192 at most"),
        (recogniser(pattern="(pier(?R)?)"), "the pattern has '(?' at character 6"),
        (recogniser(pattern=r"(p)\1"), "the pattern has '\\\\' at character 4"),
        (recogniser(pattern="(pier"), "the pattern: missing )"),
        (recogniser(pattern="(?:pier)?"), "the pattern matches the empty text"),
        (recogniser(examples=["pier-a"]), "has an example in which nothing stands between « and »: 'pier-a'"),
        (recogniser(examples=["«pier»"]), "finds nothing in its example '«pier»'"),
        (recogniser(examples=["«pier-a» pier-b"]), "finds 'pier-a', 'pier-b' in its example"),
        (recogniser(counter_examples=["pier-b"]), "finds 'pier-b' in its counter-example 'pier-b'"),
    ],
)
def test_a_bad_pack_is_refused_in_one_line(text: str, said: str) -> None:
    with pytest.raises((UsageError, ValueError), match="berths") as caught:
        pack.parse(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_pattern_that_fits_in_too_many_ways_is_refused_where_it_takes_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pack.pattern, "SECONDS_AT_MOST", 0.05)
    text = recogniser(pattern="(?:a|a|aa){1,60}b", examples=["«aab»"], counter_examples=["aa"])
    with pytest.raises(UsageError, match=r"the recogniser of kind 'berth' took longer than 0\.05 s on a document"):
        pack.places("a" * 60, [text])


@pytest.mark.parametrize(
    ("pattern", "most", "to_digit"),
    [
        (r"\d{3}-\d{2}", 6, 0),
        (r"[A-Z]{2}\d{2}", 4, 2),
        (r"[A-Z]{2}[0-9]", 3, 2),
        (r"(?:AB|C)\d", 3, 2),
        (r"AB?\d?", 3, None),
        (r"A(?=[a-z]{3}\d)[a-z\d]{9}", 10, 4),
        (r"A(?!\d)B", 2, None),
        (r"(?<!\d)AB", 2, None),
        (r"A(?:\d|B)", 2, None),
        (r"(?i:ab)\.\p{Lu}{3}", 6, None),
        ("756A", 4, 0),
    ],
)
def test_what_a_pattern_matches_at_most_and_where_its_digit_is(pattern: str, most: int, to_digit: int | None) -> None:
    size = size_of(pattern, "it")
    assert (size.most >= most, size.to_digit) == (True, to_digit)


HOSTILE = (
    *("1 ", "A1 ", "sk-", "eyJaaaaaaaaaa.", "-----BEGIN PRIVATE KEY-----a", "pesel ", "DE44 5001 ", "1:", "fe80:"),
    *("12 rue ", "rue de la Aa ", "calle Aa ", "Lange Straße ", "P<AAA<<", "postgres://a:", "password=", "plate A1 "),
    *("ISO-", "10.1000/a", "xoxb-1-", "61.222 N ", "a1B2", "éÉ"),
)


@pytest.mark.parametrize("part", HOSTILE)
def test_a_search_takes_time_in_proportion(part: str) -> None:
    rules = (*pack.recognisers(), *pack.shapes(), *pack.public())

    def operations(n: int) -> int:
        text = (part * n)[:n]
        return n_operations(lambda: list(search.find(text, rules)))

    operations(500)
    assert operations(8000) < 2.3 * operations(4000) + 3000
