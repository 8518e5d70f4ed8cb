"""One word, one thing: public classes have names of their own, and the words of the glossary are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

from tools import count_ideas as ideas

from helpers.places import DOCS

LINE = re.compile(r"^\| ([a-z]+) \| (?:`([\w.]+)` )?\| (.+) \|$", re.MULTILINE)


def glossary() -> list[tuple[str, str, str]]:
    """Words with the class of each, if it has one, and what it means."""
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    _, _, section = text.partition("\n## Glossary\n")
    return LINE.findall(section.partition("\n## ")[0].replace("| word | class | meaning |\n", ""))


def test_no_two_public_classes_share_a_name() -> None:
    assert len(ideas.public_classes()) > 600
    assert ideas.names_with_several_definitions() == {}
    assert all(len(ideas.public_classes()[name]) > 1 and why for name, why in ideas.SHARED_NAMES.items())


def test_a_name_with_two_definitions_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "class Row:\n    class Kind: ...\n\n\nKind = str\nT = V = 1\nLIST = [1]\n", encoding="utf-8"
    )
    (tmp_path / "b.py").write_text(
        "from a import Kind\n\nif Kind:\n    Row: TypeAlias = int\n_Row = int\n", encoding="utf-8"
    )
    assert ideas.public_classes(tmp_path) == {"Row": ["a", "b"], "Kind": ["a"]}
    assert ideas.private_classes(tmp_path) == {"_Row": ["b"]}


def test_no_private_class_takes_a_word_of_the_glossary() -> None:
    words = {word.capitalize() for word, at, _ in glossary() if at}
    private = ideas.private_classes()
    assert len(private) > 100
    assert {name: at for name, at in private.items() if name.strip("_") in words} == {}


def test_words_of_the_glossary_are_those_of_the_code() -> None:
    classes = ideas.public_classes()
    words = glossary()
    assert 25 <= len(words) <= 40
    assert len({word for word, _, _ in words}) == len(words)
    for word, at, meaning in words:
        assert re.fullmatch(r"[A-Z][^.]+\.", meaning), f"{word}: one sentence"
        module, _, name = at.rpartition(".")
        assert classes.get(word.capitalize(), []) == ([module] if at else []), word
        assert name.lower() in (word, ""), word
