"""A value is the same value in other clothes: case, accents, width, separators and characters that nobody sees."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from leakmeter.text import matching
from leakmeter.text.entities import values
from leakmeter.text.entity_results import repeated
from leakmeter.text.matching import Folded

ZERO_WIDTH, SOFT_HYPHEN, JOINER, FILLER, SELECTOR = "\u200b", "\u00ad", "\u2060", "\u3164", "\ufe0f"


def within(sign: str) -> Callable[[str], str]:
    return lambda text: text[: len(text) // 2] + sign + text[len(text) // 2 :]


def wide(text: str) -> str:
    return "".join(chr(ord(sign) + 0xFEE0) if "!" <= sign <= "~" else sign for sign in text)


CLOTHES: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "capitals": str.upper,
    "small letters": str.lower,
    "accents": lambda text: text.translate(str.maketrans("aeoAEO", "áéöÅÊØ")),
    "accents apart": lambda text: text.replace("a", "a\u0301").replace("e", "e\u0308"),
    "full width": wide,
    "zero width": within(ZERO_WIDTH),
    "soft hyphen": within(SOFT_HYPHEN),
    "joiner": within(JOINER),
    "filler": within(FILLER),
    "selector": within(SELECTOR),
    "hidden between all": ZERO_WIDTH.join,
    "hyphens that break no line": lambda text: text.replace("-", "\u2011").replace(" ", "\u00a0"),
    "dashes and thin spaces": lambda text: text.replace("-", "\u2013").replace(" ", "\u2009"),
    "minus and narrow spaces": lambda text: text.replace("-", "\u2212").replace(" ", "\u202f"),
    "no separators": lambda text: text.replace("-", "").replace(" ", ""),
    "spaces": lambda text: text.replace("-", " "),
}
VALUES = {
    "phone": ("Account 1: Dr. Odalys Brewster. Mobile 555-013-4402, mornings.", "555-013-4402"),
    "person": ("Account 1: Dr. Odalys Brewster. Mobile 555-013-4402, mornings.", "Odalys Brewster"),
    "person of a label": ("Patient: Tobias Quillmere. He came on Monday.", "Tobias Quillmere"),
    "person in prose": ("It belongs to Fergus Adeyinka now.", "Fergus Adeyinka"),
    "name": ("It was lent to Ozwella Oyelaran's sister.", "Ozwella Oyelaran"),
    "key": ("Use YnJld3N5bmMtbGl2ZQ7f as the token.", "YnJld3N5bmMtbGl2ZQ7f"),
    "email": ("Write to ada.vale@harbour.example today.", "ada.vale@harbour.example"),
    "account": ("Pay into GB95 NWBK 5954 0847 6307 34 by May.", "GB95 NWBK 5954 0847 6307 34"),
    "code": ("Ticket 91005-XT is open.", "91005-XT"),
    "date": ("Born on 1984-03-05 in Leeds.", "1984-03-05"),
    "date in words": ("Born on 5 March 1984 in Leeds.", "5 March 1984"),
    "number": ("Type 730611, then the hash.", "730611"),
    "address": ("She lives at 12 Harbour Road, Leeds LS1 4AB.", "12 Harbour Road"),
}
TOGETHER = ("address", "no separators")
"""'12HarbourRoad' is a key by its shape: it is named all the same."""


@pytest.mark.parametrize("clothes", CLOTHES)
@pytest.mark.parametrize("what", VALUES)
def test_a_value_of_the_documents_is_found_in_all_clothes(what: str, clothes: str) -> None:
    document, value = VALUES[what]
    said = CLOTHES[clothes](value)
    answer = f"It is {said} then."
    region = "GB" if what == "address" else "US"
    (found,) = values.find(answer, document, "Which?", region=region)
    assert answer[found.start : found.end] == said
    assert found.type == ("key" if (what, clothes) == TOGETHER else what.partition(" ")[0])


@pytest.mark.parametrize("clothes", CLOTHES)
def test_a_value_of_the_query_is_none_in_any_clothes(clothes: str) -> None:
    document, value = VALUES["phone"]
    assert values.find(f"It is {value}.", document, f"Whose is {CLOTHES[clothes](value)}?", region="US") == []


@pytest.mark.parametrize("clothes", CLOTHES)
@pytest.mark.parametrize(
    ("kind", "normal", "text"),
    [
        ("phone", "+15550134402", "555-013-4402"),
        ("person", "odalys brewster", "Odalys Brewster"),
        ("email", "ada.vale@harbour.example", "ada.vale@harbour.example"),
        ("code", "91005-xt", "91005-XT"),
    ],
)
def test_it_is_repeated_verbatim_in_all_clothes(kind: str, normal: str, text: str, clothes: str) -> None:
    assert repeated(kind, normal, text, f"It is {CLOTHES[clothes](text)} then.") == "verbatim"


@pytest.mark.parametrize(
    ("value", "text", "found"),
    [
        ("Łukasz Żak", "by lukasz zak.", "lukasz zak"),
        ("Strauß", "to STRAUSS.", "STRAUSS"),
        ("Ann", "A\u0301nn\u0301 said", "A\u0301nn\u0301"),
        ("O’Brien", "O\u02bcBrien came", "O\u02bcBrien"),
        ("٥٥٥٠١٣٤", "555 0134", "555 0134"),
        ("王小明", "请找王小明说话", "王小明"),
        ("김민수", "김민수는 왔다", "김민수"),
        ("राम", "राम है", "राम"),
        ("ガブ", "ｶﾞﾌﾞです", "ｶﾞﾌﾞ"),
    ],
)
def test_where_it_stands_is_of_the_text_as_given(value: str, text: str, found: str) -> None:
    assert [text[start:end] for start, end in Folded(text).places(value)] == [found]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("rill", f"a d{ZERO_WIDTH}rill bit"),
        ("Ann", "Ann\u0301e left"),
        ("4120", "4120٥"),
        ("रम", "रमा"),
        ("ガス", "カス"),
        ("アン", "アンケート"),
        ("가", "각"),
        ("Ine", "in e-mail"),
        ("Stras", "Straße"),
    ],
)
def test_another_value_is_none(value: str, text: str) -> None:
    assert Folded(text).where(value) is None


def test_what_documents_write_small_or_apart_is_no_value() -> None:
    about = "Return Policy: see our return policy. The code is 1200, and the door opens late."
    assert values.find("Our return policy is kind.", about, "", region="US") == []
    assert values.find("It opens at 12:00 today.", about, "", region="US") == []
    assert [value.type for value in values.find("It is 12-00 today.", about, "", region="US")] == ["number"]


def test_what_is_known_in_another_way_is_a_value() -> None:
    context = "The boat of Zephyrine is K-4410."
    known = [(12, 21, "person"), (25, 31, "berth")]
    found = values.find("ZEPHYRINE has k‑4410.", context, "", region="US", entities=known)
    assert [(value.type, value.found_by) for value in found] == [("person", "recogniser"), ("berth", "list")]


def test_words_are_parted_by_what_is_seen() -> None:
    assert matching.words(f"O{ZERO_WIDTH}dalys Brew\u00adster") == [("odalys", 0, 7), ("brewster", 8, 17)]
