"""A bar of things that are counted, for work that knows no tokens; nothing where nobody looks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from leakmeter.commands import output


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """A function that is told how many of how many are done, and draws a bar of them.

    Args:
        what: they are, in the plural.
    """
    if not sys.stderr.isatty():
        yield lambda n_done, n: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=output.console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda n_done, n: bar.update(task, completed=n_done, total=n)
