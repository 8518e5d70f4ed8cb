"""The template that every report follows: a headline, three sentences, two tables, and one fold that explains.

Of a page the front is what stands there before anything is opened. A fold explains where it says what would be said of
other results too: there is one, "How to read this", closed and at the end. Every other fold holds data: a case, a
text, a table, a conversation, settings. A warning is no sentence of the template: it is about these data or this model.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser

from leakmeter.report import blocks as b
from leakmeter.report import html

SENTENCES = 3
TABLES = 2
EXPLAINS = "How to read this"
_ENDS = re.compile(r"[.?!](?=\s|$)")
_CLOSED = ("main", "section", "details", "summary", "h2", "p", "table", "bdi", "figure")
"""Elements that the template closes, of those that are looked at."""


class Front(HTMLParser):
    """What a page shows before anything is opened."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.headlines: list[str] = []
        self.sentences = 0
        self.tables = 0
        self.folds: list[str] = []
        """What is written on the folds, those within others too."""
        self.is_explained_elsewhere = False
        """Whether another fold than the one has words that explain."""
        self._open: list[tuple[str, str]] = []
        self._text = ""
        self.feed(page[page.index("<main") : page.index("</main>")])
        self.close()

    def _is_in(self, tag: str, kind: str = "") -> bool:
        return any((name == tag and kind in of.split()) or (name == tag and not kind) for name, of in self._open)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _CLOSED:
            return
        kind = dict(attrs).get("class") or ""
        is_told = self._is_in("details", "told")
        if tag == "p" and "soft" in kind.split() and self._is_in("details") and not is_told:
            self.is_explained_elsewhere |= not self._is_in("details", "line") and "belief" in kind
        if tag == "table" and not self._is_in("details"):
            self.tables += 1
        self._open.append((tag, kind))
        if tag != "bdi":
            self._text = ""

    def handle_data(self, data: str) -> None:
        # Sentences of a user's text are no sentences of ours.
        self._text += "…" if self._is_in("bdi") and self._is_in("p") else data

    def handle_endtag(self, tag: str) -> None:
        if tag not in _CLOSED:
            return
        while self._open:
            name, kind = self._open.pop()
            if name == tag:
                break
        inside = self._is_in("details")
        if tag == "summary" and not (self._open and self._open[-1][1].startswith("line")):
            self.folds.append(self._text.strip())
        elif tag == "h2" and "finding" in kind.split() and not inside:
            self.headlines.append(self._text)
        elif tag == "p" and "belief" in kind.split() and self._is_in("section", "found") and not inside:
            self.sentences += len(_ENDS.findall(self._text))


def assert_follows_template(report: b.Report) -> None:
    page = html.page(report)
    front = Front(page)
    assert len(front.headlines) == 1, front.headlines
    assert front.sentences <= SENTENCES
    # The list of cases is one too.
    assert front.tables + ('id="cases"' in page) <= TABLES
    assert front.folds.count(EXPLAINS) == 1
    assert front.folds[-1] == EXPLAINS
    assert '<details class="told" open' not in page
    assert not front.is_explained_elsewhere
