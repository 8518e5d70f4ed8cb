"""What a finished measurement prints and writes."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leakmeter.errors import StoreError

_HEATMAPS_AT_MOST = 3


def check_writable(path: Path, what: str) -> None:
    """Refuse, before any work is done, a place where no file can be written."""
    folder = path if path.is_dir() else path.parent
    if path.is_dir():
        raise StoreError(f"{what} '{path}' is a directory; give the name of a file")
    if not folder.is_dir():
        raise StoreError(f"{what} '{path}' lies in a directory that does not exist")
    existed = path.exists()
    if existed and not path.is_file():
        raise StoreError(f"{what} '{path}' is a device or a pipe; give the name of a file")
    try:
        with path.open("ab"):
            pass
    except OSError as error:
        raise StoreError(f"{what} '{path}' cannot be written: {error.strerror or error}") from None
    if not existed:
        path.unlink()


def print_json(case: Mapping[str, Any]) -> None:
    """One case as one line of JSON on standard output."""
    is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    sys.stdout.write(json.dumps(case, ensure_ascii=not is_utf8) + "\n")
    sys.stdout.flush()


def write_page(path: Path, cases: Sequence[Mapping[str, Any]], command: str | None, run: Path | None) -> None:
    """The HTML report of the cases."""
    from leakmeter.report.page import render_page
    from leakmeter.store.rundir import write_whole

    try:
        page = render_page(cases, command=command, run={"directory": str(run)} if run else None)
        # A path need not be Unicode; a page is.
        write_whole(path, page.encode(errors="replace"))
    except OSError as error:
        raise StoreError(f"report '{path}' cannot be written: {error.strerror or error}") from None


def print_cases(cases: Sequence[Mapping[str, Any]]) -> None:
    """Heat maps of a few cases, a table of many."""
    from rich.console import Console

    console = Console(markup=False, highlight=False)
    if len(cases) <= _HEATMAPS_AT_MOST:
        from leakmeter.report.terminal import heatmap

        for case in cases:
            console.print(heatmap(case))
        return
    console.print(_table(cases))


def _table(cases: Sequence[Mapping[str, Any]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    from leakmeter.report.scale import nats_text
    from leakmeter.report.shade import excerpt, visible

    table = Table(box=None, pad_edge=False)
    for heading, align in (("case", "left"), ("whole, nats", "right"), ("strongest piece", "left"), ("nats", "right")):
        table.add_column(heading, justify="right" if align == "right" else "left")
    for case in cases:
        top = max(case["pieces"], key=lambda piece: piece["nats"])
        table.add_row(
            Text(visible(case["id"])),
            nats_text(case["whole_nats"]),
            Text(f"{visible(top['name'])}: {excerpt(top['text'], 60)}"),
            nats_text(top["nats"]),
        )
    return table
