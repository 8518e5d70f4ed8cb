"""The site is whole: every page is in it, the reference is that of the code, and nothing of it asks the network."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml

from helpers.places import ROOT

DOCS = ROOT / "docs"


def pages_in(navigation: Any) -> Iterator[str]:
    if isinstance(navigation, str):
        yield navigation
    else:
        for entry in navigation.values() if isinstance(navigation, dict) else navigation:
            yield from pages_in(entry)


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    """The hook that makes the reference."""
    spec = importlib.util.spec_from_file_location("generate", DOCS / "reference" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_navigation_has_every_page_once(generate: ModuleType) -> None:
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    config = generate.on_config(SimpleNamespace(nav=settings["nav"], docs_dir=DOCS))
    shown = sorted(pages_in(config.nav))
    made = ["reference/api.md", "reference/cli.md"]
    assert shown == sorted([*made, *(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))])


def test_the_commands_are_those_there_are(generate: ModuleType) -> None:
    from leakmeter.cli import program

    page = generate.commands_page()
    for name in program():
        if not name.startswith("-"):
            assert f"\n## {name}\n" in page
    assert "`--max-loss" in page
    assert "Table of Contents" not in page


def test_the_names_are_those_there_are(generate: ModuleType) -> None:
    import leakmeter

    page = generate.names_page()
    assert sorted(re.findall(r'heading: "leakmeter\.(\w+)"', page)) == sorted(leakmeter.__all__)
    assert "::: leakmeter.instruments.influence.api.influence\n" in page


def test_no_code_in_a_table_has_an_escaped_bar() -> None:
    """The site shows the backslash; a bar without one ends the cell on other readers: formulas stand outside tables."""
    found = [
        (path.name, line)
        for path in (ROOT / "README.md", *DOCS.rglob("*.md"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if any("\\|" in code for code in re.findall(r"`[^`]+`", line))
    ]
    assert found == []


@pytest.mark.long
def test_the_site_is_built_without_a_warning_and_asks_nothing_of_the_network(tmp_path: Path) -> None:
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings")
    site = tmp_path / "site"
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert (site / "reference" / "cli.html").is_file()
    fetched = re.compile(
        r"""<(?:script|img|iframe|source)[^>]+src="?https?:|<link[^>]+(?:stylesheet|preload)[^>]+https?:"""
    )
    for page in site.rglob("*.html"):
        assert not fetched.search(page.read_text(encoding="utf-8")), page
