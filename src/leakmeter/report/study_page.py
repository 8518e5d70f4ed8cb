"""A study's directory as one HTML file without any script (see `frame`): tables of its `table.md`, and figures."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from leakmeter.core.plain import visible
from leakmeter.report import frame
from leakmeter.report.view import View

_CELLS: Final = re.compile(r"(?<!\\)\|")
_RULE: Final = re.compile(r"\|( --- \|)+")
_COMMAND: Final = "command: "


def render_study(markdown: str, figures: Mapping[str, bytes], *, directory: str) -> str:
    """The page as text; equal input gives equal bytes. Figures come in their order as long as there is room.

    Args:
        markdown: as `tables.to_markdown` makes it.
        figures: PNG files by name.
        directory: of the study.
    """
    sections = list(read_markdown(markdown))
    shown: list[View] = []
    room = frame.PAGE_BYTES - len(markdown.encode(errors="replace")) * 2
    for name, data in figures.items():
        address = "data:image/png;base64," + base64.b64encode(data).decode()
        room -= len(address)
        if room > 0:
            shown.append({"name": visible(name), "address": address})
    told = [line for section in sections for line in section["lines"]]
    return frame.render(
        "study.html.j2",
        styles=("page.css", "runs.css"),
        title=sections[0]["title"] if sections else "A study",
        sections=sections,
        figures=shown,
        n_left_out=len(figures) - len(shown),
        command=next((line.removeprefix(_COMMAND) for line in told if line.startswith(_COMMAND)), None),
        directory=visible(directory),
    )


def read_markdown(markdown: str) -> Iterator[dict[str, Any]]:
    """The tables of a file of `tables.to_markdown`: of each its title, what is said of it, heads and rows."""
    section: dict[str, Any] | None = None
    for line in visible(markdown).splitlines():
        if line.startswith("#") or section is None:
            if section is not None:
                yield section
            section = {"title": line.lstrip("# ") if line.startswith("#") else "", "lines": [], "heads": [], "rows": []}
        if line.startswith("|") and not _RULE.fullmatch(line):
            # The first line of a table is its heads.
            if section["heads"]:
                section["rows"].append(_cells(line))
            else:
                section["heads"] = _cells(line)
        elif line.strip() and not line.startswith(("#", "|")):
            section["lines"].append(_plain(line.removeprefix("- ")))
    if section is not None:
        yield section


def _cells(line: str) -> Sequence[str]:
    return [_plain(cell.strip()) for cell in _CELLS.split(line.strip())[1:-1]]


def _plain(text: str) -> str:
    return text.replace("\\|", "|")
