"""Progress on standard error: a bar once the work has taken two seconds, nothing where nobody looks."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from leakmeter.backends.base import Backend
from leakmeter.cli.output import tell
from leakmeter.studies.run import Watch

_QUIET_SECONDS = 2.0


@contextmanager
def progress(backend: Backend, n_cases: int) -> Iterator[Watch]:
    """A watch that draws a bar of cases done, moved on by the tokens run within each."""
    if not sys.stderr.isatty():
        yield Watch(on_halving=_tell_halving)
        return
    state = _State()
    ended = threading.Event()
    thread = threading.Thread(target=_draw, args=(backend, n_cases, state, ended), daemon=True)
    thread.start()
    try:
        yield Watch(
            on_case=state.begin_case,
            on_prediction=lambda n_tokens: state.begin_work(n_tokens, backend.n_tokens_run),
            on_halving=_tell_halving,
        )
    finally:
        ended.set()
        thread.join()


def _tell_halving(case_id: str, n_halvings: int) -> None:
    times = f" {n_halvings} times" if n_halvings > 1 else ""
    tell(
        f"case '{case_id}': memory ran out{times}; went on in smaller parts, which may differ in the last digits. "
        "Give less with --memory to avoid it"
    )


class _State:
    def __init__(self) -> None:
        self.case = 0
        self.planned = 0
        self.before = 0

    def begin_case(self, number: int, case_id: str) -> None:
        self.case, self.planned = number, 0

    def begin_work(self, n_tokens: int, n_tokens_run: int) -> None:
        self.planned, self.before = n_tokens, n_tokens_run


def _draw(backend: Backend, n_cases: int, state: _State, ended: threading.Event) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    started = time.monotonic()
    if ended.wait(_QUIET_SECONDS):
        return
    columns = (
        TextColumn("case {task.fields[case]}/{task.total:.0f}"),
        BarColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=n_cases, case=1, rate="")
        while not ended.wait(0.2):
            share = (backend.n_tokens_run - state.before) / state.planned if state.planned else 0.0
            rate = f"{backend.n_tokens_run / (time.monotonic() - started):,.0f} tokens/s"
            bar.update(task, completed=state.case + min(share, 0.99), case=state.case + 1, rate=rate)
