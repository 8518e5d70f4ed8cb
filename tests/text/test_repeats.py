"""Values said more than once, in invented notes; and what holds a range of characters."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.operations import n_operations
from leakmeter.text import repeats
from leakmeter.text.spans import Holders


def said(text: str) -> list[list[str]]:
    return [[text[a:b] for a, b in value.mentions] for value in repeats.find(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("By day +43 660 1234567; at night 0660/1234567 works.", [["+43 660 1234567", "0660/1234567"]]),
        ("Phone (555) 010-7788. Call 555.010.7788 after four.", [["(555) 010-7788", "555.010.7788"]]),
        ("Ring 555-0107 by day, or 555 0107.", [["555-0107", "555 0107"]]),
        (r'{"note": "Ring\n555-0107\nor 555 0107."}', [["555-0107", "555 0107"]]),
        ("To anna.ek@c.example, or Anna.Ek@c.example.", [["anna.ek@c.example", "Anna.Ek@c.example"]]),
        (
            "The nurse saw Tobias Quillmere at noon. At dusk Mr Quillmere left, and Quillmere's son too.",
            [["Tobias Quillmere", "Mr Quillmere", "Quillmere's"]],
        ),
        ("Badge AX-4471-9 was lost; a finder of AX-4471-9 may keep it.", [["AX-4471-9", "AX-4471-9"]]),
        ("See https://ek.example/a?x=1, or (https://ek.example/a?x=1).", [["https://ek.example/a?x=1"] * 2]),
    ],
)
def test_a_value_is_found_in_its_two_forms(text: str, expected: list[list[str]]) -> None:
    assert said(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "The cat sat. The dog ran. The bird sang. Then the cat ran. Then the dog sat.",
        "However, it rained. However, we went out. Tomorrow is dry. Tomorrow we sail.",
        "Bread is baked at dawn. Bread keeps two days. Most people like bread.",
        "It was 5 degrees, then 5 degrees again.",
        "Room 12 34 56, then room 12 34 56.",
        "Anna sang. Bo ate. Cid left.",
        "Ask Ida Brandvold about bread. Ask Tobias Quillmere about fish. Ask again.",
        "Call 555-010-7788 today and 555-010-7799 tomorrow.",
        "- Milk\n- Milk\n* Eggs\n* Eggs",
        "",
        "   \n",
    ],
)
def test_plain_prose_has_no_groups(text: str) -> None:
    assert said(text) == []


def test_a_name_that_opens_a_sentence_counts_when_it_is_one_elsewhere() -> None:
    text = "Fenwarren wrote it. We asked Odile Fenwarren twice. Fenwarren agreed."
    assert said(text) == [["Fenwarren", "Odile Fenwarren", "Fenwarren"]]


def test_values_stand_in_the_order_of_first_mention() -> None:
    text = "Code QX-1188 is for Ida Brandvold. You find Ida Brandvold at 555-010-7788 for QX-1188, or 555 010 7788."
    assert [value.text for value in repeats.find(text)] == ["QX-1188", "Ida Brandvold", "555-010-7788"]


@given(text=st.text(max_size=300))
def test_any_text_can_be_searched(text: str) -> None:
    for value in repeats.find(text):
        assert value.text in text


@pytest.mark.parametrize("text", ["ab12" * 5000, "\n" * 20000, "Anna Maria " * 1500, "1 " * 8000, "(1)" * 4000])
def test_odd_texts_do_not_take_forever(text: str) -> None:
    started = time.process_time()
    repeats.find(text)
    assert time.process_time() - started < 5


def test_names_that_share_a_word_with_any_of_a_group_join_it() -> None:
    text = "He saw Anna Ekberg, and it was Ekberg Holm; but Anna Berg sang, and Bodil Lind."
    (value,) = repeats.find(text)
    assert [text[a:b] for a, b in value.mentions] == ["Anna Ekberg", "Ekberg Holm", "Anna Berg"]


WORDS = ("Anna", "Ekberg", "Berg", "Holm", "Mr", "anna", "said", "555-010-7788", "555 010 7788", "AX-4471", "ax-4471")
WORDS += ("a@b.example", "A@b.example", "https://b.example/AX-4471", "+43 660 1234567", "a12@b.example.", "Holm's")


def obvious(text: str) -> list[list[tuple[int, int]]]:
    """Mentions of each value, every match held against all that were taken before, every name against every group."""

    def is_free(span: tuple[int, int]) -> bool:
        return not any(start < span[1] and span[0] < end for start, end in taken)

    taken: list[tuple[int, int]] = []
    said: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for kind, pattern in (
        ("email", repeats._EMAIL), ("url", repeats._URL), ("digits", repeats._PHONE), ("code", repeats._CODE),
    ):  # fmt: skip
        for match in pattern.finditer(text):
            digits = "".join(character for character in match.group() if character.isdigit())
            key = digits[-9:] if kind == "digits" else match.group().casefold()
            if is_free(match.span()) and (kind != "digits" or len(digits) >= 7):
                taken.append(match.span())
                said.setdefault((kind, key), []).append(match.span())
    named = [one for one in _named(text) if is_free(one[0])]
    known = {word for _, sure, _ in named for word in sure}
    groups = [(sure | (unsure & known), [span]) for span, sure, unsure in named]
    groups = [group for group in groups if group[0]]
    while pair := next(((a, b) for a in groups for b in groups if a is not b and a[0] & b[0]), None):
        first, second = pair
        groups = [group for group in groups if group is not first and group is not second]
        groups.append((first[0] | second[0], first[1] + second[1]))
    return sorted(sorted(spans) for spans in [*said.values(), *(spans for _, spans in groups)] if len(spans) > 1)


def _named(text: str) -> Iterator[tuple[tuple[int, int], set[str], set[str]]]:
    """Each stretch of capitalised words: its words that are names, and those that may only begin a sentence."""
    lowered = {word for word in repeats._WORD.findall(text) if word[:1].islower()}
    for match in repeats._NAME.finditer(text):
        words = [
            word.casefold().removesuffix("'s") if repeats._may_name(word) and word.casefold() not in lowered else ""
            for word in repeats._WORD.findall(match.group())
        ]
        opens = bool(repeats._SENTENCE_START.search(text[max(0, match.start() - 4) : match.start()]))
        yield match.span(), set(words[opens:]) - {""}, set(words[:opens]) - {""}


JOINED = st.tuples(st.sampled_from(WORDS), st.sampled_from([" ", ", ", ". ", "\n", "/", ""])).map("".join)


@given(text=st.lists(JOINED, max_size=40).map("".join))
def test_it_finds_what_comparing_everything_with_everything_finds(text: str) -> None:
    assert [list(value.mentions) for value in repeats.find(text)] == obvious(text)


@pytest.mark.parametrize(
    "row",
    [
        "Row {n:05}: a{n}@x.example, a{n}@x.example\n",
        "Call 555-{n:07}, not AX-{n:05}.\n",
        "He saw Anna{letters} there.\n",
        "He saw Anna{letters} Berg{letters} and Berg{letters} Anna.\n",
    ],
)
def test_twice_the_text_is_twice_the_work(row: str) -> None:
    def searching(n_rows: int) -> int:
        letters = ("".join("abcdefghij"[int(digit)] for digit in f"{n:04}") for n in range(n_rows))
        text = "".join(row.format(n=n, letters=more) for n, more in zip(range(n_rows), letters, strict=True))
        return n_operations(lambda: repeats.find(text))

    assert searching(400) < 2.3 * searching(200)


RANGES = st.tuples(st.integers(0, 40), st.integers(0, 12)).map(lambda at: (at[0], at[0] + at[1]))


@given(ranges=st.lists(st.tuples(RANGES, st.integers(0, 5)), max_size=30), asked=RANGES)
def test_it_finds_what_looking_at_every_range_finds(ranges: list[Any], asked: tuple[int, int]) -> None:
    start, end = asked
    expected = Counter(owner for (a, b), owner in ranges if a <= start and end <= b)
    assert Counter(Holders(ranges).holding(start, end)) == expected


@pytest.mark.parametrize("overlap", [0, 3])
def test_ranges_side_by_side_are_found_without_looking_at_all_of_them(overlap: int) -> None:
    def asking(n: int) -> int:
        holders = Holders(((at, at + 4 + overlap), at) for at in range(0, 4 * n, 4))
        return n_operations(lambda: [list(holders.holding(at, at + 2)) for at in range(0, 4 * n, 4)])

    assert asking(800) < 2.2 * asking(400)
