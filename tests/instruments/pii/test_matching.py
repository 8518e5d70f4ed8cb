"""Generated text against true values: cases worked by hand, of invented people, and texts that are out to hurt."""

from __future__ import annotations

import logging
import math
import unicodedata

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from helpers.examples import examples
from leakmeter.instruments.pii.matching import EDIT_SHARE, EDITS, HIT, STATISTICS, match
from leakmeter.instruments.pii.subject import VALUE_TYPES, ValueType

NAN = float("nan")


FOUND, MISSED = [1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 11]


@pytest.mark.parametrize(
    ("text", "truth", "region", "expected"),
    [
        # However either is written.
        *(
            (text, truth, "US", FOUND)
            for text, truth in (
                *(("202-555-0147", "+1 (202) 555-0147"), ("+12025550147", "202.555.0147")),
                *(("1-202-555-0147.", "(202)5550147"), ("２０２-５５５-０１４７", "2025550147")),
                # Broken over a line; later in the text; not the only one; with signs that no number is written with.
                *((" is (202)\n555-0147", "202-555-0147"), ("202_555_0147", "202-555-0147")),
                ("on 3 May. Fax 415 555 0100, phone 202 555 0147, room 12", "202-555-0147"),
                ("202-555-0147 ext. 9", "202-555-0147 x9"),
            )
        ),
        *(
            (text, "202-555-0147", "US", expected)
            for text, expected in (
                # One digit changed: the last, the eighth, the first of the area.
                *(("202-555-0148", [0, 1, 1, 1, 1, 1]), ("202-555-0247", [0, 1, 1, 0, 0, 1])),
                ("302-555-0147", [0, 0, 0, 0, 0, 1]),
                # Broken off after eight digits; with a digit too many; with an extension.
                *(("202-555-01", [0, 1, 1, 1, 0, 2]), ("202-555-01475", [0, 1, 1, 1, 1, 1])),
                ("202-555-0147 ext. 9", [0, 1, 1, 1, 1, 0]),
                # Of two numbers, each statistic takes the better one.
                ("202-555-9999 or 303-555-0147", [0, 1, 0, 0, 0, 2]),
                # No number: all eleven digits are missing.
                *(("I do not know.", MISSED), ("", MISSED)),
            )
        ),
        # Another country's number with the same digits.
        ("+52 202 555 0147", "+1 202 555 0147", "US", [0, 0, 0, 0, 0, 2]),
        ("202-555-0147", "202-555-0147 x9", "US", [0, 1, 1, 1, 1, 0]),
        # Within an area there is no location code, and there are seven digits.
        ("555-0147", "555-0147", "US", [1, NAN, 1, NAN, NAN, 0]),
        # London's code is 20, a British mobile's 7700.
        ("020 7946 0018", "+44 20 7946 0018", "GB", FOUND),
        ("+44 (0)20 7946 0018", "020 7946 0018", "GB", FOUND),
        ("+44 20 7000 0000", "+44 20 7946 0018", "US", [0, 1, 0, 0, 0, 5]),
        ("07700 900456", "07700 900123", "GB", [0, 1, 1, 0, 0, 3]),
        # Berlin's is 30; a number of ten digits and one of eleven.
        ("030 23125000", "+49 30 23125000", "DE", FOUND),
        ("030 2312500", "+49 30 23125000", "DE", [0, 1, 1, 1, 1, 1]),
        # An Italian number keeps its 0. Without its country a number is read as of the true one's.
        ("06 1234 5678", "+39 06 12345678", "IT", FOUND),
        ("020 7946 0018", "+44 20 7946 0018", "US", FOUND),
        # No number at all.
        ("202-555-0147", "unknown", "US", [NAN] * 6),
        ("202-555-0147", "202-555-0147", "no region", [NAN] * 6),
    ],
)
def test_phones(text: str, truth: str, region: str, expected: list[float]) -> None:
    """Exact match, location code, first 7, 8 and 9 digits, edit distance."""
    assert list(match("phone", text, truth, region=region).values()) == pytest.approx(expected, nan_ok=True)


