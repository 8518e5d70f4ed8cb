"""Recognisers look only where their values may stand, and find what they find in the whole text.

The slow path here asks each pattern alone, at every place of a text.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib import resources

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st

from helpers.examples import few
from leakmeter.data import samples
from leakmeter.text.entities import date, encoded, phone, shapes, values
from leakmeter.text.entities.find import by_form
from leakmeter.text.entities.find import find as find_entities
from leakmeter.text.entities.mention import Mention
from leakmeter.text.entities.packs import pack, search
from leakmeter.text.entities.packs.checksums import AS_WRITTEN, CHECKSUMS
from leakmeter.text.entities.packs.rule import PackRule
from leakmeter.text.entities.packs.size import size_of
from leakmeter.text.folding import CASED, WORD, alike, any_of, lower, plain

SETS = {"recognisers": pack.recognisers, "shapes": pack.shapes, "public": pack.public, "meanings": pack.meanings}
EXAMPLES = [
    example.replace("«", "").replace("»", "")
    for one in pack.own()
    for rule in one.rules
    for example in (*rule.examples, *rule.counter_examples)
]
DATES = (
    *(
        "1984-05-03",
        "5/3/1984",
        "3.5.1984",
        "3. 5. 1984",
        "03.05.84",
        "3 May 1984",
        "May 3rd",
        "14 March",
        "1984年5月3日",
    ),
    *(
        "third of May nineteen eighty-four",
        "the twenty-first day of May, 1984",
        "3º de mayo de 1984",
        "3 de MAYO de 1984",
    ),
    *("May the third, 1984", "3 Ekım 1984", "3 KASIM 1984", "31 juillet", "MÄRZ 2019", "may 3", "1.2.10", "12/13/2014"),
)
SPOKEN = (
    *(
        "four four one two",
        "double four, nine-nine",
        "fünf sechs sieben acht",
        "one – two – three – four",
        "oneself two",
    ),
    *("two hundred and fifty thousand euros", "a million dollars", "ten thousand  pounds", "FOUR NINE ſix one"),
    *(
        "www.example.com/a1B2c3D4e5F6",
        "https://x.example/?token=abcdef",
        "user:pa55word!x",
        "KX-4471-B",
        "WWW.x.example",
    ),
    *("alfa bravo charlie delta", "A dash four dash seven dash nine", "x y z 4471 q"),
)
SPELLING = {
    word
    for words in (
        "alfa alpha bravo charlie delta echo foxtrot golf hotel india juliet juliett kilo lima mike november oscar",
        "papa quebec romeo sierra tango uniform victor whiskey whisky xray yankee zulu",
    )
    for word in words.split()
}
HOSTILE = (
    *("1 ", "A1 ", "sk-", "eyJaaaaaaaaaa.", "-----BEGIN PRIVATE KEY-----a", "pesel ", "DE44 5001 ", "1:", "fe80:", "a"),
    *("12 rue ", "rue de la Aa ", "calle Aa ", "P<AAA<<", "postgres://a:", "password=", "plate A1 ", "1", " "),
    *("10.1000/a", "61.222 N ", "a1B2", "éÉ", "one ", "million ", "May ", "1.", "his son ", "Mr ", "aged ", "Aa Bb "),
)
SIGNS = " \n\t.,-–/:()'’@«字\u200b\u00a0ſıİςßéÉA1²９٣Ⅷ"


def corpus() -> list[str]:
    texts = [entry.read_text(encoding="utf-8") for entry in resources.files(samples).iterdir() if entry.is_file()]
    files = [entry for entry in (resources.files(samples) / "files").iterdir() if entry.is_file()]
    texts += [entry.read_text(encoding="utf-8") for entry in files if entry.name.endswith((".txt", ".jsonl", ".csv"))]
    return [*texts, " ".join(EXAMPLES), "\n".join(EXAMPLES), "".join(EXAMPLES), " ".join((*DATES, *SPOKEN))]


def texts() -> st.SearchStrategy[str]:
    """Values, halves of values, and signs that count as others or stand in words."""
    whole = st.sampled_from([*EXAMPLES, *DATES, *SPOKEN])
    words = st.sampled_from(sorted({word for text in (*EXAMPLES, *DATES, *SPOKEN) for word in text.split()}))
    part = st.one_of(whole, words, words, st.text(SIGNS, max_size=3), st.text("0123456789. -/", max_size=8))
    return st.lists(part, max_size=12).map("".join)


# ------------------------------------------------------------------------------------------------------------- of packs


def has_word(lowered: str, word: str) -> Iterator[int]:
    """Where a word ends that stands there as a whole."""
    begins, ends = rf"(?<![{WORD}])" if regex.match(f"[{WORD}]", word) else "", rf"(?![{WORD}])"
    for match in regex.finditer(rf"{begins}{regex.escape(word)}", lowered, overlapped=True):
        if not regex.match(f"[{WORD}]", word[-1]) or regex.compile(ends).match(lowered, match.end()):
            yield match.end()


@cache
def compiled(pattern: str) -> regex.Pattern[str]:
    return regex.compile(pattern)


def slowly(text: str, rule: PackRule) -> Iterator[regex.Match[str]]:
    if not rule.before:
        yield from compiled(rule.whole).finditer(text)
        return
    lowered, done = lower(text), 0
    behind = compiled(rf"(?s:.{{0,{rule.near}}}?){rule.whole}")
    for at in sorted({at for word in rule.before for at in has_word(lowered, word)}):
        match = behind.match(text, at)
        if match and match.start("whole") >= done:
            done = match.end("whole")
            yield match


def said_slowly(text: str, rules: Sequence[PackRule]) -> set[tuple[str, int, int]]:
    text = plain(text).text
    found = set()
    for rule in rules:
        for match in slowly(text, rule):
            start, end = match.span("value" if "value" in match.groupdict() and match["value"] else "whole")
            said = text[start:end]
            value = said if rule.checksum in AS_WRITTEN else search.compact(said)
            holds = rule.checksum is None or (value.isascii() and CHECKSUMS[rule.checksum](value))
            behind = lower(text)[end : end + rule.near]
            is_beside = not rule.after or any(list(has_word(behind, word)) for word in rule.after)
            if said.strip() and holds and is_beside:
                found.add((rule.kind, start, end))
    return found


def said(text: str, rules: Sequence[PackRule]) -> set[tuple[str, int, int]]:
    text = plain(text).text
    return {(mention.type, mention.start, mention.end) for mention in search.find(text, rules)}


@pytest.mark.parametrize("name", SETS)
def test_packs_find_in_texts_what_each_pattern_finds_alone(name: str) -> None:
    for text in corpus():
        assert said(text, SETS[name]()) == said_slowly(text, SETS[name]())


@pytest.mark.parametrize("name", few(SETS))
@given(text=texts())
@settings(max_examples=30)
def test_packs_find_anywhere_what_each_pattern_finds_alone(name: str, text: str) -> None:
    assert said(text, SETS[name]()) == said_slowly(text, SETS[name]())


def test_every_text_that_a_pattern_needs_is_one_that_is_compared() -> None:
    for one in pack.own():
        for rule in one.rules:
            for needed in rule.needs:
                assert alike(needed) == needed
            wanted = [text for text in rule.examples if rule.needs]
            assert all(any(needed in alike(text) for needed in rule.needs) for text in wanted), rule.kind


def test_a_text_without_what_a_recogniser_needs_is_not_asked() -> None:
    toml = "[[recogniser]]\nkind = 'berth'\npattern = '[a-z]{4}-\\d'\nneeds = ['Pier-']\n"
    toml += "examples = ['It is «pier-4».']\ncounter_examples = ['quay-4']\n"
    assert pack.places("PIER-1 and pier-4, quay-5", [toml])[0][:2] == (11, 17)
    assert not pack.places("quay-4", [toml])


@pytest.mark.parametrize(
    ("pattern", "digits"),
    [
        (r"\d{3}-\d{2}", 5),
        (r"\d{2,4}?A", 2),
        (r"\d?[0-9]", 1),
        (r"(?:\d{4}|A\d)", 1),
        (r"(?:\d[ ]?){9}[\dX]", 9),
        (r"A(?=\d{3})[A-Z\d]{4}", 0),
        (r"(?<!\d\d)7\p{L}", 1),
    ],
)
def test_how_many_digits_a_pattern_matches_at_least(pattern: str, digits: int) -> None:
    assert size_of(pattern, "it").digits == digits


# ------------------------------------------------------------------------------------------------------------- of texts


def test_signs_that_a_pattern_takes_for_the_same_are_alike() -> None:
    signs = "".join(sign for sign in map(chr, range(0x11000)) if regex.match(rf"[{CASED}]", sign))
    for sign in filter(lambda sign: sign.lower() != sign or sign.upper() != sign, signs):
        assert {alike(other) for other in regex.findall(f"(?i:{sign})", signs)} == {alike(sign)}


def test_texts_stay_as_long_and_their_words_words() -> None:
    every = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x11000)]))
    assert len(alike(every)) == len(every) == len(lower(every))
    for sign, other in zip(every, alike(every), strict=True):
        # What stands before a word is compared in Latin letters and digits alone.
        assert not re.match("[a-z0-9_]", other) or regex.match(f"[{WORD}]", sign)


@given(st.lists(st.text("ab.", min_size=1, max_size=5), min_size=1, max_size=8), st.text("ab.", max_size=12))
def test_a_pattern_of_texts_finds_the_longest(wanted: list[str], text: str) -> None:
    longest_first = "|".join(map(re.escape, sorted(wanted, key=len, reverse=True)))
    assert re.findall(any_of(wanted), text) == re.findall(longest_first, text)


# --------------------------------------------------------------------------------------------------- of dates and words


def spans(matches: Iterable[regex.Match[str]]) -> list[tuple[int, int]]:
    return [match.span() for match in matches]


def agrees(text: str) -> None:
    text = plain(text).text
    assert spans(date._matches(text)) == [span for form in date._patterns() for span in spans(form.finditer(text))]
    for pattern, where in ((shapes._SPELLED, shapes._SPELLED_AT), (shapes._SPELLED_AMOUNT, shapes._LARGE_AT)):
        assert spans(shapes._matches_at(pattern, text, where)) == spans(pattern.finditer(text))
    tokens = list(shapes._tokens(text))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shapes, "_LIKE_KEY", regex.compile("(?s).+"))
        assert list(shapes._tokens(text)) == tokens


def test_dates_numbers_and_keys_are_those_of_the_whole_text() -> None:
    for text in corpus():
        agrees(text)


@given(texts())
@example("²1aB twenty-first of May 1984")
def test_dates_numbers_and_keys_are_those_of_any_text(text: str) -> None:
    agrees(text)


def spelled_slowly(text: str) -> list[str]:
    """What words of each run stand for, one behind the other, of runs that have four or more."""
    runs: list[list[str]] = [[]]
    for word in map(str.casefold, regex.findall(r"[\p{L}\p{N}]++", text)):
        signs = word if len(word) == 1 or word.isdecimal() else word[0] if word in SPELLING else ""
        signs = signs or shapes.digits_of(word)[0]
        if signs:
            runs[-1].append(signs)
        elif word != "dash":
            runs.append([])
    return ["".join(run) for run in runs if len(run) >= 4]


@given(texts())
@example("A dash 4 dash seven dash nine, alfa bravo charlie")
def test_words_that_are_spelled_are_those_of_any_text(text: str) -> None:
    decoded = list(encoded._spelled(text))
    assert [run for one in decoded for run in one.text.split("\n") if run] == spelled_slowly(text)


def test_a_document_of_many_cases_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []

    def finding(text: str, region: str) -> Iterator[Mention]:
        searched.append(text)
        return iter(())

    monkeypatch.setattr(phone, "find", finding)
    by_form.cache_clear()
    text = "Call Mr Quillmere on 555-0100."
    for context in ("", text, "Nobody calls."):
        values.find(text, context, "", region="US")
    find_entities(text, [(0, len(text))], region="US")
    by_form.cache_clear()
    assert [one for one in searched if one] == [text, "Nobody calls."]


# ----------------------------------------------------------------------------------------------------------- in time


def seconds(call: Callable[[], object]) -> float:
    """The least of a few, of this process alone."""
    times = []
    for _ in range(3):
        started = time.process_time()
        call()
        times.append(time.process_time() - started)
    return min(times)


@pytest.mark.long
@pytest.mark.parametrize("part", [*HOSTILE, *DATES, *SPOKEN])
def test_twice_the_text_takes_twice_the_time(part: str) -> None:
    def searching(n: int) -> Callable[[], object]:
        text = (part * n)[:n]
        # Nothing is kept of the text from before.
        others = iter([f"{text}{'.' * i}" for i in range(1, 4)])

        def search_all() -> object:
            other = next(others)
            rules = (*pack.recognisers(), *pack.shapes(), *pack.public(), *pack.meanings())
            return list(search.find(other, rules)), list(date.find(other, "US")), list(shapes.find(other))

        return search_all

    list(search.find("", SETS["meanings"]()))
    assert seconds(searching(40_000)) < 3 * seconds(searching(20_000)) + 0.02
