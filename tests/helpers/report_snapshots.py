"""Reports as they were reviewed: the terminal's text, without explanations and with them, the Markdown and the page."""

from __future__ import annotations

import io
import os
from pathlib import Path

from rich.console import Console

from helpers.report_template import assert_follows_template
from leakmeter.report import blocks as b
from leakmeter.report import console, html, markdown


def printed(report: b.Report, *, width: int = 80, colour: bool = False, explain: bool = True) -> str:
    sink = io.StringIO()
    out = Console(file=sink, width=width, color_system="truecolor" if colour else None, force_terminal=colour)
    out.print(console.view(report, explain=explain))
    return sink.getvalue()


def assert_as_reviewed(file: Path, report: b.Report, *, with_page: bool = True) -> None:
    """Compare with the snapshot, which LEAKMETER_SNAPSHOTS=1 writes anew, and hold it to the template of reports."""
    assert_follows_template(report)
    rule = f"\n{'=' * 80}\n"
    made = f"{printed(report, explain=False)}{rule}{printed(report)}{rule}{markdown.text(report)}"
    if with_page:
        made += rule + _body(report)
    if os.environ.get("LEAKMETER_SNAPSHOTS"):
        file.write_text(made, encoding="utf-8")
    assert made == file.read_text(encoding="utf-8")


def _body(report: b.Report) -> str:
    page = html.page(report)
    body = page[page.index("<header") : page.index("</footer>")]
    # Drawings differ between versions of matplotlib.
    lines = [line.rstrip() for line in body.splitlines() if line.strip() and "<svg" not in line]
    return "\n".join(lines) + "\n"
