"""Progress on standard error: a bar on a terminal after two seconds, elsewhere a line now and then."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from leakmeter.commands import output
from leakmeter.commands.output import tell
from leakmeter.core.backend import Backend
from leakmeter.core.plain import plural
from leakmeter.core.self_check import nats_apart
from leakmeter.overriding import override

if TYPE_CHECKING:
    from leakmeter.core.sharing import FullPasses
    from leakmeter.engine.measure import Callbacks

_QUIET_SECONDS = 0.5
_LEAST_BAR = 8
"""Columns of a terminal for a bar; where there are fewer left, there is none."""
LINE_SECONDS = 10.0
"""Least time between two lines where there is no terminal."""


@contextmanager
def progress(backend: Backend, n_cases: int, findings: Mapping[str, float] | None = None) -> Iterator[Callbacks]:
    """A bar of cases done, moved by the tokens run within each, with `findings`, which may change meanwhile."""
    drawn = {} if findings is None else findings
    with _drawn(_State({0: float(n_cases)})) as state, state.watching(0, backend, n_cases, drawn) as callbacks:
        yield callbacks


@contextmanager
def study_progress(n_cases: Mapping[int, float], *, noun: str = "cell", at_most: bool = False) -> Iterator[_State]:
    """One bar for all cells of a study, or of what `noun` says; `n_cases` are theirs, in the order of work. With
    `at_most` there may be fewer cells."""
    with _drawn(_State(n_cases, noun, at_most)) as state:
        yield state


@contextmanager
def growing_progress(noun: str) -> Iterator[GrowingWork]:
    """One bar for work of which more may become known meanwhile: `noun` says of what, one at a time."""
    with _drawn(GrowingWork({}, noun)) as state:
        yield state


def _tell_halving(case_id: str, n_halvings: int) -> None:
    times = f" {n_halvings} times" if n_halvings > 1 else ""
    tell(
        f"case '{case_id}': memory ran out{times}; continued in smaller parts, which may change the last digits. "
        "Lower --memory to avoid this"
    )


def _tell_wrong_pass(case_id: str, nats: float) -> None:
    tell(
        f"case '{case_id}': passes that share work gave other numbers than the model alone, by {nats_apart(nats)} at a "
        "token; it is measured again, and the rest too, with one plain pass a prompt, which takes several times as long"
    )


def tell_full_passes(first: FullPasses) -> None:
    """Say how many tokens more a model takes whose prompts share no work."""
    tell(f"'{first.model}': {first.words}")


@dataclass(slots=True)
class _State:
    """How far the work is; cells weigh as much as they have cases."""

    weights: Mapping[int, float]
    noun: str = "cell"
    at_most: bool = False
    """Whether there may be fewer cells."""
    findings: Mapping[str, float] = field(default_factory=dict)
    """What was found in the cases that are done: numbers by their words, such as "{:,.0f} disclosure{s}"."""
    done: float = 0.0
    """Weight of the cells before this one."""
    n_read: float | None = None
    """Weight of what was finished before, and took no time."""
    n_begun: int = 0
    weight: float = 0.0
    n_cases: int = 1
    case: int = 0
    first: int | None = None
    """The first case that is not read but measured."""
    before: int = 0
    """Tokens that the back end had run when the case began."""
    n_kept: int = 0
    """Cases for which nothing had to be run, as all of it was in the score cache."""
    n_run_before: int = 0
    """Tokens run for cells before this one."""
    n_loaded: int = 0
    """Tokens that the back end had run when this cell began."""
    backend: Backend | None = None
    began: float | None = None
    """When the first cell began, by `time.monotonic`: what came before, such as loading a model, is no pace."""

    @contextmanager
    def watching(
        self, number: int, backend: Backend, n_cases: int, findings: Mapping[str, float]
    ) -> Iterator[Callbacks]:
        """Watch a cell, by its number."""
        from leakmeter.engine.measure import Callbacks

        self.findings = findings
        self.weight, self.n_cases, self.case, self.first = self.weights[number], n_cases, 0, None
        self.backend, self.n_loaded = backend, backend.n_tokens_run
        self.began = time.monotonic() if self.began is None else self.began
        # Last: from now on it is shown.
        self.n_begun += 1
        try:
            yield Callbacks(
                on_case=self._begin_case,
                on_halving=_tell_halving,
                on_wrong_pass=_tell_wrong_pass,
                on_full_passes=tell_full_passes,
            )
        finally:
            self.n_run_before, self.backend = self.n_run, None
            self.done, self.weight = self.done + self.weight, 0.0

    @property
    def n_run(self) -> int:
        backend = self.backend
        return self.n_run_before + (backend.n_tokens_run - self.n_loaded if backend is not None else 0)

    @property
    def total(self) -> float:
        """Weight of all that is known of."""
        return sum(self.weights.values())

    @property
    def completed(self) -> float:
        """Weight of what is done by now; the case at hand is taken to need as many tokens as those before it."""
        backend, n_measured, share = self.backend, self.case - (self.first or 0), 0.0
        if backend is not None and n_measured and self.before > self.n_loaded:
            share = (backend.n_tokens_run - self.before) * n_measured / (self.before - self.n_loaded)
        return self.done + self.weight * min(1.0, (self.case + min(share, 0.99)) / self.n_cases)

    @property
    def where(self) -> str:
        case = f"measuring {min(self.case + 1, self.n_cases):,}/{self.n_cases:,}"
        n = f"{self.n_begun}/{len(self.weights)}{' at most' * self.at_most}"
        return case if len(self.weights) == 1 else f"{self.noun} {n}{_GAP}{case}"

    @property
    def found(self) -> str:
        return _words(self.findings)

    @property
    def seconds(self) -> float:
        """Since the first cell began; never 0."""
        return max(1e-6, time.monotonic() - (time.monotonic() if self.began is None else self.began))

    def rate(self, seconds: float) -> str:
        """Empty where nothing had to be run, as of scores that were kept."""
        return f"{_GAP}{self.n_run:,} tokens, {self.n_run / seconds:,.0f} a second" if self.n_run else ""

    @property
    def kept(self) -> str:
        return f"{_GAP}{self.n_kept:,} cached" if self.n_kept else ""

    def left(self, seconds: float) -> str:
        """How long the rest takes at the pace so far; empty where no pace is known."""
        completed = self.completed
        pace = (completed - (self.n_read or 0.0)) / seconds
        if pace <= 0.0:
            return ""
        return f", about {_clock((self.total - completed) / pace)} left{' at most' * self.at_most}"

    def lines(self, seconds: float) -> Iterator[str]:
        """What is being done, how far, what was found and how long it takes, in a line; then with less of it."""
        left = self.left(seconds)
        times = f"{_GAP}{_clock(seconds)}{left or ' gone'}"
        yield f"{self.where}{self.found}{times}{self.kept}{self.rate(seconds)}"
        yield f"{self.where}{self.found}{times}{self.kept}"
        yield f"{self.where}{self.found}{times}"
        yield f"{self.where}{times}"
        yield self.where

    def _begin_case(self, number: int, case_id: str) -> None:
        from leakmeter.engine.measure import PartsBackend

        backend = self.backend
        if self.first is not None and not isinstance(backend, PartsBackend):
            self.n_kept += number > self.case and backend is not None and backend.n_tokens_run == self.before
        self.case, self.before = number, self.backend.n_tokens_run if self.backend is not None else 0
        self.first = number if self.first is None else self.first
        if self.n_read is None:
            self.n_read = self.completed


@dataclass(slots=True)
class GrowingWork(_State):
    """See `growing_progress`."""

    n_expected: int = 0
    goes_on: bool = False
    """Whether there may be more than is known of: then nobody knows how long it takes."""

    def expect(self, n: int, *, goes_on: bool) -> None:
        """So many more are to be done; fewer where negative."""
        self.n_expected, self.goes_on = self.n_expected + n, goes_on

    def show(self, findings: Mapping[str, float]) -> None:
        """Show what was found, which may be before a case ends."""
        self.findings = findings

    @contextmanager
    def pass_of(self, backend: Backend, n_cases: int) -> Iterator[Callbacks]:
        """Watch some of what is expected."""
        number = len(self.weights)
        self.weights = {**self.weights, number: float(n_cases)}
        with self.watching(number, backend, n_cases, self.findings) as callbacks:
            yield callbacks

    @property
    @override
    def total(self) -> float:
        return float(self.n_expected)

    @property
    @override
    def where(self) -> str:
        number = min(int(self.done) + self.case + 1, self.n_expected)
        more = " or more" if self.goes_on else ""
        return f"{self.noun} {number:,}/{self.n_expected:,}{more}"

    @override
    def left(self, seconds: float) -> str:
        return "" if self.goes_on else _State.left(self, seconds)


_GAP: Final = " · "


def _words(findings: Mapping[str, float]) -> str:
    # A copy: another thread adds to it.
    return "".join(
        f"{_GAP}{words.format(number, s=plural(int(number), '', 's'))}" for words, number in [*findings.items()]
    )


def _clock(seconds: float) -> str:
    """'1:05', or '2:03:00'."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


