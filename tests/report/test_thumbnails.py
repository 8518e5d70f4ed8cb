"""Each page of the gallery has a small picture in the list, and the script takes them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PIL import Image

from helpers.places import DOCS
from helpers.report_browser import CHROMIUM
from report import gallery, thumbnails

PICTURES = DOCS / "images" / "gallery"
SHOWN = tuple(round(length * thumbnails.SCALE) for length in thumbnails.SIZE)


def test_each_page_has_a_small_picture_that_leads_to_it() -> None:
    listed = (DOCS / "gallery.md").read_text(encoding="utf-8")
    for name in gallery.PAGES:
        path = thumbnails.picture_of(PICTURES, name)
        assert path.stat().st_size <= thumbnails.MOST_BYTES, path
        with Image.open(path) as picture:
            assert picture.size == SHOWN
        assert re.search(rf"\[!\[[^\]]+\]\(images/gallery/{path.name}\)\]\(gallery/{name}\)", listed), name


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
def test_its_script_takes_them(tmp_path: Path) -> None:
    name = next(iter(gallery.PAGES))
    thumbnails.shoot_all(DOCS / "gallery", tmp_path / "pictures", [name])
    (path,) = (tmp_path / "pictures").iterdir()
    assert path == thumbnails.picture_of(tmp_path / "pictures", name)
    with Image.open(path) as picture:
        assert picture.size == SHOWN
