"""The site's gallery has a page of each command, and its script makes them all."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import leakmeter
from helpers.docs_blocks import words_of
from helpers.places import DOCS
from helpers.report_browser import CHROMIUM, Browser
from helpers.tuned_models import byte_tokenizer, fresh_llama
from leakmeter.cli import program
from leakmeter.commands.output import HIDDEN
from report import gallery

Call = Callable[..., Any]


def test_the_gallery_has_every_page_and_names_it() -> None:
    page = (DOCS / "gallery.md").read_text(encoding="utf-8")
    for name, line in gallery.PAGES.items():
        assert (DOCS / "gallery" / name).stat().st_size < gallery.MOST_BYTES
        assert f"](gallery/{name})" in page
        assert f"`leakmeter {line}`" in page


def commands_in(page: Path) -> list[str]:
    return re.findall(
        r"<h2>Run it again</h2>\n<pre><code>(.*?)</code>", html.unescape(page.read_text(encoding="utf-8"))
    )


def test_every_page_says_the_command_that_made_it() -> None:
    """Not that of the script, which calls the program in its own process."""
    for name, line in gallery.PAGES.items():
        (command,) = commands_in(DOCS / "gallery" / name)
        words = [*gallery.words_of(line, "smollm2-135m"), "--html", name]
        # Paths that may name a person are hidden.
        hidden = {"people.jsonl", name} if name == "pii.html" else set()
        assert words_of(command) == [HIDDEN if word in hidden else word for word in words]
        app = program(words_of(command)[:1])
        assert app.parse_args(words_of(command), print_error=False, exit_on_error=False)[0] is not None


def test_a_page_says_the_words_that_the_program_was_called_with(cli: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/service", "--port", "80"])
    Path("c.txt").write_text("Anna sang in Graz. Bo ate.", encoding="utf-8")
    words = ["influence", "--model", "toy", "--context-file", "c.txt", "--query", "Who?", "--response", "Anna"]
    assert cli(*words, "--html", "page.html").code == 0
    (command,) = commands_in(Path("page.html"))
    assert words_of(command) == [*words, "--html", "page.html"]
    # Nothing was typed where a function made it.
    leakmeter.influence("toy", context="Anna sang.", query="Who?", response="Anna").save_html("python.html")
    assert commands_in(Path("python.html")) == []


@pytest.mark.long
def test_its_script_makes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))
    # The toy has no chat template, which conversations need, and no weights to plant people in.
    pages = {name: line for name, line in gallery.PAGES.items() if name not in ("conversations.html", "pii.html")}
    gallery.write_pages(tmp_path / "pages", "toy", pages)
    assert {path.name for path in (tmp_path / "pages").iterdir()} == {*pages}


@pytest.mark.long
def test_its_script_plants_the_people_that_it_asks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))
    model = tmp_path / "tiny"
    fresh_llama(max_position_embeddings=512).save_pretrained(model)
    byte_tokenizer().save_pretrained(model)
    gallery.write_pages(tmp_path / "pages", str(model), {"pii.html": gallery.PAGES["pii.html"]})
    page = (tmp_path / "pages" / "pii.html").read_text(encoding="utf-8")
    assert all(f"{group}-1" in page for group in ("inserted_16", "held_out"))
    assert page.count('<details class="line"') == 3 * (4 + 8)


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: pages were not opened in a browser")
def test_its_pages_are_no_wider_than_a_telephone() -> None:
    with Browser() as browser:
        for name in gallery.PAGES:
            browser.open((DOCS / "gallery" / name).as_uri())
            browser.call("Emulation.setDeviceMetricsOverride", width=390, height=900, deviceScaleFactor=1, mobile=True)
            wide = browser.run("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, name
