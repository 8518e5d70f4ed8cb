"""Sentences of reports are chosen whole and not composed: how many conditions decide about the words of one."""

from __future__ import annotations

from pathlib import Path

from tools.count_conditions import MOST, sentences, too_many

KNOWN = {
    "influence/headline.py:_headline": 24,
    "influence/headline.py:headline": 7,
    "redaction/report.py:report": 6,
    "susceptibility/fisher/report.py:_blocks": 6,
    "susceptibility/report.py:headline": 6,
    "influence/disclosure_report.py:summary": 5,
    "influence/sentences.py:_effect_of_all": 4,
    "influence/sentences.py:behind_headline_of_all": 4,
    "redaction/report.py:_blocks": 5,
    "susceptibility/report.py:numbers": 5,
    "decoding/report.py:_response": 4,
    "generation/report.py:_summary": 4,
    "generation/report.py:_texts": 4,
    "influence/headline.py:_of_emissions": 4,
    "influence/sentences.py:behind_headline": 4,
    "influence/sentences.py:strongest": 4,
    "pii/words.py:headline": 4,
    "redaction/report.py:_headline": 4,
    "susceptibility/report.py:_blocks": 4,
}
"""Those that still have more; whoever mends one lowers its number, or takes it out."""


def test_no_sentence_is_composed_of_more_conditions_than_today() -> None:
    assert too_many() == KNOWN


def counted(folder: Path, text: str) -> dict[str, int]:
    module = folder / "instruments" / "own" / "report.py"
    module.parent.mkdir(parents=True)
    module.write_text(text, encoding="utf-8")
    (folder / "report").mkdir()
    (folder / "report" / "words.py").write_text("", encoding="utf-8")
    return {name.partition(":")[2]: n for name, n in sentences(folder).items()}


def test_conditions_within_a_sentence_count_and_the_choice_of_one_does_not(tmp_path: Path) -> None:
    made = """
def whole(a: bool) -> str:
    if a:
        return "One."
    return TABLE["this" if a else "that"]

def parts(a: bool, c: bool) -> str:
    word = "many"
    if c:
        word = "few"
    return f"{word} {'x' if a else 'y'}{'s' * a}: {other(a)}{a or 'none'}."

def other(a: bool) -> str:
    return "p" if a else "q"

def blocks(a: bool) -> Iterator[b.Block]:
    yield b.Text("On" if a else "Off")
    yield b.Table("On" if a else "Off")
"""
    assert counted(tmp_path, made) == {"parts": 5, "other": 1, "blocks": 1}


def test_three_are_the_most() -> None:
    assert MOST == 3
