"""The site's gallery has a page of each command, and its script makes them all."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.places import DOCS
from report import gallery


def test_the_gallery_has_every_page_and_names_it() -> None:
    page = (DOCS / "gallery.md").read_text(encoding="utf-8")
    for name, line in gallery.PAGES.items():
        assert (DOCS / "gallery" / name).stat().st_size < gallery.MOST_BYTES
        assert f"](gallery/{name})" in page
        assert f"`leakmeter {line}`" in page


def test_its_script_makes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))
    gallery.write_pages(tmp_path / "pages", "toy")
    assert {path.name for path in (tmp_path / "pages").iterdir()} == {*gallery.PAGES}
