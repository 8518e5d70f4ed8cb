"""Every error a user can meet.

LeakmeterError                  one line: what was given, what was expected, what to do
├── UsageError                  an option, field or name that cannot be used as given
│   ├── UnknownNameError        a plug-in, model, unit or piece of that name does not exist
│   └── DataError               a file that cannot be read as the data it should hold
├── WindowError                 more tokens than the model's window holds
├── ModelError                  a model that cannot be fetched, verified or loaded
│   └── CapabilityError         a back end that cannot answer what a measure asks
├── ScoreError                  a model that answered with something that is no log-probability
└── StoreError                  a run directory that cannot be written or read
    └── DamagedError            a file of a run that holds what leakmeter did not write
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from leakmeter.overriding import override

_OPTION: Final = re.compile(
    r"(?<![\w-])--(?P<name>[a-z]+(?:-[a-z]+)*)"
    # What follows is its value, and no word of the sentence.
    r"(?:[ =](?!(?:and|are|finds|for|gives|has|in|instead|is|leaves|matches|measures|names|needs|nor|or|out|reads|"
    r"takes|to|too|took|with)\b)"
    r"(?P<value>'[^']*'|[^\s;()]*[^\s;,():.]))?"
)
_LONGEST_NAME: Final = 120
_FIRST, _LAST = 2000, 800  # characters of a message that is longer: what is wrong stands first, what to do last


class LeakmeterError(Exception):
    """Base of all errors meant for the user; the command line prints its text as one line and exits with 2."""

    @override
    def __str__(self) -> str:
        """The message. A long one, which repeats a value of a thousand digits or so, is told without its middle."""
        text = super().__str__()
        return text if len(text) <= _FIRST + _LAST else f"{text[:_FIRST]} … {text[-_LAST:]}"


class UsageError(LeakmeterError):
    """An option, field or name that cannot be used as given."""


class UnknownNameError(UsageError):
    """A name that nothing answers to; the message lists what exists and guesses what was meant."""

    def __init__(
        self, kind: str, given: str, known: Iterable[str], *, meant: str = "", is_ordered: bool = False
    ) -> None:
        """`meant`: what is known by another word, where no similar name says so. Names that are not `is_ordered` are
        listed by the alphabet."""
        names = list(known) if is_ordered else sorted(known)
        # What is given may be a text that slipped into the place of a name.
        given = " ".join(given[: 4 * _LONGEST_NAME].split())
        given = given if len(given) <= _LONGEST_NAME else f"{given[:_LONGEST_NAME]}…"
        guess = difflib.get_close_matches(given, names, n=1)
        hint = f"; {meant};" if meant else f"; did you mean '{guess[0]}'?" if guess else ";"
        listing = ", ".join(f"'{name}'" for name in names) or "none"
        super().__init__(f"no {kind} named '{given}'{hint} known: {listing}")


class DataError(UsageError):
    """A file that cannot be read as the data it should hold."""


class WindowError(LeakmeterError):
    """More tokens than the model's window holds."""

    def __init__(self, problem: str, advice: str = "") -> None:
        super().__init__(f"{problem}; {advice}" if advice else problem)
        self.problem = problem
        """The message without what to do, which is not the same everywhere."""


class ModelError(LeakmeterError):
    """A model that cannot be fetched, verified or loaded."""

    may_pass: bool = False
    """Whether the same command may succeed later, as soon as a server answers again."""


class CapabilityError(ModelError):
    """A back end that cannot answer what a measure asks."""


class ScoreError(LeakmeterError):
    """A model that answered with something that is no log-probability."""


class StoreError(LeakmeterError):
    """A run directory that cannot be written or read."""


class DamagedError(StoreError):
    """A file of a run that holds what leakmeter did not write; names the file and the field, and quotes neither."""

    def __init__(self, run: str, file: str, field: str, why: str) -> None:
        super().__init__(f"run '{run}' is damaged: {file}, {field}: {why}; remove that directory and run again")
        self.finding = f"{file}: damaged: {field}: {why}"
        """What is wrong, beside the name of the run."""


def as_keyword(name: str, value: str | None, *, is_flag: bool = False) -> str:
    """An option as Python writes it."""
    if value is None:
        return f"{name}=True" if is_flag else name
    # A placeholder, such as FILE, a number, or what has quotes already.
    is_plain = re.fullmatch(r"'.*'|[A-Z]+|-?[\d.]+", value)
    return f"{name}={value}" if is_plain else f"{name}={value!r}"


@contextmanager
def options_named(name_of: Callable[[str, str | None], str | None]) -> Iterator[None]:
    """Within, errors name options as the caller knows them: shared code writes them as a command's, '--label-scoring
    whole-sequence'. `name_of` gets a name with '_' for '-', and the value that stands behind it; None keeps both."""

    def renamed(option: re.Match[str]) -> str:
        return name_of(option["name"].replace("-", "_"), option["value"]) or option[0]

    try:
        yield
    except LeakmeterError as error:
        error.args = (_OPTION.sub(renamed, Exception.__str__(error)),)
        raise
