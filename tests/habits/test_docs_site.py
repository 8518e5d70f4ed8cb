"""The site is whole: every page is in it, the reference is that of the code, and nothing of it asks the network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml

from helpers.accessibility import AXE, violations
from helpers.places import DOCS, ROOT, script
from helpers.report_browser import CHROMIUM, Browser

MOST_WORDS = 40_000


def pages_in(navigation: Any) -> Iterator[str]:
    if isinstance(navigation, str):
        yield navigation
    else:
        for entry in navigation.values() if isinstance(navigation, dict) else navigation:
            yield from pages_in(entry)


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    """The hook that makes the reference."""
    return script(DOCS / "reference" / "generate.py")


def test_the_navigation_has_every_page_once(generate: ModuleType) -> None:
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    config = generate.on_config(SimpleNamespace(nav=settings["nav"], docs_dir=DOCS))
    shown = sorted(pages_in(config.nav))
    names = ("api", "cli", "columns", "fields", "glossary", "quantities", "reasons", "recognisers")
    made = [f"reference/{name}.md" for name in names]
    made += [f"notebooks/{path.stem}.md" for path in generate.NOTEBOOKS]
    assert shown == sorted([*made, *(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))])


def test_the_reference_is_that_of_the_code(generate: ModuleType) -> None:
    import leakmeter
    from leakmeter.cli import program

    page = generate.commands_page()
    assert [name for name in program() if not name.startswith("-") and f"\n## {name}\n" not in page] == []
    assert "`--max-loss" in page
    assert "Table of Contents" not in page
    names = generate.names_page()
    public = sorted(name for name in leakmeter.__all__ if not name.startswith("__"))
    assert sorted(re.findall(r'heading: "leakmeter\.(\w+)"', names)) == public
    assert "::: leakmeter.instruments.influence.command.influence\n" in names


def test_lists_are_those_of_the_code(generate: ModuleType) -> None:
    from leakmeter.data.traces.answer import Reason

    quantities = generate.quantities_page()
    assert "| `influence.disclosures.personal` (max) | disclosures |" in quantities
    assert "Less is worse." in quantities
    recognisers = generate.recognisers_page()
    assert "| `secrets.toml` | Secrets by their prefix" in recognisers
    assert "| `luhn` | Luhn's sum" in recognisers
    assert all(f"| `{reason.value}` |" in generate.reasons_page() for reason in Reason)


def test_pages_are_short_enough_to_be_read() -> None:
    """Words of the menu's pages, counted as `wc -w` does, without results, the gallery and what is made of the code."""
    menu = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    pages = [DOCS / name for name in pages_in(menu) if not name.startswith(("results/", "gallery"))]
    words = {page.name: len(page.read_text(encoding="utf-8").split()) for page in pages if page.is_file()}
    assert sum(words.values()) < MOST_WORDS, sorted(words.items(), key=lambda one: -one[1])[:10]


def test_no_code_in_a_table_has_an_escaped_bar() -> None:
    """The site shows the backslash; a bar without one ends the cell on other readers: formulas stand outside tables."""
    found = [
        (path.name, line)
        for path in (ROOT / "README.md", *DOCS.rglob("*.md"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if any("\\|" in code for code in re.findall(r"`[^`]+`", line))
    ]
    assert found == []


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings")
    site = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return site


@pytest.mark.long
def test_the_site_is_built_without_a_warning_and_asks_nothing_of_the_network(site: Path) -> None:
    assert (site / "reference" / "cli.html").is_file()
    fetched = re.compile(
        r'<(?:script|img|iframe|source)[^>]+src="?https?:|<link[^>]+(?:stylesheet|preload)[^>]+https?:'
    )
    for page in site.rglob("*.html"):
        assert not fetched.search(page.read_text(encoding="utf-8")), page


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: the site was not opened in a browser")
def test_the_site_can_be_searched_without_a_server_and_read_by_anyone(site: Path) -> None:
    with Browser() as browser:
        browser.open((site / "tutorials" / "rag.html").as_uri())
        browser.run("document.querySelector('label[for=__search]').click()")
        for word in ("RAG", "OpenAI", "pandas", "vLLM"):
            browser.run(
                "{ const field = document.querySelector('input.md-search__input'); field.focus();"
                f"field.value = {word!r}; field.dispatchEvent(new Event('input', {{bubbles: true}}));"
                "field.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true})); }"
            )
            browser.until(f"document.querySelector('.md-search-result__list').innerText.match(/{word}/i)")
        assert all(url.startswith(("file:", "data:")) for url in browser.requests)
        if AXE is None:
            pytest.skip("axe-core is not installed: pip install axe-playwright-python")
        for page in ("index.html", "concepts.html", "reference/cli.html"):
            browser.open((site / page).as_uri())
            browser.run(f"{AXE.read_text(encoding='utf-8')}; true")
            for scheme in ("default", "slate"):
                browser.run(f"document.body.setAttribute('data-md-color-scheme', '{scheme}')")
                time.sleep(0.5)  # colours change by and by
                # Buttons that copy code stand in landmarks without names, which is no rule of WCAG.
                found = [one for one in violations(browser, dark=False, width=1280) if one[0] != "landmark-unique"]
                assert found == []
