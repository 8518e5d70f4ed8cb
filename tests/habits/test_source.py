"""Habits of the source: files are opened with an encoding, and nothing names the machine it was written on."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from helpers.places import ROOT

SOURCE = ROOT / "src" / "leakmeter"
MODULES = sorted(SOURCE.rglob("*.py"))
TEXT_SUFFIXES = ".py .md .toml .txt .json .html .css .js .j2 .jinja .yml .yaml .cfg".split()  # noqa: SIM905
PLACES = re.compile(r"(?<![\w.])/(?:tmp|work|root|home/\w+)(?:/|\b)")


def texts() -> list[Path]:
    found = [path for folder in ("src", "docs") for path in (ROOT / folder).rglob("*") if path.suffix in TEXT_SUFFIXES]
    found += [path for path in ROOT.glob("*") if path.is_file() and path.suffix in TEXT_SUFFIXES]
    return sorted(path for path in found if path.is_file())


def test_nothing_names_the_machine_it_was_written_on() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts()
        if PLACES.search(text := path.read_text(encoding="utf-8"))
        for number, line in enumerate(text.splitlines(), 1)
        if PLACES.search(line)
    ]
    assert found == []
    names = {str(path.relative_to(ROOT)) for path in texts()}
    assert {"README.md", "src/leakmeter/engine/loading.py", "pyproject.toml"} <= names
    said = ("see /tmp/x", "`/work`", "docs/work/x or a/tmp")
    assert [bool(PLACES.search(text)) for text in said] == [True, True, False]


def test_no_file_has_both_sides_of_a_conflict() -> None:
    marks = re.compile(r"^(?:<{7}|>{7}) ", re.MULTILINE)
    assert [str(path) for path in texts() if marks.search(path.read_text(encoding="utf-8"))] == []
    assert marks.search("a\n" + 7 * "<" + " HEAD\n")


def test_no_room_for_odds_and_ends() -> None:
    assert not [path for path in MODULES if path.stem in ("utils", "util", "helpers", "misc", "common")]


def test_a_number_is_no_middle_of_an_interval() -> None:
    """What a server does not tell exactly is refused: no layer has to carry beside a number how far it may be off."""
    words = re.compile(r"half[ _-]?widths?|interval_noise|bounded_by_top", re.IGNORECASE)
    files = [path for path in SOURCE.rglob("*") if path.suffix in TEXT_SUFFIXES]
    assert [str(path) for path in files if words.search(path.read_text(encoding="utf-8"))] == []
    said = ("half_width_nats", "half-widths", "Half its width")
    assert [bool(words.search(text)) for text in said] == [True, True, False]


def test_modules_that_a_package_lists_are_there() -> None:
    lists = [path for path in MODULES if path.name == "__init__.py"]
    listed = [
        path.parent / name
        for path in lists
        for names in re.findall(r"^([a-z_]+(?:, [a-z_]+)*)  +\S", path.read_text(encoding="utf-8"), re.MULTILINE)
        for name in names.split(", ")
    ]
    assert len(listed) >= 30
    assert [path for path in listed if not path.is_dir() and not path.with_suffix(".py").exists()] == []


def test_texts_are_opened_with_an_encoding() -> None:
    """Another machine's default encoding must not change what is read."""
    for path in MODULES:
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if re.search(r"\.(read|write)_text\(", source) else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr not in ("read_text", "write_text"):
                    continue
                coded = " ".join([*(str(keyword.arg) for keyword in node.keywords), *map(ast.unparse, node.args)])
                assert re.search("encoding|utf-8|path", coded), f"{path}:{node.lineno}: {ast.unparse(node)}"


def test_no_test_is_timed_by_a_clock_on_the_wall() -> None:
    """On a busy machine such a test fails though nothing is wrong: bounds are on processor time (`process_time`)."""
    clock = re.compile(r"\bperf_counter\b|\btime\.time\(|assert [^\n]*\bmonotonic\(")
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if path != Path(__file__):
            assert not clock.search(path.read_text(encoding="utf-8")), path