_Shown = TypeVar("_Shown", bound=_State)


@contextmanager
def _drawn(state: _Shown) -> Iterator[_Shown]:
    ended = threading.Event()
    thread = threading.Thread(target=_draw if sys.stderr.isatty() else _write, args=(state, ended), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        ended.set()
        thread.join()


def _write(state: _State, ended: threading.Event) -> None:
    """A line a case at most; a case that takes long has one."""
    last_where = ""
    while not ended.wait(LINE_SECONDS):
        if state.n_begun and (where := f"{state.where}{state.found}") != last_where:
            last_where = where
            tell(next(state.lines(state.seconds)))


def _draw(state: _State, ended: threading.Event) -> None:
    from rich.progress import Progress, TextColumn

    while not ended.wait(0.2):
        if state.n_begun and state.seconds >= _QUIET_SECONDS:
            break
    else:
        return
    terminal = output.console(stderr=True)
    with Progress(TextColumn("{task.fields[line]}", markup=False), console=terminal, transient=True) as bar:
        task = bar.add_task("", total=None, line="")
        while True:
            bar.update(task, line=drawn_line(state, state.seconds, terminal.width - 1))
            if ended.wait(0.2):
                return


def drawn_line(state: _State, seconds: float, columns: int) -> str:
    """The fullest of the state's lines that fits, with a bar where there is room for one."""
    *with_more, least = state.lines(seconds)
    line = next((line for line in with_more if len(line) <= columns), least[: max(columns, 0)])
    for shorter in with_more[:3]:
        # A bar is worth more than a pace and what was kept.
        if len(shorter) + 1 + _LEAST_BAR <= columns:
            line = shorter
            break
    room = columns - len(line) - 1
    if room < _LEAST_BAR or not state.total:
        return line
    n_done = round(min(1.0, state.completed / state.total) * room)
    return f"{line} {'█' * n_done}{'░' * (room - n_done)}"


@contextmanager
def counting(what: str, findings: Mapping[str, float] | None = None) -> Iterator[Callable[[int, int], None]]:
    """A function to call with the numbers of what is done and of all; it shows them with the findings (see `progress`).
    On a terminal its bar ends with the last: two bars at a time would draw over each other."""

    shown = {} if findings is None else findings
    if not sys.stderr.isatty():
        started = shown_at = time.monotonic()

        def write(n_done: int, n: int) -> None:
            from leakmeter.report.words import about_seconds

            nonlocal shown_at
            if (now := time.monotonic()) - shown_at >= LINE_SECONDS:
                shown_at = now
                left = f"{_GAP}{about_seconds((now - started) * (n - n_done) / n_done)} left" if n_done else ""
                tell(f"{what}: {n_done:,} of {n:,}{_words(shown)}{left}")

        yield write
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    started = time.monotonic()
    columns = (
        TextColumn(f"{what}{{task.fields[findings]}}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]}"),
    )
    bar = Progress(*columns, console=output.console(stderr=True), transient=True)

    def draw(n_done: int, n: int) -> None:
        from leakmeter.report.words import about_seconds

        if not bar.tasks:
            bar.add_task("", total=n, findings="", left="")
        bar.start()
        left = f"{about_seconds((time.monotonic() - started) * (n - n_done) / n_done)} left" if n_done else ""
        bar.update(bar.task_ids[0], completed=n_done, total=n, findings=_words(shown), left=left)
        if n_done >= n:
            bar.stop()

    try:
        yield draw
    finally:
        bar.stop()