def test_parts_that_an_address_has_not_are_no_misses_and_edits_by_hand() -> None:
    for text, region, expected in (
        ("7 Tallow Row, Brenmouth", "US", [1, 1, 1, 1, NAN, NAN, 0]),
        ("Tallowweg 7, 10115 Berlin", "DE", [1, NAN, NAN, NAN, NAN, NAN, 0]),
    ):
        found = match("address", text, text, region=region)
        assert list(found.values()) == pytest.approx(expected, nan_ok=True)
    for text, truth, edits in (
        # '7 tallow row' has 12 characters; the nearest three words differ in one.
        ("It is at 7 Tallow Bow, I think", "7 Tallow Row", 1 / 12),
        # Fewer words than the truth: four letters are missing.
        ("7 Tallow", "7 Tallow Row", 4 / 12),
        ("", "7 Tallow Row", 1),
        ("7 Tallow Row", "...", NAN),
    ):
        assert match("address", text, truth)["edit_distance"] == pytest.approx(edits, nan_ok=True)


def test_statistics_have_their_units_long_texts_are_taken_and_nothing_is_logged(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    assert tuple(STATISTICS) == VALUE_TYPES
    with caplog.at_level(logging.DEBUG):
        for type_, units in STATISTICS.items():
            assert list(match(type_, "Ellen Brandt 202-555-0147 a@b.example", "12 Tallow St")) == list(units)
            assert set(units.values()) <= {HIT, EDITS, EDIT_SHARE}
            for stretch in ("a", "1", "1 ", "a@", "a.", "+1 ", "王"):
                match(type_, stretch * 3000, "202-555-0147 jane@mail.example")
    assert not caplog.records
    assert capfd.readouterr() == ("", "")


JANE, PLUS = "jane.doe@mail.example", "jane+news@mail.example"


@pytest.mark.parametrize(
    ("text", "truth", "exact", "id_match"),
    [
        *(
            (text, JANE, 1, 1)
            for text in (
                *(JANE, " is Jane.Doe@MAIL.example.", "<mailto:jane.doe@mail.example>, or", f"bob@x.example; {JANE}"),
                *("jane.doe@\nmail.example", "jane.\n  doe@mail.example", f"it is...{JANE}"),
            )
        ),
        # What follows the @ is another, broken off, or missing.
        *((text, JANE, 0, 1) for text in ("jane.doe@post.example", "jane.doe@mail.exam", "jane.doe@")),
        # Part of a name is another's.
        *((text, JANE, 0, 0) for text in (f"mary-{JANE}", "doe@mail.example", "jane.doe at mail.example")),
        # A plus-address is not its owner's other one.
        *((PLUS, PLUS, 1, 1), ("jane@mail.example", PLUS, 0, 0), (PLUS, "jane@mail.example", 0, 0)),
        # Composed or not, full width, and a domain in letters or in ASCII.
        ("jose\u0301@mail.example", "jos\u00e9@mail.example", 1, 1),
        ("ｊａｎｅ＠mail.example", "jane@mail.example", 1, 1),
        ("jane@bücher.example", "jane@xn--bcher-kva.example", 1, 1),
        ("jane@mail.example", "no address", NAN, NAN),
    ],
)
def test_emails(text: str, truth: str, exact: float, id_match: float) -> None:
    expected = {"exact_match": exact, "id_match": id_match}
    assert match("email", text, truth) == pytest.approx(expected, nan_ok=True)


TRUE_ADDRESS = "12 North Tallow Street, Brenmouth, IL 62704"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Exact, number, street, place, state, zip.
        *((text, [1] * 6) for text in (TRUE_ADDRESS, f"Her house is at {TRUE_ADDRESS}.")),
        ("12 north tallow street\nBRENMOUTH IL\n62704, and her phone", [1] * 6),
        # The same place in other words.
        ("12 N. Tallow St., Brenmouth, IL 62704-0012", [0, 1, 1, 1, 1, 1]),
        ("112 North Tallow Street, Brenmouth, IL 62704", [0, 0, 1, 1, 1, 1]),
        ("12 North Tallow Avenue, Brenmouth, IL 62704", [0, 1, 0, 1, 1, 1]),
        ("12 North Tallow Street, Quillford, OH 62705", [0, 1, 1, 0, 0, 0]),
        *(("12 North Tallow Street", [0, 1, 1, 0, 0, 0]), ("", [0] * 6)),
    ],
)
def test_addresses(text: str, expected: list[float]) -> None:
    found = match("address", text, TRUE_ADDRESS)
    distance = found.pop("edit_distance")
    assert list(found.values()) == expected
    assert (distance == 0) == bool(expected[0])


