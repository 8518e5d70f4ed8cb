"""What a finished measurement prints and writes."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leakmeter.core.plain import as_unicode, to_json, visible
from leakmeter.core.urls import as_given
from leakmeter.errors import LeakmeterError, StoreError, UsageError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from leakmeter.commands.studies.study_report import StudyTables
    from leakmeter.report.blocks import Report, Unfinished
    from leakmeter.results.result import AnyResult


HIDDEN: Final = "FILE"
"""What stands for a path that may name a person."""


_TYPED: ContextVar[tuple[str, ...]] = ContextVar("typed", default=())


def typed(words: Sequence[str]) -> None:
    """Note the words that a command is called with, which are not the process's where Python calls `main`."""
    _TYPED.set(tuple(words))


def command_line(words: Sequence[str] | None = None, *, without: Iterable[object] = ()) -> str:
    """The words behind 'leakmeter', by default those that were typed, quoted for a shell; paths of `without` are
    hidden."""
    words = _TYPED.get() if words is None else words
    paths = {Path(str(hidden_path)) for hidden_path in without if hidden_path is not None}
    n_command = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    shown = [*words[:n_command], *(_shown(word, paths) for word in words[n_command:])]
    return as_unicode(shlex.join(["leakmeter", *shown]))


def _shown(word: str, paths: set[Path]) -> str:
    if word and Path(word) in paths:
        return HIDDEN
    name, equals, value = word.partition("=")
    return f"{name}={HIDDEN}" if equals and value and Path(value) in paths else word


_WIDEST = 1000  # characters of a line
_PRIVATE_NAME: Final = re.compile(r"-[0-9a-f]{16}\b")


def check_writable(path: Path, noun: str, *inputs: object) -> None:
    """Refuse, before any work, a place where no file can be written, or that is in a run or an input (see
    `files_among`)."""
    from leakmeter.core.files import check_place, try_place

    if path.is_dir():
        raise StoreError(f"{noun} '{path}' is a directory; give the name of a file")
    check_place(path, noun, (*inputs, *_own_files()))
    if not path.parent.is_dir():
        raise StoreError(f"{noun} '{path}' is in a directory that does not exist")
    if path.exists() and not path.is_file():
        raise StoreError(f"{noun} '{path}' is a device or a pipe; give the name of a file")
    try:
        try_place(path)
    except OSError as error:
        raise StoreError(f"{noun} '{path}' cannot be written: {error.strerror or error}") from None


def check_apart(**written: Path | None) -> None:
    """Refuse one place for two files; names are those of their options, with '_' for '-'."""
    seen: dict[Path, str] = {}
    for name, path in written.items():
        if path is not None:
            option = f"--{name.replace('_', '-')}"
            if (other := seen.setdefault(path.resolve(), option)) != option:
                raise UsageError(f"{other} and {option} are both '{path}'; give each a name of its own")


def _own_files() -> Iterator[Path]:
    """What every command may read: secrets, scores and models of the user's."""
    from leakmeter.engine.scores import FILE_NAME
    from leakmeter.engine.storage.pseudonym import FILE as SUBJECTS
    from leakmeter.models import config_dir, models_dir, scores_dir

    yield from (config_dir() / SUBJECTS, config_dir() / "scores.secret", models_dir())
    if (scores := scores_dir()) is not None:
        yield scores / FILE_NAME


def tell(line: str) -> None:
    """A line on standard error, at once; on a terminal it is broken between words."""
    text = visible(as_given(line))
    # A command is there to be copied, so that its line is not broken.
    if sys.stderr.isatty() and "leakmeter " not in text:
        columns = shutil.get_terminal_size().columns
        text = textwrap.fill(text, max(columns, 20), break_long_words=False, break_on_hyphens=False)
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    rich_console = Console(stderr=stderr, markup=False, highlight=False)
    # COLUMNS may be anything; a table is as wide as it says, and memory has an end.
    rich_console.width = min(rich_console.width, _WIDEST)
    return rich_console


@contextmanager
def unnamed(public: bool) -> Iterator[None]:
    """In public, hide names of runs and of their neighbours in errors: they are made of private texts."""
    try:
        yield
    except LeakmeterError as error:
        message = str(error)
        hidden = _PRIVATE_NAME.sub("-…", message)
        if not public or hidden == message:
            raise
        raise LeakmeterError(hidden) from None


