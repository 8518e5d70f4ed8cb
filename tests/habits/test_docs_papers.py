"""The page that maps the papers to the code leaves nothing out and names nothing that is not there."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache

import pytest

from helpers.places import ROOT, TESTS
from leakmeter.studies.grid import shipped

TEXT = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
BIBLIOGRAPHY = ROOT / "docs" / "bibliography.md"
RESULTS = ROOT / "docs" / "results"
NOT_HERE = "not here, because"

# What the papers contain, by the kinds of things that they number.
CONTENTS = {
    "Context influence": {
        "Definition": "2.1 2.2 3.1 3.2 3.3 3.4", "Eq.": "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15",
        "Theorem": "3.1 A.1 B.1", "Algorithm": "1", "Table": "1 2 3 4", "Figure": "1 2a 2b 2c 3 4 5 6 7 8",
    },
    "ICL influence and the audit": {
        "Definition": "2.1 2.2 3.1 C.1", "Eq.": "1 2 3 4 5 6 7 8", "Theorem": "C.2 C.3 C.4 C.5 C.6 C.7 C.8 C.9",
        "Algorithm": "1 2 3", "Table": "1 2 3 4 5 6", "Figure": "1 2 3 4 5 6 7", "Appendix": "B C.3.1 C.3.3",
    },
    "Susceptibility": {
        "Eq.": "1 2 3 4 5 6 7 8 9 10 11 12 13", "Proposition": "A.1", "Table": "1 2", "Figure": "1 2 3 4 5 6",
    },
    "Personal data": {"Eq.": "1", "Table": "1 2", "Figure": "1 2 3", "Appendix": "A.1 A.2 A.3 A.4 B.1.2"},
}  # fmt: skip


def rows(section: str) -> list[list[str]]:
    part = TEXT.split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def numbered(item: str) -> Iterator[tuple[str, str]]:
    """'Theorem A.1, Eq. 9, 10: …' to (Theorem, A.1), (Eq., 9), (Eq., 10)."""
    kind = ""
    for part in item.split(": ", 1)[0].split(", "):
        *words, number = part.split()
        kind = " ".join(words) or kind
        yield kind, number


@pytest.mark.parametrize("section", CONTENTS)
def test_every_numbered_item_of_a_paper_is_there_with_code_and_test_or_a_reason(section: str) -> None:
    said = {one for row in rows(section) for one in numbered(row[0])}
    wanted = {(kind, number) for kind, numbers in CONTENTS[section].items() for number in numbers.split()}
    assert {one for one in said if one[0] in CONTENTS[section]} == wanted
    for item, code, test, result, _ in rows(section):
        assert NOT_HERE in code or ("`" in code and re.search(r"`[a-z/]*test_", test)), item
        assert result, item


def names() -> list[str]:
    return sorted(set(re.findall(r"`([a-z_.0-9/]+:[A-Za-z_.0-9]+)`", TEXT)))


def resolved(name: str) -> object:
    """What 'core.reductions:mix_with_first' names; None for nothing."""
    module, _, path = name.partition(":")
    found: object = importlib.import_module(f"leakmeter.{module}")
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


@cache
def defined_in(name: str) -> frozenset[str]:
    tree = ast.parse((TESTS / f"{name}.py").read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_code_and_tests_that_are_named_are_there() -> None:
    def is_there(name: str) -> bool:
        file, _, test = name.partition(":")
        return test in defined_in(file) if "/test_" in file else resolved(name) is not None

    assert len(names()) > 200
    assert [name for name in names() if not is_there(name)] == []


def test_files_and_studies_that_are_named_are_there() -> None:
    for path in re.findall(r"`((?:benchmarks|src|tests)/[\w/]+\.py)`", TEXT):
        assert (ROOT / path).is_file(), path
    named = set(re.findall(r"study `(\w+)`", TEXT))
    assert named == set(shipped())


def test_every_result_is_linked_and_what_is_measured_is_not_called_unmeasured() -> None:
    linked = set(re.findall(r"\(results/(\w+)\.md\)", TEXT))
    there = {path.stem for path in RESULTS.glob("*.md")}
    unmeasured = set(re.findall(r"not yet measured: `(\w+)`", TEXT))
    assert linked == there
    assert not unmeasured & there, "link the page in docs/papers.md instead of 'not yet measured'"


def test_the_bibliography_has_the_identifiers_that_are_linked() -> None:
    entries = re.findall(r"^@\w+\{.*?^\}$", BIBLIOGRAPHY.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert all(entry.count("{") == entry.count("}") for entry in entries)
    identifiers = re.findall(r"^  (?:doi|eprint) += \{(.+)\},$", "\n".join(entries), re.MULTILINE)
    linked = re.findall(r"\(https://(?:doi\.org|arxiv\.org/abs)/([^)]+)\)", TEXT)
    assert sorted(identifiers) == sorted(linked) != []


def test_one_next_token_has_a_heat_map_of_words() -> None:
    import leakmeter

    result = leakmeter.influence("toy", context="Anna saw one.", query="What?", unit="ngram:1", max_new_tokens=1)
    assert result.matrix.shape == (len(result.pieces), 1)
    assert {piece.n_tokens for piece in result.pieces} == {1}
    assert result.to_rich() is not None
