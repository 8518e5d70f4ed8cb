"""What axe-core finds wrong with a page that a browser shows."""

from __future__ import annotations

import json
from importlib import util
from pathlib import Path
from typing import Any

from helpers.report_browser import Browser

# Of the package only the script is used: what it imports drives another browser.
_PACKAGE = util.find_spec("axe_playwright_python")
AXE = Path(_PACKAGE.origin).with_name("axe.min.js") if _PACKAGE and _PACKAGE.origin else None
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def violations(browser: Browser, *, dark: bool, width: int) -> list[Any]:
    scheme = "dark" if dark else "light"
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
    options = {"runOnly": {"type": "tag", "values": RULES}, "resultTypes": ["violations"]}
    script = (
        f"axe.run(document, {json.dumps(options)}).then(found => JSON.stringify(found.violations.map("
        "one => [one.id, ...one.nodes.slice(0, 3).map(node => node.html.slice(0, 200))])))"
    )
    found = browser.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
    listed: list[Any] = json.loads(found["result"]["value"])
    return listed


def check_page(browser: Browser) -> None:
    """Accessible on a desk and on a telephone, in the light and in the dark, and no wider than its window."""
    assert AXE is not None
    browser.call("Runtime.evaluate", expression=AXE.read_text(encoding="utf-8"))
    for dark in (False, True):
        for width in (1280, 390):
            assert violations(browser, dark=dark, width=width) == []
            fits = browser.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
            assert fits, (width, browser.run("location.href"))
    browser.call("Emulation.clearDeviceMetricsOverride")