def print_json(value: Any) -> None:
    """A result, or another plain object, as one line of JSON on standard output."""
    is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    # JSON writes most control characters as escapes; of the others a terminal obeys some, and a file keeps all.
    line = to_json(value, ascii_only=not is_utf8)
    sys.stdout.write((visible(line) if sys.stdout.isatty() else line) + "\n")
    sys.stdout.flush()


def print_plain(text: str) -> None:
    """Text on standard output, without control characters on a terminal."""
    sys.stdout.write(visible(text) if sys.stdout.isatty() else text)


def print_text(text: str) -> None:
    """A paragraph on standard output, wrapped on a terminal."""
    console().print(visible(text), soft_wrap=not sys.stdout.isatty())


def left_out(problems: Sequence[str], *, public: bool = False) -> str:
    first = "" if public else f"; the first: {problems[0]}"
    return f"left out {len(problems)} bad case{'s' if len(problems) > 1 else ''}{first}"


def write_page(
    path: Path,
    results: Sequence[AnyResult],
    command: str | None,
    run: Path | None,
    n_cases: int | None = None,
    *,
    n_left_out: int = 0,
    unfinished: Unfinished | None = None,
) -> None:
    kind = type(results[0])
    page = kind.render_page(
        results, command=command, run=run, n_cases=n_cases, n_left_out=n_left_out, unfinished=unfinished
    )
    save_page(path, page, public=kind.is_public)


def save_page(path: Path, page: str, *, public: bool = False) -> None:
    from leakmeter.results.result import saved

    try:
        saved(path, page, public=public)
    except OSError as error:
        raise StoreError(f"report '{path}' cannot be written: {error.strerror or error}") from None


def tell_page(path: Path, *, public: bool) -> None:
    tell(f"report: {path}" if public else f"report: {path} (private, readable by you alone)")


def table(heads: Sequence[str | Text], rows: Iterable[Sequence[str | Text]], *, right: Collection[int] = ()) -> Table:
    """Rows for a terminal, some columns at the right; without heads where all are empty."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, show_header=any(heads))
    for number, head in enumerate(heads):
        made.add_column(head, justify="right" if number in right else "left")
    for row in rows:
        made.add_row(*row)
    return made


def print_results(
    results: Sequence[AnyResult],
    n_cases: int | None = None,
    *,
    n_left_out: int = 0,
    explain: bool = False,
    show_secrets: bool = False,
    unfinished: Unfinished | None = None,
) -> None:
    """Print one result whole, or the summary and worst cases of several of one kind; `n_cases` is the number of all
    cases where these are the first, `n_left_out` of those that could not be used; `unfinished` says that cases
    are left."""
    from leakmeter.report.blocks import Provenance

    provenance = Provenance(n_left_out=n_left_out, unfinished=unfinished)
    report = type(results[0]).report(results, provenance=provenance, n_cases=n_cases)
    print_report(report, explain=explain, show_secrets=show_secrets)


def print_report(report: Report, *, explain: bool, show_secrets: bool = False) -> None:
    """Print a report, without what is to be read of keys and passwords unless they are shown, its headline at the end
    too where it is longer than a screen."""
    from leakmeter.report import console as drawn
    from leakmeter.report.masked import masked

    shown = report if show_secrets else masked(report, report.secrets)
    console().print(drawn.view(shown, explain=explain, ends_with_headline=True))


def print_tables(tables: StudyTables, *, explain: bool) -> None:
    """Print the findings and the tables of a study; with `explain` how they were made too."""
    from rich.text import Text

    from leakmeter.commands.rows import print_rows
    from leakmeter.commands.studies.tables import numeric_columns
    from leakmeter.report.console import LEFT_OUT, wrapped

    screen = console()

    def say(line: str, style: str = "") -> None:
        screen.print(wrapped(Text(visible(line), style), screen.width))

    for line in tables.findings or filter(None, (tables.headline,)):
        say(line, "bold")
    for table in tables.tables:
        say(f"\n{table.title}", "bold underline")
        if table.rows:
            print_rows(
                [visible(head) for head in table.heads],
                [[visible(cell) for cell in row] for row in table.rows],
                numeric_columns(table),
            )
        for line in table.about if explain else ():
            say(line, "dim")
    say(f"\ncommand: {tables.command}" if explain else f"\n{LEFT_OUT}", "dim")