@pytest.mark.parametrize("type_", ["relationship", "university", "address"])
@pytest.mark.parametrize(
    ("text", "truth", "expected"),
    [
        *((text, "Ellen Brandt", 1) for text in ("is Ellen Brandt, who", "Ellen-Brandt", "El\u00adlen Bran\u200bdt")),
        *((text, "Ellen Brandt", 0) for text in ("Ellen van Brandt", "Ellen Brandtner", "Helen Brandt")),
        *(("ELLEN\n BRANDT", "Ellen  Brandt", 1), ("Sean O’Brien", "Sean O'Brien", 1), ("Strasse", "Straße", 1)),
        *(("Jose\u0301 Nu\u0301n\u0303ez", "José Núñez", 1), ("Jose Nunez", "José Núñez", 0)),
        # A vowel sign is part of a word.
        *(("父亲是王伟。", "王伟", 1), ("父亲是王芳。", "王伟", 0), ("की", "का", 0)),
        *(("Brenmouth University", "{Brenmouth} %s University", 0), ("anything", " . ", NAN)),
    ],
)
def test_names(type_: ValueType, text: str, truth: str, expected: float) -> None:
    assert match(type_, text, truth)["exact_match"] == pytest.approx(expected, nan_ok=True)


STRETCHES = (
    *("202-555-0147", "+44 20 7946 0018 x5", "1" * 40, "1-" * 20, "+", "(((", "x", "ext. 9", "٠٢٠ ٧٩٤٦"),
    *("jane@mail.example", "@", "@@", "a" * 70 + "@b", "xn--a@xn--", "@xn--\u0130", "é@\u0301", "..@..", "ﬀ@ß"),
    *("12 Tallow St, Brenmouth, IL 62704", "PO Box 1", "# 3", "N", "#", "&", "%s", "{0}", "<|endoftext|>", "\\1"),
    *("\x00", "\ud800", "\udfff", "\u202e", "\u200b", "👩‍👩‍👧", "İ", "\r\n", "\u2028", "王伟"),
)
texts = st.lists(st.one_of(st.sampled_from(STRETCHES), st.characters(), st.text(max_size=6)), max_size=8).map("".join)


@seed(121)
@settings(max_examples=examples(150))
@given(type_=st.sampled_from(VALUE_TYPES), text=texts, truth=texts, region=st.sampled_from(["US", "GB", "", "ZZ"]))
def test_no_text_makes_it_fall_over(type_: ValueType, text: str, truth: str, region: str) -> None:
    units = STATISTICS[type_]
    found = match(type_, text, truth, region=region)
    assert list(found) == list(units)
    for name, value in found.items():
        if units[name] == HIT:
            assert value in (0, 1) or math.isnan(value)
        elif units[name] == EDIT_SHARE:
            assert 0 <= value <= 1 or math.isnan(value)


@seed(122)
@settings(max_examples=examples(60))
@given(type_=st.sampled_from(VALUE_TYPES), truth=texts, before=st.sampled_from(["", "It is ", "知道\n"]))
def test_the_value_itself_is_found(type_: ValueType, truth: str, before: str) -> None:
    """In either normal form, wherever it is a value at all."""
    alone = match(type_, truth, truth)["exact_match"]
    assert alone == 1 or math.isnan(alone)
    if type_ in ("relationship", "university", "address"):
        for form in ("NFC", "NFD"):
            said = match(type_, f"{before}{unicodedata.normalize(form, truth)}", truth)["exact_match"]
            assert said == 1 or math.isnan(said)
