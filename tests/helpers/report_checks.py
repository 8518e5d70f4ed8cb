"""What a rendered report has to be, whatever it says."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

from rich.cells import cell_len

from helpers.report_snapshots import printed
from leakmeter.report import blocks as b
from leakmeter.report import html, markdown

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
FIRST = "document.querySelector('.pieces tbody tr th').textContent"
"""The first row of a page, for a browser."""


def flat(text: str) -> str:
    return " ".join(text.split())


class Page(HTMLParser):
    """What a browser would make of the file."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.inline: list[tuple[str, dict[str, str | None], str]] = []
        self._open: tuple[str, dict[str, str | None]] | None = None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name in {"href", "src", "xlink:href"}]
        self._open = (tag, dict(attrs)) if tag in {"style", "script"} else None

    def handle_data(self, data: str) -> None:
        if self._open:
            self.inline.append((*self._open, data))

    def handle_endtag(self, tag: str) -> None:
        self._open = None


ELEMENTS = """
    html head meta title style body header p div h1 h2 h3 h4 aside u table caption thead tbody tr th td span i b bdi
    small strong del mark noscript dfn nav a main ol li article section figure figcaption details summary dl dt dd
    script footer pre code iframe svg g path use text defs clippath rect lineargradient img image
""".split()  # noqa: SIM905
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def assert_harmless(page: str) -> None:
    seen = Page(page)
    assert seen.elements <= set(ELEMENTS)
    assert not {name for name in seen.attributes if name.startswith("on")} | ({"style"} & seen.attributes)
    ours = ("#", "data:text/html;charset=utf-8;base64,", "data:image/png;base64,")
    assert all(link.startswith(ours) for link in seen.links), seen.links
    assert not CONTROLS.search(page)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    allowed = policy[1].replace("&#39;", "'")
    for tag, attributes, text in seen.inline:
        if attributes.get("type") != "application/json":
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            assert f"{tag}-src 'sha256-{digest}'" in allowed
    assert "default-src 'none'" in allowed
    assert "unsafe" not in allowed
    for link in seen.links:
        if link.startswith("data:text/html"):
            assert_harmless(base64.b64decode(link.partition(",")[2]).decode())


def assert_markdown_harmless(text: str) -> None:
    assert not CONTROLS.search(text)
    tags = set(re.findall(r"<(/?[a-zA-Z!][^\s>]*)", text))
    assert tags <= {"details", "/details", "summary", "/summary", "pre", "/pre", "code", "/code", "br"}, tags
    outside = re.sub(r"<(?:code|pre)>.*?</(?:code|pre)>", "", text, flags=re.DOTALL)
    assert "](" not in outside
    assert "@" not in text
    assert "://" not in text
    assert "www." not in text
    assert "`" not in text


def assert_report_harmless(report: b.Report, *, widths: tuple[int, ...] = (60, 80)) -> str:
    """The report's page, which runs nothing; no text of it is obeyed by a browser, in Markdown or by a terminal."""
    page = html.page(report)
    assert_harmless(page)
    assert "<script" not in page
    assert "script-src &#39;none&#39;" in page
    assert_markdown_harmless(markdown.text(report))
    for width in widths:
        out = printed(report, width=width)
        assert not CONTROLS.search(out)
        assert all(cell_len(line) <= width for line in out.split("\n"))
    return page
