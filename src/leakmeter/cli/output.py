"""What a finished measurement prints and writes."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakmeter.errors import StoreError
from leakmeter.types.plain import to_json, visible
from leakmeter.types.run import outdated

if TYPE_CHECKING:
    from rich.console import Console

    from leakmeter.results.base import Result

_HEATMAPS_AT_MOST = 3
_WIDEST = 1000  # characters of a line


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


def tell(line: str) -> None:
    """A line on standard error, at once: what happens beside what was asked for."""
    sys.stderr.write(f"{visible(line)}\n")
    sys.stderr.flush()


def tell_outdated(run: str, spec: Mapping[str, Any]) -> None:
    """A line on standard error where a run's numbers are not to be relied on any more."""
    if why := outdated(spec.get("version"), spec.get("model") or {}):
        tell(f"warning: run '{run}' was {why}")


def console(*, stderr: bool = False) -> Console:
    """Where tables, bars and shaded texts are drawn, no wider than a person could read."""
    from rich.console import Console

    made = Console(stderr=stderr, markup=False, highlight=False)
    # COLUMNS may be anything; a table is as wide as it says, and memory has an end.
    made.width = min(made.width, _WIDEST)
    return made


def print_json(case: Mapping[str, Any]) -> None:
    """One case as one line of JSON on standard output."""
    is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    # JSON writes most control characters as escapes; of the others a terminal obeys some, and a file keeps all.
    line = to_json(case, ascii_only=not is_utf8)
    sys.stdout.write((visible(line) if sys.stdout.isatty() else line) + "\n")
    sys.stdout.flush()


def print_plain(text: str) -> None:
    """Text on standard output, of which a terminal is given nothing that it would obey."""
    sys.stdout.write(visible(text) if sys.stdout.isatty() else text)


def print_text(text: str) -> None:
    """A paragraph on standard output, wrapped where somebody looks."""
    console().print(visible(text), soft_wrap=not sys.stdout.isatty())


def left_out(problems: Sequence[str]) -> str:
    """How many bad cases were left out, and the first of them."""
    return f"left out {len(problems)} bad case{'s' if len(problems) > 1 else ''}; the first: {problems[0]}"


def write_page(path: Path, results: Sequence[Result], command: str | None, run: Path | None) -> None:
    """The HTML report of results of one kind."""
    save_page(path, type(results[0]).render_page([result.case for result in results], command=command, run=run))


def save_page(path: Path, page: str) -> None:
    """Write a page.

    Raises:
        StoreError: it cannot be written.
    """
    from leakmeter.store.rundir import write_page

    try:
        write_page(path, page)
    except OSError as error:
        raise StoreError(f"report '{path}' cannot be written: {error.strerror or error}") from None


def print_results(results: Sequence[Result]) -> None:
    """A few results one by one, many as a table; all of one kind."""
    screen = console()
    if len(results) <= _HEATMAPS_AT_MOST:
        for result in results:
            screen.print(result.heatmap())
        return
    screen.print(type(results[0]).overview([result.case for result in results]))
