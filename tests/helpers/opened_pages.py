"""The page of a report in a browser, which may ask for nothing and complain of nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from helpers.report_browser import CHROMIUM, Browser
from leakmeter.report import blocks as b
from leakmeter.report import html

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: the page was not opened in a browser")


@contextmanager
def opened(tmp_path: Path, report: b.Report, anchor: str = "", *, width: int | None = None) -> Iterator[Browser]:
    """A browser with the report's page, in a window of so many pixels."""
    file = tmp_path / "page.html"
    file.write_text(html.page(report), encoding="utf-8")
    with Browser() as browser:
        if width is not None:
            browser.call(
                "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
            )
        browser.open(file.as_uri() + anchor)
        yield browser
        assert browser.requests[0] == file.as_uri()
        assert all(request.startswith("data:") for request in browser.requests[1:])
        assert browser.complaints == []
