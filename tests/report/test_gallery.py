"""The site's gallery has a page of each command, and its script makes them all."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.places import DOCS
from helpers.report_browser import CHROMIUM, Browser
from report import gallery


def test_the_gallery_has_every_page_and_names_it() -> None:
    page = (DOCS / "gallery.md").read_text(encoding="utf-8")
    for name, line in gallery.PAGES.items():
        assert (DOCS / "gallery" / name).stat().st_size < gallery.MOST_BYTES
        assert f"](gallery/{name})" in page
        assert f"`leakmeter {line}`" in page


@pytest.mark.long
def test_its_script_makes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))
    gallery.write_pages(tmp_path / "pages", "toy")
    assert {path.name for path in (tmp_path / "pages").iterdir()} == {*gallery.PAGES}


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: pages were not opened in a browser")
def test_its_pages_are_no_wider_than_a_telephone() -> None:
    with Browser() as browser:
        for name in gallery.PAGES:
            browser.open((DOCS / "gallery" / name).as_uri())
            browser.call("Emulation.setDeviceMetricsOverride", width=390, height=900, deviceScaleFactor=1, mobile=True)
            wide = browser.run("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, name
