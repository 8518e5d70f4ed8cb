"""The README's picture: the head of the report on the sample log.

PYTHONPATH=tests python -m report.picture docs/images/report.png --model smollm2-135m
"""

from __future__ import annotations

import argparse
import base64
import tempfile
from contextlib import chdir
from pathlib import Path

from helpers.docs_blocks import exit_code
from helpers.report_browser import Browser

SIZE = (1280, 1380)
MOST_BYTES = 400_000


def shoot(path: Path, model: str, *, data: str = "samples/log.jsonl") -> None:
    """Measure the sample log and take the top of its page, in light colours."""
    path, size = path.absolute(), dict(zip(("width", "height"), SIZE, strict=True))
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for words in (["demo", "--write-samples", "samples"], [data, "--html", "page.html", "--model", model]):
            if exit_code(words):
                raise SystemExit(f"{' '.join(words)} failed")
        with Browser() as browser:
            browser.call("Emulation.setDeviceMetricsOverride", **size, deviceScaleFactor=1, mobile=False)
            browser.call("Emulation.setScrollbarsHidden", hidden=True)
            browser.open(Path("page.html").absolute().as_uri())
            path.write_bytes(base64.b64decode(browser.call("Page.captureScreenshot", format="png")["data"]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the README's picture.")
    parser.add_argument("path", type=Path)
    parser.add_argument("--model", default="smollm2-135m")
    options = parser.parse_args()
    shoot(options.path, options.model)
