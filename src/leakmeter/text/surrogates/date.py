"""Surrogates of dates: another day, month and year."""

from __future__ import annotations

import random
from collections.abc import Sequence

import regex

from leakmeter.text.entities import date
from leakmeter.text.surrogates.draw import ordinal_ending, scrambled


def in_mentions(texts: Sequence[str], region: str, drawn: random.Random) -> list[str]:
    """One other date in the form of each text; a text that is no date is scrambled."""
    parsed = [date.parse(text, region) for text in texts]
    years = [int(value[:4]) for _, value in filter(None, parsed) if value[:4].isdecimal()]
    months = {value[5:7] for _, value in filter(None, parsed)}
    days = {value[8:] for _, value in filter(None, parsed)}
    year = (years[0] if years else 2000) + drawn.choice((-1, 1)) * drawn.randint(1, 9)
    year = year if 1 <= year <= 9999 else 1990 + drawn.randint(0, 9)
    month = drawn.choice([m for m in range(1, 13) if f"{m:02}" not in months])
    day = drawn.choice([d for d in range(1, 29) if f"{d:02}" not in days])
    same = {text: scrambled(text, drawn) for text in dict.fromkeys(texts)}
    return [
        same[text] if match is None else _dated(match[0], region, year, month, day)
        for text, match in zip(texts, parsed, strict=True)
    ]


def _dated(match: regex.Match[str], region: str, year: int, month: int, day: int) -> str:
    groups = {name: text for name, text in match.groupdict().items() if text is not None}
    numbers = {"y": year, "m": month, "d": day}
    if "era" in groups:
        numbers["n"] = date.year_of_era(groups["era"], year)
    if "first" in groups:
        first = date.is_month_first(match, region)
        numbers |= {"first": month if first else day, "second": day if first else month}
    plain = "name" in groups
    new = {name: _padded(number, groups[name], plain) for name, number in numbers.items() if name in groups}
    if "name" in groups:
        new["name"] = date.month_like(groups["name"], month)
    if groups.get("th", ".") in ("st", "nd", "rd", "th"):
        new["th"] = ordinal_ending(day)
    new |= {name: date.day_like(words, day) for name, words in groups.items() if name == "day_words"}
    new |= {name: date.year_like(words, year) for name, words in groups.items() if name == "year_words"}
    out, cursor = "", match.start()
    for name in sorted(new, key=match.start):
        out += match.string[cursor : match.start(name)] + new[name]
        cursor = match.end(name)
    return out + str(match.string[cursor : match.end()])


def _padded(number: int, like: str, plain: bool) -> str:
    """A number with a zero in front where the old one had one, and in dates that are all numbers where it might."""
    if (in_signs := date.number_like(number, like)) is not None:
        return in_signs
    if len(like) == 4:
        return f"{number:04}"
    # A year of two digits does not say its century.
    new = str(number % 100)
    return new if plain and not like.startswith("0") else new.zfill(len(like))
