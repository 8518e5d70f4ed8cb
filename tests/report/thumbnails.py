"""Small pictures of the gallery's pages, for its list.

PYTHONPATH=tests python -m report.thumbnails docs/gallery docs/images/gallery
"""

from __future__ import annotations

import argparse
import base64
from collections.abc import Iterable
from pathlib import Path

from helpers.report_browser import Browser
from report.gallery import PAGES

SIZE = (1000, 750)
"""Of the part of a page that is shown, from its top left corner, CSS pixels."""
SCALE = 0.48
MOST_BYTES = 40_000


def shoot_all(pages: Path, pictures: Path, names: Iterable[str] = PAGES) -> None:
    """Take the top of each page, in light colours."""
    pages, pictures = pages.absolute(), pictures.absolute()
    pictures.mkdir(parents=True, exist_ok=True)
    width, height = SIZE
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": SCALE}
    with Browser() as browser:
        browser.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        browser.call("Emulation.setScrollbarsHidden", hidden=True)
        for name in names:
            browser.open((pages / name).as_uri())
            shot = browser.call("Page.captureScreenshot", format="webp", quality=70, clip=clip)["data"]
            picture_of(pictures, name).write_bytes(base64.b64decode(shot))


def picture_of(pictures: Path, name: str) -> Path:
    """Where the picture of a page lies."""
    return pictures / f"{Path(name).stem}.webp"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write small pictures of the gallery's pages.")
    parser.add_argument("pages", type=Path)
    parser.add_argument("pictures", type=Path)
    options = parser.parse_args()
    shoot_all(options.pages, options.pictures)
