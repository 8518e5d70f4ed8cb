"""All that users can read is as it was reviewed: a replaced word shows as a changed line of `strings.txt`.

LEAKMETER_SNAPSHOTS=1 writes the file again; read its diff as a reader of leakmeter would.
"""

from __future__ import annotations

import os
from pathlib import Path

from helpers.user_strings import all_strings, of_source

REVIEWED = Path(__file__).parent / "strings.txt"


def test_texts_that_users_read_are_as_they_were_reviewed() -> None:
    made = all_strings()
    if os.environ.get("LEAKMETER_SNAPSHOTS"):
        REVIEWED.write_text("".join(f"{text}\n" for text in made), encoding="utf-8")
    known = REVIEWED.read_text(encoding="utf-8").splitlines()
    assert {"new": sorted({*made} - {*known}), "gone": sorted({*known} - {*made})} == {"new": [], "gone": []}
    assert known == made
    kinds = ("column", "error", "field", "help", "option", "page", "quantity", "text")
    assert {text.split(" ")[0].rstrip(":") for text in made} == {*kinds}


def test_holes_and_alternatives_of_a_text_are_shown() -> None:
    source = '''
"""A docstring of a module."""
def check(name, n):
    """A docstring of a function."""
    if n < 1:
        raise UsageError(f"{name} is {n:.3f}; " "it has to be 1 or more" + advice)
    notify(f"left out {n} bad case{'' if n == 1 else 's'}: {', '.join(f'number {n} of all' for n in names)}")
    return re.compile(r"(?:one two)"), "SELECT one FROM two", "one_word"
'''
    assert list(of_source(source)) == [
        "text: left out {…} bad case{|s}: {…}",
        "error: {…} is {…}; it has to be 1 or more{…}",
        "text: number {…} of all",
    ]
