"""The Live page in motion: what the README shows is small, and its script goes the whole way."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from helpers.report_browser import CHROMIUM
from products.serve import motion

SHOWN = Path(__file__).parents[3] / "docs/images/serve.webp"


def test_the_picture_of_the_readme_is_small_and_moves() -> None:
    assert SHOWN.stat().st_size < motion.MOST_BYTES
    with Image.open(SHOWN) as picture:
        assert picture.n_frames > 10  # type: ignore[attr-defined]
        assert picture.size == motion.SIZE


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_its_script_goes_the_whole_way(tmp_path: Path) -> None:
    film = motion.shoot(tmp_path / "serve.webp", "toy")
    assert (tmp_path / "serve.webp").stat().st_size < motion.MOST_BYTES
    assert len(film.frames) > 6
    with Image.open(tmp_path / "serve.webp") as picture:
        assert picture.n_frames == len(film.frames)  # type: ignore[attr-defined]
