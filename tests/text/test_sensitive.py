"""A user's list of what is personal or secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakmeter.errors import LeakmeterError
from leakmeter.text import sensitive

TABLE = Path(__file__).parent / "customers.csv"


def test_values_of_a_table_are_found_in_whole_words_under_their_columns() -> None:
    text = "Marisol VANTREIGHT (0161-496-0382) and Ottoline Strand; Strand, Ottoline is barred since May. Bo is 7."
    places = sensitive.read(str(TABLE)).find(text)
    assert [(text[start:end], kind) for start, end, kind in places] == [
        ("Marisol VANTREIGHT", "customer"), ("0161-496-0382", "phone"), ("Strand, Ottoline", "customer"),
        ("barred since May", "plan_note"),
    ]  # fmt: skip
    assert sensitive.read(str(TABLE)).find("Marisol Vantreights mother") == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("MARI\u200bSOL\u00a0Vantréight left", "MARI\u200bSOL\u00a0Vantréight"),
        ("Call 01614960382 now", "01614960382"),
        ("Call ０１６１ 49 60\u2011382 now", "０１６１ 49 60\u2011382"),
    ],
)
def test_values_of_a_table_are_found_in_other_clothes(text: str, said: str) -> None:
    ((start, end, _),) = sensitive.read(str(TABLE)).find(text)
    assert text[start:end] == said


def test_a_number_of_a_table_is_no_part_of_a_longer_one() -> None:
    assert sensitive.read(str(TABLE)).find("Order 101614960382, Mari Sol Vantreight") == []


def test_rows_of_a_table_may_be_shorter_or_longer_than_its_headings(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_text("a,b\nFoo Bar\nBaz Qux,Ann Lee,surplus\n", encoding="utf-8")
    assert sensitive.read(str(file)).find("Foo Bar, Ann Lee, surplus") == [(0, 7, "a"), (9, 16, "b")]


def test_patterns_are_found_too(tmp_path: Path) -> None:
    file = tmp_path / "patterns.txt"
    file.write_text("# ours\nmrn = MRN-\\d{4}\n", encoding="utf-8")
    assert sensitive.read(str(file)).find("See MRN-0042.") == [(4, 12, "mrn")]


def test_a_table_that_holds_nothing_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    for text in ("a,b\n1,2\n", ""):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(LeakmeterError, match="holds no value"):
            sensitive.read(str(file))
